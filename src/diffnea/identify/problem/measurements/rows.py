"""Rows: what least squares sees of the data, samples as they are or equations of motion through one low-pass.

Accelerations from noisy positions are noise above some frequency. Smoothing the states so far would bias equations
that are not linear in them. So states are smoothed little, and the equations, their residuals and slopes alike, are
low-passed and thinned out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

# The low-pass is a sinc as long as this over its corner (rad a sample) under Kaiser's window: all but whole up to 0.4
# of the corner, and nothing left (a hundredth) where a row in so many samples would alias.
LENGTH, KAISER_SHAPE, ALIAS = 12.6, 4.5, 1.55
# The highest corner: commands that are held make accelerations jump, and these have no derivative near the top.
HIGHEST = 0.4 * math.pi


class Batch(NamedTuple):
    """Samples to fit: states, accelerations, the last commands (newest first), and the weight of each residual.

    `way` says which way dry friction is overcome, at joints and coupled motors, where that is known.
    """

    q: PyTree  # (sample, n), as all but u
    qd: PyTree
    qdd: PyTree
    u: PyTree  # (sample, late, n)
    weight: PyTree
    way: PyTree = None  # (sample, m)

    def take(self, rows: slice | np.ndarray) -> "Batch":
        """Some of the samples."""
        return Batch(*(None if array is None else array[rows] for array in self))

    @property
    def joints_way(self) -> Float[np.ndarray, "sample n"]:
        """The way of the joints alone; where it is not known, that of their velocities."""
        return np.sign(self.qd) if self.way is None else np.asarray(self.way)[:, : self.qd.shape[1]]


def together(parts: Sequence[Batch]) -> Batch:
    """The samples of several batches, one after the other."""
    return Batch(*(None if columns[0] is None else np.concatenate(columns) for columns in zip(*parts, strict=True)))


class LowPass(NamedTuple):
    """A filter over blocks of samples, one row for every `blocks` of them, each a block after the last."""

    taps: PyTree  # (blocks, size of a block)
    weight: PyTree  # (row, n), 0 where a row is left out, as one that reaches over two recordings


def taps_of(corner: float) -> Float[np.ndarray, "blocks size"]:
    """The low-pass of this corner, rad a sample."""
    corner = min(corner, HIGHEST)
    size = max(1, int(math.pi / (ALIAS * corner)))
    blocks = math.ceil(LENGTH / (corner * size))
    place = np.arange(blocks * size) - (blocks * size - 1) / 2
    taps = np.sinc(corner * place / np.pi) * np.kaiser(len(place), KAISER_SHAPE)
    return (taps / taps.sum()).reshape(blocks, size)


def through(low_pass: LowPass | None, values: Float[Array, "sample n ..."]) -> Float[Array, "row n ..."]:
    """Residuals, or their slopes, as they are or filtered."""
    if low_pass is None:
        return values
    blocks, size = low_pass.taps.shape
    count = values.shape[0] // size - blocks + 1
    parts = values.reshape(-1, size, *values.shape[1:])
    # Term by term: XLA makes one loop of it, and several of a product of matrices.
    terms = [low_pass.taps[k, i] * parts[k : k + count, i] for k in range(blocks) for i in range(size)]
    rows = sum(terms[1:], start=terms[0])
    return rows * low_pass.weight.reshape(*low_pass.weight.shape, *[1] * (values.ndim - 2))


@dataclass(frozen=True)
class Rows:
    """Samples, the filter of their equations (None: none), and where each row comes from."""

    batch: Batch
    low_pass: LowPass | None
    sample: Int[np.ndarray, " row"]  # index in time within the recording
    segment: Int[np.ndarray, " row"]  # which recording
    dt: float | None  # time between rows
    own: Float[np.ndarray, "row n"] | None = None  # weights of torque equations, clear of each joint's own reversals
    far: Bool[np.ndarray, "row n"] | None = None  # rows whose filter does not reach to a reversal
    crowded: Bool[np.ndarray, " n"] | None = None  # joints whose rows near reversals had to stay
    noise: Float[np.ndarray, " n"] | None = None  # of positions as they were read, its standard deviation
    density: float = 0.0  # of that noise in a sample of the batch: the share of its variance that smoothing could pass
    wide: float = 0.0  # the corner to which positions were smoothed, rad a sample of the batch

    @property
    def weight(self) -> Float[np.ndarray, "row n"]:
        """Of each row."""
        return self.batch.weight if self.low_pass is None else self.low_pass.weight

    def weighted(self, share: Float[np.ndarray, "row n"]) -> "Rows":
        """The same with rows that count less."""
        if self.low_pass is None:
            return replace(self, batch=self.batch._replace(weight=self.batch.weight * share))
        return replace(self, low_pass=self.low_pass._replace(weight=self.low_pass.weight * share))

    def scaled(self, weight: Float[np.ndarray, " n"]) -> "Rows":
        """The same with other weights of the joints."""
        return replace(self, batch=self.batch._replace(weight=np.tile(weight, (len(self.batch.q), 1))))

    def rescaled(self, factor: Float[np.ndarray, " n"]) -> "Rows":
        """The same with the weight of each joint multiplied."""
        return replace(self, batch=self.batch._replace(weight=self.batch.weight * factor))

    @property
    def as_torques(self) -> "Rows | None":
        """The rows of the torque loss: each joint leaves out its own reversals only; None where they are not known."""
        if self.low_pass is None or self.own is None:
            return None
        rows = self.scaled(np.ones(self.own.shape[1]))
        return replace(rows, low_pass=self.low_pass._replace(weight=self.own))

    @property
    def count(self) -> int:
        """How many residuals there are; those of weight 0 are left out."""
        return int(np.count_nonzero(self.weight))

    def at_centre(self, values: Float[np.ndarray, "sample n"] | Bool[np.ndarray, "sample n"]) -> np.ndarray:
        """Of values of each sample those in the middle of each row's filter, (row, n)."""
        if self.low_pass is None:
            return values
        blocks, size = self.low_pass.taps.shape
        return values[np.arange(len(self.weight)) * size + (blocks * size - 1) // 2]

    def pieces(self, most: int) -> list[tuple[Batch, LowPass | None]]:
        """Pieces of about `most` samples and of one shape; what fills the last one up does not count."""
        blocks, size = (1, 1) if self.low_pass is None else self.low_pass.taps.shape
        count = len(self.weight)
        number = -(-count * size // most)
        each = -(-count // number)
        return [self._piece(k * each, each, blocks, size) for k in range(number)]

    def _piece(self, first: int, count: int, blocks: int, size: int) -> tuple[Batch, LowPass | None]:
        places = np.arange(first * size, (first + count + blocks - 1) * size)
        batch = self.batch.take(np.minimum(places, len(self.batch.q) - 1))
        over = max(0, first + count - len(self.weight))
        weight = np.concatenate([self.weight[first : first + count], np.zeros((over, self.weight.shape[1]))])
        if self.low_pass is None:
            return batch._replace(weight=weight), None
        return batch, self.low_pass._replace(weight=weight)


def plain(batch: Batch, lengths: list[int], dt: float | None) -> Rows:
    """One row a sample and joint, of recordings of these lengths."""
    sample = np.concatenate([np.arange(length) for length in lengths])
    return Rows(batch, None, sample, np.repeat(np.arange(len(lengths)), lengths), dt)


def filtered(batch: Batch, lengths: list[int], dt: float, taps: Float[np.ndarray, "blocks size"]) -> Rows:
    """Equations through a low-pass, of recordings that have whole blocks each."""
    blocks, size = taps.shape
    assert all(length % size == 0 for length in lengths)
    segment = np.repeat(np.arange(len(lengths)), [length // size for length in lengths])
    last = segment[blocks - 1 :]
    segment = segment[: len(last)]
    weight = np.tile((segment == last)[:, None].astype(float), (1, batch.q.shape[1]))
    sample = np.arange(len(segment)) - np.searchsorted(segment, segment)
    return Rows(batch, LowPass(taps, weight), sample, segment, size * dt)
