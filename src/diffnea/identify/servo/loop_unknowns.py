"""What a fit of servos learns: coefficients of loops, friction and delays, centres of mass, and a table's numbers.

Whole motions at the rates of such logs hardly show inertia: of each body only the centre of mass is free, near the
file's, and masses are the file's. Viscous friction is one number with the servo's damping, and stays out, unless torque
is off at times.
"""

from dataclasses import dataclass, replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from diffnea import parameters
from diffnea.actuators import AbstractActuator, Combined, Coupling, Delay, Stribeck, Viscous
from diffnea.actuators.coefficients import raw_of
from diffnea.contact import Table
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.models import Model

# Places of the centre of mass among the ten log-Cholesky numbers of a body.
CENTRE = slice(7, 10)
# How far θ is moved to see what it does, how far it goes in a step of the search, and what it is expected to be off its
# start by, which is next to nothing known but for the file's bodies: shares of positive coefficients, samples of
# delays, metres of centres and of points on a table, radians of zeros.
STEP = {"positive": 0.03, "delay": 0.1, "centre": 2e-3, "table": 1e-3, "zero": 5e-3, "other": 1e-2}
SPREAD = {"positive": 1.0, "delay": 2.0, "centre": 0.02, "table": 0.05, "zero": 0.05, "other": 1.0}
EXPECTED = {"positive": 10.0, "delay": 10.0, "centre": 0.01, "table": 0.2, "zero": 0.05, "other": 10.0}
TINY = 1e-12
# What is one number with the servo's damping, unless torque is off at times; what hardly shows. Both stay 0.
BESIDE_DAMPING = ((Stribeck, "raw_viscous"), (Viscous, "raw"))
HARDLY_SEEN = ((Coupling, "raw_viscous"), (Coupling, "raw_root"), (Coupling, "raw_rotor"))


@dataclass(frozen=True)
class Freedom:
    """A module of free numbers with a table, and for each entry of θ its step and its spread."""

    tree: PyTree  # (virtual robot, actuator, table or None)
    masks: PyTree
    anchor: PyTree = None  # what the numbers are expected near; None: the tree

    @property
    def start(self) -> Float[np.ndarray, " p"]:
        """θ of the module as it is."""
        return np.asarray(parameters.pack(self.tree, self.masks), np.float64)

    @property
    def expected(self) -> Float[np.ndarray, " p"]:
        """θ that is paid nothing for: the file's bodies, however far a search has gone since."""
        return self.start if self.anchor is None else np.asarray(parameters.pack(self.anchor, self.masks), np.float64)

    def model(self, theta: Float[Array, " p"]) -> Model:
        """The model of θ."""
        return _model(self.tree, self.masks, theta)

    def models(self, thetas: Float[np.ndarray, "k p"]) -> Model:
        """The models of several θ, one a row of every leaf."""
        return _models(_Masks(self.masks), self.tree, jnp.asarray(thetas))

    def at(self, theta: Float[np.ndarray, " p"]) -> "Freedom":
        """The same from another start, expected where it was."""
        anchor = self.tree if self.anchor is None else self.anchor
        return replace(self, tree=parameters.unpack(self.tree, self.masks, jnp.asarray(theta)), anchor=anchor)

    def with_table(self, table: Table, free: bool = True) -> "Freedom":
        """With a table, its numbers free or not."""
        mask = jax.tree.map(lambda leaf: np.full(np.shape(leaf), free), table)
        anchor = None if self.anchor is None else (*self.anchor[:2], table)
        return Freedom((*self.tree[:2], table), (*self.masks[:2], mask), anchor)

    @property
    def anchored(self) -> "Freedom":
        """The same where its numbers are expected."""
        return self if self.anchor is None else replace(self, tree=self.anchor, anchor=None)

    def scales(self, sizes: dict[str, float]) -> Float[np.ndarray, " p"]:
        """One of the sizes for each entry of θ, in its own unit there."""
        virtual, actuator, table = self.tree
        scaled = jax.tree.map(lambda leaf: np.full(np.shape(leaf), sizes["other"]), self.tree)
        robot = eqx.tree_at(
            lambda v: (v.inertia, v.zero, v.armature),
            scaled[0],
            (
                np.full(virtual.inertia.shape, sizes["centre"]),
                np.full(virtual.zero.shape, sizes["zero"]),
                _share(np.asarray(virtual.armature, float), sizes["positive"]),
            ),
        )
        driving = jax.tree.map(lambda leaf: _share(np.asarray(leaf, float), sizes["positive"]), actuator)
        driving = _on_parts(
            driving,
            actuator,
            Delay,
            lambda mask, part: eqx.tree_at(lambda d: d.raw, mask, _logit(part, sizes["delay"])),
        )
        if table is not None:
            size = jax.tree.map(lambda leaf: np.full(np.shape(leaf), sizes["table"]), table)
            table = eqx.tree_at(
                lambda t: t.stiffness, size, np.asarray(float(table.stiffness) * 10 * sizes["positive"])
            )
        return np.asarray(parameters.pack((robot, driving, table), self.masks), np.float64)


class _Masks:
    """Masks as something that programs can be kept by: equal where they choose the same numbers."""

    def __init__(self, tree: PyTree):
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree)
        self._key = structure, tuple((np.shape(leaf), np.asarray(leaf).tobytes()) for leaf in leaves)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Masks) and self._key == other._key


def _model(tree: PyTree, masks: PyTree, theta: Float[Array, " p"]) -> Model:
    virtual, actuator, table = parameters.unpack(tree, masks, theta)
    return Model(parameters.decode(virtual), actuator, table)


@partial(jax.jit, static_argnums=0)
def _models(masks: _Masks, tree: PyTree, thetas: Float[Array, "k p"]) -> Model:
    return jax.vmap(lambda theta: _model(tree, masks.tree, theta))(thetas)


def _share(raw: np.ndarray, share: float) -> np.ndarray:
    """By how much x moves when the coefficient log(1 + eˣ) moves by a share of itself."""
    value = np.maximum(np.logaddexp(0.0, raw), TINY)  # a coefficient may end at 0, where x moves without end
    return share * value / -np.expm1(-value)


def _logit(part: Delay, samples: float) -> np.ndarray:
    share = 1 / (1 + np.exp(-np.asarray(part.raw, float)))
    return samples / part.samples / np.maximum(share * (1 - share), 0.02)


def _on_parts(tree: PyTree, actuator: AbstractActuator, kind: type, change: PyTree) -> PyTree:
    """A tree like the actuator, with its parts of a kind changed."""
    if not isinstance(actuator, Combined):
        return change(tree, actuator) if isinstance(actuator, kind) else tree
    parts = [
        change(mask, part) if isinstance(part, kind) else mask
        for mask, part in zip(tree.parts, actuator.parts, strict=True)
    ]
    return eqx.tree_at(lambda combined: combined.parts, tree, tuple(parts))


def freedom(free: Unknowns, coasting: bool = False) -> Freedom:
    """Of what a fit may learn, what motions under goals can show; `coasting`: torque is off in some of them."""
    virtual, actuator = free.tree
    robot_masks, driving = free.masks
    centre = np.zeros(np.shape(robot_masks.inertia), bool)
    centre[:, CENTRE] = np.asarray(robot_masks.inertia)[:, CENTRE]
    robot_masks = eqx.tree_at(lambda v: v.inertia, robot_masks, centre)
    for kind, leaf in (*HARDLY_SEEN, *(() if coasting else BESIDE_DAMPING)):
        driving = _on_parts(driving, actuator, kind, partial(_filled, leaf, False))
        actuator = _on_parts(actuator, actuator, kind, partial(_filled, leaf, raw_of(jnp.zeros(()))))
    return Freedom((virtual, actuator, None), (robot_masks, driving, None))


def _filled(leaf: str, value: PyTree, tree: PyTree, part: AbstractActuator) -> PyTree:
    """A part, or masks of it, with one leaf all the same."""
    filled = np.full(np.shape(getattr(part, leaf)), value)
    return eqx.tree_at(lambda each: getattr(each, leaf), tree, filled if filled.dtype == bool else jnp.asarray(filled))
