"""The trajectory loss: horizons that grow from a warm start, and the one kept that predicts best on validation data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.data import Split, Track
from diffnea.identify.linearised import Linearised
from diffnea.identify.scoring import score, windows
from diffnea.identify.search import Found
from diffnea.identify.shooting import LOST, Shooting, Shots, Sums, reduced_rows, shots
from diffnea.identify.unknowns import Unknowns

HORIZONS = (0.1, 0.25, 0.5, 1.0)  # seconds
ITERATIONS = 40
# How often the joints' weights are taken anew from the errors that are left.
ROUNDS = 2
RANK_TOLERANCE = 1e-12
LEAST_SCALE = 1e-6
STANDSTILL = 1e-4
# A later horizon is taken if it predicts validation data better by this share.
BETTER = 0.01


@dataclass(frozen=True)
class _Stage:
    """θ after a horizon, and how well it predicts validation data."""

    horizon: float
    theta: Float[np.ndarray, " p"]
    error: float
    loss: float
    problem: Shooting | None = None
    x0: Float[np.ndarray, "window two_n"] | None = None

    def linearised(self, learned: tuple[str, ...]) -> Linearised:
        """The windows' residuals at the solution; a window is a segment of its own."""
        assert self.problem is not None and self.x0 is not None
        kept = np.asarray(self.problem.shots.weight)[:, 0] > 0
        r, J = reduced_rows(self.problem, self.theta, self.x0)
        r, J = r[kept], J[kept]
        windows, times, n = r.shape
        free = self.problem.free
        return Linearised(
            theta=self.theta,
            jacobian=J.reshape(-1, free.size),
            residuals=r.reshape(-1),
            joint=np.tile(np.arange(n), windows * times),
            sample=np.tile(np.repeat(np.arange(times), n), windows),
            segment=np.repeat(np.arange(windows), times * n),
            labels=free.labels,
            unpack=free.model,
            learned=learned,
            dt=float(self.problem.shots.dt),
        )


class Improved(NamedTuple):
    """What the trajectory loss brought; `linearised` is None where the warm start was better."""

    found: Found
    linearised: Callable[[], Linearised] | None


def improve(found: Found, free: Unknowns, parts: Split, spread: Float[np.ndarray, " n"]) -> Improved:
    """Fit trajectories from where another loss ended; the horizon is chosen on validation roll-outs."""
    best = _Stage(0.0, found.theta, _validation(free, found.theta, parts, spread), found.loss)
    history, theta = list(found.history), found.theta
    for horizon in HORIZONS:
        stage = _stage(horizon, theta, free, parts.train, parts, spread)
        if stage is None:
            break
        theta = stage.theta
        history.append(stage.loss)
        if stage.error < (1 - BETTER) * best.error:
            best = stage
    notes = (*found.notes, _said(best))
    if best.horizon:  # once more, with the validation part
        final = _stage(best.horizon, best.theta, free, parts.fitted, parts, spread)
        best = best if final is None or not np.isfinite(final.loss) else final
    better = replace(found, theta=best.theta, loss=best.loss, history=tuple(history), notes=notes)
    return Improved(better, partial(best.linearised, free.learned) if best.problem is not None else None)


def _said(best: _Stage) -> str:
    if not best.horizon:
        return "no horizon of the trajectory loss predicted validation data better than its warm start, which is kept"
    return f"trajectory loss over {best.horizon:g} s, chosen on validation data"


def _validation(free: Unknowns, theta: np.ndarray, parts: Split, spread: np.ndarray) -> float:
    """Geometric mean over horizons of the roll-out error."""
    cut = windows(parts.validation, spread)
    if cut is None:
        return np.inf
    found = score(free.model(jnp.asarray(theta)), parts.validation, cut)
    return float(np.exp(np.mean(np.log(np.maximum(np.nan_to_num(found.error, posinf=1e9), 1e-300)))))


def _stage(
    horizon: float, theta: np.ndarray, free: Unknowns, tracks: Sequence[Track], parts: Split, spread: np.ndarray
) -> _Stage | None:
    """One horizon: windows, the usual size of their errors, and Gauss-Newton until nothing moves."""
    dt = tracks[0].dt
    assert dt is not None
    steps = max(4, round(horizon / dt))
    hold = np.concatenate([0.02 * spread, 0.05 * np.concatenate([track.qd for track in tracks]).std(0) + 1e-9])
    cut = shots(tracks, free, steps, spread, hold)
    if cut is None:
        return None
    problem, x0, loss = Shooting(free, cut, cut.measured.size), cut.x0, np.inf
    for _ in range(ROUNDS):
        sized = _sized(problem, theta, x0, spread)
        if sized is None:
            return None
        problem = replace(problem, shots=sized)
        theta, x0, loss = _descend(problem, theta, x0)
    return _Stage(horizon, theta, _validation(free, theta, parts, spread), loss, problem, x0)


def _sized(problem: Shooting, theta: np.ndarray, x0: np.ndarray, spread: np.ndarray) -> Shots | None:
    """Weights from the errors as they are: one over each joint's median, and none for windows that are lost."""
    cut = problem.shots
    wrong = problem.positions(theta, x0) - cut.measured
    lost = ~np.isfinite(wrong).all(axis=(0, 2)) | (np.abs(wrong) > LOST * spread).any(axis=(0, 2))
    if lost.all():
        return None
    usual = 1.4826 * np.median(np.abs(wrong[:, ~lost]), axis=(0, 1))
    usual = np.maximum(usual, 1e-9 * spread)
    weight = np.where(lost[:, None], 0.0, 1 / usual)
    return cut._replace(weight=weight)


def _descend(problem: Shooting, theta: np.ndarray, x0: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Levenberg-Marquardt on θ and all starts together."""
    sums = problem.sums(theta, x0)
    loss, damping = float(sums.loss), 1e-3
    for _ in range(ITERATIONS):
        move, starts = _move(sums, damping)
        trial = theta + move, x0 + starts
        new = problem.loss(*trial)
        if np.isfinite(new) and new < loss:
            gain = (loss - new) / loss
            theta, x0 = trial
            loss, damping = new, max(damping / 5, 1e-12)
            if gain < STANDSTILL:
                break
            sums = problem.sums(theta, x0)
        else:
            damping *= 10
            if damping > 1e6:
                break
    return theta, x0, loss


def _move(sums: Sums, damping: float) -> tuple[np.ndarray, np.ndarray]:
    """The damped step: starts eliminated, θ in the eigenvectors of what is left, starts after it."""
    diagonal = np.einsum("wkk->wk", sums.start)
    start = sums.start + damping * np.einsum("wk,kj->wkj", diagonal, np.eye(diagonal.shape[1]))
    right = np.concatenate([np.swapaxes(sums.cross, 1, 2), sums.g_start[:, :, None]], axis=2)
    solved = np.linalg.solve(start, right)  # (window, 2n, p + 1)
    matrix = sums.theta - np.einsum("wpk,wkj->pj", sums.cross, solved[:, :, :-1])
    slope = sums.g_theta - np.einsum("wpk,wk->p", sums.cross, solved[:, :, -1])
    size = np.sqrt(np.maximum(np.diagonal(sums.theta), 0.0))
    size = np.maximum(size, LEAST_SCALE * size.max(initial=0.0)) + 1e-300
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    known = values > RANK_TOLERANCE * values[-1]
    along = np.where(known, -(vectors.T @ (slope / size)) / (np.where(known, values, 1.0) + damping), 0.0)
    move = vectors @ along / size
    return move, -(solved[:, :, -1] + solved[:, :, :-1] @ move)
