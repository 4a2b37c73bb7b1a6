"""Parquet: single files, and LeRobot folders (versions 2 and 3) with one recording an episode."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffnea.recordings.recording import RecordingError
from diffnea.recordings.table import Table, optional, readable

# What LeRobot calls the signals. An action is most often a target position, which the note says.
LEROBOT = {"observation.state": "q", "observation.velocity": "qd", "action": "u"}
ACTION_NOTE = (
    "u is LeRobot's action, most often a target position: name the measured torque in a column map if there is one"
)


def tables(path: Path) -> list[Table]:
    """The one table of a Parquet file; a column of lists offers `name[0]`, `name[1]`, …"""
    parquet = optional("pyarrow.parquet", path)
    return [_table([(path, None)], parquet, {})]


def is_lerobot(folder: Path) -> bool:
    """Whether a folder is laid out as LeRobot does it."""
    return (folder / "meta" / "info.json").is_file()


def lerobot_tables(folder: Path, episode: int | None) -> list[Table]:
    """One table an episode, or only the one asked for."""
    parquet = optional("pyarrow.parquet", folder)
    names = _lerobot_names(folder)
    parts: dict[int, list[tuple[Path, np.ndarray | None]]] = {}
    for file in sorted((folder / "data").rglob("*.parquet")):
        for number, rows in _episodes(file, parquet):
            parts.setdefault(number, []).append((file, rows))
    if not parts:
        raise RecordingError("has no episode under data/; give a LeRobot folder with data/chunk-*/*.parquet")
    if episode is not None and episode not in parts:
        raise RecordingError(f"has no episode {episode}; it has {len(parts)}, from {min(parts)} to {max(parts)}")
    chosen = sorted(parts) if episode is None else [episode]
    return [_table(parts[number], parquet, names, f"episode {number}", (ACTION_NOTE,)) for number in chosen]


def _lerobot_names(folder: Path) -> dict[str, str]:
    """Columns by the names this package gives them: `q.<joint>` → `observation.state[0]`."""
    try:
        info = json.loads((folder / "meta" / "info.json").read_text("utf-8"))
        features = info.get("features") or {key: {"names": value} for key, value in info.get("names", {}).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise RecordingError(f"meta/info.json cannot be read ({' '.join(str(error).split())})") from None
    found = {"time": "timestamp"}
    for column, signal in LEROBOT.items():
        joints = _flat_names(features.get(column, {}).get("names"))
        width = int(np.prod(features.get(column, {}).get("shape", [len(joints)]) or [1]))
        if column in features and len(joints) != width:
            joints = [f"joint{k}" for k in range(width)]
        found |= {f"{signal}.{joint.removesuffix('.pos')}": f"{column}[{k}]" for k, joint in enumerate(joints)}
    return found


def _flat_names(names: Any) -> list[str]:
    """LeRobot writes names as a list, a list of lists, or a dict of lists."""
    if isinstance(names, dict):
        return [name for group in names.values() for name in _flat_names(group)]
    if isinstance(names, (list, tuple)):
        return [name for entry in names for name in ([entry] if isinstance(entry, str) else _flat_names(entry))]
    return []


def _episodes(file: Path, parquet: Any) -> list[tuple[int, np.ndarray | None]]:
    """Which episodes a file holds, and in which rows: version 2 has one a file, version 3 several."""
    with readable("Parquet", "write it again"):
        content = parquet.ParquetFile(file)
        if "episode_index" not in content.schema_arrow.names:
            return [(int("".join(filter(str.isdigit, file.stem)) or 0), None)]
        index = content.read(["episode_index"]).column(0).to_numpy()
    return [(int(number), np.flatnonzero(index == number)) for number in np.unique(index)]


def _table(parts: Sequence[tuple[Path, Any]], parquet: Any, names: dict[str, str], label=None, notes=()) -> Table:
    with readable("Parquet", "write it again"):
        schema = parquet.ParquetFile(parts[0][0])
        offered = {name: name for column in schema.schema_arrow for name in _column_names(column, schema)}
    offered |= {name: column for name, column in names.items() if column in offered}

    def read(wanted: Sequence[str]) -> dict[str, np.ndarray]:
        sources = {name: offered[name] for name in wanted}
        blocks = [_read(file, rows, sorted(set(sources.values())), parquet) for file, rows in parts]
        return {name: np.concatenate([block[source] for block in blocks]) for name, source in sources.items()}

    return Table(tuple(offered), read, label, tuple(notes))


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
        return [f"{column.name}[{k}]" for k in range(len(batch.column(0)[0].as_py() or ()))]
    return []


def _read(path: Path, rows: Any, sources: Sequence[str], parquet: Any) -> dict[str, np.ndarray]:
    """The columns asked for, batch by batch."""
    plain = {source: source.partition("[")[0] if source.endswith("]") else source for source in sources}
    found: dict[str, list[np.ndarray]] = {source: [] for source in sources}
    with readable("Parquet", "write it again"):
        for batch in parquet.ParquetFile(path).iter_batches(columns=sorted(set(plain.values()))):
            for source, column in plain.items():
                values = batch.column(batch.schema.get_field_index(column))
                found[source].append(_numbers(values, source))
    columns = {source: np.concatenate(blocks) if blocks else np.empty(0) for source, blocks in found.items()}
    return columns if rows is None else {source: values[rows] for source, values in columns.items()}


def _numbers(values: Any, source: str) -> np.ndarray:
    if not source.endswith("]") or not hasattr(values, "flatten"):
        return values.to_numpy(zero_copy_only=False).astype(float)
    flat = values.flatten().to_numpy(zero_copy_only=False).astype(float)
    if len(values) == 0:
        return flat
    if values.null_count or len(flat) % len(values):
        raise RecordingError(f"{source.partition('[')[0]} has lists of different lengths; give one entry a joint")
    return flat.reshape(len(values), -1)[:, int(source[source.rindex("[") + 1 : -1])]
