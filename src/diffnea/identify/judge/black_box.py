"""Black box: what a regression without physics still explains of the torques that a model leaves.

A right model leaves noise, which nothing predicts. What random features of the state, and accelerations and inputs of
neighbouring rows, predict on data that neither has seen is structure that the model lacks.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea.identify.judge.bootstrap import Bound, blocks, interval, resample
from diffnea.identify.judge.torque_rows import TorqueRows, window_means
from diffnea.identify.options import JudgeOptions

# Random features and their width; rows before and after, whose accelerations and inputs are features too.
FEATURES, WIDTH, NEIGHBOURS = 150, 0.7, 4
# A joint's row counts where it moves one way throughout the filter's length: friction at a reversal is no function of
# the state.
ONE_WAY = 0.9
# Strengths of the ridge; the last share of the rows chooses between them.
RIDGES, CHOOSING_SHARE = (1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e6), 0.25
MOST_ROWS = 4000
# Features are cut at so many standard deviations: outside of the fitted range a regression knows nothing.
CLIPPED = 3.0


@dataclass(frozen=True)
class Structure:
    """Of each joint, as shares of its torques: what is left without and with the black box (geometric means)."""

    left: Float[np.ndarray, " n"]
    beside: Float[np.ndarray, " n"]
    removed: tuple[Bound, ...]  # √(left² − beside²), negative where the black box makes it worse
    ratio: tuple[Bound, ...]  # log(left / beside)


def structure(
    fitted: TorqueRows, test: TorqueRows, revolute: Bool[np.ndarray, " n"], options: JudgeOptions
) -> Structure | None:
    """What a black box trained on the fitted rows explains of the test rows; None where there are too few rows."""
    basis = _Basis.of(fitted, revolute)
    train, judged = (basis(rows) for rows in (fitted.take(slice(-MOST_ROWS, None)), test))
    if min(len(train.x), len(judged.x)) < 2 * options.least_blocks:
        return None
    left, beside, *bounds = zip(*(_of_joint(j, train, judged, options) for j in range(len(fitted.size))), strict=True)
    return Structure(np.array(left), np.array(beside), *bounds)


class _Features(NamedTuple):
    """Rows and their features."""

    x: Float[np.ndarray, "row f"]
    rows: TorqueRows

    def one_way(self, joint: int) -> Bool[np.ndarray, " row"]:
        return np.abs(self.rows.way[:, joint]) > ONE_WAY


@dataclass(frozen=True)
class _Basis:
    """How rows become features, in units of the fitted ones."""

    revolute: Bool[np.ndarray, " n"]
    mean: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, " k"]
    turns: Float[np.ndarray, "s features"]
    phases: Float[np.ndarray, " features"]

    @classmethod
    def of(cls, rows: TorqueRows, revolute: Bool[np.ndarray, " n"]) -> "_Basis":
        plain = _signals(rows, revolute)
        states = plain.shape[1] - rows.u.shape[1]
        rng = np.random.default_rng(0)
        turns = WIDTH / np.sqrt(states) * rng.standard_normal((states, FEATURES))
        phases, scale = rng.uniform(0, 2 * np.pi, FEATURES), plain.std(0)
        return cls(revolute, plain.mean(0), np.where(scale > 0, scale, np.inf), turns, phases)

    def __call__(self, rows: TorqueRows) -> _Features:
        """Of the rows that have neighbours on both sides."""
        normal = np.clip((_signals(rows, self.revolute) - self.mean) / self.scale, -CLIPPED, CLIPPED)
        states, reach = len(self.turns), NEIGHBOURS if rows.timed else 0
        inner = np.arange(reach, len(normal) - reach)
        inner = inner[rows.segment[inner - reach] == rows.segment[inner + reach]]
        moving = normal[:, states - rows.qdd.shape[1] :]  # accelerations and inputs
        near = [moving[inner + k] for k in range(-reach, reach + 1) if k]
        waves = CLIPPED * np.sqrt(2 / FEATURES) * np.cos(normal[inner, :states] @ self.turns + self.phases)
        return _Features(np.hstack([normal[inner], *near, waves, np.ones((len(inner), 1))]), rows.take(inner))


def _signals(rows: TorqueRows, revolute: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "row k"]:
    """Positions, velocities, accelerations, inputs."""
    places = [np.sin(rows.q[:, revolute]), np.cos(rows.q[:, revolute]), rows.q[:, ~revolute]]
    return np.hstack([*places, rows.qd, rows.qdd, rows.u])


def _of_joint(j: int, train: _Features, test: _Features, options: JudgeOptions) -> tuple[float, float, Bound, Bound]:
    """What is left without and with the black box, and what it removes, by difference and by ratio."""
    used, counted = train.one_way(j), test.one_way(j)
    if min(used.sum(), counted.sum()) < 2 * options.least_blocks:  # as of a joint that only trembles
        used, counted = np.ones_like(used), np.ones_like(counted)
    left = test.rows.left[counted, j] / test.rows.size[j]
    explained = test.x[counted] @ _ridge(train.x[used], train.rows.left[used, j] / test.rows.size[j])
    rows = test.rows.take(counted)
    window = rows.window
    means = window_means(np.square(np.column_stack([left, left - explained])), window)
    logs = 0.5 * np.log(np.clip(means, options.floor**2, options.cap**2))
    first = np.unique(window, return_index=True)[1]
    block = blocks(rows.segment[first], rows.time[first], options.least_blocks)
    return _removed(logs, block, options)


def _removed(
    logs: Float[np.ndarray, "window 2"], block: Int[np.ndarray, " window"], options: JudgeOptions
) -> tuple[float, float, Bound, Bound]:
    totals = np.column_stack([np.bincount(block, column) for column in (*logs.T, np.ones(len(logs)))])
    drawn = resample(totals, options)
    left, beside = map(float, np.exp(logs.mean(0)))
    removed, ratio = float(_root(np.array(left), np.array(beside))), math.log(left / beside)
    if drawn is None:
        return left, beside, Bound(removed, -np.inf, np.inf), Bound(ratio, -np.inf, np.inf)
    before, after = np.exp(drawn[:, :2] / drawn[:, 2:]).T
    share = interval(removed, _root(before, after), len(totals), options)
    return left, beside, share, interval(ratio, np.log(before / after), len(totals), options)


def _root(left: Float[np.ndarray, "*d"], beside: Float[np.ndarray, "*d"]) -> Float[np.ndarray, "*d"]:
    """√(left² − beside²), with the sign of the difference."""
    gone = np.square(left) - np.square(beside)
    return np.asarray(np.sign(gone) * np.sqrt(np.abs(gone)))


def _ridge(x: Float[np.ndarray, "row f"], y: Float[np.ndarray, " row"]) -> Float[np.ndarray, " f"]:
    """Ridge regression; how strong is chosen on the last part in time."""
    cut = int((1 - CHOOSING_SHARE) * len(x))
    values, vectors = np.linalg.eigh(x[:cut].T @ x[:cut])
    along = vectors.T @ (x[:cut].T @ y[:cut])
    tried = [vectors @ (along / (np.maximum(values, 0) + ridge)) for ridge in RIDGES]
    best = RIDGES[int(np.argmin([np.mean(np.square(y[cut:] - x[cut:] @ each)) for each in tried]))]
    return np.linalg.solve(x.T @ x + best * np.eye(x.shape[1]), x.T @ y)
