"""Whether values are what a class declares: data from a file may hold anything anywhere."""

import dataclasses
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jaxtyping import AbstractArray, jaxtyped


def check(made: Any) -> Any:
    """The same dataclass; TypeError with the field that holds what it does not declare, or arrays that disagree."""
    kind = type(made)
    hints = get_type_hints(kind)
    with jaxtyped("context"):  # a letter stands for one size in the whole class
        for field in dataclasses.fields(made):
            value = getattr(made, field.name)
            if not _fits(value, hints[field.name]):
                raise TypeError(
                    f"{field.name} of {kind.__name__} is {_shown(value)}; {_named(hints[field.name])} is expected"
                )
    return made


def _fits(value: object, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and _fit_in_order(value, parts)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(k, parts[0]) and _fits(v, parts[1]) for k, v in value.items())
    if origin in (list, frozenset, set):
        return isinstance(value, origin) and all(_fits(each, parts[0]) for each in value)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if hint is float:  # where a float is declared, a whole number will do
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True  # what cannot be told is let through


def _fit_in_order(value: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(_fits(each, parts[0]) for each in value)
    return not parts or (len(value) == len(parts) and all(map(_fits, value, parts)))


def _shown(value: object) -> str:
    shape = getattr(value, "shape", None)
    return f"an array of {getattr(value, 'dtype', '?')} {shape}" if shape is not None else f"{value!r}"[:60]


def _named(hint: Any) -> str:
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return hint.__name__
    return getattr(hint, "__name__", str(hint)).removeprefix("typing.")
