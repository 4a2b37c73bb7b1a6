"""Observables: entries of the mass matrix and gravity torques at simple poses, which joint data determine."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

from diffnea.batches import gravity_torque, mass_matrix
from diffnea.identify.determine.structure.coordinates import Coordinates
from diffnea.identify.determine.structure.slopes import torque_slopes, with_joints
from diffnea.manifold import parts
from diffnea.models import Model
from diffnea.robot import Robot

# An entry that changes by less than this share of the largest over random poses does not depend on the pose.
_CONSTANT = 1e-9

# What nothing but all masses together decide.
ALL_LINKS = "mass of all links"


@dataclass(frozen=True)
class Observable:
    """A quantity with its value and its slopes in the physical coordinates."""

    name: str
    unit: str
    kind: str  # "inertia", "gravity", "actuator" or "kinematics"
    value: float
    slopes: Float[np.ndarray, " k"]
    measure: Callable[[Model], float]  # the same of another model
    positive: bool = False
    meaning: str = ""  # what it is otherwise


def readable(
    robot: Robot,
    coordinates: Coordinates,
    kinematics: bool,
    pose: Float[np.ndarray, " n"],
    label: str,
) -> list[Observable]:
    """What an engineer reads first: the inertia that each joint feels and the torque that holds it, at one pose.

    Then the mass of all links. What no learned number moves is left out.
    """
    where = f"at q = ({', '.join(f'{value:g}' for value in pose)})"
    pose = with_joints(robot, pose[None])[0]
    entries, torques = _slopes(robot, pose[None], coordinates.robot_slopes, kinematics)
    mass, gravity = np.asarray(mass_matrix(robot, pose), float), np.asarray(gravity_torque(robot, pose), float)
    still_mass, still_gravity = _constant(robot)
    found, held = [], []
    for i, joint in zip(_rows(robot), robot.joint_names, strict=True):
        at, note = ("", "") if still_mass[i, i] else (f", {label}", f" {where}")
        measure = _measure(mass_matrix, pose, (i, i))
        facts = _unit(robot, i, i), "inertia", float(mass[i, i]), entries[0, i, i], measure, True
        found.append(Observable(f"inertia felt by {joint}{at}", *facts, f"M[{joint}, {joint}]{note}"))
        at, note = ("", "") if still_gravity[i] else (f", {label}", where)
        unit, measure = _torque_unit(robot, i), _measure(gravity_torque, pose, (i,))
        facts = unit, "gravity", float(gravity[i]), torques[0, i], measure, False
        held.append(Observable(f"gravity at {joint}{at}", *facts, note))
    found += held
    masses = np.array([entry.moment == 0 for entry in coordinates.entries], bool)
    if masses.sum() == robot.num_links:
        total = float(np.sum(np.asarray(robot.inertia.mass, float)))
        found.append(Observable(ALL_LINKS, "kg", "inertia", total, masses.astype(float), _total, True))
    size = [np.linalg.norm(each.slopes * coordinates.scales) for each in found]
    return [each for each, moves in zip(found, size, strict=True) if moves > _CONSTANT * max(size)]


def _total(model: Model) -> float:
    return float(np.sum(np.asarray(model.robot.inertia.mass, float)))


def observables(robot: Robot, robot_slopes: Float[np.ndarray, "z k"], kinematics: bool) -> list[Observable]:
    """The mass matrix at simple poses, diagonal entries first, then the gravity torques there; simple poses first."""
    poses = _poses(robot)
    labels = [label for label, _ in poses]
    q = np.stack([pose for _, pose in poses])
    entries, torques = _slopes(robot, q, robot_slopes, kinematics)
    mass, gravity = np.asarray(mass_matrix(robot, q), float), np.asarray(gravity_torque(robot, q), float)
    still_mass, still_gravity = _constant(robot)
    found, rows = [], _rows(robot)
    names = dict(zip(rows, robot.joint_names, strict=True))
    pairs = [(i, i) for i in rows] + [(i, j) for i in rows for j in rows if j > i]
    for k, label in enumerate(labels):
        for i, j in pairs:
            if k == 0 or not still_mass[i, j]:
                where = "" if still_mass[i, j] else f" at {label}"
                unit = _unit(robot, i, j)
                name = f"M[{names[i]}, {names[j]}]{where}"
                value, measure = float(mass[k, i, j]), _measure(mass_matrix, q[k], (i, j))
                found.append(Observable(name, unit, "inertia", value, entries[k, i, j], measure, i == j))
    for k, label in enumerate(labels):
        for i in rows:
            if k == 0 or not still_gravity[i]:
                where = "" if still_gravity[i] else f" at {label}"
                unit = _torque_unit(robot, i)
                name = f"gravity torque of {names[i]}{where}"
                value, measure = float(gravity[k, i]), _measure(gravity_torque, q[k], (i,))
                found.append(Observable(name, unit, "gravity", value, torques[k, i], measure))
    return found


def _measure(function: Callable[..., Array], pose: np.ndarray, place: tuple[int, ...]) -> Callable[[Model], float]:
    return lambda model: float(function(model.robot, pose)[place])


def _poses(robot: Robot) -> list[tuple[str, np.ndarray]]:
    """All joints at zero; one at a quarter turn, or half a metre out; one at an eighth."""
    n = robot.num_joints
    poses = [("zero", np.zeros(n))]
    for share in (1.0, 0.5):
        for i, link in enumerate(robot.joint_links):
            turns = bool(robot.tree.revolute[link])
            value = share * (np.pi / 2 if turns else 0.5)
            label = f"{robot.joint_names[i]} = " + (f"{90 * share:g}°" if turns else f"{value:g} m")
            poses.append((label, value * np.eye(n)[i]))
    return [(label, with_joints(robot, pose[None])[0]) for label, pose in poses]


def _rows(robot: Robot) -> list[int]:
    """Where the joints stand in q̇."""
    return [part.v.start for part in parts(robot) if part.kind == "single"]


def _turning(robot: Robot) -> list[bool]:
    """Which numbers of q̇ are rates of turns."""
    kinds = {"free": [False] * 3 + [True] * 3, "ball": [True] * 3}
    own = [kinds.get(part.kind, [bool(robot.tree.revolute[part.link])]) for part in parts(robot)]
    return [turns for each in own for turns in each]


def _torque_unit(robot: Robot, row: int) -> str:
    return "N·m" if _turning(robot)[row] else "N"


def _slopes(robot: Robot, q, robot_slopes, kinematics: bool):
    """Slopes of the mass matrix (poses, n, n, k) and of the gravity torques (poses, n, k).

    Column j of the mass matrix is the torque of a unit acceleration of joint j, less the torque at rest.
    """
    count, n = len(q), robot.num_velocities
    still = np.zeros((count, n))
    rest = torque_slopes(robot, q, still, still, kinematics) @ robot_slopes
    columns = []
    for unit in np.eye(n):
        pushed = torque_slopes(robot, q, still, np.broadcast_to(unit, (count, n)), kinematics) @ robot_slopes
        columns.append(pushed - rest)
    return np.stack(columns, axis=2), rest


def _constant(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """Which entries of the mass matrix, and which gravity torques, are the same at every pose."""
    rng = np.random.default_rng(0)
    q = with_joints(robot, rng.uniform(-1.5, 1.5, (24, robot.num_joints)), rng)
    mass, gravity = np.asarray(mass_matrix(robot, q)), np.asarray(gravity_torque(robot, q))
    spread = [np.ptp(values, axis=0) for values in (mass, gravity)]
    sizes = [max(float(np.abs(values).max(initial=0.0)), 1e-300) for values in (mass, gravity)]
    return spread[0] <= _CONSTANT * sizes[0], spread[1] <= _CONSTANT * sizes[1]


def _unit(robot: Robot, i: int, j: int) -> str:
    turns = _turning(robot)
    turning = int(turns[i]) + int(turns[j])
    return ("kg", "kg·m", "kg·m²")[turning]
