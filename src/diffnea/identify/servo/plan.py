"""How motions under goals are fitted: parts of the actuator, rotors, and what recordings say of gains."""

from collections.abc import Callable, Mapping

import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.identify.notes import Note, note
from diffnea.identify.options import ServoOptions
from diffnea.identify.problem.measurements.goals import followed
from diffnea.identify.problem.measurements.tracks import Split
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.progress import stage
from diffnea.identify.servo.search.regression_starts import usual_gain
from diffnea.identify.servo.search.rough import coasting
from diffnea.identify.servo.servo_parts import choose_servo
from diffnea.identify.solve.regression.choice import Choice
from diffnea.robot import Robot

# What is learned by default where rotors show, or the file has none.
WITH_ROTORS = ("inertia", "armature", "actuator")


def planned(
    robot: Robot,
    parts: Split,
    asked: Choice,
    unknowns_of: Callable[[Choice, str], Unknowns],
    options: ServoOptions,
) -> Choice:
    """What a fit to whole motions is made with; `asked` is what was asked for, an actuator of "auto" included."""
    said: list[Note] = []
    learn, known, named = asked.learn, dict(asked.known), isinstance(asked.actuator, str)
    coasts = coasting(parts.fitted)
    # Gears make rotors the most of what such a joint accelerates, and few files have them.
    if learn is None and named and (coasts or not np.any(robot.armature)):
        learn = WITH_ROTORS
        said.append(note("servo-coasting" if coasts else "servo-rotors"))
    usual = usual_gain(parts.fitted)
    if usual is not None and named:
        known["reference"] = tuple(usual.tolist())
        said.append(_gains(robot.joint_names, parts, usual))
    plan = Choice(asked.actuator, "trajectory", learn, known=known)
    actuator, chosen = _chosen(plan, parts, unknowns_of, options)
    return Choice(actuator, "trajectory", learn, (*chosen, *said), known)


def _chosen(
    plan: Choice, parts: Split, unknowns_of: Callable[[Choice, str], Unknowns], options: ServoOptions
) -> tuple[str | AbstractActuator, tuple[Note, ...]]:
    """The parts that the data prefer, where that is left to them."""
    if plan.actuator != "auto":
        return plan.actuator, ()
    follows, alike = followed(parts.fitted)
    with stage("choosing parts of servos"):
        found = choose_servo(lambda name: unknowns_of(plan, name), parts.fitted, options)
    how: Mapping[str, object] = {"actuator": found.actuator, "tried": found.tried}
    if not follows.any():
        return found.actuator, (note("told-servo", **how),)
    return found.actuator, (note("chosen-servo", **how, alike=float(alike[follows].min())),)


def _gains(names: tuple[str, ...], parts: Split, usual: np.ndarray) -> Note:
    """Which gains the logs say, and which of them the stiffness is of."""
    every = np.concatenate([track.gain for track in (*parts.fitted, *parts.test) if track.gain is not None])
    told = []
    for name, each, one in zip(names, every.T, usual, strict=True):
        found = np.unique(each[each > 0])
        told += [f"{name} {found.min():g} to {found.max():g}, kp is that of {one:g}"] if len(found) else []
    return note("servo-gains", text="; ".join(told))
