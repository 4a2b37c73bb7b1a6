"""Block bootstrap: how sure a mean over windows is, where neighbours in time say the same thing twice."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from diffnea.identify.judge.windows import HORIZONS
from diffnea.identify.options import JudgeOptions

# More draws would not move a bound by more than a hundredth of its width.
DRAWS = 2000


class Bound(NamedTuple):
    """A mean and its interval."""

    mean: float
    lower: float
    upper: float


def blocks(segment: Int[np.ndarray, " row"], time: Float[np.ndarray, " row"], least: int) -> Int[np.ndarray, " row"]:
    """The block of each row: as long as the longest window, shorter where there would be too few; of one recording.

    Windows two blocks apart share no sample. Rows of a recording stand in order of time; blocks are numbered from zero,
    and none is empty.
    """
    names, inverse, counts = np.unique(segment, return_inverse=True, return_counts=True)
    span = np.array([np.ptp(time[inverse == k]) for k in range(len(names))])
    by_time = np.maximum(1, np.floor(span / HORIZONS[-1] + 1e-9)).astype(int)
    total = by_time.sum()
    if total < least:
        by_time = np.maximum(by_time, np.ceil(least * counts / counts.sum()).astype(int))
    number, first = np.zeros(len(segment), int), 0
    for k, count in enumerate(np.minimum(by_time, counts)):
        number[inverse == k] = first + np.arange(counts[k]) * count // counts[k]
        first += count
    return number


def mean_bound(values: Float[np.ndarray, " row"], block: Int[np.ndarray, " row"], options: JudgeOptions) -> Bound:
    """The mean of all values, and where it lies with a probability of 95 %, by drawing whole blocks."""
    sums, counts = np.bincount(block, values), np.bincount(block).astype(float)
    drawn = resample(np.column_stack([sums, counts]), options)
    mean = float(sums.sum() / counts.sum())
    if drawn is None:
        return Bound(mean, -np.inf, np.inf)
    return interval(mean, drawn[:, 0] / drawn[:, 1], len(sums), options)


def resample(totals: Float[np.ndarray, "block k"], options: JudgeOptions) -> Float[np.ndarray, "draw k"] | None:
    """Totals of blocks drawn with replacement, all columns together; None of a single block, which says nothing.

    Blocks are sorted first, so that the order of recordings does not matter.
    """
    count = len(totals)
    if count < 2:
        return None
    ordered = totals[np.lexsort(totals.T)]
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=DRAWS)
    return drawn @ ordered


def interval(value: float, drawn: Float[np.ndarray, " draw"], count: int, options: JudgeOptions) -> Bound:
    """A value and percentiles of draws, widened: drawing from `count` blocks leaves out 1/count of the variance."""
    tail = 50 * (1 - options.confidence)
    low, high = np.percentile(drawn, [tail, 100 - tail])
    wide = np.sqrt(count / (count - 1))
    return Bound(value, float(value + wide * (low - value)), float(value + wide * (high - value)))
