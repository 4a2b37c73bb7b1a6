"""SAGE's motions: a folder with control.csv (goals), state_motor.csv (positions) and joint_list.txt.

Rows are `type,timestamp,positions[,velocities,torques]`, times in microseconds, values as lists in quotes.
"""

import csv
from pathlib import Path

import numpy as np

from diffnea.recordings.columns.table import Table, from_arrays
from diffnea.recordings.recording import RecordingError

CONTROL, STATE, JOINTS = "control.csv", "state_motor.csv", "joint_list.txt"
MICROSECOND = 1e-6
MOST_ROWS, MOST_JOINTS = 10_000_000, 1000
LONGEST_CELL = 40 * MOST_JOINTS


def is_sage(folder: Path) -> bool:
    """Whether a folder holds a motion as SAGE logs it."""
    return (folder / CONTROL).is_file() and (folder / STATE).is_file()


def tables(folder: Path) -> list[Table]:
    """The one table of a motion: goals keep times of their own; the reported velocities are `qd`."""
    states, goals = _rows(folder / STATE, ("positions", "velocities")), _rows(folder / CONTROL, ("positions",))
    names = _joints(folder / JOINTS, states["positions"].shape[1])
    if goals["positions"].shape[1] != len(names):
        raise RecordingError(f"{CONTROL} has {goals['positions'].shape[1]} goals a row for {len(names)} joints")
    first = min(states["timestamp"][0], goals["timestamp"][0])
    arrays = {
        "time": MICROSECOND * (states["timestamp"] - first),
        "q": states["positions"],
        "qd": states["velocities"],
        "goal_time": MICROSECOND * (goals["timestamp"] - first),
        "goal": goals["positions"],
    }
    return [from_arrays(arrays, names)]


def _joints(path: Path, count: int) -> list[str]:
    """Names by joint_list.txt, or numbers where there is none."""
    if not path.is_file():
        return [f"joint{k}" for k in range(count)]
    names = [line.strip() for line in path.read_text("utf-8", "replace")[: 100 * MOST_JOINTS].splitlines()]
    names = [name for name in names if name]
    if len(names) != count or len(set(names)) != count:
        raise RecordingError(f"{path.name} names {len(names)} joints, {STATE} has {count}; give a line a joint")
    return names


def _rows(path: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    found: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    times: list[float] = []
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        lines = csv.DictReader(stream)
        lacking = [name for name in ("timestamp", *wanted) if name not in (lines.fieldnames or ())]
        if lacking:
            raise RecordingError(f'{path.name} has no column "{lacking[0]}"; SAGE writes type,timestamp,positions,…')
        try:
            for row in lines:
                times.append(float(row["timestamp"]))
                for name in wanted:
                    found[name].append(_list(row[name]))
                if len(times) > MOST_ROWS:
                    raise RecordingError(f"{path.name} has more than {MOST_ROWS} rows; split it")
        except (TypeError, ValueError, csv.Error) as error:
            if isinstance(error, RecordingError):
                raise
            raise RecordingError(f"{path.name}, row {len(times)}: no numbers are there; SAGE writes lists") from None
    if not times:
        raise RecordingError(f"{path.name} has no rows; record the motion again")
    widths = {len(values) for name in wanted for values in found[name]}
    if len(widths) != 1 or widths == {0}:
        raise RecordingError(f"{path.name} has rows of {sorted(widths)[:4]} joints; give one number a joint")
    return {"timestamp": np.array(times), **{name: np.array(values) for name, values in found.items()}}


def _list(cell: str | None) -> np.ndarray:
    """Numbers of a cell such as "[0.1, -0.2]"; nothing else is taken for one."""
    text = (cell or "").strip()
    if len(text) > LONGEST_CELL or not (text.startswith("[") and text.endswith("]")):
        raise ValueError("no list")
    inner = text[1:-1].strip()
    return np.array([float(number) for number in inner.split(",")] if inner else [])
