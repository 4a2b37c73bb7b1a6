"""Linear rows: equations `A φ = b` through one low-pass, thinned out, in units of each equation's size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from diffnea.identify.floating.stretches import Stretch, bandwidth_of
from diffnea.identify.problem.measurements.equations import ALIAS_FREE
from diffnea.identify.problem.measurements.rows import taps_of

# So many samples at a time: their columns take some tens of megabytes.
AT_ONCE = 2048


@dataclass(frozen=True)
class LinearRows:
    """One row a filtered instant and equation; what is left of row r and equation v is `A[r, v] φ − b[r, v]`."""

    table: Float[np.ndarray, "row v m"]  # A, and b last
    weight: Float[np.ndarray, "row v"]  # 0 where a row is left out
    sample: Int[np.ndarray, " row"]  # index in time within the stretch
    segment: Int[np.ndarray, " row"]  # which stretch
    dt: float
    noise: Float[np.ndarray, "v m m"] | None = None  # what noise in A has added to AᵀA of each equation

    @property
    def grams(self) -> Float[np.ndarray, "v m m"]:
        """Products of the columns of each equation, b among them, all rows alike."""
        by_equation = np.moveaxis(self.table, 1, 0)
        return np.swapaxes(by_equation, 1, 2) @ by_equation

    def rescaled(self, factor: Float[np.ndarray, " v"]) -> "LinearRows":
        """The same with the weight of each equation multiplied."""
        return replace(self, weight=self.weight * factor)

    def weighted(self, share: Float[np.ndarray, "row v"]) -> "LinearRows":
        """The same with rows that count less."""
        return replace(self, weight=self.weight * share)

    def left(self, phi: Float[np.ndarray, " m"]) -> Float[np.ndarray, "row v"]:
        """Weighted residuals of φ."""
        return self.weight * (self.table[:, :, :-1] @ phi - self.table[:, :, -1])

    @property
    def count(self) -> int:
        """How many residuals there are."""
        return int(np.count_nonzero(self.weight))


def filtered(
    stretches: Sequence[Stretch], columns: Callable[[Stretch], Float[np.ndarray, "time v m"]], bandwidth: float
) -> LinearRows | None:
    """The equations of all stretches of one rate, up to this frequency in Hz; None where they are too short for it."""
    tables, samples, segments, dt = [], [], [], stretches[0].dt
    every = max(1, int(ALIAS_FREE / (2 * math.pi * dt * max(each.wide for each in stretches))))
    taps = taps_of(2 * math.pi * every * dt * bandwidth)
    for k, stretch in enumerate(stretches):
        found = _through(stretch.take(slice(None, None, every)), columns, taps)
        tables.append(found)
        samples.append(np.arange(len(found)))
        segments.append(np.full(len(found), k))
    table = np.concatenate(tables)
    if not len(table):
        return None
    weight = np.ones(table.shape[:2])
    return LinearRows(table, weight, np.concatenate(samples), np.concatenate(segments), taps.shape[1] * every * dt)


def _through(
    stretch: Stretch, columns: Callable[[Stretch], np.ndarray], taps: Float[np.ndarray, "blocks size"]
) -> Float[np.ndarray, "row v m"]:
    """A row for every so many samples, each a weighted mean of those around it."""
    blocks, size = taps.shape
    count, weights = len(stretch) // size - blocks + 1, taps.ravel()
    at_once, found = max(1, AT_ONCE // size), [np.zeros((0, *columns(stretch.take(slice(0, 1))).shape[1:]))]
    for first in range(0, max(count, 0), at_once):
        last = min(first + at_once, count)
        table = columns(stretch.take(slice(first * size, (last + blocks - 1) * size)))
        windows = [table[k * size : k * size + len(weights)] for k in range(last - first)]
        found.append(np.stack([np.tensordot(weights, window, 1) for window in windows]))
    return np.concatenate(found)


def stacked(
    rows: Sequence[LinearRows], phi: Float[np.ndarray, " m"], slopes: Float[np.ndarray, "m p"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weighted residuals of φ and their slopes along `slopes`, and of which equation, sample and stretch each is."""
    parts, before = [], 0
    for each in rows:
        row, equation = np.nonzero(each.weight)
        left = each.left(phi)[row, equation]
        jacobian = (each.table[:, :, :-1] @ slopes * each.weight[:, :, None])[row, equation]
        parts.append((left, jacobian, equation, each.sample[row], each.segment[row] + before))
        before += int(each.segment.max(initial=-1)) + 1
    left, jacobian, equation, sample, segment = map(np.concatenate, zip(*parts, strict=True))
    return left, jacobian, equation, sample, segment


def rows_of(
    stretches: Sequence[Stretch], columns: Callable[[Stretch], np.ndarray], bandwidth: float | None = None
) -> tuple[LinearRows, ...]:
    """Rows of all stretches, those of one rate together."""
    bandwidth = bandwidth_of(stretches) if bandwidth is None else bandwidth
    rates = sorted({round(each.dt, 7) for each in stretches})
    groups = [[each for each in stretches if round(each.dt, 7) == dt] for dt in rates]
    return tuple(rows for group in groups if (rows := filtered(group, columns, bandwidth)) is not None)
