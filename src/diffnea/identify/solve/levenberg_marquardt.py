"""Levenberg-Marquardt on many starts at once, with the normal equations in numpy and no drift of what is unknown.

Every start has a damping of its own. Steps are taken in the eigenvectors of the scaled normal matrix, so that several
dampings cost one factorisation, and a direction that no residual depends on is not moved by rounding. Numbers that a
problem has eliminated follow θ; their own step is shortened as the damping shortens that of θ.

A start has arrived when its Newton decrement says so: several steps in a row promise to lower the loss by less than a
small part of what one independent residual brings, which is what noise changes it by.
"""

import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.problem.least_squares import Normal, Points, Problem
from diffnea.identify.progress import tell
from diffnea.identify.solve.solution import Solution, status_of

# A direction whose eigenvalue is below this share of the largest is not determined: it is rounding.
RANK_TOLERANCE = 1e-14
# A column is never scaled by less than this share of the largest: rounding must not become a direction.
LEAST_SCALE = 1e-6
# Of searches from several starts, before the best of them goes on.
HEAT_ITERATIONS = 30
# A step that promises less than this share of what one independent residual brings is none: noise brings more. So many
# of them in a row end a search: the first may only be a damped one.
INSIGNIFICANT, PATIENCE = 1e-2, 3
FIRST_DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-2, 1e-14, 1e8
# Near a minimum, where a search goes on: directions that are known little would not move under more.
WARM_DAMPING = 1e-9
# Losses are normalised: below this one nothing is left but rounding.
FLOOR = 1e-26


def minimise(
    problem: Problem,
    points: Points,
    iterations: int = 200,
    *,
    agree: bool = True,
    unit: Float[np.ndarray, " p"] | None = None,
    rough: float = 0.0,
    warm: bool = False,
) -> Solution:
    """Descend from every point until each has arrived; the best place on each way counts.

    With `agree`, stop as soon as two starts have arrived at the same lowest loss, or one at none: the others would
    bring nothing. `unit` is a moderate change of each number of θ: none moves further in one step. The loss of a
    `rough` problem jumps; a step may then raise it by this share, and where Newton's step promises less, it ends.
    `warm` starts are near a minimum. A start that is not finite is left where it is.
    """
    state = _State(problem, np.array(points, float), unit, rough)
    state.damping[:] = WARM_DAMPING if warm else FIRST_DAMPING
    history = [state.lowest]
    for _ in range(iterations):
        if state.finished(agree):
            break
        state.step()
        history.append(state.lowest)
        tell(len(history) - 1, iterations, state.lowest)
    p = state.scale.shape[1]
    ended = status_of(state.best_loss, state.arrived | (state.best_loss < FLOOR))
    rest = state.best[:, p:] if state.best.shape[1] > p else None
    return Solution(state.best[:, :p], state.best_loss, ended, tuple(history), rest)


class _State:
    """The starts on their way."""

    def __init__(self, problem: Problem, points: Points, unit: Float[np.ndarray, " p"] | None, rough: float):
        self.problem, self.points, self.unit, self.rough = problem, points, unit, rough
        self.loss = _finite(problem.loss(points))
        self.best, self.best_loss = points, self.loss
        self.normal: Normal | None = None
        self.eigen: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self.decrement = np.zeros(len(points))  # what Newton's whole step promises
        self.damping = np.full(len(points), FIRST_DAMPING)
        self.growth = np.full(len(points), 4.0)
        self.scale = np.zeros_like(points if unit is None else points[:, : len(unit)])
        self.still = np.where(np.isfinite(self.loss), 0, PATIENCE)

    @property
    def lowest(self) -> float:
        return float(np.min(self.best_loss))

    @property
    def arrived(self) -> Bool[np.ndarray, " starts"]:
        return self.still >= PATIENCE

    def finished(self, agree: bool) -> bool:
        if not agree:
            return bool(self.arrived.all())
        close = self.best_loss[self.arrived & np.isfinite(self.best_loss)] <= self.lowest * (1 + 1e-4)
        return bool(self.arrived.all() or self.lowest < FLOOR or close.sum() >= 2)

    def step(self) -> None:
        """One trial for every start; those that got better move."""
        normal = self.normal = self.problem.normal(self.points) if self.normal is None else self.normal
        usable = _usable(normal)
        matrix = np.where(usable[:, None, None], normal.matrix, 0.0)
        self.scale = np.maximum(self.scale, np.sqrt(np.einsum("spp->sp", matrix)))
        move, promised = self._propose(normal, usable)
        move, promised = _whole(normal, move, promised, self.damping)
        trial = self.points + move
        loss = _finite(self.problem.loss(trial))
        taken = (loss < (1 + self.rough) * self.loss) & usable
        gain = np.where(taken, self.loss, 0.0) - np.where(taken, loss, 0.0)
        # Where a step was not taken, the next is shorter, and promises less.
        significant = promised > INSIGNIFICANT / self.problem.rows * self.loss
        if self.rough:  # a loss that jumps is at its minimum where not even Newton's whole step promises more
            significant &= self.decrement > self.rough * self.loss
        self.still = np.where(significant & usable, 0, self.still + 1)
        self._adapt(taken, gain / np.maximum(promised, 1e-300))
        self.points = np.where(taken[:, None], trial, self.points)
        self.loss = np.where(taken, loss, self.loss)
        self.best = np.where((self.loss < self.best_loss)[:, None], self.points, self.best)
        self.best_loss = np.minimum(self.loss, self.best_loss)
        if taken.any():
            self.normal = self.eigen = None

    def _propose(self, normal: Normal, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The damped step of every start in θ, and the fall of the loss it promises."""
        if self.eigen is None:  # a trial that failed changes only the damping
            unit = 1.0 if self.unit is None else self.unit
            sizes = self.scale * unit
            D = np.maximum(sizes, LEAST_SCALE * sizes.max(1, keepdims=True)) / unit
            D = np.where(D > 0, D, 1.0)
            matrix = np.where(usable[:, None, None], normal.matrix / (D[:, :, None] * D[:, None, :]), 0.0)
            values, vectors = np.linalg.eigh(matrix)
            self.eigen = D, np.maximum(values, 0.0), vectors
        D, values, vectors = self.eigen
        gradient = np.einsum("spk,sp->sk", vectors, np.where(usable[:, None], normal.gradient / D, 0.0))
        known = values > RANK_TOLERANCE * values[:, -1:]
        self.decrement = np.sum(np.where(known, gradient**2 / np.where(known, values, 1.0), 0.0), axis=1)
        while True:
            along = np.where(known, -gradient / (values + self.damping[:, None] + (~known)), 0.0)
            move = np.einsum("spk,sk->sp", vectors, along) / D
            far = self._too_far(move)
            if not far.any():
                break
            self.damping = np.where(far, 2 * self.damping, self.damping)
        promised = -np.sum(along * (2 * gradient + values * along), axis=1)
        return move, promised

    def _too_far(self, move: np.ndarray) -> Bool[np.ndarray, " starts"]:
        """Which steps are more than a moderate change of some number."""
        if self.unit is None:
            return np.zeros(len(move), bool)
        return (np.abs(move / self.unit).max(axis=1, initial=0.0) > 1.0) & (self.damping < MOST_DAMPING)

    def _adapt(self, taken: np.ndarray, ratio: np.ndarray) -> None:
        """Nielsen's rule: less damping the better the promise was kept, more and more after each failure."""
        factor = np.clip(1 - (2 * np.clip(ratio, 0, 2) - 1) ** 3, 1 / 10, 4)
        damping = np.where(taken, self.damping * factor, self.damping * self.growth)
        self.growth = np.where(taken, 2.0, np.minimum(self.growth * 2, 64))
        self.damping = np.clip(damping, LEAST_DAMPING, MOST_DAMPING)


def _whole(
    normal: Normal, move: np.ndarray, promised: np.ndarray, damping: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The step of all numbers of a point, and the fall of the loss it promises."""
    if normal.eliminated is None:
        return move, promised
    own, follow, decrease = normal.eliminated
    share = 1 / (1 + damping)
    rest = share[:, None] * own + np.einsum("skp,sp->sk", follow, move)
    return np.concatenate([move, rest], axis=1), promised + share * (2 - share) * decrease


def _usable(normal: Normal) -> np.ndarray:
    rows = np.concatenate([normal.gradient[:, None], normal.matrix], axis=1)
    return np.asarray(np.isfinite(rows).all(axis=(1, 2)))


def _finite(loss: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(loss), loss, np.inf)
