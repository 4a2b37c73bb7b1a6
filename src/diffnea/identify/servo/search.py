"""The search: Levenberg-Marquardt on the mean of motions' RMS errors, with differences of whole roll-outs as slopes.

The mean of RMS errors is robust: one motion that meets what the model lacks counts once, not by its square. Whole
roll-outs under dry friction are rough in the small; differences over a few per cent of each number see past that, and
cost one roll-out a number, all of them side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.servo.lanes import Lanes, Predictor
from diffnea.identify.servo.unknowns import EXPECTED, SPREAD, STEP, Freedom

# Models side by side at most: what a prediction holds in memory.
MOST_MODELS = 24
# Rows of a motion are correlated: every so many of them are enough for slopes.
THIN = 3
# Damping that is tried in each iteration, times the last that was best.
FACTORS = np.array([0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 300.0])
# Numbers that hardly show are damped as if they showed so much of what the others do.
LEAST_CURVATURE = 1e-3
# An iteration that lowers the loss by less than this share is the last.
ENOUGH = 5e-4
# RMS errors are rounded off below this, in rad: a fifth of what encoders of such servos resolve.
FLOOR = 3e-4
# How much of the RMS errors' own curvature counts; all of it would leave nothing where one number explains a motion.
CURVED = 0.9
# What a number pays for being as far from its start as is expected, in rad of the loss.
PRIOR = 1e-5


@dataclass(frozen=True)
class Searched:
    """Where a search ended: θ, the mean RMS error in rad, that of each motion and joint, and the way there."""

    theta: Float[np.ndarray, " p"]
    loss: float
    rms: Float[np.ndarray, "motion n"]
    history: tuple[float, ...]
    converged: bool


@dataclass
class Objective:
    """Mean RMS error of all motions as a function of θ; `weight` is 0 where rows do not count."""

    data: Lanes
    free: Freedom
    weight: Float[np.ndarray, "lane time n"]
    centre: Float[np.ndarray, " p"] | None = None
    predictor: Predictor = field(init=False)

    def __post_init__(self) -> None:
        self.predictor = Predictor(self.data, self.free.model(jnp.asarray(self.free.start)))
        self.spread, self.expected = self.free.scales(SPREAD), self.free.scales(EXPECTED)
        self.start = self.free.start if self.centre is None else self.centre
        self._models = jax.jit(jax.vmap(self.free.model))
        here = self.data.motion >= 0
        self._motion, self._measured = self.data.motion[here], self.data.measured[here]
        self._kept, self._here = self.weight[here], here
        ones = [np.bincount(self._motion, self._kept[:, j], self.data.count) for j in range(self._kept.shape[1])]
        self._rows = np.maximum(np.stack(ones, 1), 1e-9)  # motion, joint

    def residuals(self, thetas: Float[np.ndarray, "k p"]) -> Float[np.ndarray, "k row n"]:
        """Errors in rad of the rows that are of motions, a block of models at a time."""
        found = []
        for first in range(0, len(thetas), MOST_MODELS):
            block = thetas[first : first + MOST_MODELS]
            padded = np.concatenate([block, np.repeat(block[-1:], -len(block) % 8, 0)])
            positions = self.predictor(self._models(jnp.asarray(padded)))[: len(block)]
            found.append((positions[:, self._here] - self._measured[None]).astype(np.float32))
        return np.concatenate(found)

    def rms(self, residuals: Float[np.ndarray, "row n"]) -> Float[np.ndarray, "motion n"]:
        """RMS errors of motions, joint by joint."""
        squares = np.where(np.isfinite(residuals), residuals, 1e3).astype(np.float64) ** 2 * self._kept
        sums = [np.bincount(self._motion, squares[:, j], self.data.count) for j in range(squares.shape[1])]
        return np.sqrt(np.stack(sums, 1) / self._rows + FLOOR**2)

    def loss(self, theta: Float[np.ndarray, " p"], rms: Float[np.ndarray, "motion n"]) -> float:
        """The mean of RMS errors and the prior."""
        return float(rms.mean() + PRIOR * np.sum(((theta - self.start) / self.expected) ** 2))

    def losses(self, thetas: Float[np.ndarray, "k p"]) -> Float[np.ndarray, " k"]:
        """Of several θ."""
        left = self.residuals(thetas)
        return np.array([self.loss(theta, self.rms(each)) for theta, each in zip(thetas, left, strict=True)])

    def normal_equations(self, theta: Float[np.ndarray, " p"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient and Gauss-Newton's Hessian of the loss in units of the spreads, and the RMS errors.

        `mean RMS = Σ √(Σ r²/N) / B` has the slopes `Σ s`, s = Jᵀr / (N RMS B), and, without second derivatives of r,
        the Hessian `Σ JᵀJ / (N RMS B) − s sᵀ B / RMS`, each term of which is positive semidefinite.
        """
        left, slopes = self.slopes(theta)
        rms = self.rms(left)
        weight = np.sqrt(THIN * self._kept / (self._rows * rms * rms.size)[self._motion])[::THIN].astype(np.float32)
        base = (left[::THIN] * weight).ravel()
        weighted = (slopes * (weight[None] * self.spread.astype(np.float32)[:, None, None])).reshape(len(theta), -1)
        share = self.spread / self.expected
        pull = share * (theta - self.start) / self.expected
        hessian = (weighted @ weighted.T).astype(float) + 2 * PRIOR * np.diag(share**2)
        each = self._by_motion((weighted * base[None]).reshape(slopes.shape)).reshape(len(theta), -1)
        rank = each * np.sqrt(CURVED * rms.size / rms.ravel())[None]
        return each.sum(1) + 2 * PRIOR * pull, hessian - rank @ rank.T, rms

    def _by_motion(self, rows: Float[np.ndarray, "p row n"]) -> Float[np.ndarray, "p motion n"]:
        """Sums over the thinned rows of each motion."""
        motion = self._motion[::THIN]
        starts = np.flatnonzero(np.diff(motion, prepend=-1))
        sums = np.zeros((len(rows), self.data.count, rows.shape[2]))
        sums[:, motion[starts]] = np.add.reduceat(rows.astype(np.float64), starts, axis=1)
        return sums

    def slopes(self, theta: Float[np.ndarray, " p"]) -> tuple[np.ndarray, np.ndarray]:
        """The errors at θ, and of every `THIN`th row how they change with each entry of θ."""
        steps = self.free.scales(STEP)
        every = np.concatenate([theta[None], theta + np.diag(steps)])
        left, parts = np.zeros(0), []
        for first in range(0, len(every), MOST_MODELS):
            moved = self.residuals(every[first : first + MOST_MODELS])
            left = moved[0] if first == 0 else left
            taken = steps[max(first - 1, 0) : first - 1 + len(moved)].astype(np.float32)
            change = (moved[1 if first == 0 else 0 :, ::THIN] - left[None, ::THIN]) / taken[:, None, None]
            parts.append(np.where(np.isfinite(change), change, 0.0))
        return left, np.concatenate(parts)


def search(
    objective: Objective,
    theta: Float[np.ndarray, " p"],
    iterations: int,
    watch: Callable[[int, int, float], None] | None = None,
) -> Searched:
    """The best θ that so many iterations find."""
    damping, history, converged = 0.1, [], False
    loss, rms = np.inf, np.zeros(0)
    for k in range(iterations):
        gradient, hessian, rms = objective.normal_equations(theta)
        loss = objective.loss(theta, rms)
        history.append(loss)
        if watch is not None:
            watch(k, iterations, loss)
        own = np.diag(np.diag(hessian) + LEAST_CURVATURE * np.trace(hessian) / len(theta))
        shifts = np.stack([np.linalg.solve(hessian + f * damping * own, gradient) for f in FACTORS])
        tried = theta - np.clip(shifts, -2, 2) * objective.spread
        losses = objective.losses(tried)
        best = int(np.argmin(losses))
        if not losses[best] < loss:
            damping = min(damping * 1000, 1e6)
            if damping >= 1e6:
                converged = True
                break
            continue
        theta, damping = tried[best], max(damping * FACTORS[best], 1e-6)
        if losses[best] > (1 - ENOUGH) * loss:
            converged, loss = True, float(losses[best])
            break
        loss = float(losses[best])
    rms = objective.rms(objective.residuals(theta[None])[0])
    return Searched(theta, objective.loss(theta, rms), rms, (*history, loss), converged)
