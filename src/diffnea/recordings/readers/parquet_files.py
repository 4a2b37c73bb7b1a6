"""Parquet files as tables: the columns that are asked for, batch by batch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings.columns.table import Table, optional, readable, regular
from diffnea.recordings.recording import RecordingError

# Rows of a file: compressed columns may claim more than any memory holds.
MOST_ROWS = 100_000_000


def tables(path: Path) -> list[Table]:
    """The one table of a Parquet file; a column of lists offers `name[0]`, `name[1]`, …"""
    parquet = optional("pyarrow.parquet", path)
    columns = open_columns(path, parquet)
    return [Table(columns, lambda wanted: read_columns(path, wanted, parquet))]


def open_columns(path: Path, parquet: Any) -> tuple[str, ...]:
    """The columns that a file offers; one that claims absurdly many rows is refused."""
    with readable("Parquet", "write it again"):
        file = parquet.ParquetFile(regular(path))
        if file.metadata.num_rows > MOST_ROWS:
            raise RecordingError(f"{path.name} has {file.metadata.num_rows} rows; split it, {MOST_ROWS} are read")
        return tuple(name for column in file.schema_arrow for name in _column_names(column, file))


def _column_names(column: Any, file: Any) -> list[str]:
    """A column of numbers offers its name, a column of lists one for each entry of its first row."""
    import pyarrow as pa

    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return [column.name]
    if not any(check(column.type) for check in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)):
        return []
    kind = column.type.value_type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return []
    for batch in file.iter_batches(1, columns=[column.name]):
        return [f"{column.name}[{k}]" for k in range(len(batch.column(0)[0]) if batch.column(0)[0].is_valid else 0)]
    return []


def read_columns(path: Path, sources: Sequence[str], parquet: Any) -> dict[str, np.ndarray]:
    """The columns asked for, batch by batch."""
    plain = {source: source.partition("[")[0] if source.endswith("]") else source for source in sources}
    found: dict[str, list[np.ndarray]] = {source: [] for source in sources}
    with readable("Parquet", "write it again"):
        file = parquet.ParquetFile(regular(path))
        files.check_expansion(8 * file.metadata.num_rows * len(sources), path.stat().st_size)
        for batch in file.iter_batches(columns=sorted(set(plain.values()))):
            for source, column in plain.items():
                values = batch.column(batch.schema.get_field_index(column))
                found[source].append(_numbers(values, source))
    return {source: np.concatenate(blocks) if blocks else np.empty(0) for source, blocks in found.items()}


def _numbers(values: Any, source: str) -> np.ndarray:
    if not source.endswith("]") or not hasattr(values, "flatten"):
        return values.to_numpy(zero_copy_only=False).astype(float)
    flat = values.flatten().to_numpy(zero_copy_only=False).astype(float)
    if len(values) == 0:
        return flat
    if values.null_count or len(flat) % len(values):
        raise RecordingError(f"{source.partition('[')[0]} has lists of different lengths; give one entry a joint")
    return flat.reshape(len(values), -1)[:, int(source[source.rindex("[") + 1 : -1])]
