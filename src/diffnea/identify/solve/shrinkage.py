"""How far to trust the robot file: the weight of its numbers beside the data, chosen on blocks of data kept apart.

A model lacks something of every real machine, and what it lacks is not white noise. Numbers that the data determine
poorly then take it up, and predict worse elsewhere. Torques are linear in the inertias: many weights can be tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.least_squares import Problem
from diffnea.identify.problem.residuals import problem
from diffnea.identify.problem.tracks import Track, equations
from diffnea.identify.problem.unknowns import Unknowns, late
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.multistart import Found
from diffnea.identify.solve.starts import spread

# Weights that are tried, of a mean squared residual of 1, and the blocks.
WEIGHTS, BLOCKS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2), 4
ITERATIONS = 60
# Without a prior, unless one predicts better by this share; and where what is kept apart is predicted about as well as
# what was fitted, none is tried.
MARGIN, ABOUT_AS_WELL = 0.02, 1.3


@dataclass(frozen=True)
class _Prior:
    """Where numbers of the robot are pulled to, and how firmly each."""

    centre: Float[np.ndarray, " p"]
    firmness: Float[np.ndarray, " p"]

    def added(self, whole: Problem, weight: float) -> Problem:
        """The problem with `weight · Σ firmness (θ − centre)²` on top."""
        return whole.held(self.centre, weight * self.firmness)


def shrunk(found: Found, free: Unknowns, tracks: Sequence[Track], weight: Float[np.ndarray, " n"], loss: str) -> Found:
    """What was found, pulled towards the start as far as blocks kept apart are predicted better by it."""
    prior = _Prior(free.start, _firmness(free))
    folds = [_Fold.of(free, tracks, weight, loss, k) for k in range(BLOCKS)]
    if _usual([fold.error(found.theta, prior, 0.0) for fold in folds]) < ABOUT_AS_WELL * found.loss:
        return found
    errors = {each: _usual([fold.error(free.start, prior, each) for fold in folds]) for each in (0.0, *WEIGHTS)}
    best = min(errors, key=lambda each: errors[each])
    if not errors[best] < (1 - MARGIN) * errors[0.0]:
        return found
    whole = problem(loss, free, found.rows, 1)
    run = minimise(prior.added(whole, best), free.start[None], 2 * ITERATIONS)
    notes = [f"numbers of the robot file count with weight {best:g}: blocks kept apart are predicted better by it"]
    arrived = bool(run.converged[0])
    # A search without a prior may go on for ever along what the data do not determine; that is settled now.
    said = [note for note in found.notes if not (arrived and note.startswith("Levenberg-Marquardt"))]
    theta, rest = run.theta[0], whole.loss(run.theta)
    return replace(found, theta=theta, loss=float(rest[0]), converged=arrived, notes=(*notes, *said))


def _usual(errors: Sequence[float]) -> float:
    """Geometric mean: no block alone decides."""
    return float(np.exp(np.mean(np.log(np.maximum(np.nan_to_num(errors, nan=np.inf), 1e-300)))))


def _firmness(free: Unknowns) -> Float[np.ndarray, " p"]:
    """One over the square of a moderate change; of numbers that must not be negative, as friction, by their size.

    Torques at rest may be anything, and are left free.
    """
    robot = np.array([not label.startswith("actuator ") for label in free.labels])
    friction = np.array([".raw" in label or " raw" in label for label in free.labels]) & ~robot
    sizes = np.where(robot, spread(free), np.maximum(1.0, np.abs(free.start)))
    return (robot | friction) / sizes**2


@dataclass(frozen=True)
class _Fold:
    """All blocks but one, and that one."""

    seen: Problem
    apart: Problem

    @classmethod
    def of(cls, free: Unknowns, tracks: Sequence[Track], weight: np.ndarray, loss: str, k: int) -> "_Fold":
        seen, apart = [], []
        for track in tracks:
            cuts = np.linspace(0, len(track), BLOCKS + 1).astype(int)
            apart.append(track.take(slice(int(cuts[k]), int(cuts[k + 1]))))
            sides = slice(0, int(cuts[k])), slice(int(cuts[k + 1]), len(track))
            seen += [track.take(side) for side in sides if side.stop > side.start]
        return cls(*(problem(loss, free, equations(part, late(free), weight), 1) for part in (seen, apart)))

    def error(self, theta: Float[np.ndarray, " p"], prior: _Prior, weight: float) -> float:
        """The loss of the block that was not seen."""
        run = minimise(prior.added(self.seen, weight), theta[None], ITERATIONS)
        return float(self.apart.loss(run.theta)[0])
