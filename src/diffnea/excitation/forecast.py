"""Forecast: what data would determine, by the linear theory where a short fit ends, around the robot as it is given."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator
from diffnea.excitation.choosing import AUTO, are_said, chosen_of, drives_servos
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.determine.combinations import Combination, Identifiability
from diffnea.identify.determine.findings import linearised
from diffnea.identify.notes import note
from diffnea.identify.options import Options, SolveOptions
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.measurements.tracks import Data, Track, split
from diffnea.identify.problem.measurements.weighting import scales
from diffnea.identify.problem.residuals import problem
from diffnea.identify.problem.unknowns import Unknowns, late, unknowns
from diffnea.identify.servo.forecast import servo_forecast
from diffnea.identify.solve.file_prior import file_prior
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.linear_start import linear_start
from diffnea.identify.solve.regression.choice import Choice
from diffnea.models import Model
from diffnea.robot import Robot

# Of the short fit that shows the noise.
ITERATIONS = 15


def forecast(
    robot: Robot,
    data: Data,
    *,
    learn: Iterable[str] | None = None,
    actuator: str | AbstractActuator = AUTO,
    loss: str = AUTO,
    seed: int = 0,
    links: Iterable[str] | None = None,
) -> Identifiability:
    """What a fit of these data would determine, with the intervals to expect, and what not, in words.

    Slopes and noise are those where a short fit ends; bodies are the given robot's, with intervals as wide, friction
    and drives the short fit's. Where that fit stops early, the noise is too large, and so the intervals too wide, never
    too narrow.

    Args:
        robot: the robot.
        data: recordings or `Samples`, one or several.
        learn: as for a fit.
        actuator: as for a fit.
        loss: as for a fit.
        seed: as for a fit.
        links: as for a fit.
    """
    return foretold(robot, data, learn, actuator, loss, seed, links).told


class Foretold(NamedTuple):
    """A forecast, and what was chosen for it."""

    choice: Choice
    told: Identifiability


def foretold(
    robot: Robot,
    data: Data,
    learn: Iterable[str] | None,
    actuator: str | AbstractActuator,
    loss: str = AUTO,
    seed: int = 0,
    links: Iterable[str] | None = None,
) -> Foretold:
    """As `forecast`, with what was left to evidence.

    Args:
        robot: the robot.
        data: recordings or `Samples`, one or several.
        learn: as for a fit.
        actuator: as for a fit.
        loss: as for a fit.
        seed: as for a fit.
        links: as for a fit.
    """
    with double_precision(), np.errstate(all="ignore"):
        parts = split(data, None, robot.joint_names, robot.num_joints, seed)
        goals = drives_servos(actuator, parts, are_said(data))
        choice = chosen_of(robot, parts, learn, actuator, loss, goals)
        choice = replace(choice, notes=(*parts.sampled, *choice.notes))
        some = None if links is None else tuple(links)
        free = unknowns(robot, choice.learn, choice.actuator, jax.random.key(seed), some, known=choice.known)
        if goals:
            found, said = servo_forecast(free, parts.fitted, isinstance(choice.actuator, str), Options().servo)
            # Values are of the short search: a robot file says nothing of its servos.
            return Foretold(replace(choice, notes=(*choice.notes, *said)), analyse(found))
        # By the linear theory a trajectory tells what its accelerations do.
        compared = "acceleration" if choice.loss == "trajectory" else choice.loss
        rows, theta = _short_fit(free, (*parts.fitted, *parts.test), compared)
        found = replace(linearised(free, rows, theta, compared), redrawn=None)
        return Foretold(choice, _around(analyse(found), found, free.model(jnp.asarray(free.start))))


def linearised_at_start(free: Unknowns, tracks: Sequence[Track], loss: str) -> Linearised:
    """Slopes at the robot as it was given, beside the residuals that a short fit leaves."""
    rows, theta = _short_fit(free, tracks, loss)
    left = linearised(free, rows, theta, loss).residuals
    return replace(linearised(free, rows, free.start, loss), residuals=left, redrawn=None)


def _short_fit(free: Unknowns, tracks: Sequence[Track], loss: str) -> tuple[tuple[Rows, ...], Float[np.ndarray, " p"]]:
    """The rows, and θ after one linear solve of the torques and a few steps from there; bodies stay near the file's."""
    before = free.model(jnp.asarray(free.start))
    weight, torque = scales(loss, before, tracks), scales("torque", before, tracks)
    rows = equations(tracks, late(free), weight)
    prior = file_prior(free, 1 / torque, SolveOptions())
    curved = np.array([each.leaf == "raw_shape" or each.part == "Delay" for each in free.parameters], bool)
    linear = problem("torque", free, [each.scaled(torque) for each in rows], 1)
    starts = np.stack([linear_start(linear, prior, free.start, curved), free.start])
    whole = problem(loss, free, rows, len(starts))
    losses = np.nan_to_num(whole.loss(starts), nan=np.inf)
    if not np.isfinite(losses).any():
        return rows, free.start
    run = minimise(prior.added(whole, float(losses.min())), starts, ITERATIONS)
    return rows, run.theta[run.best] if np.isfinite(run.loss).any() else free.start


def _around(told: Identifiability, problem: Linearised, given: Model) -> Identifiability:
    """The same around the bodies of the given robot; nothing where no joint has moved."""
    if problem.motion is not None and not problem.motion.moved.any():
        return replace(told, combinations=(), rank=0, unknown=(note("nothing-moves"),))
    return replace(told, combinations=tuple(around(each, given) for each in told.combinations))


def around(found: Combination, given: Model) -> Combination:
    """As wide around the bodies of the given robot; friction and drives, of which files say little, stay."""
    by = 0.0 if found.kind == "actuator" else found.of(given) - found.value
    if not np.isfinite(by):
        return found
    return replace(found, value=found.value + by, lower=found.lower + by, upper=found.upper + by)
