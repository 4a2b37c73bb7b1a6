"""A learned servo as MuJoCo's `position` actuators, or `mujoco.pid`, hold it: gains, limits, delay; what they lack."""

from collections.abc import Iterator
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.actuators import AbstractActuator
from diffnea.batching import batched
from diffnea.formats import Servo
from diffnea.identify.judge.held_out import HeldOut
from diffnea.models import Model
from diffnea.robot import Robot

# So many states of the data kept back say which speeds count and how large a load is usual.
EXPORT_STATES = 512
# Play that a prediction could see, in rad or m.
NOTABLE_PLAY = 1e-4


def exported_servos(model: Model, kept: HeldOut | None) -> dict[str, Servo]:
    """The servo of each driven joint, none where the actuator has no position loop; goals are positions in rad or m."""
    actuator, loop, robot = model.actuator, model.actuator.loop, model.robot
    if loop is None:
        return {}
    stiffness, damping = np.asarray(loop.stiffness, float), np.asarray(loop.damping, float)
    limit = np.full(len(stiffness), np.inf) if loop.limit is None else np.asarray(loop.limit, float)
    dt = sampling_period(kept)
    delay = np.asarray(model.actuator.delay, float) * (dt or 0.0)
    lower, upper = (np.asarray(row, float) for row in (robot.joint_limits.lower, robot.joint_limits.upper))
    integral = np.zeros(len(stiffness)) if actuator.integral is None else np.asarray(actuator.integral, float)
    columns = zip(stiffness, damping, limit, lower, upper, delay, integral, _goal_speed(actuator), strict=True)
    keys = ("stiffness", "damping", "limit", "lower", "upper", "delay", "integral", "goal_speed")
    rows = [dict(zip(keys, map(float, row), strict=True)) for row in columns]
    return {name: Servo(**row) for name, row in zip(robot.joint_names, rows, strict=True) if row["stiffness"] > 0}


def _goal_speed(actuator: AbstractActuator) -> Float[np.ndarray, " n"]:
    """The rate limit of goals that is written: not for a trapezoid's sake, which is more than a limit of speed."""
    profile = actuator.profile
    if profile is None or (profile.acceleration is not None and actuator.integral is None):
        return np.full(actuator.num_joints, np.inf)
    return np.asarray(profile.speed, float)


def with_usual_load(model: Model, robot: Robot, kept: HeldOut | None) -> Robot:
    """The robot with dry friction as large as it is under the usual load, where it grows with the load."""
    if not model.actuator.grows_with_load or kept is None:
        return robot
    q, qd = (np.concatenate([getattr(track, key) for track in kept.tracks]) for key in ("q", "qd"))
    rows = np.unique(np.linspace(0, len(q) - 1, EXPORT_STATES).astype(int))
    usual = np.asarray(batched(_loaded, model, q=q[rows], qd=qd[rows])).mean(0)
    links = robot.joint_links.astype(np.int32)
    return replace(robot, friction=robot.friction.at[links].add(jnp.asarray(usual)))


def _loaded(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
    """Friction by load where the servo holds what gravity and motion ask for."""
    held = dynamics.bias(model.robot, q, qd)
    return model.actuator.loaded(held, -held, qd)


def lacking_servo(model: Model, kept: HeldOut | None) -> Iterator[str]:
    """What a `position` actuator cannot hold of the servo, a sentence each."""
    actuator, loop = model.actuator, model.actuator.loop
    if loop is None:
        return
    yield "the servos, in the URDF: it has no place for gains"
    if actuator.grows_with_load:
        yield "friction that grows with load: they have what is usual under the load of these recordings"
    slack = [each for each in (actuator.slack, loop.slack) if each is not None]
    widest = max((float(np.max(np.asarray(each))) for each in slack), default=0.0)
    if widest > NOTABLE_PLAY:
        yield f"play of the gears and dead bands, up to ±{widest:.2g} rad"
    if loop.speed is not None:
        yield "how the torque limit falls with speed: they have that at rest"
    if actuator.lead is not None:
        yield "goals led ahead by their own rate"
    profile = actuator.profile
    if profile is not None and profile.acceleration is not None:
        slow, quick = (float(np.min(np.asarray(each))) for each in (profile.speed, profile.acceleration))
        yield f"the profile of goals: send goals that come at {slow:.2g} rad/s and {quick:.2g} rad/s² at most"
    if model.contact is not None:
        yield "the table that the robot may touch"
    if np.any(np.asarray(actuator.delay) > 0) and sampling_period(kept) is None:
        yield "the delay of goals: no recording says how long a sample is"


def sampling_period(kept: HeldOut | None) -> float | None:
    """The time between samples, s."""
    periods = [track.dt for track in kept.tracks if track.dt is not None] if kept is not None else []
    return float(periods[0]) if periods else None
