"""Levenberg-Marquardt for windows: θ and every start together, in steps that are moderate changes of each number."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.identify.progress import tell
from diffnea.identify.trajectory.shooting import Shooting, Sums

# No number moves further in one step than this many moderate changes of it.
RADIUS = 1.0
# A moderate change of a number costs as much as so many residuals of usual size: what the data do not tell stays.
PRIOR = 10.0
# A column is never scaled by less than this share of the largest.
LEAST_SCALE = 1e-4
# A joint that comes to rest a sample earlier makes the loss jump a little. A step may go up by this share, to get past.
ROUGH = 2e-3
# A descent has arrived when so many steps in a row have not lowered the loss by this share.
STANDSTILL, PATIENCE = 5e-4, 8
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-3, 1e-9, 1e7


@dataclass(frozen=True)
class Place:
    """θ, the windows' starts, and the loss there."""

    theta: Float[np.ndarray, " p"]
    x0: Float[np.ndarray, "window two_n"]
    loss: float


@dataclass(frozen=True)
class Held:
    """Where numbers stay that the data do not determine, and what a moderate change of each is."""

    centre: Float[np.ndarray, " p"]
    unit: Float[np.ndarray, " p"]

    def away(self, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """How far θ is, in moderate changes."""
        return (theta - self.centre) / self.unit


def descend(problem: Shooting, theta: np.ndarray, x0: np.ndarray, held: Held, iterations: int) -> Place:
    """Until nothing moves, or for so many steps."""
    prior = PRIOR / problem.rows

    def total(theta, x0):
        return problem.loss(theta, x0) + prior * float(np.sum(held.away(theta) ** 2))

    here, damping, stale = Place(theta, x0, total(theta, x0)), FIRST_DAMPING, 0
    best, sums = here, problem.sums(theta, x0)
    for step in range(iterations):
        (move, starts), damping = _move(sums, here.theta, held, prior, damping)
        trial = here.theta + move, here.x0 + starts
        loss = total(*trial)
        stale = 0 if loss < (1 - STANDSTILL) * best.loss else stale + 1
        if loss < (1 + ROUGH) * here.loss:  # not so for what is not finite
            here, damping = Place(*trial, loss), max(damping / 5, LEAST_DAMPING)
            best = here if loss < best.loss else best
            sums = problem.sums(*trial)
        else:
            damping *= 5
        tell(step + 1, iterations, best.loss)
        if stale >= PATIENCE:
            break
    return best


def _move(sums: Sums, theta: np.ndarray, held: Held, prior: float, damping: float):
    """The damped step and the damping that kept it moderate: starts eliminated, then θ, then the starts after it."""
    diagonal = np.einsum("wkk->wk", sums.start)
    start = sums.start + damping * np.einsum("wk,kj->wkj", diagonal, np.eye(diagonal.shape[1]))
    right = np.concatenate([np.swapaxes(sums.cross, 1, 2), sums.g_start[:, :, None]], axis=2)
    solved = np.linalg.solve(start, right)  # (window, 2n, p + 1)
    followed = np.tensordot(sums.cross, solved, ((0, 2), (0, 1)))  # what the starts take over: (p, p + 1)
    matrix, slope = sums.theta - followed[:, :-1], sums.g_theta - followed[:, -1]
    matrix = matrix * np.outer(held.unit, held.unit) + prior * np.eye(len(theta))
    slope = slope * held.unit + prior * held.away(theta)
    size = np.sqrt(np.maximum(np.diagonal(sums.theta), 0.0)) * held.unit
    size = np.maximum(size, LEAST_SCALE * size.max(initial=0.0)) + 1e-300
    step, damping = _moderate(matrix / np.outer(size, size), slope / size, size, damping)
    move = held.unit * step
    return (move, -(solved[:, :, -1] + solved[:, :, :-1] @ move)), damping


def _moderate(matrix: np.ndarray, slope: np.ndarray, size: np.ndarray, damping: float) -> tuple[np.ndarray, float]:
    """The damped solution, with as much damping as it takes to stay within the radius."""
    values, vectors = np.linalg.eigh(matrix)
    along = vectors.T @ slope
    while True:
        step = -(vectors @ (along / (np.maximum(values, 0.0) + damping))) / size
        if np.abs(step).max(initial=0.0) <= RADIUS or damping > MOST_DAMPING:
            return step, damping
        damping *= 2
