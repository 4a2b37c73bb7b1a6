"""Errors of windows kept back, by a fit, its start and a guess, and how they compare: a paired block bootstrap."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from diffnea.identify.judge.bootstrap import Bound, blocks, mean_bound
from diffnea.identify.judge.score import horizons_of
from diffnea.identify.judge.torque_rows import TOGETHER, TorqueRows, window_means
from diffnea.identify.judge.windows import (
    Prediction,
    Windows,
    accelerations,
    at_constant_velocity,
    guessed,
    predicted,
    standing,
)
from diffnea.identify.options import JudgeOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import AbstractModel


class Errors(NamedTuple):
    """One row a window, in order of time within each recording; in spreads; NaN at horizons that are not reached."""

    fit: Float[np.ndarray, "window h"]
    start: Float[np.ndarray, "window h"] | None
    guess: Float[np.ndarray, "window h"] | None  # the better of two, window by window
    segment: Int[np.ndarray, " window"]  # which recording
    time: Float[np.ndarray, " window"]  # seconds at which each begins


class Ratios(NamedTuple):
    """Means over windows of log(error of the fit / error of another), with their intervals."""

    start: Bound | None
    guess: Bound | None


def compared(errors: Errors, options: JudgeOptions) -> Ratios:
    """The fit beside its start and the guess, window by window.

    Errors count between a floor and a cap: a window that is lost counts as one window, not for all others.
    """
    block = blocks(errors.segment, errors.time, options.least_blocks)
    ours = np.log(np.clip(errors.fit, options.floor, options.cap))  # NaN stays

    def ratio(other: np.ndarray | None) -> Bound | None:
        if other is None:
            return None
        theirs = np.log(np.clip(other, options.floor, options.cap))
        return mean_bound(np.nanmean(ours - theirs, axis=1), block, options)

    return Ratios(ratio(errors.start), ratio(errors.guess))


class Runs(NamedTuple):
    """Predictions of all windows, one a rate."""

    fit: list[Prediction]
    start: list[Prediction]
    constant_velocity: list[Prediction]
    standing_still: list[Prediction]


def runs(model: AbstractModel, start: AbstractModel, tracks: Sequence[Track], cut: Windows) -> Runs:
    """What a fit, its start and two guesses make of the windows."""
    fit, before = (predicted(each, tracks, cut) for each in (model, start))
    return Runs(fit, before, guessed(cut, at_constant_velocity), guessed(cut, standing))


def of_rollouts(found: Runs) -> Errors:
    """Errors at every horizon, of the windows of all rates."""
    horizons = horizons_of(found.fit)
    segment = np.array([track for run in found.fit for track, _ in run.cut.places])
    time = np.array([sample * run.cut.dt for run in found.fit for _, sample in run.cut.places])
    order = np.lexsort((time, segment))

    def table(side: list[Prediction]) -> Float[np.ndarray, "window h"]:
        columns = [
            [run.errors(h) if h <= run.reached else np.full(len(run.finite), np.nan) for run in side] for h in horizons
        ]
        return np.column_stack([np.concatenate(column) for column in columns])[order]

    guess = np.minimum(table(found.constant_velocity), table(found.standing_still))
    return Errors(table(found.fit), table(found.start), guess, segment[order], time[order])


def of_torques(fit: TorqueRows, start: TorqueRows) -> Errors:
    """Root mean square over half a second and over the joints, in sizes of the fit's torques."""
    window = fit.window
    ours, theirs = (_gathered(rows.left / fit.size, window) for rows in (fit, start))
    first = np.unique(window, return_index=True)[1]
    return Errors(ours, theirs, None, fit.segment[first], fit.time[first])


def of_accelerations(model: AbstractModel, start: AbstractModel, tracks: Sequence[Track]) -> Errors:
    """The same of accelerations, in standard deviations; of neighbours, or of samples in the order given."""
    qdd = np.concatenate([track.qdd for track in tracks])
    spread = qdd.std(0)
    segment = np.repeat(np.arange(len(tracks)), list(map(len, tracks)))
    window = np.concatenate([np.arange(len(track)) // TOGETHER for track in tracks])
    window = np.unique(np.stack([segment, window]), axis=1, return_inverse=True)[1].ravel()
    sides = []
    for each in (model, start):
        wrong = (accelerations(each, tracks) - qdd) / np.where(spread > 0, spread, 1.0)
        sides.append(_gathered(wrong, window))
    first = np.unique(window, return_index=True)[1]
    return Errors(sides[0], sides[1], None, segment[first], window[first].astype(float))


def _gathered(wrong: Float[np.ndarray, "row n"], window: Int[np.ndarray, " row"]) -> Float[np.ndarray, "window 1"]:
    """Root mean squares over the rows and joints of each window."""
    squares = np.nan_to_num(np.square(wrong), nan=np.inf).mean(axis=1, keepdims=True)
    return np.sqrt(window_means(squares, window))


def by_joint(rows: TorqueRows, options: JudgeOptions) -> Float[np.ndarray, " n"]:
    """What is left of each joint's torques, as a share of their size: geometric mean over windows."""
    squares = window_means(np.square(rows.left / rows.size), rows.window)
    return np.exp(np.mean(np.log(np.clip(np.sqrt(squares), options.floor, options.cap)), axis=0))
