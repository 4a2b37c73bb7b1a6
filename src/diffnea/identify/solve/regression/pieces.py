"""Pieces: an even choice of the samples of long logs, with the filter that makes rows of them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from diffnea.identify.problem.measurements.rows import Batch, LowPass, Rows

# Samples at once, and pieces of a long log that are looked at.
PIECE, PIECES = 4096, 16


class Piece(NamedTuple):
    """A piece of rows: its samples, seconds between them, which recording each is of, and where in its course."""

    rows: Rows
    batch: Batch
    dt: float | None
    segment: Int[np.ndarray, " sample"]
    course: Float[np.ndarray, " sample"]  # from −1 at the beginning of a recording to 1 at its end


def pieces(several: Sequence[Rows]) -> Iterator[tuple[int, int, Batch, LowPass | None]]:
    """An even choice of pieces of long logs: of which rows, the how-manieth, and what it holds."""
    for k, rows in enumerate(several):
        every = rows.pieces(PIECE)
        for i in np.unique(np.linspace(0, len(every) - 1, PIECES).astype(int)).tolist():
            yield k, i, *every[i]


def piece_of(rows: Rows, batch: Batch, first: int) -> Piece:
    """The samples that begin with those of this row."""
    size = 1 if rows.low_pass is None else rows.low_pass.taps.shape[1]
    owner = np.minimum(first + np.arange(len(batch.q)) // size, len(rows.segment) - 1)
    last = np.zeros(int(rows.segment.max()) + 1)
    np.maximum.at(last, rows.segment, rows.sample)
    course = 2 * rows.sample / np.maximum(last[rows.segment], 1) - 1
    return Piece(rows, batch, None if rows.dt is None else rows.dt / size, rows.segment[owner], course[owner])


def through(taps: Float[np.ndarray, "blocks size"], values: Float[np.ndarray, "sample n k"]) -> np.ndarray:
    """As `rows.through` without weights, in numpy: each shape is seen once, and XLA would compile it."""
    blocks, size = taps.shape
    count = len(values) // size - blocks + 1
    parts = values.reshape(-1, size, *values.shape[1:])
    return np.asarray(sum(np.tensordot(taps[k], parts[k : k + count], ((0,), (1,))) for k in range(blocks)))
