"""One estimate: data and robot file weighed by evidence, noise of each joint and trust in each link's file alike.

What the file is worth is not seen by prediction: numbers that the data do not determine predict as well wherever they
are. The marginal likelihood of the data sees it. Its maximum is found by MacKay's fixed point (1992): given θ and its
covariance under the posterior,

    d = 10 − λ tr(W Cov z),   w = (2a + d) / (2a + λ̄ zᵀ W z),   λ = w λ̄,   λ̄ = Σ d / Σ w zᵀ W z,

d of a link's ten numbers being decided by the data. λ̄ is how far files are to be trusted, w what a link differs by:
Student's distribution over links, so that one may be far from its file, as one that carries a payload, while the
others keep theirs. Numbers of other kinds that are alike, as the constant torques of all joints, have one width in
common, found in the same way, but never more than is expected of them. The noise of each joint is what its residuals
leave, and a row counts as much as its share of independent ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, PyTree

from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.least_squares import Problem
from diffnea.identify.problem.measurements.noise import correlation_time
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.prior import METRIC, Prior
from diffnea.identify.problem.residuals import problem, residuals
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.progress import tell
from diffnea.identify.solve.levenberg_marquardt import FLOOR, HEAT_ITERATIONS, minimise

# Weights of two joints differ by no more than this factor: a joint that is met exactly says nothing of the others.
MOST_RATIO = 1e3
# Noise and strengths have settled when no logarithm moves by more.
UNCHANGED = 0.02
# Below the least strength log-Cholesky numbers can run away.
LEAST_STRENGTH = 0.1
# Of noise, strengths and θ in turn, at most.
MOST_ROUNDS = 30
# Standard deviations up to which Huber's loss is quadratic: 95 % efficient for a Gaussian.
HUBER = 1.345
# Steps of θ between two looks at noise and strengths; strengths that keep going one way go faster, so far.
STEPS_BETWEEN, FASTEST, MOST_STEP = 4, 6.0, 3.0


@dataclass(frozen=True)
class Posterior:
    """The estimate: θ, the mean squared residual there, and how data and file were weighed."""

    theta: Float[np.ndarray, " p"]
    loss: float
    rows: tuple[PyTree, ...]  # joints weighted by their noise
    prior: Prior  # with the strengths that were found
    variance: float  # of a weighted residual
    precision: Float[np.ndarray, "p p"]  # of θ: data and prior together
    history: tuple[float, ...]
    converged: bool


@runtime_checkable
class Equations(Protocol):
    """What rows are compared by: their weighted residuals at θ, and the least-squares problem of several of them."""

    def residuals(self, rows: PyTree, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "row n"]: ...

    def problem(self, rows: Sequence[PyTree]) -> Problem: ...


@dataclass(frozen=True)
class Compared:
    """Accelerations or torques of a model of θ, by kernels."""

    loss: str
    free: Unknowns

    def residuals(self, rows: Rows, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "row n"]:
        return residuals(self.loss, self.free, rows, theta)

    def problem(self, rows: Sequence[Rows]) -> Problem:
        return problem(self.loss, self.free, rows, 1)


def weigh(
    equations: Equations,
    rows: Sequence[PyTree],
    theta: Float[np.ndarray, " p"],
    prior: Prior,
    options: SolveOptions,
    robust: bool = False,
) -> Posterior:
    """Noise, strengths and θ in turn until they stay, from θ on; fewer iterations mean fewer turns too."""
    history: list[float] = []
    levels = np.array([options.strength, *prior.firmness])
    pace, before = np.ones(len(levels)), np.zeros(len(levels))
    rounds = min(MOST_ROUNDS, -(-options.iterations // STEPS_BETWEEN))
    for k in range(rounds):
        weighted, variance = _weighted(equations, rows, theta, robust)
        whole = equations.problem(weighted)
        run = minimise(
            prior.added(whole, variance), theta[None], options.iterations if k == 0 else STEPS_BETWEEN, warm=k > 0
        )
        theta = run.theta[0]
        value, precision = _precision(whole, prior, theta, variance)
        history.append(value)
        tell(k + 1, rounds, value)
        if precision is None or value < FLOOR:
            break
        covariance = _inverse(precision)
        trusted = _trust(prior, theta, covariance, levels[0], options)
        step = np.log(np.array([trusted, *_firmness(prior, theta, covariance, options)]) / levels)
        pace = np.where(step * before > 0, np.minimum(1.5 * pace, FASTEST), 1.0)
        if max(np.abs(step).max(), abs(np.log(value / max(variance, FLOOR)))) < UNCHANGED:
            break
        levels = levels * np.exp(np.clip(pace * step, -MOST_STEP, MOST_STEP))
        levels[0], levels[1:] = (
            np.clip(levels[0], *_bounds(options)),
            np.clip(levels[1:], *_bounds_of_firmness(options)),
        )
        strengths = _strengths(prior, theta, covariance, levels[0], options)
        before, prior = step, prior.with_strength(strengths, levels[1:].tolist())
    weighted, variance = _weighted(equations, rows, theta, robust)
    whole = equations.problem(weighted)
    run = minimise(prior.added(whole, variance), theta[None], options.iterations, warm=True)
    value, precision = _precision(whole, prior, run.theta[0], variance)
    arrived = bool(run.converged[0] or value < FLOOR)
    matrix = np.eye(len(theta)) if precision is None else precision
    return Posterior(run.theta[0], value, weighted, prior, variance, matrix, (*history, value), arrived)


def _precision(
    whole: Problem, prior: Prior, theta: Float[np.ndarray, " p"], variance: float
) -> tuple[float, Float[np.ndarray, "p p"] | None]:
    """The loss at θ, and the precision of θ by data and prior; None where it is not finite."""
    normal = whole.normal(theta[None])
    if not np.isfinite(normal.matrix).all():
        return float(normal.loss[0]), None
    data = normal.matrix[0] * whole.rows / max(variance, FLOOR)
    return float(normal.loss[0]), data + prior.normal(theta[None]).matrix[0]


def _bounds(options: SolveOptions) -> tuple[float, float]:
    """Of the trust in files."""
    return LEAST_STRENGTH, options.most_strength


def _bounds_of_firmness(options: SolveOptions) -> tuple[float, float]:
    """No number is expected within less of its start than the numbers of bodies."""
    return 1.0, options.most_strength * options.weak_width**2


def _decided(
    prior: Prior, theta: Float[np.ndarray, " p"], covariance: Float[np.ndarray, "p p"]
) -> tuple[Float[np.ndarray, " link"], Float[np.ndarray, " link"]]:
    """Of each link's ten numbers how many the data decide, and how far it is from its file."""
    z, slopes = prior.bodies(theta[None])
    spread = [
        np.sum(METRIC * np.einsum("ki,ij,kj->k", slope, covariance[np.ix_(body, body)], slope))
        for slope, body in zip(slopes[0], prior.body, strict=True)
    ]
    return np.clip(10 - prior.strength * np.array(spread), 0.0, 10.0), np.sum(METRIC * z[0] ** 2, axis=1)


def _trust(prior: Prior, theta: np.ndarray, covariance: np.ndarray, trust: float, options: SolveOptions) -> float:
    """λ̄ by one step of MacKay's fixed point."""
    if not len(prior.body):
        return trust
    decided, away = _decided(prior, theta, covariance)
    weight = _weights(decided, away, trust, options)
    return float(np.clip(decided.sum() / max(float(weight @ away), 1e-300), *_bounds(options)))


def _firmness(prior: Prior, theta: np.ndarray, covariance: np.ndarray, options: SolveOptions) -> list[float]:
    """Of all that is alike, by one step of the same."""
    (away,), (slope,) = prior.away(theta[None])
    held, spread = prior.firm * away**2, prior.firm * slope**2 * np.diagonal(covariance)
    found = []
    for where, by in zip(prior.alike, prior.firmness, strict=True):
        decided = np.sum(np.clip(1 - spread[where], 0.0, 1.0))
        found.append(
            float(np.clip(by * decided / max(float(held[where].sum()), 1e-300), *_bounds_of_firmness(options)))
        )
    return found


def _strengths(
    prior: Prior, theta: np.ndarray, covariance: np.ndarray, trust: float, options: SolveOptions
) -> Float[np.ndarray, " link"]:
    """λ of each link under the trust in all files."""
    if not len(prior.body):
        return prior.strength
    decided, away = _decided(prior, theta, covariance)
    return np.clip(trust * _weights(decided, away, trust, options), *_bounds(options))


def _weights(decided: np.ndarray, away: np.ndarray, trust: float, options: SolveOptions) -> np.ndarray:
    twice = 2 * options.strength_shape
    return (twice + decided) / (twice + trust * away)


def _inverse(matrix: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """Of a precision whose numbers have many units."""
    size = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    inverse = (vectors / np.maximum(values, 1e-14 * values[-1])) @ vectors.T
    return inverse / np.outer(size, size)


def _weighted(
    equations: Equations, rows: Sequence[PyTree], theta: Float[np.ndarray, " p"], robust: bool
) -> tuple[tuple[PyTree, ...], float]:
    """Rows with each joint divided by its noise, less where that is correlated; and the variance of what results."""
    wrong = [equations.residuals(each, theta) for each in rows]
    noise = noise_of(rows, wrong, robust)
    if not np.isfinite(noise).all() or not (noise > 0).any():
        total = np.concatenate([each.ravel() for each in wrong])
        return tuple(rows), float(np.nan_to_num(np.mean(total**2), nan=1.0))
    noise = np.maximum(noise, noise.max() / MOST_RATIO)
    common = float(np.exp(np.mean(np.log(noise))))
    scaled = [each.rescaled(common / noise) for each in rows]
    if robust:
        scaled = [each.weighted(_huber(off, noise)) for each, off in zip(scaled, wrong, strict=True)]
    return tuple(scaled), common**2


def noise_of(
    rows: Sequence[PyTree], wrong: Sequence[Float[np.ndarray, "row n"]], robust: bool
) -> Float[np.ndarray, " n"]:
    """Standard deviation of each joint's residuals, or by their median, times the root of their correlation time."""
    found = []
    for joint in range(wrong[0].shape[1]):
        series = []
        for each, off in zip(rows, wrong, strict=True):
            kept = each.weight[:, joint] > 0
            series += [off[kept & (each.segment == k), joint] for k in np.unique(each.segment)]
        series = [part for part in series if len(part)]
        count = sum(map(len, series))
        square = sum(float(part @ part) for part in series) / max(count, 1)
        if robust and series:
            square = float(np.square(1.4826 * np.median(np.abs(np.concatenate(series)))))
        ordered = rows[0].dt is not None
        found.append(np.sqrt(square * (correlation_time(series) if ordered else 1.0)))
    return np.array(found)


def _huber(wrong: Float[np.ndarray, "row n"], noise: Float[np.ndarray, " n"]) -> Float[np.ndarray, "row n"]:
    """Residuals beyond Huber's limit weighted down, by each joint's own median spread."""
    spread = 1.4826 * np.median(np.abs(wrong), axis=0)
    share = HUBER * np.where(spread > 0, spread, noise) / np.maximum(np.abs(wrong), 1e-300)
    return np.sqrt(np.minimum(share, 1.0))


def best_of(
    whole: Problem, prior: Prior, variance: float, theta: Float[np.ndarray, "starts p"], options: SolveOptions
) -> Float[np.ndarray, " p"]:
    """Of several starts the one that the data and the prior like best after a short search."""
    if len(theta) == 1:
        return theta[0]
    heat = minimise(prior.added(whole, variance), theta, min(options.iterations, HEAT_ITERATIONS))
    return heat.theta[heat.best]
