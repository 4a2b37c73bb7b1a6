"""CSV logs, plain or gzipped, read in blocks: by pyarrow where it is installed, by numpy elsewhere."""

import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings.columns.table import Table
from diffnea.recordings.recording import RecordingError

SEPARATORS = (",", ";", "\t")
BLOCK_ROWS, BLOCK_BYTES = 100_000, 1 << 24
MOST_HEADER, MOST_COMMENTS = 1 << 24, 10_000  # bytes of a line, and lines, before the numbers
MISSING = ("", "nan", "NaN", "NAN", "NA", "N/A", "null", "None", "-nan", "#N/A")


def tables(path: Path) -> list[Table]:
    """The one table of a CSV file; its header names the columns."""
    header, separator, skipped = _header(path)
    names = tuple(name.strip().strip('"').strip() for name in header.lstrip("# ").split(separator))
    doubled = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    offered = tuple(name for name in names if name and name not in doubled)
    notes = (f"columns that occur twice are not used: {', '.join(sorted(doubled))}",) if doubled - {""} else ()

    def read(wanted: Sequence[str]) -> dict[str, np.ndarray]:
        where = [names.index(name) for name in wanted]
        try:
            return _by_pyarrow(path, names, separator, skipped, wanted)
        except ImportError:
            return _by_numpy(path, separator, skipped, wanted, where)

    return [Table(offered, read, notes=notes)]


class _Unpacked(io.RawIOBase):
    """A gzipped file as it is unpacked, as long as it does not grow beyond all measure."""

    def __init__(self, path: Path):
        packed = files.opened(path)
        self._size = os.fstat(packed.fileno()).st_size
        self._packed, self._stream, self._read = packed, gzip.GzipFile(fileobj=packed), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._stream.readinto(buffer)
            self._read += count
            files.check_expansion(self._read, self._size)
        except (zlib.error, gzip.BadGzipFile, ValueError) as error:
            raise RecordingError(f"cannot be unpacked ({error}); pack it again") from None
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()


def _open(path: Path) -> Any:
    return io.BufferedReader(_Unpacked(path)) if path.suffix.lower() == ".gz" else files.opened(path)


def _header(path: Path) -> tuple[str, str, int]:
    """The header line, its separator, and how many lines to skip to get past it.

    It is the first line that is no comment; or, where only numbers follow, the last comment (as numpy writes it).
    """
    header, after = "", 0
    with _open(path) as stream:
        for skipped, line in _lines(stream):
            if line and not (header and _is_numbers(line)):
                header, after = line, skipped
            if line and not line.startswith("#"):
                break
    if not header:
        raise RecordingError("is empty; give a header and rows of numbers")
    if _is_numbers(header):
        raise RecordingError("starts with numbers; give a header line such as time,q.<joint>,u.<joint>")
    return header, _separator(header), after


def _lines(stream: Any) -> Iterator[tuple[int, str]]:
    """Lines as text, each with how many there were so far."""
    for count in itertools.count(1):
        raw = stream.readline(MOST_HEADER + 1)
        if not raw:
            return
        if count > MOST_COMMENTS:
            raise RecordingError(f"has more than {MOST_COMMENTS} lines before its numbers; give a header and rows")
        if len(raw) > MOST_HEADER:
            raise RecordingError(f"has a line of more than {MOST_HEADER >> 20} MiB; give a header and rows of numbers")
        try:
            line = raw.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise RecordingError("is not UTF-8 text; save it as a CSV in UTF-8") from None
        if "\0" in line:
            raise RecordingError("holds binary data or UTF-16 text; save it as a CSV in UTF-8")
        yield count, line


def _separator(line: str) -> str:
    return max(SEPARATORS, key=line.count)


def _is_numbers(line: str) -> bool:
    return all(re.fullmatch(r"\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*", word) for word in line.split(_separator(line)))


def _by_pyarrow(path: Path, names: Sequence[str], separator: str, skipped: int, wanted: Sequence[str]):
    """Blocks of parsed columns, joined at the end: the text is never in memory as a whole."""
    import pyarrow as pa
    from pyarrow import csv

    # Names are given by place, since a header may hold one twice.
    places = [f"{k}" for k in range(len(names))]
    chosen = [places[names.index(name)] for name in wanted]
    with _open(path) as stream:
        try:
            reader = csv.open_csv(
                stream,
                csv.ReadOptions(column_names=places, skip_rows=skipped, block_size=BLOCK_BYTES),
                csv.ParseOptions(delimiter=separator, ignore_empty_lines=True),
                csv.ConvertOptions(
                    include_columns=chosen,
                    column_types=dict.fromkeys(chosen, pa.float64()),
                    null_values=list(MISSING),
                ),
            )
            blocks = [
                [column.to_numpy(zero_copy_only=False).astype(float) for column in batch.columns] for batch in reader
            ]
        except pa.ArrowInvalid as error:
            raise RecordingError(_explain(str(error), names)) from None
    if not sum(len(block[0]) for block in blocks if block):
        raise RecordingError("has a header and no rows; give rows of numbers")
    return {name: np.concatenate([block[k] for block in blocks]) for k, name in enumerate(wanted)}


def _explain(error: str, names: Sequence[str]) -> str:
    """pyarrow's message as one line in our words."""
    value = re.search(r"invalid value '(.*?)'", error, re.DOTALL)
    column = re.search(r"[Cc]olumn #(\d+)", error)
    if value:
        name = f' in column "{names[int(column[1])]}"' if column and int(column[1]) < len(names) else ""
        return f'"{value[1]}"{name} is not a number; give numbers with a decimal point'
    if "Expected" in error and "columns" in error:
        counts = re.search(r"Expected (\d+) columns, got (\d+)", error)
        found = f"has a row of {counts[2]} values under a header of {counts[1]}" if counts else "has uneven rows"
        return f"{found}; give each row one value a column"
    if "Empty CSV" in error:
        return "has a header and no rows; give rows of numbers"
    return f"cannot be read as CSV ({' '.join(error.split())[:160]}); give a header and rows of numbers"


def _by_numpy(path: Path, separator: str, skipped: int, wanted: Sequence[str], where: list[int]):
    """The same without pyarrow; gaps become NaN so that their row can be named."""
    blocks = []
    with _open(path) as stream:
        for _ in range(skipped):
            next(stream)
        text = (_filled(line.decode("utf-8", "replace"), separator) for line in stream if line.strip())
        while lines := list(islice(text, BLOCK_ROWS)):
            try:
                blocks.append(np.loadtxt(lines, delimiter=separator, usecols=where, ndmin=2, comments=None))
            except ValueError as error:
                raise RecordingError(f"{' '.join(str(error).split())}; give rows of numbers") from None
    if not blocks:
        raise RecordingError("has a header and no rows; give rows of numbers")
    return dict(zip(wanted, np.concatenate(blocks).T, strict=True))


def _filled(line: str, separator: str) -> str:
    if separator * 2 not in line and not line.startswith(separator) and not line.rstrip("\r\n").endswith(separator):
        return line
    return separator.join(value.strip() or "nan" for value in line.split(separator))
