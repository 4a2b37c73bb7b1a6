"""Elements of memory by number, before anyone reads them: by these one finds what a scan reads and collects.

A traced array may hold thousands of numbers that only a loop touches. Each has a number below zero here instead of an
instruction. Moving data moves these numbers; what is at `offset + Σ stride · step` is a pattern in them.
"""

from typing import Any

import numpy as np

MOST_DEPTH = 4  # of loops in loops
COLLECTED = -1  # in place of the argument: not read, but collected by a scan
ELEMENT = np.dtype(
    [
        ("argument", np.int64),
        ("offset", np.int64),
        ("strides", np.int64, MOST_DEPTH),  # a step of each enclosing loop moves on by so much
        ("frame", np.int64),  # the loop in which it is read or collected
        ("value", np.int64),  # what is collected …
        ("column", np.int64),
        ("step", np.int64),  # … and at which step
    ]
)


class Elements:
    """A growing table; element k has the number −1 − k."""

    def __init__(self):
        self._table = np.zeros(0, ELEMENT)

    def add(self, rows: np.ndarray) -> np.ndarray:
        """Numbers for these elements."""
        start = len(self._table)
        self._table = np.concatenate([self._table, rows.ravel()])
        return (-1 - start - np.arange(rows.size)).reshape(rows.shape)

    def of(self, numbers: np.ndarray | int) -> Any:
        """The elements with these numbers."""
        return self._table[-1 - np.asarray(numbers)]

    def arguments(self, argument: int, count: int) -> np.ndarray:
        """Numbers for the elements of an argument."""
        rows = np.zeros(count, ELEMENT)
        rows["argument"], rows["offset"] = argument, np.arange(count)
        return self.add(rows)

    def collected(self, frame: int, values: np.ndarray, length: int) -> np.ndarray:
        """Numbers for what a loop collects: (length, values)."""
        rows = np.zeros((length, len(values)), ELEMENT)
        rows["argument"], rows["frame"], rows["value"] = COLLECTED, frame, values
        rows["column"], rows["step"] = np.arange(len(values)), np.arange(length)[:, None]
        return self.add(rows)

    def stepped(self, frame: int, depth: int, numbers: np.ndarray) -> np.ndarray | None:
        """One number for each column of (length, columns) that is `offset + stride · step`; None if one is not."""
        rows = self.of(numbers)
        strides = np.diff(rows["offset"][:2], axis=0)
        steps = np.arange(len(rows))[:, None]
        first = rows[0].copy()
        same = np.all(rows["argument"] == first["argument"]) and np.all(rows["strides"] == first["strides"])
        if not same or np.any(first["argument"] == COLLECTED) or depth > MOST_DEPTH:
            return None
        if np.any(rows["offset"] != first["offset"] + steps * strides):
            return None
        first["strides"][:, depth - 1] = strides[0]
        first["frame"] = frame
        return self.add(first)


def pattern(positions: np.ndarray, steps: np.ndarray, lengths: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
    """`(offset, strides)` with `position = offset + strides · steps` at every combination of steps; None if not so."""
    if len(positions) != int(np.prod(lengths)):
        return None
    units = [np.zeros(len(lengths), int), *np.eye(len(lengths), dtype=int)]
    found = [positions[np.all(steps == unit, axis=1)] for unit in units]
    if any(len(place) != 1 for place in found):
        return None
    offset = int(found[0][0])
    strides = tuple(int(place[0]) - offset for place in found[1:])
    return (offset, strides) if np.array_equal(positions, offset + steps @ np.array(strides)) else None
