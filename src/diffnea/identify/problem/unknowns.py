"""Unknowns: what a fit learns, as one flat vector θ of free numbers, and the model that each θ stands for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from diffnea import actuators, parameters
from diffnea.actuators import AbstractActuator
from diffnea.batching import on_robots
from diffnea.formats import fixed_parts
from diffnea.identify.problem.known_coefficients import with_known
from diffnea.identify.problem.parameter import Parameter, of_actuator, of_network, of_robot
from diffnea.models import FeedForward, Model
from diffnea.robot import Robot, nameless

# Of what is known, what an actuator is made with: how motors turn with the joints, and how often.
SIZES = ("reduction", "coupled", "reference")
LEARN = ("inertia", "kinematics", "armature", "calibration", "actuator")


@dataclass(frozen=True, eq=False)
class Unknowns:
    """A module with some of its numbers free: `(virtual robot, actuator)`, or a network."""

    tree: PyTree
    masks: PyTree  # like the tree: True where a number is free
    learned: tuple[str, ...]  # parts of the model that move
    parameters: tuple[Parameter, ...]  # what each entry of θ is
    named: tuple[str, ...] = ()  # the same as they were asked for: a calibration moves the kinematics

    @property
    def size(self) -> int:
        """How many numbers are free."""
        return len(self.parameters)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each entry of θ, for people."""
        return tuple(each.label for each in self.parameters)

    @property
    def start(self) -> Float[np.ndarray, " p"]:
        """θ of the module as it was given."""
        return np.asarray(parameters.pack(self.tree, self.masks), np.float64)

    @property
    def num_joints(self) -> int:
        return self.model(jnp.asarray(self.start)).num_joints

    def model(self, theta: Float[Array, " p"]) -> PyTree:
        """The model of θ; differentiable."""
        return model_of(parameters.unpack(self.tree, self.masks, theta))

    def nameless(self) -> tuple[list[Array], PyTree, PyTree]:
        """Leaves, structure and masks without names, so that equal problems share one compilation."""
        leaves = jax.tree.leaves(self.tree)
        decoded = jax.tree.unflatten(jax.tree.structure(self.masks), leaves)
        structure = jax.tree.structure(on_robots(nameless, decoded))
        return leaves, structure, jax.tree.unflatten(structure, jax.tree.leaves(self.masks))


def model_of(tree: PyTree) -> PyTree:
    """The model that a module of free numbers stands for."""
    if isinstance(tree, FeedForward):
        return tree
    virtual, actuator = tree
    return Model(parameters.decode(virtual), actuator)


def unknowns(
    given: Robot | FeedForward,
    learn: Iterable[str] | None,
    actuator: str | AbstractActuator,
    key: Array,
    links: Iterable[str] | None = None,
    joints: Iterable[str] | None = None,
    known: Mapping[str, PyTree] | None = None,
) -> Unknowns:
    """What is free: the parts named by `learn`, of the links and joints named; by default inertias and actuator, all.

    An actuator asked for by name is always learned, since it has no coefficients of its own. One given as an
    instance is learned if `learn` says so or says nothing. What is `known` of its coefficients is set, not learned.
    """
    if isinstance(given, FeedForward):
        masks = jax.tree.map(lambda leaf, free: np.full(np.shape(leaf), free), given, given.learned())
        return Unknowns(_double(given), masks, ("network",), tuple(of_network(masks)), ("network",))
    known = dict(known or {})
    sizes = {name: known.pop(name) for name in SIZES if name in known and isinstance(actuator, str)}
    driving = actuators.for_robot(actuator, given, key=key, **sizes) if isinstance(actuator, str) else actuator
    parts = _parts(learn, isinstance(actuator, str), bool(jax.tree.leaves(driving)))
    virtual = _double(parameters.encode(_double(given), nearest=True, carried=fixed_parts(given)))
    masks = parameters.learnable(virtual, [part for part in parts if part != "actuator"], links, joints)
    free = "actuator" in parts
    driving, open_ = with_known(driving, known)
    actuator_masks = jax.tree.map(lambda mask: mask & free, open_)
    entries = (*of_robot(virtual, masks), *of_actuator(driving, actuator_masks))
    moving = tuple(dict.fromkeys("kinematics" if part == "calibration" else part for part in parts))
    return Unknowns((virtual, _double(driving)), (masks, actuator_masks), moving, entries, parts)


def _double(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)


def _parts(learn: Iterable[str] | None, by_name: bool, has_numbers: bool) -> tuple[str, ...]:
    """The parts in their order; an actuator only if it has numbers to learn."""
    named = (learn,) if isinstance(learn, str) else ("inertia", "actuator") if learn is None else tuple(learn)
    for part in named:
        if part not in LEARN:
            raise ValueError(f'fit: learn has "{part}"; use any of {", ".join(LEARN)}')
    named = (*named, "actuator") if by_name else named
    return tuple(part for part in LEARN if part in named and (part != "actuator" or has_numbers))


def late(free: Unknowns) -> int:
    """How many samples a command can come late."""
    return 0 if isinstance(free.tree, FeedForward) else free.tree[1].most_delay
