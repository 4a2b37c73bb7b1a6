"""Expectation: the intervals that recordings give now, and those they would give together with a planned motion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.excitation.choosing import AUTO, chosen
from diffnea.excitation.forecast import linearised_at_start
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.determine.combinations import Identifiability
from diffnea.identify.determine.findings import linearised
from diffnea.identify.options import Options
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.tracks import Track, split
from diffnea.identify.problem.measurements.weighting import scales
from diffnea.identify.problem.unknowns import Unknowns, late, unknowns
from diffnea.identify.servo.forecast import Planned, planned_forecast, servo_forecast
from diffnea.recordings import Recording
from diffnea.robot import Robot


@dataclass(frozen=True)
class Expectation:
    """What is determined before (None without recordings) and after the motion has been recorded."""

    before: Identifiability | None
    after: Identifiability


def expectation(
    robot: Robot,
    planned: Recording,
    recordings: Sequence[Recording] = (),
    *,
    learn: Iterable[str] | None = None,
    actuator: str | AbstractActuator = AUTO,
    noise: float = 0.01,
    seed: int = 0,
) -> Expectation:
    """What a planned motion would determine, by the linear theory of the torque loss at the given robot.

    It is as noisy as the recordings are.

    Args:
        robot: the robot.
        planned: the motion.
        recordings: what is recorded already.
        learn: as for a fit.
        actuator: as for a fit.
        noise: of torques without recordings, as a share of each joint's effort.
        seed: as for a fit.
    """
    choice = chosen(robot, recordings, learn, actuator, "torque", seed)
    with double_precision(), np.errstate(all="ignore"):
        free = unknowns(robot, choice.learn, choice.actuator, jax.random.key(seed), known=choice.known)
        if planned.input_kind == "goal":
            return _of_goals(robot, free, Planned(planned.u, planned.dt), recordings, seed)
        motion = Track("planned", planned.dt, planned.q, _some(planned.qd), _some(planned.qdd), planned.u, planned.q)
        if not recordings:
            return Expectation(None, analyse(_noisy(_slopes(free, motion), _share(robot, free, motion, noise), seed)))
        parts = split(recordings, None, robot.joint_names, robot.num_joints, seed)
        now = linearised_at_start(free, (*parts.fitted, *parts.test), "torque")
        weight = scales("torque", free.model(jnp.asarray(free.start)), (*parts.fitted, *parts.test))
        level = np.sqrt([np.mean(now.residuals[now.joint == k] ** 2) for k in range(robot.num_joints)])
        level = level * np.sqrt((now.dt or planned.dt) / planned.dt)  # as much a second, whatever the rate
        return Expectation(analyse(now), analyse(_together(now, _noisy(_slopes(free, motion, weight), level, seed))))


def _of_goals(
    robot: Robot, free: Unknowns, planned: Planned, recordings: Sequence[Recording], seed: int
) -> Expectation:
    """By whole motions, as fits of servos compare them: at the file's numbers, or where a short search ends."""
    if not recordings:
        return Expectation(None, analyse(planned_forecast(free, planned)[0]))
    parts = split(recordings, None, robot.joint_names, robot.num_joints, seed)
    before, after = (servo_forecast(free, parts.fitted, True, Options().servo, each)[0] for each in (None, planned))
    return Expectation(analyse(before), analyse(after))


def _some(values: np.ndarray | None) -> np.ndarray:
    assert values is not None
    return values


def _slopes(free: Unknowns, motion: Track, weight: np.ndarray | None = None) -> Linearised:
    """The planned motion's rows at the given robot; its residuals mean nothing yet."""
    if weight is None:
        weight = scales("torque", free.model(jnp.asarray(free.start)), [motion])
    return linearised(free, equations([motion], late(free), weight), free.start, "torque")


def _share(robot: Robot, free: Unknowns, motion: Track, noise: float) -> np.ndarray:
    """The noise of each joint's torque in the unit of its rows."""
    weight = scales("torque", free.model(jnp.asarray(free.start)), [motion])
    return noise * np.asarray(robot.joint_limits.effort, float) * weight


def _noisy(problem: Linearised, level: np.ndarray, seed: int) -> Linearised:
    """White residuals of each joint's level."""
    draws = np.random.default_rng(seed).normal(size=len(problem.residuals))
    return replace(problem, residuals=level[problem.joint] * draws)


def _together(first: Linearised, second: Linearised) -> Linearised:
    """Two problems as one; the second's recordings come after the first's."""
    later = second.segment + first.segment.max() + 1
    joined = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("jacobian", "residuals", "joint", "sample")
    }
    far = None if first.far is None or second.far is None else np.concatenate([first.far, second.far])
    return replace(first, **joined, segment=np.concatenate([first.segment, later]), far=far)
