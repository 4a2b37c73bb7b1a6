"""Forecast: what data would determine, before anything is fitted, by the linear theory at the robot as it is given."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.excitation.choosing import AUTO, chosen_of
from diffnea.identify.determine.analyse import analyse
from diffnea.identify.determine.combinations import Identifiability
from diffnea.identify.determine.findings import linearised
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.residuals import problem
from diffnea.identify.problem.tracks import Data, Track, equations, split
from diffnea.identify.problem.unknowns import Unknowns, late, unknowns
from diffnea.identify.problem.weighting import scales
from diffnea.identify.solve.choice import Choice
from diffnea.identify.solve.levenberg_marquardt import minimise
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

    `robot`, `data`, `learn`, `actuator`, `loss`, `seed` and `links` are those of `fit`.
    The slopes are those at the given robot, the noise is what a short fit from there leaves. Where that fit stops
    early, the noise is too large, and so the intervals too wide, never too narrow.
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
    """As `forecast`, with what was left to evidence."""
    with double_precision(), np.errstate(all="ignore"):
        parts = split(data, None, robot.joint_names, robot.num_joints, seed)
        choice = chosen_of(robot, parts, learn, actuator, loss)
        some = None if links is None else tuple(links)
        free = unknowns(robot, choice.learn, choice.actuator, jax.random.key(seed), some)
        # By the linear theory a trajectory tells what its accelerations do.
        compared = "acceleration" if choice.loss == "trajectory" else choice.loss
        return Foretold(choice, analyse(linearised_at_start(free, (*parts.fitted, *parts.test), compared)))


def linearised_at_start(free: Unknowns, tracks: Sequence[Track], loss: str) -> Linearised:
    """Slopes at the robot as it was given, beside the residuals that a short fit leaves."""
    weight = scales(loss, free.model(jnp.asarray(free.start)), tracks)
    rows = equations(tracks, late(free), weight)
    run = minimise(problem(loss, free, rows, 1), free.start[None], ITERATIONS)
    best = run.theta[0] if np.isfinite(run.loss[0]) else free.start
    left = linearised(free, rows, best, loss).residuals
    return replace(linearised(free, rows, free.start, loss), residuals=left, redrawn=None)
