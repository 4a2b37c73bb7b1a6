"""Where a search of torques starts: the best bodies near the file and the best coefficients, by one linear solve.

Torques are linear in armatures and in the sizes of friction, and nearly so in bodies that are close to the file's. One
Jacobian at the file then gives the estimate, coefficients bounded at zero. A search along the free numbers themselves
would have to go far on a crooked path: of a positive coefficient the free number is its logarithm where it is small.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.problem.least_squares import Normal, Problem
from diffnea.identify.problem.prior import Prior
from diffnea.identify.solve.regression.bounded import bounded_minimum

# Solves at most, each from where the last ended: bodies far from the file's are no straight line; passes over noise and
# estimate in each; the share of itself that a coefficient keeps at least, since a start needs a slope.
SOLVES, LINEAR_PASSES, KEPT = 6, 4, 0.02
# Of a step that leads up, shorter ones are tried; a solve that lowers the loss by less than this share is the last.
STEP_SHARES, WORTHWHILE = (1.0, 0.5, 0.25, 0.1), 0.05
# The precision of what stays.
PINNED = 1e12


def linear_start(
    whole: Problem, prior: Prior, theta: Float[np.ndarray, " p"], curved: Bool[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """θ after such solves; θ itself where they lead nowhere. What is `curved`, as a Stribeck velocity, stays."""
    # Of coefficients the prior is a logarithm's, which at a small one is no straight line for long: left out here.
    free = replace(prior, precision=np.where(curved, PINNED, np.where(prior.positive, 0.0, prior.precision)))
    loss = float(whole.loss(theta[None])[0])
    for _ in range(SOLVES):
        trials = _trials(whole, free, theta)
        losses = [float(whole.loss(each[None])[0]) for each in trials]
        best = next((k for k, value in enumerate(losses) if value < loss), None)
        if best is None:
            break
        theta, last, loss = trials[best], loss, losses[best]
        if not loss < (1 - WORTHWHILE) * last:
            break
    return theta


def _trials(whole: Problem, prior: Prior, theta: Float[np.ndarray, " p"]) -> list[Float[np.ndarray, " p"]]:
    """θ moved by shares of the step that one linear solve gives."""
    data, own = whole.normal(theta[None]), prior.normal(theta[None])
    if not (np.isfinite(data.matrix).all() and np.isfinite(data.gradient).all()):
        return []
    slope = np.where(prior.positive, _sigmoid(theta), 1.0)
    variance, change = float(data.loss[0]), np.zeros_like(theta)
    for _ in range(LINEAR_PASSES):
        change = _solved(data, own, variance / whole.rows, slope, theta, prior.positive)
        variance = max(_left(data, change), 1e-12 * float(data.loss[0]))
    return [_moved(theta, share * change, slope, prior.positive) for share in STEP_SHARES]


def _moved(theta: np.ndarray, change: np.ndarray, slope: np.ndarray, positive: np.ndarray) -> np.ndarray:
    """θ with coefficients changed in their own unit, other numbers as they are."""
    value = np.logaddexp(0.0, theta) + change * slope
    raw = np.where(value > 30, value, np.log(np.expm1(np.clip(value, 1e-12, 30.0))))
    return np.where(positive, raw, theta + change)


def _solved(
    data: Normal, own: Normal, share: float, slope: np.ndarray, theta: np.ndarray, positive: np.ndarray
) -> Float[np.ndarray, " p"]:
    """The change of θ, as if torques were linear in what `slope` makes of it, coefficients bounded below."""
    matrix = (data.matrix[0] + share * own.matrix[0]) / np.outer(slope, slope)
    gradient = (data.gradient[0] + share * own.gradient[0]) / slope
    lower = np.where(positive, (KEPT - 1) * np.logaddexp(0.0, theta), -np.inf)
    return bounded_minimum(matrix, gradient, lower) / slope


def _left(data: Normal, change: Float[np.ndarray, " p"]) -> float:
    """The loss that is left, by the linear theory."""
    return float(data.loss[0] + 2 * change @ data.gradient[0] + change @ data.matrix[0] @ change)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -x))
