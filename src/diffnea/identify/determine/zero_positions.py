"""Zero positions: what a calibration learned of each joint, as a quantity with an interval."""

from collections.abc import Callable

import numpy as np

from diffnea.identify.determine.structure.coordinates import Coordinates
from diffnea.identify.determine.structure.observables import Observable
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.linearised import Linearised
from diffnea.models import Model
from diffnea.robot import Robot

# rad: encoders that were set to the file's zero are nearer.
FAR_ZERO = 0.1


def zero_positions(problem: Linearised, coordinates: Coordinates, model: Model) -> list[Observable]:
    """By how much each joint's zero moved from where the robot file has it; empty where none was learned."""
    found, robot = [], model.robot
    for i, k in problem.zeros.items():
        value, slopes, unit = float(problem.theta[k]), coordinates.inverse[k], _unit(robot, i)
        name, measure = f"zero position of {robot.tree.joint_names[i]}", _measure(robot, i, value)
        found.append(Observable(name, unit, "kinematics", value, slopes, measure))
    return found


def far_zeros(robot: Robot, found: Robot) -> list[Note]:
    """Of joints that turn those whose zero a fit has moved so far that file or log count from elsewhere."""
    by = {name: _apart(robot, i, found) for i, name in enumerate(robot.tree.joint_names) if robot.tree.revolute[i]}
    return [note("far-zero", name, by=angle) for name, angle in by.items() if abs(angle) > FAR_ZERO]


def _unit(robot: Robot, joint: int) -> str:
    return "rad" if robot.tree.revolute[joint] else "m"


def _measure(robot: Robot, joint: int, value: float) -> Callable[[Model], float]:
    """The same of another model, counted from this one's."""
    return lambda model: value + _apart(robot, joint, model.robot)


def _apart(robot: Robot, joint: int, other: Robot) -> float:
    """How far a joint of one robot has to move so that its link stands as the other's."""
    own, theirs = (np.asarray(each.placement.rotation, float)[joint] for each in (robot, other))
    axis = np.asarray(robot.axis, float)[joint]
    if not robot.tree.revolute[joint]:
        steps = [np.asarray(each.placement.translation, float)[joint] for each in (other, robot)]
        return float(axis @ own.T @ (steps[0] - steps[1]))
    turn = own.T @ theirs
    sine = axis @ np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
    return float(np.arctan2(sine, (np.trace(turn) - 1) / 2))
