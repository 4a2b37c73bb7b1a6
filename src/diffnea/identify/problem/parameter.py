"""Parameter: what one free number of θ is, as data; its label is for people and decides nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np
from jax.tree_util import GetAttrKey, SequenceKey
from jaxtyping import PyTree

from diffnea import parameters
from diffnea.actuators import AbstractActuator, Combined
from diffnea.parameters import VirtualRobot

Kind = Literal["inertia", "placement", "armature", "zero", "actuator", "network"]


@dataclass(frozen=True)
class Parameter:
    """One entry of θ: of which link or joint, in which leaf of the model, and whether that is a positive coefficient.

    A positive coefficient is stored as the number that `actuators.coefficients.positive` maps to it.
    """

    kind: Kind
    owner: int  # of the link or joint; −1 where there is none, as in a network
    leaf: str  # name of the leaf, as "inertia" or "raw_static"
    entry: int  # place in the owner's row of the leaf
    label: str
    part: str = ""  # class of the actuator's part
    positive: bool = False


def of_robot(virtual: VirtualRobot, masks: VirtualRobot) -> list[Parameter]:
    """The free numbers of a robot, in the order of `parameters.pack`."""
    leaves: tuple[tuple[Kind, str], ...] = (
        ("inertia", "inertia"),
        ("placement", "translation"),
        ("placement", "rpy"),
        ("armature", "armature"),
        ("zero", "zero"),
    )
    names = iter(parameters.labels(virtual, masks))
    found = []
    for kind, leaf in leaves:
        mask = np.asarray(getattr(masks, leaf))
        for row, entry in np.argwhere(mask.reshape(len(mask), -1)).tolist():
            found.append(Parameter(kind, row, leaf, entry, next(names), positive=kind == "armature"))
    return found


def of_actuator(actuator: AbstractActuator, masks: AbstractActuator) -> list[Parameter]:
    """The free coefficients of an actuator, in the order of its leaves."""
    found = []
    for path, mask in jax.tree_util.tree_leaves_with_path(masks):
        part, leaf = _place(actuator, path)
        network = not leaf  # weights lie deeper than a part's own leaves
        width = int(np.prod(np.shape(mask)[1:], dtype=int))
        where = jax.tree_util.keystr(path, simple=True, separator=".").replace("parts.", "")
        for count, flat in enumerate(np.flatnonzero(mask).tolist()):
            kind: Kind = "network" if network else "actuator"
            owner, entry = (-1, flat) if network else divmod(flat, width)
            label = f"actuator {where} {count}"
            found.append(Parameter(kind, owner, leaf, entry, label, part, leaf.startswith("raw") and part != "Delay"))
    return found


def of_network(masks: object) -> list[Parameter]:
    """The free weights of a plain network."""
    found = []
    for path, mask in jax.tree_util.tree_leaves_with_path(masks):
        where = jax.tree_util.keystr(path, simple=True, separator=".")
        found += [Parameter("network", -1, "", k, f"network {where} {k}") for k in range(int(np.sum(mask)))]
    return found


def _place(actuator: AbstractActuator, path: Sequence[PyTree]) -> tuple[str, str]:
    """The part's class and the name of its leaf; "" for a leaf deeper down."""
    part, rest = actuator, list(path)
    if isinstance(actuator, Combined) and len(rest) > 1 and isinstance(rest[1], SequenceKey):
        part, rest = actuator.parts[rest[1].idx], rest[2:]
    own = len(rest) == 1 and isinstance(rest[0], GetAttrKey)
    return type(part).__name__, rest[0].name if own else ""


def places(
    several: Sequence[Parameter], *, kind: Kind | None = None, part: str | None = None, leaf: str | None = None
) -> np.ndarray:
    """Where in θ the numbers are that match what is given."""
    wanted = {"kind": kind, "part": part, "leaf": leaf}
    given = {name: value for name, value in wanted.items() if value is not None}
    return np.array([k for k, each in enumerate(several) if all(getattr(each, n) == v for n, v in given.items())], int)
