"""A log as named columns: what every reader offers, whatever the file."""

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings.recording import SIGNALS, RecordingError
from diffnea.text import one_line

# Signals of a joint by the names that columns have: goals are inputs of another kind, gains those of their servos.
NAMED = (*SIGNALS, "goal", "gain")


@dataclass(frozen=True)
class Table:
    """Columns by name, read when asked for: a log with ten thousand columns costs only those that are used.

    An array of several columns offers `name[0]`, `name[1]`, …; where its joints are known, `q.<joint>` and so on.
    """

    names: tuple[str, ...]
    read: Callable[[Sequence[str]], dict[str, np.ndarray]]
    label: str | None = None  # which part of the file it is, where there are several
    notes: tuple[str, ...] = field(default=())


def regular(path: Path) -> Path:
    """The same where it is a regular file, for libraries that open it themselves; OSError otherwise."""
    files.opened(path).close()
    return path


def optional(module: str, path: Path) -> Any:
    """A reader that comes with the `formats` extra, or one line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise RecordingError(
            f"{path}: reading {path.suffix or 'this folder'} needs {package}; pip install 'diffnea[formats]'"
        ) from None


@contextmanager
def readable(kind: str, advice: str) -> Iterator[None]:
    """Whatever a damaged file makes its library raise, as one line: no two of them agree on what that is."""
    try:
        yield
    except (RecordingError, GeneratorExit):
        raise
    except Exception as error:
        cause = one_line(str(error), 120) or type(error).__name__
        raise RecordingError(f"cannot be read as {kind} ({cause}); {advice}") from None


def from_arrays(arrays: dict[str, np.ndarray], joint_names: Sequence[str] | None = None, **more: Any) -> Table:
    """A table of arrays in memory: one-dimensional ones are columns, those of two dimensions have several."""
    columns: dict[str, Callable[[], np.ndarray]] = {}
    twice = [name for name, times in Counter(joint_names or ()).items() if times > 1]
    if twice:
        raise RecordingError(f'two joints are named "{twice[0]}"; give each joint its own name')
    rows, goals = _row_count(arrays), arrays["goal_time"].size if "goal_time" in arrays else None
    for name, given in arrays.items():
        array: Any = given
        count = goals if goals is not None and name.startswith("goal") else rows
        if array.ndim == 2 and array.shape[0] != count and array.shape[1] == count:
            array = array.T
        if array.ndim == 2 and 1 in array.shape:
            array = array.reshape(-1)
        if array.ndim == 1:
            columns[name] = columns[f"{name}[0]"] = lambda array=array: array
        elif array.ndim == 2:
            columns |= {f"{name}[{k}]": lambda array=array, k=k: array[:, k] for k in range(array.shape[1])}
        if joint_names is not None and name in NAMED:
            _check_width(name, array, len(joint_names))
            for k, joint in enumerate(joint_names):
                columns[f"{name}.{joint}"] = columns.pop(f"{name}[{k}]")
    return Table(tuple(columns), lambda wanted: {key: columns[key]() for key in wanted}, **more)


def _check_width(name: str, array: np.ndarray, joints: int) -> None:
    if array.ndim not in (1, 2):
        raise RecordingError(f"{name} has shape {array.shape}; give (samples, joints)")
    width = 1 if array.ndim == 1 else array.shape[1]
    if width != joints:
        raise RecordingError(f"{name} has {width} columns for {joints} joint_names; give one a joint")


def renamed(table: Table, names: Sequence[str]) -> Table:
    """The table with its joints, in the order of their positions, under other names."""
    logged = [name[2:] for name in table.names if name.startswith("q.")]
    numbered = sum(name.startswith("q[") for name in table.names)
    count = len(logged) or numbered
    if len(names) != count or len(set(names)) != count:
        raise RecordingError(f"names are {', '.join(names)}; give {count} different ones, one a joint of the log")
    old = {f"{key}.{was}": f"{key}.{now}" for key in NAMED for was, now in zip(logged, names, strict=False)}
    old |= {f"{key}[{k}]": f"{key}.{now}" for key in NAMED for k, now in enumerate(names)} if not logged else {}
    source = {old.get(name, name): name for name in table.names}

    def read(wanted: Sequence[str]) -> dict[str, np.ndarray]:
        found = table.read([source[name] for name in wanted])
        return {name: found[source[name]] for name in wanted}

    return replace(table, names=tuple(source), read=read)


def _row_count(arrays: dict[str, np.ndarray]) -> int:
    """How many samples: as many as there are times, else as the longest array has."""
    if "time" in arrays:
        return arrays["time"].size
    return max((max(array.shape) for array in arrays.values() if array.ndim in (1, 2)), default=0)
