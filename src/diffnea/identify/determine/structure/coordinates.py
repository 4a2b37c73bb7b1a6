"""Physical coordinates: what was learned, as masses, moments, placements and coefficients instead of free numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from diffnea import kernels
from diffnea.actuators import AbstractActuator
from diffnea.actuators.base import Role
from diffnea.identify.determine.structure.base_parameters import echelon
from diffnea.models import Model
from diffnea.robot import Robot

# Symbol, unit, moment, and whether it cannot be negative.
_INERTIAL = (
    ("m", "kg", 0, True),
    *((f"m·c_{axis}", "kg·m", 1, False) for axis in "xyz"),
    *((f"J_{axes}", "kg·m²", 2, axes[0] == axes[1]) for axes in ("xx", "xy", "yy", "xz", "yz", "zz")),
)
_PLACEMENT = (*((axis, "m") for axis in "xyz"), *((f"turn_{axis}", "rad") for axis in "xyz"))
_FREEDOMS = {"inertia": 10, "kinematics": 6}
# Physical numbers whose slopes are this much smaller than their size do not move with what is learned.
_STILL = 1e-13


@dataclass(frozen=True)
class Coordinate:
    """One physical number: its symbol and whose it is, as m of the cart."""

    symbol: str
    owner: str  # a link, a joint, or nothing for a number without physical name
    index: int  # of the link or joint, or the place in θ of a number without physical name
    kind: str  # "inertia", "armature", "kinematics", "actuator" or "other"
    unit: str
    per: str = ""  # what it is divided by
    positive: bool = False  # it cannot be negative
    moment: int = -1  # of a body's numbers: 0 its mass, 1 a first, 2 a second moment
    role: Role = Role.OTHER  # of an actuator's coefficients
    turns: bool = True  # its joint turns, and does not slide

    @property
    def name(self) -> str:
        """As "m(cart)", without what it is divided by."""
        return f"{self.symbol}({self.owner})" if self.owner else self.symbol

    @property
    def is_force(self) -> bool:
        """Whether it is in proportion to forces, at given motion and command."""
        return self.kind in ("inertia", "armature") or (self.kind == "actuator" and self.role.is_force)


@dataclass(frozen=True)
class Coordinates:
    """As many independent physical numbers as are learned, with their sizes and their slopes in θ."""

    entries: tuple[Coordinate, ...]
    values: Float[np.ndarray, " k"]
    scales: Float[np.ndarray, " k"]  # natural size, never zero
    slopes: Float[np.ndarray, "k p"]  # ∂x/∂θ
    inverse: Float[np.ndarray, "p k"]  # ∂θ/∂x
    robot_slopes: Float[np.ndarray, "z k"]  # of `robot_vector` in these
    places: tuple[int, ...]  # where each stands in `physical_vector`, −1 for numbers without physical name
    reference: int | None = None  # the coordinate that forces are divided by

    def of(self, model: Model, origin: Model) -> Float[np.ndarray, " k"]:
        """The coordinates of another model, its turns counted from those of `origin`; NaN without physical name."""
        vector = np.append(np.asarray(physical_vector(model, origin.robot), float), np.nan)
        values = vector[list(self.places)]
        by = values[self.reference] if self.reference is not None else 1.0
        return np.where([bool(entry.per) for entry in self.entries], values / by, values)

    def measure(self, i: int) -> Callable[[Model], float]:
        """One of them as a function of a model; a number that no placement is behind."""
        return lambda model: float(physical_vector(model, model.robot)[self.places[i]])


def robot_vector(robot: Robot, reference: Robot) -> Float[Array, " z"]:
    """All physical numbers of a robot: (10 n) inertia, (n) armature, (3 n) translations, (3 n) turns from `reference`.

    A turn is the small rotation about the link's axes that takes the reference's placement to this one.
    """
    relative = jnp.matrix_transpose(reference.placement.rotation) @ robot.placement.rotation
    twice = relative - jnp.matrix_transpose(relative)
    turn = jnp.stack([twice[:, 2, 1], twice[:, 0, 2], twice[:, 1, 0]], axis=1) / 2
    parts = (robot.inertia.parameters, robot.armature, robot.placement.translation, turn)
    return jnp.concatenate([part.ravel() for part in parts])


def robot_coordinates(robot: Robot) -> list[Coordinate]:
    """What stands in `robot_vector`."""
    links, joints = list(enumerate(robot.link_names)), list(enumerate(robot.tree.joint_names))
    units = ["kg·m²" if turns else "kg" for turns in robot.tree.revolute]
    inertia = [
        Coordinate(symbol, link, i, "inertia", unit, positive=positive, moment=moment)
        for i, link in links
        for symbol, unit, moment, positive in _INERTIAL
    ]
    turning = robot.tree.revolute
    rotors = [
        Coordinate("armature", joint, i, "armature", units[i], positive=True, turns=bool(turning[i]))
        for i, joint in joints
    ]
    slides = [
        Coordinate(s, joint, i, "kinematics", unit, turns=False) for i, joint in joints for s, unit in _PLACEMENT[:3]
    ]
    turns = [Coordinate(s, joint, i, "kinematics", unit) for i, joint in joints for s, unit in _PLACEMENT[3:]]
    return inertia + rotors + slides + turns


def actuator_vector(actuator: AbstractActuator) -> Float[Array, " a"]:
    """The actuator's coefficients one after the other."""
    parts = [jnp.ravel(quantity.values) for quantity in actuator.physical()]
    return jnp.concatenate(parts) if parts else jnp.zeros(0)


def actuator_coordinates(robot: Robot, actuator: AbstractActuator) -> list[Coordinate]:
    """What stands in `actuator_vector`."""
    found = []
    for quantity in actuator.physical():
        for i, (joint, link) in enumerate(zip(robot.joint_names, robot.joint_links, strict=True)):
            turns = bool(robot.tree.revolute[link])
            facts = {"positive": quantity.positive, "role": quantity.role, "turns": turns}
            found.append(Coordinate(quantity.name, joint, i, "actuator", quantity.unit_of(turns), **facts))
    return found


def physical_vector(model: Model, reference: Robot) -> Float[Array, " v"]:
    """All physical numbers of a model."""
    return jnp.concatenate([robot_vector(model.robot, reference), actuator_vector(model.actuator)])


def physical_coordinates(
    unpack: Callable[[Array], Model],
    model: Model,
    theta: np.ndarray,
    labels: tuple[str, ...],
    tolerance: float,
) -> Coordinates:
    """Independent physical numbers that move with θ, then the entries of θ that move none, as a network's weights.

    `model` is the one of θ.
    """
    point = jnp.asarray(theta)

    def vector(theta, reference):
        return physical_vector(unpack(theta), reference)

    values, slopes = value_and_slopes(vector, point, model.robot)
    entries = robot_coordinates(model.robot) + actuator_coordinates(model.robot, model.actuator)
    scales = _scales(entries, values, model.robot)
    free = [Coordinate(label, "", k, "other", "") for k, label in enumerate(labels)]
    count = len(robot_coordinates(model.robot))
    names, sizes = entries + free, np.concatenate([scales, np.ones(len(free))])
    rows = np.concatenate([slopes, np.eye(len(theta))]) / sizes[:, None]
    kept = _independent(rows, names, tolerance)
    places = tuple(int(i) if i < len(entries) else -1 for i in kept)
    inverse = _inverse(rows[kept]) / sizes[kept]
    robot_slopes = slopes[:count] @ inverse
    for k, place in enumerate(places):
        if 0 <= place < count:  # exactly, where the product has rounding
            robot_slopes[place] = np.eye(len(kept))[k]
    chosen = tuple(names[i] for i in kept)
    derivatives = rows[kept] * sizes[kept][:, None], inverse, robot_slopes
    return Coordinates(chosen, np.concatenate([values, theta])[kept], sizes[kept], *derivatives, places)


def _independent(rows: np.ndarray, names: list[Coordinate], tolerance: float) -> np.ndarray:
    """Which numbers to take: all of a link or joint that is free, and of the rest as many as are independent.

    A body without extent in some direction has numbers that do not move at first: they are taken all the same.
    """
    blocks = [[i for i, name in enumerate(names) if (name.kind, name.index) == key] for key in _free_keys(rows, names)]
    free = np.array(sum(blocks, []), int)
    used = np.any(rows[free] != 0, axis=0)
    rest = rows[:, ~used]
    moving = np.flatnonzero(np.abs(rest).max(axis=1, initial=0.0) > _STILL)
    moving = moving[~np.isin(moving, free)]
    chosen = moving[list(echelon(rest[moving].T, tolerance).independent)]
    return np.sort(np.concatenate([free, chosen]))


def _free_keys(rows: np.ndarray, names: list[Coordinate]) -> list[tuple[str, int]]:
    """Links moved by ten numbers of θ and joints moved by six: nothing ties their physical numbers to each other."""
    keys = dict.fromkeys((name.kind, name.index) for name in names if name.kind in _FREEDOMS)
    members = {key: [i for i, name in enumerate(names) if (name.kind, name.index) == key] for key in keys}
    return [key for key in keys if np.any(rows[members[key]] != 0, axis=0).sum() >= _FREEDOMS[key[0]]]


def plain_coordinates(theta: np.ndarray, labels: tuple[str, ...]) -> Coordinates:
    """The entries of θ themselves, for models without physics."""
    entries = tuple(Coordinate(label, "", k, "other", "") for k, label in enumerate(labels))
    count = len(theta)
    nowhere = np.zeros((0, count)), (-1,) * count
    return Coordinates(entries, theta, np.maximum(np.abs(theta), 1.0), np.eye(count), np.eye(count), *nowhere)


def value_and_slopes(function: Callable[..., Array], point: Array, *rest: PyTree) -> tuple[np.ndarray, np.ndarray]:
    """A function's value and Jacobian at a point, by a kernel over the directions: XLA takes seconds to compile it."""

    def along(point, direction, *rest):
        return jax.jvp(lambda point: function(point, *rest), (point,), (direction,))

    axes = (None, 0, *[None] * len(rest))
    value, slopes = jax.vmap(kernels.compile(along), axes)(point, jnp.eye(len(point), dtype=point.dtype), *rest)
    return np.asarray(value[0], float), np.asarray(slopes, float).T


def _inverse(slopes: np.ndarray) -> np.ndarray:
    """The inverse of scaled slopes; its columns are scaled too, because a thin body's numbers barely move it."""
    norms = np.linalg.norm(slopes, axis=0)
    norms[norms == 0] = 1.0
    return np.linalg.pinv(slopes / norms, rcond=1e-12) / norms[:, None]


def _scales(entries: list[Coordinate], values: np.ndarray, robot: Robot) -> np.ndarray:
    """The natural size of each number: of a link's moments by its mass and extent, of a coefficient by its like."""
    inertia = np.asarray(robot.inertia.parameters, float)
    mass, moment = np.abs(inertia[:, 0]), np.abs(inertia[:, [4, 6, 9]]).sum(axis=1) / 2
    mass = np.maximum(mass, 1e-3 * mass.max(initial=1e-9))
    lengths = np.linalg.norm(np.asarray(robot.placement.translation, float), axis=1)
    length = max(float(np.sqrt(moment.sum() / mass.sum())), float(lengths.mean()) if len(lengths) else 0.0, 1e-6)
    moment = np.maximum(moment, 1e-3 * mass * length**2)
    force = mass.sum() * np.linalg.norm(np.asarray(robot.gravity)) + mass.sum() * length

    def size(i: int, entry: Coordinate) -> float:
        if entry.kind == "inertia":
            return float((mass, np.sqrt(mass * moment), moment)[entry.moment][entry.index])
        if entry.kind == "armature":
            return float(max(values[i], moment.mean() if entry.turns else mass.mean()))
        if entry.kind == "kinematics":
            return 1.0 if entry.turns else length
        like = max(abs(values[k]) for k, other in enumerate(entries) if other.symbol == entry.symbol)
        rubs = entry.role.is_force and not entry.role.of_command
        typical = 1e-2 * force * (length if entry.turns else 1.0) if rubs else 1e-9
        return float(max(abs(values[i]), 0.1 * like, typical))

    return np.array([size(i, entry) for i, entry in enumerate(entries)])
