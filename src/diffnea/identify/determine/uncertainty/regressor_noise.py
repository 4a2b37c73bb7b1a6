"""Noise in the regressors: the bias that noisy positions leave in estimates, found by adding more of the same noise.

Accelerations from noisy positions stand among the regressors. Their noise makes coefficients smaller, by its share of
the accelerations' variance (errors in variables); no residual shows it. Twice the noise makes twice the bias. So noise
as that of the readings is drawn and added to the data, and what it changes is what the noise that is there has changed
(SIMEX: Cook and Stefanski 1994). Draws come in pairs of opposite sign, which leave only what is of second order.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.noise import drawn_noise, is_noisy
from diffnea.identify.problem.measurements.rows import Rows


def bias(problem: Linearised, steps: Float[np.ndarray, "p r"], pairs: int) -> Float[np.ndarray, " r"]:
    """How far noise of positions has moved the least-squares estimates whose steps in θ are the columns of `steps`."""
    nothing = np.zeros(steps.shape[1])
    if problem.redrawn is None or problem.effect is None or not any(map(is_noisy, problem.effect.rows)):
        return nothing
    scale = np.linalg.norm(problem.jacobian @ steps, axis=0)
    steps = steps / np.where(scale > 0, scale, 1.0)

    def estimate(found: Linearised) -> Float[np.ndarray, " r"]:
        return -np.linalg.lstsq(found.jacobian @ steps, found.residuals, rcond=None)[0]

    here, moved = estimate(problem), []
    for pair in range(pairs):
        both = [estimate(problem.redrawn(_with_noise(pair, sign))) for sign in (1.0, -1.0)]
        moved.append(np.mean(both, axis=0) - here)
    found = np.mean(moved, axis=0) if moved else nothing
    return np.where(np.isfinite(found), found / np.where(scale > 0, scale, 1.0), 0.0)


def _with_noise(seed: int, sign: float) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        if not is_noisy(rows):
            return rows
        noise = drawn_noise(rows, len(rows.batch.q), seed)
        added = zip(("q", "qd", "qdd"), noise, strict=True)
        states = {name: getattr(rows.batch, name) + sign * each for name, each in added}
        return replace(rows, batch=rows.batch._replace(**states))

    return change
