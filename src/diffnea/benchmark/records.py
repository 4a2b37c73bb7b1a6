"""Records on disk: one folder a cell, written then renamed, checked when read. A cell's files are its checkpoint."""

import hashlib
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.benchmark.grid import MODELS, Cell
from diffnea.errors import DiffneaError

FORMAT = 1
DESCRIPTION = "benchmark.json"
PACKAGES = ("diffnea", "jax", "jaxlib", "equinox", "numpy", "scipy", "llvmlite")


class RecordError(DiffneaError):
    """A record that cannot be used: damaged, edited, or of another configuration."""


@dataclass(frozen=True)
class Record:
    """What a cell gave: its numbers and arrays (see `numbers`), or the error that stopped it."""

    cell: Cell
    numbers: dict[str, Any] = field(default_factory=dict)
    arrays: Mapping[Any, Any] = field(default_factory=dict)  # by name; not looked into before they are asked for
    error: str | None = None
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))


@cache
def versions() -> dict[str, str]:
    """The packages a result depends on."""
    return {name: metadata.version(name) for name in PACKAGES}


def folder(runs: Path, cell: Cell) -> Path:
    """Where a cell's record lies: `cells/<system>/<dataset>/<model>/<seed>`."""
    return runs / "cells" / cell.system / cell.dataset / cell.variant / str(cell.seed)


def write(runs: Path, record: Record) -> None:
    """Write a record beside its place, then move it there in one step; a kill leaves a whole record or none."""
    place = folder(runs, record.cell)
    draft = files.draft_of(place)
    draft.mkdir(parents=True)
    arrays = _pack(record.arrays)
    content = {
        "format": FORMAT,
        "cell": record.cell.as_dict(),
        "error": record.error,
        "numbers": files.finite(record.numbers),
        "versions": record.versions,
        "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
    }
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1, allow_nan=False)
    for name, data in (("arrays.npz", arrays), ("record.json", text.encode())):
        files.write(draft / name, data)
    if place.exists():
        shutil.rmtree(place)
    draft.rename(place)


def read(runs: Path, cell: Cell) -> Record | None:
    """A cell's record, None where there is none; one that cannot be trusted raises and is named."""
    place = folder(runs, cell)
    if not place.exists():
        return None
    record = read_folder(place)
    if record.cell != cell:
        raise RecordError(f"{place}: made with {_difference(record.cell, cell)}; use another --out, or delete it")
    return record


def read_folder(place: Path) -> Record:
    """The record in a folder, whichever cell it is of."""
    try:
        content = json.loads((place / "record.json").read_bytes())
        arrays = (place / "arrays.npz").read_bytes()
        digest, form = content.pop("sha256"), content["format"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else reason
        raise RecordError(f"{place}: the record is damaged ({why}); delete the folder to run the cell anew") from None
    if form != FORMAT:
        raise RecordError(f"{place}: format {form}; this version reads {FORMAT}")
    if digest != _digest(content) or content["arrays_sha256"] != hashlib.sha256(arrays).hexdigest():
        raise RecordError(f"{place}: the record was changed after it was written; delete the folder to run it anew")
    cell = _cell(content["cell"], place)
    return Record(cell, content["numbers"], _Packed(arrays), content["error"], content["versions"])


def read_all(runs: Path) -> list[Record]:
    """Every record of a benchmark, ordered by its folder; one in the place of another cell is refused."""
    found = []
    for path in sorted((runs / "cells").glob("*/*/*/[!.]*")):
        record = read_folder(path)
        if folder(runs, record.cell) != path:
            raise RecordError(f"{path}: holds the record of another cell, {record.cell}; delete the folder")
        found.append(record)
    return found


def missing(runs: Path, cells: Iterable[Cell], retry: bool = False) -> list[Cell]:
    """The cells without a record, with `retry` also the failed ones; records that cannot be used are named."""
    wrong, left = [], []
    for cell in cells:
        try:
            record = read(runs, cell)
        except RecordError as error:
            wrong.append(str(error))
            continue
        if record is None or (retry and record.error is not None):
            left.append(cell)
    if wrong:
        more = f" (and {len(wrong) - 3} more records)" if len(wrong) > 3 else ""
        raise RecordError("; ".join(wrong[:3]) + more)
    return left


def sweep(runs: Path) -> None:
    """Remove drafts that a killed run left behind, and nothing else; only for who holds the folder's lock.

    The report may be drafted at any time, by anyone, and is left alone.
    """
    for draft in runs.glob(".*.draft"):
        if files.drafted(draft) == DESCRIPTION:
            draft.unlink(missing_ok=True)
    for draft in (runs / "cells").glob("*/*/*/.*.draft"):
        if (files.drafted(draft) or "").isdecimal():  # the folder of a cell is called as its seed
            shutil.rmtree(draft, ignore_errors=True)


def _cell(found: Any, place: Path) -> Cell:
    names = {part.name for part in fields(Cell)}
    if not isinstance(found, dict) or set(found) != names or found["model"] not in MODELS:
        raise RecordError(f"{place}: of a configuration that this version does not know; use another --out")
    return Cell(**found)


def _difference(found: Cell, wanted: Cell) -> str:
    pairs = zip(found.as_dict().items(), wanted.as_dict().values(), strict=True)
    return "; ".join(f"{name} {value!r}, not {asked!r}" for (name, value), asked in pairs if value != asked)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


class _Packed(Mapping[str, np.ndarray]):
    """Arrays as they lie on the disk, unpacked when the first is asked for: of many records few are drawn."""

    def __init__(self, data: bytes):
        self._data = data
        self._unpacked: dict[str, np.ndarray] | None = None

    def _arrays(self) -> dict[str, np.ndarray]:
        found = self._unpacked
        if found is None:
            with np.load(io.BytesIO(self._data), allow_pickle=False) as stored:
                found = self._unpacked = {name: stored[name] for name in stored.files}
        return found

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays())

    def __len__(self) -> int:
        return len(self._arrays())
