"""Levenberg-Marquardt on many starts at once, with the normal equations in numpy and no drift of what is unknown.

Every start has a damping of its own. Steps are taken in the eigenvectors of the scaled normal matrix, so that several
dampings cost one factorisation, and a direction that no residual depends on is not moved by rounding. Where a prior is
given, such a direction goes back to it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.least_squares import Normal, Problem
from diffnea.identify.progress import tell

# A direction whose eigenvalue is below this share of the largest is not determined: it is rounding.
RANK_TOLERANCE = 1e-14
# A column whose norm is below this share of the largest is scaled like that share: rounding must not become a column.
LEAST_SCALE = 1e-6
# How far from the prior a number may be expected, in its own units: logarithms, radians, metres.
PRIOR_WIDTH = 3.0
LEAST_DAMPING, MOST_DAMPING = 1e-14, 1e8
# A start whose loss falls by less than this share in several steps in a row has arrived. With noise, so has one whose
# falls are a small part of what one residual brings.
STANDSTILL, INSIGNIFICANT, PATIENCE = 1e-7, 1e-2, 3
# Losses are normalised: below this one nothing is left but rounding.
FLOOR = 1e-26
# How firmly the prior holds at first on the way from it to the data, how often it lets go a little, and steps at each.
FIRST_HOLD, HOLDS, STEPS_EACH = 1e-2, 8, 30


@dataclass(frozen=True)
class Descent:
    """Where each start ended: θ, its loss, whether it came to a stop, and the best loss after each iteration."""

    theta: Float[np.ndarray, "starts p"]
    loss: Float[np.ndarray, " starts"]
    converged: np.ndarray
    history: tuple[float, ...]

    @property
    def best(self) -> int:
        """The start with the lowest loss."""
        return int(np.argmin(np.where(np.isfinite(self.loss), self.loss, np.inf)))

    def only_best(self) -> "Descent":
        """That start alone."""
        chosen = slice(self.best, self.best + 1)
        return Descent(self.theta[chosen], self.loss[chosen], self.converged[chosen], self.history)


def minimise(
    problem: Problem,
    theta: Float[np.ndarray, "starts p"],
    iterations: int = 200,
    prior: Float[np.ndarray, " p"] | None = None,
    agree: bool = True,
) -> Descent:
    """Descend from every start until each stands still.

    With `agree`, stop as soon as two starts have arrived at the same lowest loss, or one at none: the others would
    bring nothing. A start whose loss is not finite is left where it is.
    """
    state = _State(problem, np.array(theta, float), prior)
    history = [state.lowest]
    for _ in range(iterations):
        if state.finished(agree):
            break
        state.step()
        history.append(state.lowest)
        tell(len(history) - 1, iterations, state.lowest)
    return Descent(state.theta, state.loss, state.still >= PATIENCE, tuple(history))


class _State:
    """The starts on their way."""

    def __init__(self, problem: Problem, theta: np.ndarray, prior: np.ndarray | None):
        self.problem, self.theta, self.prior = problem, theta, prior
        self.loss = _finite(problem.loss(theta))
        self.normal: Normal | None = None
        self.eigen: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self.damping = np.full(len(theta), 1e-2)
        self.growth = np.full(len(theta), 4.0)
        self.scale = np.zeros_like(theta)
        self.still = np.where(np.isfinite(self.loss), 0, PATIENCE)

    @property
    def lowest(self) -> float:
        return float(np.min(self.loss))

    def finished(self, agree: bool) -> bool:
        arrived = (self.still >= PATIENCE) & np.isfinite(self.loss)
        if not agree:
            return bool((self.still >= PATIENCE).all())
        close = self.loss[arrived] <= self.lowest * (1 + 1e-4)
        return bool((self.still >= PATIENCE).all() or self.lowest < FLOOR or close.sum() >= 2)

    def step(self) -> None:
        """One trial for every start; those that got better move."""
        normal = self.normal = self.problem.normal(self.theta) if self.normal is None else self.normal
        usable = _usable(normal)
        matrix = np.where(usable[:, None, None], normal.matrix, 0.0)
        self.scale = np.maximum(self.scale, np.sqrt(np.einsum("spp->sp", matrix)))
        move, promised = self._propose(normal, usable)
        trial = self.theta + move
        loss = _finite(self.problem.loss(trial))
        better = (loss < self.loss) & usable
        gain = np.where(better, self.loss, 0.0) - np.where(better, loss, 0.0)
        self._adapt(better, gain / np.maximum(promised, 1e-300))
        progress = gain > max(STANDSTILL, INSIGNIFICANT / self.problem.rows) * self.loss
        stuck = ~better & (self.damping >= 1e4)
        self.still = np.where(better & progress, 0, self.still + (better | stuck | ~usable))
        self.theta = np.where(better[:, None], trial, self.theta)
        self.loss = np.where(better, loss, self.loss)
        if better.any():
            self.normal = self.eigen = None

    def _propose(self, normal: Normal, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The damped step of every start, and the fall of the loss it promises."""
        if self.eigen is None:  # a trial that failed changes only the damping
            D = np.maximum(self.scale, LEAST_SCALE * self.scale.max(1, keepdims=True))
            D = np.where(D > 0, D, 1.0)
            matrix = np.where(usable[:, None, None], normal.matrix / (D[:, :, None] * D[:, None, :]), 0.0)
            values, vectors = np.linalg.eigh(matrix)
            self.eigen = D, np.maximum(values, 0.0), vectors
        D, values, vectors = self.eigen
        gradient = np.einsum("spk,sp->sk", vectors, np.where(usable[:, None], normal.gradient / D, 0.0))
        known = values > RANK_TOLERANCE * values[:, -1:]
        along = np.where(known, -gradient / (values + self.damping[:, None] + (~known)), 0.0)
        promised = -np.sum(along * (2 * gradient + values * along), axis=1)
        return np.einsum("spk,sk->sp", vectors, along) / D, promised

    def _adapt(self, better: np.ndarray, ratio: np.ndarray) -> None:
        """Nielsen's rule: less damping the better the promise was kept, more and more after each failure."""
        factor = np.clip(1 - (2 * np.clip(ratio, 0, 2) - 1) ** 3, 1 / 10, 4)
        damping = np.where(better, self.damping * factor, self.damping * self.growth)
        self.growth = np.where(better, 2.0, np.minimum(self.growth * 2, 64))
        self.damping = np.clip(damping, LEAST_DAMPING, MOST_DAMPING)


def _usable(normal: Normal) -> np.ndarray:
    rows = np.concatenate([normal.gradient[:, None], normal.matrix], axis=1)
    return np.asarray(np.isfinite(rows).all(axis=(1, 2)))


def _finite(loss: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(loss), loss, np.inf)


def pull_back(
    problem: Problem,
    theta: Float[np.ndarray, " p"],
    prior: Float[np.ndarray, " p"],
    spread: Float[np.ndarray, " p"],
    rounds: int = 8,
) -> Float[np.ndarray, " p"]:
    """The solution nearest to the prior: directions that the data determine less well than it go back to it.

    The prior is as good as one measurement of each number with a standard deviation of `PRIOR_WIDTH · spread`; what the
    data know better is left as it is, by Gauss-Newton steps that repair what the way back breaks.
    """
    loss = float(problem.loss(theta[None])[0])
    most = loss * (1 + len(theta) / problem.rows) + FLOOR  # within what noise can tell
    for _ in range(rounds):
        normal = problem.normal(theta[None])
        if not np.isfinite(normal.matrix).all():
            break
        weight = _weight(float(normal.loss[0]), problem.rows)
        values, vectors = np.linalg.eigh(normal.matrix[0] * np.outer(spread, spread))
        known = values > RANK_TOLERANCE * values[-1]
        away = vectors.T @ ((theta - prior) / spread)
        slope = vectors.T @ (normal.gradient[0] * spread)
        along = np.where(known, -(slope + weight * away) / (np.where(known, values, 1.0) + weight), -away)
        move = spread * (vectors @ along)
        trial = _repaired(problem, theta, move, most)
        if trial is None:
            break
        arrived = np.linalg.norm((trial - theta) / spread) < 1e-6
        theta = trial
        if arrived:
            return theta
    return _from_prior(problem, theta, prior, spread, most)


def _from_prior(
    problem: Problem, theta: np.ndarray, prior: np.ndarray, spread: np.ndarray, most: float
) -> Float[np.ndarray, " p"]:
    """Where the way back is too crooked: from the prior, ever less held, until the data are met; else θ as it is."""
    trial = prior[None]
    last = _weight(float(problem.loss(theta[None])[0]), problem.rows)
    for hold in np.geomspace(max(FIRST_HOLD, last), last, HOLDS):
        trial = minimise(problem.held(prior, hold / spread**2), trial, STEPS_EACH, agree=False).theta
    nearer = np.linalg.norm((trial[0] - prior) / spread) < np.linalg.norm((theta - prior) / spread)
    return trial[0] if nearer and problem.loss(trial)[0] <= most else theta


def _weight(loss: float, rows: int) -> float:
    """Of the prior beside a mean squared residual, in units of the spread."""
    return max(loss, FLOOR) / (rows * PRIOR_WIDTH**2)


def _repaired(problem: Problem, theta: np.ndarray, move: np.ndarray, most: float) -> np.ndarray | None:
    """The longest part of a move from which the loss can be brought back; None where there is none."""
    for share in (1.0, 0.5, 0.2, 0.05):
        trial = (theta + share * move)[None]
        if problem.loss(trial)[0] <= most:
            return trial[0]
        found = minimise(problem, trial, 10, agree=False)
        if found.loss[0] <= most:
            return found.theta[0]
    return None
