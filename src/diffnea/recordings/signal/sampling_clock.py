"""The clock behind time stamps: most logs are sampled by a regular clock and stamped late, by a little more or less.

A straight line through the stamps, `time = start + index · period`, finds it again. Dropped samples are found by
rounding to the grid, and single stamps that are far off do not move the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# Stamps that stray from the grid by less than this share of a period are the grid, written with few digits.
STRAY = 0.02
# Stamps lie on the line when they scatter about it by less than half a period, but for this share of them.
FAR_SHARE = 0.01
# Of a clock, at most this share of the samples is missing: a fine enough grid would fit any stamps.
MOST_MISSING = 0.25
# Stamps drift when less than this share of their variance about the line is their own.
DRIFT = 0.5
# A stamp is odd when it is off the line by this many times the usual scatter.
ODD = 6.0
# The line is found on so many samples first, then on twice as many, until it runs through all of them.
FIRST = 64
# So many stamps in a row that are late or early are not taken for dropped samples.
LATE_RUN = 4

Times = Sequence[Float[np.ndarray, " _"]]
Indices = Sequence[Int[np.ndarray, " _"]]


@dataclass(frozen=True)
class Clock:
    """A regular clock, and where the samples of each piece of a log are on it."""

    period: float  # s
    starts: tuple[float, ...]  # s, one a piece
    indices: tuple[np.ndarray, ...]  # one a piece: the periods at which there are samples, from 0 on
    jitter: float  # s, standard deviation of the stamps about it, odd ones left out
    odd: int  # stamps that are much further off than the others
    furthest: float  # s, how far the furthest stamp is off

    @property
    def missing(self) -> int:
        """How many samples were dropped within the pieces."""
        return sum(int(index[-1]) + 1 - len(index) for index in self.indices)


@dataclass(frozen=True)
class _Line:
    period: float
    starts: tuple[float, ...]
    off: np.ndarray  # of all stamps
    odd: np.ndarray


def regular_clock(times: Times) -> Clock | None:
    """The clock of the pieces of a log; None where the stamps do not show one.

    The pieces have one period, each has its own start.
    """
    steps = np.concatenate([np.diff(time) for time in times])
    usual = float(np.median(steps))
    period = float(np.mean(steps[np.abs(steps - usual) < usual / 2]))  # stamps of few digits have a coarse median
    indices = tuple(_indices(time, period) for time in times)
    line = _line(times, indices)
    clock = Clock(
        period=line.period,
        starts=line.starts,
        indices=indices,
        jitter=float(np.std(line.off[~line.odd])),
        odd=int(line.odd.sum()),
        furthest=float(np.abs(line.off).max()),
    )
    far = int((np.abs(line.off) > line.period / 2).sum())
    scattered = far <= max(1, FAR_SHARE * len(line.off)) and clock.jitter < line.period / 2
    return clock if scattered and clock.missing <= MOST_MISSING * len(line.off) and not _wanders(line) else None


def _wanders(line: _Line) -> bool:
    """Whether stamps drift about the line, as those of a program that waits between samples do: no clock made them.

    The mean square of the steps between neighbours is twice the variance where stamps scatter on their own (von
    Neumann's ratio), less where they drift.
    """
    off = line.off[~line.odd]
    variance = float(np.var(off))
    return variance > (STRAY * line.period) ** 2 and float(np.mean(np.diff(off) ** 2)) < 2 * DRIFT * variance


def _indices(time: Float[np.ndarray, " time"], period: float) -> Int[np.ndarray, " time"]:
    """The period that each stamp belongs to, rising and from 0 on."""
    first = np.exp(2j * np.pi * (time[:FIRST] - time[0]) / period).mean()
    start, count = time[0] + period * np.angle(first) / (2 * np.pi), FIRST
    while True:
        part = time[:count]
        index = _on_grid((part - start) / period)
        line = _line([part], [index])
        start, period = line.starts[0], line.period
        if count >= len(time):
            index = _on_grid((time - start) / period)
            return index - index[0]
        count *= 2


def _on_grid(position: Float[np.ndarray, " time"]) -> Int[np.ndarray, " time"]:
    """Rising whole numbers near the positions, which are in periods.

    How many samples were dropped before each can only grow: what is nearest to that in least squares is rounded.
    """
    from scipy.ndimage import median_filter  # slow to import, and seldom needed
    from scipy.optimize import isotonic_regression

    count = np.arange(len(position))
    dropped = median_filter(position - count, 2 * LATE_RUN + 1, mode="nearest")
    return count + np.round(isotonic_regression(dropped).x).astype(int)


def _line(times: Times, indices: Indices) -> _Line:
    """The line of least squares through all stamps but the odd ones."""
    kept = [np.ones(len(time), bool) for time in times]
    period, starts, off, bound = 0.0, [], [], 0.0
    for _ in range(4):
        period = _slope(times, indices, kept)
        starts = [
            float(np.mean((time - period * index)[good]))
            for time, index, good in zip(times, indices, kept, strict=True)
        ]
        off = [time - start - period * index for time, index, start in zip(times, indices, starts, strict=True)]
        usual = 1.4826 * float(np.median(np.abs(np.concatenate(off))))
        bound = max(ODD * usual, STRAY * period)
        near = [np.abs(each) <= bound for each in off]
        kept = [each if each.sum() > 1 else np.ones(len(each), bool) for each in near]
    everything = np.concatenate(off)
    return _Line(period, tuple(starts), everything, np.abs(everything) > bound)


def _slope(times: Times, indices: Indices, kept: Sequence[np.ndarray]) -> float:
    above, below = 0.0, 0.0
    for time, index, good in zip(times, indices, kept, strict=True):
        across = index[good] - index[good].mean()
        above, below = above + float(across @ time[good]), below + float(across @ across)
    return above / below
