"""LeRobot data sets, versions 2 and 3: Parquet files under data/, described by meta/info.json; one table an episode.

`observation.state` are positions and `action` the goals that were sent to the servos. Neither file says in which unit:
degrees or, by LeRobot's default, −100 … 100 of the calibrated range; a column map says which.
"""

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings.columns.table import Table, optional, readable
from diffnea.recordings.columns.units import plain_name
from diffnea.recordings.readers.parquet_files import open_columns, read_columns
from diffnea.recordings.recording import InputKind, RecordingError

STATE, VELOCITY, ACTION = "observation.state", "observation.velocity", "action"
ACTION_NOTE = "u is LeRobot's action: the position goals that were sent to the servos"
LARGEST_INFO = 1 << 24  # bytes of info.json
MOST_NUMBERS = 1000  # entries of a state or an action
MOST_FILES, MOST_EPISODES = 100_000, 100_000


def is_lerobot(folder: Path) -> bool:
    """Whether a folder is laid out as LeRobot does it."""
    return (folder / "meta" / "info.json").is_file()


def tables(folder: Path, episode: int | None, input_kind: InputKind) -> list[Table]:
    """One table an episode, or only the one asked for; actions are goals unless they are said to be commands."""
    parquet = optional("pyarrow.parquet", folder)
    names = _names(_features(folder), "goal" if input_kind == "goal" else "u")
    parts: dict[int, list[tuple[Path, np.ndarray | None]]] = {}
    for file in _files(folder):
        for number, rows in _episodes(file, parquet):
            parts.setdefault(number, []).append((file, rows))
        if len(parts) > MOST_EPISODES:
            raise RecordingError(f"has more than {MOST_EPISODES} episodes; give a part of the data set")
    if not parts:
        raise RecordingError("has no episode under data/; give a LeRobot folder with data/chunk-*/*.parquet")
    if episode is not None and episode not in parts:
        raise RecordingError(f"has no episode {episode}; it has {len(parts)}, from {min(parts)} to {max(parts)}")
    chosen = sorted(parts) if episode is None else [episode]

    @lru_cache(maxsize=2)  # episodes of one file follow one another
    def read_file(file: Path, columns: tuple[str, ...]) -> dict[str, np.ndarray]:
        return read_columns(file, columns, parquet)

    offered = open_columns(parts[chosen[0]][0][0], parquet)
    return [_table(parts[number], names, offered, read_file, f"episode {number}") for number in chosen]


def _files(folder: Path) -> list[Path]:
    found = []
    for file in (folder / "data").rglob("*.parquet"):
        found.append(file)
        if len(found) > MOST_FILES:
            raise RecordingError(f"has more than {MOST_FILES} files under data/; give a part of the data set")
    return sorted(found)


def _features(folder: Path) -> dict[str, Any]:
    """What info.json says of the columns, by their names."""
    path = folder / "meta" / "info.json"
    if path.stat().st_size > LARGEST_INFO:
        raise RecordingError(f"meta/info.json has {path.stat().st_size} bytes; LeRobot writes a few thousand")
    try:
        info = json.loads(files.read(path, LARGEST_INFO))
    except (OSError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:120]
        raise RecordingError(f"meta/info.json cannot be read ({said}); give LeRobot's") from None
    if not isinstance(info, dict):
        raise RecordingError(f"meta/info.json holds a {type(info).__name__}; LeRobot writes an object with features")
    features = info.get("features")
    if features is None and isinstance(info.get("names"), dict):  # before version 2
        features = {key: {"names": value} for key, value in info["names"].items()}
    features = {} if features is None else features
    if not isinstance(features, dict) or not all(isinstance(each, dict) for each in features.values()):
        raise RecordingError("meta/info.json: features is no table of columns; LeRobot writes one object a column")
    return features


def _names(features: dict[str, Any], action: str) -> dict[str, str]:
    """Columns by the names this package gives them: `q.<joint>` → `observation.state[0]`."""
    found, joints = {"time": "timestamp"}, _joints(features, STATE)
    for column, signal in ((STATE, "q"), (VELOCITY, "qd"), (ACTION, action)):
        own = _joints(features, column)
        if len(own) == len(joints) and not set(own) & set(joints):  # the same joints under other names
            own = joints
        found |= {f"{signal}.{joint}": f"{column}[{k}]" for k, joint in enumerate(own)}
    return found


def _joints(features: dict[str, Any], column: str) -> list[str]:
    """The joints of a state or an action, by number where they have no names."""
    if column not in features:
        return []
    joints = [plain_name(name) for name in _flat_names(features[column].get("names"))]
    width = _width(features[column].get("shape", [len(joints)]), column)
    return joints if len(joints) == width and len(set(joints)) == width else [f"joint{k}" for k in range(width)]


def _width(shape: Any, column: str) -> int:
    numbers = shape if isinstance(shape, list) else [shape]
    whole = all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MOST_NUMBERS for size in numbers)
    if not whole or len(numbers) > 8 or math.prod(numbers) > MOST_NUMBERS:
        shown = str(shape)[:60]
        raise RecordingError(f"meta/info.json: {column} has shape {shown}; give [joints], at most [{MOST_NUMBERS}]")
    return math.prod(numbers)


def _flat_names(names: Any, depth: int = 0) -> list[str]:
    """LeRobot writes names as a list, a list of lists, or a dict of lists."""
    if isinstance(names, str):
        return [names]
    if depth > 4 or not isinstance(names, (dict, list)):
        return []
    inside = names.values() if isinstance(names, dict) else names
    return [name for entry in inside for name in _flat_names(entry, depth + 1)]


def _episodes(file: Path, parquet: Any) -> list[tuple[int, np.ndarray | None]]:
    """Which episodes a file holds, and in which rows: version 2 has one a file, version 3 several."""
    offered = open_columns(file, parquet)
    if "episode_index" not in offered:
        return [(int("".join(filter(str.isdigit, file.stem))[-18:] or 0), None)]
    with readable("Parquet", "write it again"):
        index = read_columns(file, ["episode_index"], parquet)["episode_index"]
    if not np.isfinite(index).all():
        raise RecordingError(f"{file.name}: episode_index is not finite; give whole numbers")
    numbers, counts = np.unique(index, return_counts=True)
    if len(numbers) > MOST_EPISODES:
        raise RecordingError(f"{file.name}: has {len(numbers)} episodes; give at most {MOST_EPISODES}")
    rows = np.split(np.argsort(index, kind="stable"), np.cumsum(counts)[:-1])
    return list(zip(map(int, numbers), rows, strict=True))


def _table(
    parts: Sequence[tuple[Path, np.ndarray | None]],
    names: dict[str, str],
    offered: Sequence[str],
    read_file,
    label: str,
) -> Table:
    sources = {name: name for name in offered} | {name: column for name, column in names.items() if column in offered}

    def read(wanted: Sequence[str]) -> dict[str, np.ndarray]:
        columns = tuple(sorted({sources[name] for name in wanted}))
        blocks = [(read_file(file, columns), rows) for file, rows in parts]
        return {
            name: np.concatenate(
                [block[sources[name]] if rows is None else block[sources[name]][rows] for block, rows in blocks]
            )
            for name in wanted
        }

    return Table(tuple(sources), read, label, (ACTION_NOTE,) if f"goal.{_first(names)}" in sources else ())


def _first(names: dict[str, str]) -> str:
    return next((name.removeprefix("goal.") for name in names if name.startswith("goal.")), "")
