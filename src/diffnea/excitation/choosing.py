"""Choosing: actuator and loss that are left to evidence, for forecasts as for fits."""

from collections.abc import Iterable
from functools import partial

import jax
import numpy as np

from diffnea import formats
from diffnea.actuators import AbstractActuator
from diffnea.identify.options import Options
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.measurements.goals import are_goals
from diffnea.identify.problem.measurements.tracks import Data, Split, split
from diffnea.identify.problem.unknowns import Unknowns, unknowns
from diffnea.identify.servo.plan import planned
from diffnea.identify.solve.regression.choice import Choice, choose
from diffnea.recordings import as_list
from diffnea.robot import Robot

AUTO = "auto"
# What servos have at least.
SERVO = "servo+coulomb+load+delay"
# Where nothing is recorded yet there is no evidence.
UNSEEN = "viscous"


def chosen(
    robot: Robot,
    data: Data | None,
    learn: Iterable[str] | None = None,
    actuator: str | AbstractActuator = AUTO,
    loss: str = AUTO,
    seed: int = 0,
) -> Choice:
    """What a fit of these data would choose where `actuator` or `loss` is "auto"; without data, viscous friction.

    Args:
        robot: the robot.
        data: recordings; None or none: nothing is recorded yet.
        learn: as for a fit; None leaves it to evidence.
        actuator: as for a fit; "auto" leaves it to evidence.
        loss: as for a fit; "auto" leaves it to the data.
        seed: of the part that is kept back.
    """
    if not data:
        named = None if learn is None else tuple(learn)
        unseen = SERVO if robot.base == "fixed" and formats.servos(robot) else UNSEEN
        return Choice(unseen if actuator == AUTO else actuator, "torque" if loss == AUTO else loss, named)
    with double_precision(), np.errstate(all="ignore"):
        parts = split(data, None, robot.joint_names, robot.num_joints, seed)
        return chosen_of(robot, parts, learn, actuator, loss, are_said(data))


def are_said(data: Data) -> bool:
    """Whether recordings say that their inputs are position goals."""
    return any(getattr(each, "input_kind", "command") == "goal" for each in as_list(data))


def drives_servos(actuator: str | AbstractActuator, parts: Split, goals: bool) -> bool:
    """Whether inputs are position goals, of servos that were asked for or that the data show."""
    if actuator == AUTO:
        return goals or are_goals(parts.fitted)
    if isinstance(actuator, str):
        return "servo" in actuator.split("+")
    return actuator.loop is not None


def _unknowns(robot: Robot, choice: Choice, actuator: str) -> Unknowns:
    return unknowns(robot, choice.learn, actuator, jax.random.key(0), known=choice.known)


def chosen_of(
    robot: Robot,
    parts: Split,
    learn: Iterable[str] | None,
    actuator: str | AbstractActuator,
    loss: str,
    goals: bool = False,
) -> Choice:
    """The same for data that are prepared; `goals`: their inputs are said to be position goals."""
    named = None if learn is None else tuple(learn)
    if drives_servos(actuator, parts, goals):
        asked = Choice(actuator, "trajectory", named)
        return planned(robot, parts, asked, partial(_unknowns, robot), Options().servo)
    if AUTO not in (actuator, loss):
        return Choice(actuator, loss, named)
    weighs = bool(np.any(np.asarray(robot.inertia.mass) > 0))
    return choose(robot, parts, actuator, loss, named, AUTO, Options(), weighs)
