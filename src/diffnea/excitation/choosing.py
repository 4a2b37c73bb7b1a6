"""Choosing: actuator and loss that are left to evidence, for forecasts as for fits."""

from collections.abc import Iterable

import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.identify.options import Options
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.tracks import Data, Split, split
from diffnea.identify.solve.choice import Choice, choose
from diffnea.robot import Robot

AUTO = "auto"
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
    """What a fit of these data would choose where `actuator` or `loss` is "auto"; without data, viscous friction."""
    if not data:
        named = None if learn is None else tuple(learn)
        return Choice(UNSEEN if actuator == AUTO else actuator, "torque" if loss == AUTO else loss, named)
    with double_precision(), np.errstate(all="ignore"):
        parts = split(data, None, robot.joint_names, robot.num_joints, seed)
        return chosen_of(robot, parts, learn, actuator, loss)


def chosen_of(
    robot: Robot, parts: Split, learn: Iterable[str] | None, actuator: str | AbstractActuator, loss: str
) -> Choice:
    """The same for data that are prepared."""
    named = None if learn is None else tuple(learn)
    if AUTO not in (actuator, loss):
        return Choice(actuator, loss, named)
    weighs = bool(np.any(np.asarray(robot.inertia.mass) > 0))
    return choose(robot, parts, actuator, loss, named, AUTO, Options(), weighs)
