"""MATLAB's MAT files of version 5 to 7, read within their bounds: what a file claims is checked before it is used.

Arrays of numbers come as such, text as text, structs as dictionaries, cells and arrays of structs as lists; what else
MATLAB can store (sparse and complex matrices, functions, objects of classes) comes as None.
"""

import math
import struct
import zlib
from typing import Any

import numpy as np

from diffnea.files import ALWAYS_EXPANDED, EXPANSION, check_expansion

_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR = 1, 2, 4
_NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_IS_COMPLEX, _IS_LOGICAL = 0x08, 0x02
MOST_DEPTH, MOST_PARTS = 16, 1_000_000


def is_mat5(head: bytes) -> bool:
    """By the 128 bytes that such a file begins with."""
    return len(head) == 128 and head[126:128] in (b"IM", b"MI") and b"\x01" in head[124:126]


def read(data: bytes) -> dict[str, Any]:
    """Variables by name; ValueError where the file is damaged."""
    order = "<" if data[126:128] == b"IM" else ">"
    found, parts = {}, _Elements(data, 128, order)
    while parts.left() >= 8:
        kind, content = parts.take()
        if kind == _COMPRESSED:
            kind, content = _Elements(_unpacked(content), 0, order).take()
        if kind == _MATRIX:
            name, value = _matrix(_Elements(content, 0, order), 0)
            found[name] = value
    return found


def _unpacked(packed: bytes) -> bytes:
    most = max(ALWAYS_EXPANDED, EXPANSION * len(packed))
    data = zlib.decompressobj().decompress(packed, most + 1)
    check_expansion(len(data), len(packed))
    return data


class _Elements:
    """The elements of a stretch of bytes, one after the other; each has a kind, a length and contents."""

    def __init__(self, data: bytes, place: int, order: str):
        self.data, self.place, self.order = memoryview(data), place, order

    def left(self) -> int:
        return len(self.data) - self.place

    def take(self) -> tuple[int, bytes]:
        if self.left() < 8:
            raise ValueError("ends too early")
        kind, size = struct.unpack_from(f"{self.order}II", self.data, self.place)
        if kind >> 16:  # a small one: length, kind and up to four bytes in eight
            size, kind, start = kind >> 16, kind & 0xFFFF, self.place + 4
            self.place += 8
        else:
            start = self.place + 8
            self.place = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(self.data):
            raise ValueError("ends too early")
        return kind, bytes(self.data[start : start + size])

    def numbers(self) -> np.ndarray:
        kind, content = self.take()
        if kind not in _STORED:
            raise ValueError(f"has numbers of an unknown kind ({kind})")
        kind = np.dtype(self.order + _STORED[kind])
        return np.frombuffer(content[: len(content) // kind.itemsize * kind.itemsize], kind)

    def text(self) -> str:
        kind, content = self.take()
        encoding = _TEXT.get(kind, "latin-1")
        wide = encoding in ("utf-16", "utf-32")
        return content.decode(encoding + {"<": "-le", ">": "-be"}[self.order] if wide else encoding, "replace")


def _matrix(parts: _Elements, depth: int) -> tuple[str, Any]:
    """Name and value of an array, of whatever class."""
    if depth > MOST_DEPTH:
        raise ValueError(f"has more than {MOST_DEPTH} structs within each other")
    if not parts.left():
        return "", None
    flags = parts.numbers()
    kind, how = int(flags[0]) & 0xFF, int(flags[0]) >> 8 & 0xFF
    shape = tuple(int(size) for size in parts.numbers())
    name = parts.text()
    count = math.prod(shape)
    if any(size < 0 for size in shape) or count > max(MOST_PARTS, len(parts.data)):
        raise ValueError(f'"{name}" claims the size {shape}, more than the file holds')
    return name, _value(parts, kind, how, shape, count, depth)


def _value(parts: _Elements, kind: int, how: int, shape: tuple[int, ...], count: int, depth: int) -> Any:
    if kind == _CELL:
        return [_inner(parts, depth) for _ in range(count)]
    if kind == _STRUCT:
        width = max(int(parts.numbers()[0]), 1)
        names = parts.text()
        fields = [names[k : k + width].split("\0")[0] for k in range(0, len(names), width)]
        items = [{field: _inner(parts, depth) for field in fields} for _ in range(count)]
        return items[0] if count == 1 else items
    if kind == _CHAR:
        return _text(parts.text(), shape)
    if kind not in _NUMBERS or how & _IS_COMPLEX:
        return None
    values = parts.numbers()
    if len(values) != count:
        raise ValueError(f"has {len(values)} numbers for {count}")
    numbers = values.astype(bool if how & _IS_LOGICAL else _NUMBERS[kind])
    return numbers.reshape(shape, order="F").squeeze()


def _inner(parts: _Elements, depth: int) -> Any:
    kind, content = parts.take()
    if kind != _MATRIX:
        raise ValueError("has a cell or field that is no array")
    return _matrix(_Elements(content, 0, parts.order), depth + 1)[1]


def _text(letters: str, shape: tuple[int, ...]) -> Any:
    """A row of letters is a word, several rows are a list of them."""
    rows = shape[0] if shape else 1
    if rows <= 1:
        return letters
    return ["".join(letters[row::rows]).rstrip() for row in range(rows)]
