"""Rows to lanes and back: samples lie one after another in memory, and one lane is to hold one sample.

A block of `lanes` rows of `size` numbers is read as whole vectors and turned in registers, which is several times
faster than reading number by number. No byte outside the block is read or written.
"""

from collections.abc import Sequence

from diffnea.kernels.llvm.code import Code

# Squares of four are turned: smaller ones take more reading, larger ones more shuffling. Rows shorter than that are so
# short that picking numbers from whole vectors is less work.
SQUARE = 4


def load_rows(code: Code, pointer: str, size: int, distance: int = 0) -> list[str]:
    """`size` vectors; lane i of vector j is element j of row i. Rows begin `distance` apart, or follow each other."""
    lanes, square, distance = code.lanes, _square(code, size), distance or size
    if lanes == 1:
        return [code.load(code.at(pointer, j)) for j in range(size)]
    if size < SQUARE and distance == size:
        dense = [code.load(code.at(pointer, k * lanes)) for k in range(size)]
        return [_pick(code, dense, [i * size + j for i in range(lanes)]) for j in range(size)]
    part = f"<{square} x {code.scalar}>"
    values: dict[int, str] = {}
    for first in _starts(size, square):
        rows = [code.load(code.at(pointer, i * distance + first), part) for i in range(lanes)]
        packed = [_pack(code, rows[r::square], square) for r in range(square)]
        values |= {first + j: value for j, value in enumerate(_transpose(code, packed))}
    return [values[j] for j in range(size)]


def store_rows(code: Code, pointer: str, values: list[str], distance: int = 0) -> None:
    """The inverse of `load_rows`."""
    lanes, size = code.lanes, len(values)
    square, distance = _square(code, size), distance or size
    if lanes == 1:
        for j, value in enumerate(values):
            code.store(value, code.at(pointer, j))
        return
    if size < SQUARE and distance == size:
        for k in range(size):
            places = [divmod(k * lanes + i, size) for i in range(lanes)]
            code.store(_pick(code, values, [j * lanes + i for i, j in places]), code.at(pointer, k * lanes))
        return
    part = f"<{square} x {code.scalar}>"
    for first in _starts(size, square):
        turned = _transpose(code, values[first : first + square])
        for i in range(lanes):
            row = _unpack(code, turned[i % square], i // square, square)
            code.store(row, code.at(pointer, i * distance + first), part)


def _square(code: Code, size: int) -> int:
    """The side of squares to turn: no more than there are lanes, or elements in a row."""
    return min(code.lanes, SQUARE, 1 << max(size, 1).bit_length() - 1)


def _starts(size: int, square: int) -> list[int]:
    """The first columns of squares that cover a row; the last one overlaps its neighbour, not the row's end."""
    return [min(first, size - square) for first in range(0, size, square)]


def _transpose(code: Code, rows: list[str]) -> list[str]:
    """Squares of n numbers turned, in every group of n lanes: log₂ n times, pairs of rows swap halves."""
    rows, distance = list(rows), 1
    lanes = range(code.lanes)
    while distance < len(rows):
        upper = [k + code.lanes - distance if k & distance else k for k in lanes]
        lower = [k + code.lanes if k & distance else k + distance for k in lanes]
        for r in range(len(rows)):
            if not r & distance:
                pair = rows[r], rows[r + distance]
                rows[r], rows[r + distance] = _shuffle(code, *pair, upper), _shuffle(code, *pair, lower)
        distance *= 2
    return rows


def _pack(code: Code, parts: list[str], lanes: int) -> str:
    """Parts of so many lanes side by side in one vector."""
    while len(parts) > 1:
        places = list(range(2 * lanes))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts, lanes = [_shuffle(code, *pair, places, lanes_in=lanes) for pair in pairs], 2 * lanes
    return parts[0]


def _unpack(code: Code, value: str, part: int, square: int) -> str:
    if code.lanes == square:
        return value
    return _shuffle(code, value, value, list(range(part * square, (part + 1) * square)), lanes_in=code.lanes)


def _pick(code: Code, vectors: list[str], places: list[int]) -> str:
    """The numbers at these places of the vectors laid end to end, one vector more at a time."""
    lanes = code.lanes
    value, found = vectors[0], [place if place < lanes else None for place in places]
    for k, vector in enumerate(vectors[1:], 1):
        here = [place % lanes + lanes if place // lanes == k else at for place, at in zip(places, found, strict=True)]
        if here != found:
            value, found = (
                _shuffle(code, value, vector, here),
                [i if at is not None else None for i, at in enumerate(here)],
            )
    return value if found == list(range(lanes)) else _shuffle(code, value, value, found)


def _shuffle(code: Code, a: str, b: str, mask: Sequence[int | None], lanes_in: int = 0) -> str:
    """Lanes of a and, counted on, of b; None where it does not matter."""
    kind = f"<{lanes_in or len(mask)} x {code.scalar}>"
    places = ",".join("i32 poison" if place is None else f"i32 {place}" for place in mask)
    return code.let(f"shufflevector {kind} {a},{kind} {b},<{len(mask)} x i32> <{places}>")
