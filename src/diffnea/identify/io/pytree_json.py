"""Modules as plain data: a model ⇄ a tree of names and numbers for JSON, and its arrays for NPZ; never a pickle."""

import dataclasses
from collections.abc import Mapping
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from diffnea import actuators, flight, models, robot, spatial
from diffnea.actuators import networks
from diffnea.files import Json
from diffnea.identify.io.typed import check
from diffnea.identify.judge import balance


def _classes(*sources: ModuleType) -> dict[str, type]:
    """The classes a model is made of, by name; nothing else is ever made from a file."""
    found = {}
    for source in sources:
        for name, value in vars(source).items():
            if isinstance(value, type) and dataclasses.is_dataclass(value):
                found[name] = value
    return found


CLASSES = _classes(spatial, robot, actuators, networks, models, flight, balance)
# Fields that a part had once: left out where a folder has none of what they stood for.
RETIRED = {"Servo": ("raw_limit", "raw_speed")}


def pack(value: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """Plain data of a module; its arrays go into `arrays` and leave their name."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return _stored(np.asarray(value), arrays)
    if isinstance(value, bytes):
        return {"bytes": _stored(np.frombuffer(value, np.uint8), arrays)["array"]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: pack(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
        return {"class": type(value).__name__, "fields": fields}
    if isinstance(value, tuple):
        return {"tuple": [pack(item, arrays) for item in value]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"save: a {type(value).__name__} in the model has no plain form")


def _stored(array: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    name = f"array_{len(arrays)}"
    arrays[name] = array
    return {"array": name}


def unpack(data: object, arrays: Mapping[str, np.ndarray], own: Mapping[str, type] | None = None) -> PyTree:
    """The module of plain data; ValueError, KeyError or TypeError where it is none. `own`: a user's classes by name."""
    if not isinstance(data, dict):
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        raise ValueError(f"a {type(data).__name__} stands where a number or a word should")
    if "array" in data:
        return jnp.asarray(arrays[data["array"]])
    if "bytes" in data:
        return np.asarray(arrays[data["bytes"]], np.uint8).tobytes()
    if "tuple" in data:
        return tuple(unpack(item, arrays, own) for item in data["tuple"])
    name = data.get("class", "")
    kind = CLASSES.get(name) or (own or {}).get(name)
    if kind is None:
        raise ValueError(
            f'the model has a part "{name}" that this version does not know; if it is yours, load_fit(folder, '
            f"parts=[{name}])"
        )
    return _made(kind, {name: unpack(item, arrays, own) for name, item in data["fields"].items()})


def _made(kind: type, fields: Json) -> PyTree:
    """Field by field, past a constructor that would compute them anew; fields newer than the folder have defaults."""
    if not issubclass(kind, eqx.Module):
        return check(kind(**fields))
    gone = RETIRED.get(kind.__name__, ())
    fields = {name: value for name, value in fields.items() if value is not None or name not in gone}
    known = dataclasses.fields(kind)
    usual = {each.name: each.default for each in known if each.default is not dataclasses.MISSING}
    expected = {each.name for each in known}
    if not expected - set(usual) <= set(fields) <= expected:
        raise ValueError(f'part "{kind.__name__}" has fields {sorted(fields)}; this version has {sorted(expected)}')
    made = object.__new__(kind)
    for name, value in (usual | fields).items():
        object.__setattr__(made, name, value)
    return check(made)
