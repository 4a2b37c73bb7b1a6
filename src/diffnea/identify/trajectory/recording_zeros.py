"""Zeros of single recordings: an encoder that was set anew moves all positions of its recording.

Such a recording pulls the model's zero and its gravity away from what all others say. So each recording's own zero is
estimated with the model held, and the few that stand out are moved to where the others are. A model is then of the zero
that most recordings share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.notes import Note, note
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.trajectory.segments import WINDOWS_TOGETHER
from diffnea.identify.trajectory.shooting import Shooting, shots
from diffnea.identify.trajectory.window_weights import weights

# With fewer recordings nothing says which of them stands out.
LEAST_RECORDINGS = 3
# Errors below this share of the spread are no errors: a recording at rest says nothing of its zero.
LEAST_ERROR = 1e-3
# Of Gauss-Newton, and of its differences as a share of what is usual.
ZERO_ITERATIONS, DIFFERENCE = 4, 1e-4


@dataclass(frozen=True)
class Zeros:
    """What is to be added to the positions of recordings, by name."""

    shifts: Mapping[str, Float[np.ndarray, " n"]]

    def notes(self, joints: Sequence[str]) -> list[Note]:
        """One a recording and joint that was moved."""
        return [
            note("zero-moved", name, joint=joint, by=float(by))
            for name, shift in self.shifts.items()
            for joint, by in zip(joints, shift, strict=True)
        ]


def own_zeros(
    free: Unknowns,
    theta: Float[np.ndarray, " p"],
    tracks: Sequence[Track],
    spread: Float[np.ndarray, " n"],
    steps: int,
    every: int,
    options: TrajectoryOptions,
) -> Zeros:
    """Of the recordings whose zero stands out."""
    names = list(dict.fromkeys(track.name for track in tracks))
    if len(names) < LEAST_RECORDINGS:
        return Zeros({})
    found = {}
    for name in names:
        own = [track for track in tracks if track.name == name]
        cut = shots(own, free, steps, spread, np.ones(2 * len(spread)), WINDOWS_TOGETHER, every)
        if cut is not None:
            found[name] = _Recording(Shooting(free, cut, cut.measured.size), theta, spread, options)
    zeros = {name: each.zero() for name, each in found.items()}
    if not zeros:
        return Zeros({})
    common = np.median(np.stack(list(zeros.values())), axis=0)
    return Zeros({name: zeros[name] - common for name, each in found.items() if each.stands_out(zeros[name], common)})


def moved(tracks: Sequence[Track], zeros: Zeros) -> list[Track]:
    """The same recordings, all with one zero."""
    shifts = zeros.shifts
    return [
        replace(track, q=track.q + shifts[track.name], measured=track.measured + shifts[track.name])
        if track.name in shifts
        else track
        for track in tracks
    ]


@dataclass(frozen=True)
class _Recording:
    """The windows of one recording, from their smoothed starts."""

    problem: Shooting
    theta: Float[np.ndarray, " p"]
    spread: Float[np.ndarray, " n"]
    options: TrajectoryOptions

    def wrong(self, zero: Float[np.ndarray, " n"]) -> Float[np.ndarray, "time window n"]:
        """The errors with all positions moved by this."""
        cut = self.problem.shots
        starts = cut.x0 + np.concatenate([zero, np.zeros_like(zero)])
        return self.problem.positions(self.theta, starts) - (cut.measured + zero)

    def zero(self) -> Float[np.ndarray, " n"]:
        """Where its windows are predicted best: Gauss-Newton, each window one measurement, held at none."""
        usual = self.options.usual_zero * self.spread
        zero = np.zeros_like(self.spread)
        for _ in range(ZERO_ITERATIONS):
            wrong = self.wrong(zero)
            weight = weights(wrong, self.spread, self.options)
            if weight is None:
                return np.zeros_like(self.spread)
            weight = np.minimum(weight, 1 / (LEAST_ERROR * self.spread))
            aside = [self.wrong(zero + DIFFERENCE * unit) for unit in np.diag(usual)]
            counted = weight > 0
            slopes = np.stack([np.where(counted, weight * (each - wrong) / DIFFERENCE, 0.0) for each in aside], -1)
            slopes = slopes.reshape(-1, len(zero))
            rest = np.where(counted, weight * wrong, 0.0).reshape(-1)
            matrix = slopes.T @ slopes / len(wrong) + np.eye(len(zero))
            step = -np.linalg.solve(matrix, slopes.T @ rest / len(wrong) + zero / usual)
            zero = zero + usual * np.clip(np.nan_to_num(step), -1.0, 1.0)
        return zero

    def error(self, zero: Float[np.ndarray, " n"]) -> float:
        """The usual error of a window, mean over the joints by its logarithm."""
        each = np.median(np.sqrt(np.mean(np.square(self.wrong(zero)), axis=0)), axis=0) / self.spread
        return float(np.exp(np.mean(np.log(np.maximum(each, LEAST_ERROR)))))

    def stands_out(self, zero: Float[np.ndarray, " n"], common: Float[np.ndarray, " n"]) -> bool:
        """Whether it is predicted far better with a zero of its own than with that of the others."""
        return self.error(zero) < self.options.own_zero * self.error(common)
