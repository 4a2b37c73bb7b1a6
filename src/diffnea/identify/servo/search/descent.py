"""The search: Levenberg-Marquardt with slopes by differences, which every roll-out that was tried corrects.

Slopes by differences cost a roll-out for each number; a step costs a few. So slopes are taken once for several steps,
and after each step they are changed by least as much as makes them agree with what was seen (Broyden 1965). Steps are
long, so that they also see past the roughness that dry friction leaves.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.servo.search.objective import Compared, Objective

# Damping that is tried in each step, times the last that was best.
FACTORS = np.array([0.1, 0.5, 2.0, 10.0])
SERVO_FIRST_DAMPING, SERVO_LEAST_DAMPING, SERVO_MOST_DAMPING = 0.1, 1e-6, 1e4
# Numbers that hardly show are damped as if they showed so much of what the others do.
LEAST_CURVATURE = 1e-3
# The longest step of a number, in its spread.
LONGEST = 2.0
# Slopes are taken anew when a step lowers the loss by less than the first share; the search ends when all steps with
# one set of slopes lower it by less than the second.
SAME_SLOPES_GAIN, LAST_SLOPES_GAIN = 1e-3, 2e-3
# Steps with one set of slopes at most.
SEARCH_STEPS = 12
# Of numbers that hardly show, damped steps leave some of the way: so many more at the end, with next to no damping.
LAST_DAMPING, LAST_SHARES, LAST_STEPS, LAST_GAIN = 1e-7, np.array([1.0, 0.6, 0.3, 0.1]), 4, 3e-4


@dataclass(frozen=True)
class Searched:
    """Where a search ended: θ, the loss in rad, RMS errors of each motion and joint, the way there."""

    theta: Float[np.ndarray, " p"]
    loss: float
    rms: Float[np.ndarray, "motion n"]
    history: tuple[float, ...]
    converged: bool


@dataclass
class _Walk:
    """Where a search stands."""

    objective: Objective
    theta: Float[np.ndarray, " p"]
    here: Compared
    damping: float = SERVO_FIRST_DAMPING

    def step(self, slopes: Float[np.ndarray, "p row n"]) -> float:
        """One step, and the share that it lowers the loss by; `slopes` are corrected by all that was tried."""
        gradient, hessian = self.objective.normal_equations(self.theta, self.here, slopes)
        own = np.diag(np.diag(hessian) + LEAST_CURVATURE * np.trace(hessian) / len(self.theta))
        solved = [np.linalg.solve(hessian + f * self.damping * own, -gradient) for f in FACTORS]
        shifts = np.clip(np.stack(solved), -LONGEST, LONGEST)
        tried = self.objective.compared(self.theta + shifts * self.objective.spread)
        losses = np.array([each.loss for each in tried])
        for k in np.argsort(-losses):
            corrected(slopes, shifts[k].astype(np.float32), tried[k].errors - self.here.errors)
        best, before = int(np.argmin(losses)), self.here.loss
        if not losses[best] < before:
            self.damping = min(8 * self.damping, SERVO_MOST_DAMPING)
            return 0.0
        self.damping = float(np.clip(0.7 * FACTORS[best] * self.damping, SERVO_LEAST_DAMPING, SERVO_MOST_DAMPING))
        self.theta, self.here = self.theta + shifts[best] * self.objective.spread, tried[best]
        return 1 - self.here.loss / before

    def last_step(self) -> bool:
        """A step with next to no damping, from slopes of its own; whether more of them pay."""
        gradient, hessian = self.objective.normal_equations(
            self.theta, self.here, self.objective.slopes(self.theta, self.here)
        )
        shift = np.linalg.solve(hessian + LAST_DAMPING * np.diag(np.diag(hessian)), -gradient)
        shifts = LAST_SHARES[:, None] * np.clip(shift, -LONGEST, LONGEST)
        thetas = self.theta + shifts * self.objective.spread
        tried = self.objective.compared(thetas)
        best = min(range(len(tried)), key=lambda k: tried[k].loss)
        if not tried[best].loss < self.here.loss:
            return False
        gain = 1 - tried[best].loss / self.here.loss
        self.theta, self.here = thetas[best], tried[best]
        return gain > LAST_GAIN


def polished(objective: Objective, found: "Searched") -> "Searched":
    """The same to the end of numbers that hardly show."""
    walk = _Walk(objective, found.theta, objective.compared(found.theta[None])[0])
    for _ in range(LAST_STEPS):
        if not walk.last_step():
            break
    return replace(found, theta=walk.theta, loss=walk.here.loss, rms=walk.here.rms)


def corrected(
    slopes: Float[np.ndarray, "p row n"], shift: Float[np.ndarray, " p"], change: Float[np.ndarray, "row n"]
) -> None:
    """Broyden's update in place: the least change of slopes with `shiftᵀ slopes = change`."""
    size = float(shift @ shift)
    if size < 1e-12 or not np.all(np.isfinite(change)):
        return
    missing = (change - np.tensordot(shift, slopes, 1)) / np.float32(size)
    for k in np.flatnonzero(shift):
        slopes[k] += shift[k] * missing


def search(
    objective: Objective,
    theta: Float[np.ndarray, " p"],
    rounds: int,
    watch: Callable[[int, int, float], None] | None = None,
) -> Searched:
    """The best θ that so many sets of slopes find, each with several steps."""
    walk = _Walk(objective, theta, objective.compared(theta[None])[0])
    history, converged = [walk.here.loss], False
    for k in range(rounds):
        before = walk.here.loss
        if watch is not None:
            watch(k, rounds, before)
        _round(walk, objective.slopes(walk.theta, walk.here))
        history.append(walk.here.loss)
        if walk.here.loss > (1 - LAST_SLOPES_GAIN) * before:
            converged = True
            break
    return Searched(walk.theta, walk.here.loss, walk.here.rms, tuple(history), converged)


def _round(walk: _Walk, slopes: Float[np.ndarray, "p row n"]) -> None:
    """Steps with one set of slopes, until they lead nowhere."""
    walk.damping, failed = min(walk.damping, 1.0), 0
    for _ in range(SEARCH_STEPS):
        gain = walk.step(slopes)
        failed = failed + 1 if gain < SAME_SLOPES_GAIN else 0
        if failed == 2:
            return
