"""Log files → recordings, and recordings → files; the format is told by the file's ending."""

import io
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings.columns.base_columns import base_columns, base_motion
from diffnea.recordings.columns.column_map import read_map
from diffnea.recordings.columns.signals import Layout, by_names, lay_out
from diffnea.recordings.columns.table import Table, regular
from diffnea.recordings.measured_input import as_held
from diffnea.recordings.readers import array_files, bam_logs, csv_file, lerobot, parquet_files, sage_logs, torch_files
from diffnea.recordings.recording import SIGNALS, Recording, RecordingError
from diffnea.recordings.ros import ros_bags
from diffnea.recordings.signal.goal_times import held_at
from diffnea.robot import Robot
from diffnea.text import one_line

ENDINGS = (
    ".csv, .csv.gz, .npz, .parquet, .mat, .pt, .json, .mcap, .db3, "
    "or the folder of a ROS 2 bag, a LeRobot data set or a SAGE motion"
)
ColumnMap = Mapping[str, Any] | str | os.PathLike[str]


def load_recording(
    path: str | os.PathLike[str], robot: Robot | None = None, columns: ColumnMap | None = None
) -> Recording:
    """Read one recording; with a robot, its joints in its order.

    A file that cannot be used is refused with one line: where, what was found, what is accepted.

    Args:
        path: a file (.csv, .csv.gz, .npz, .parquet, .mat, .mcap, .db3, .pt, .json) or folder (ROS 2 bag, LeRobot,
            SAGE).
        robot: whose joints are looked for, by name.
        columns: a TOML file or a dict that maps names, units and signs of columns; without it they are `time`,
            `q.<joint>` and so on.
    """
    found = load_recordings(path, robot, columns)
    if len(found) > 1:
        raise RecordingError(
            f"{path}: holds {len(found)} recordings; use load_recordings, or episode = <number> in columns"
        )
    return found[0]


def load_recordings(
    path: str | os.PathLike[str], robot: Robot | None = None, columns: ColumnMap | None = None
) -> list[Recording]:
    """All recordings of a file or folder: one, or an episode each of a LeRobot data set.

    Args:
        path: a file or folder, as for `load_recording`.
        robot: whose joints are looked for, by name.
        columns: a TOML file or a dict that maps names, units and signs of columns.
    """
    path = Path(path)
    column_map = read_map(columns)
    joints = None if robot is None else robot.joint_names
    try:
        floating = robot is not None and robot.base == "floating"
        found = [by_names(table, column_map, joints) for table in _tables(path, column_map, joints, floating)]
        return [_recording(table, path, column_map, joints, _limits(robot)) for table in found]
    except RecordingError as error:
        raise RecordingError(f"{path}: {one_line(str(error).removeprefix(f'{path}: '))}") from None
    except EOFError:
        raise RecordingError(f"{path}: is cut off; copy it again") from None
    except (ArithmeticError, MemoryError, RecursionError, zlib.error) as error:
        raise RecordingError(f"{path}: cannot be read ({one_line(str(error)) or type(error).__name__})") from error
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read ({one_line(error.strerror or str(error))})") from None


def save_recording(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a recording as .csv or .npz; read back, it is the same recording.

    Args:
        recording: the recording.
        path: the file, .csv or .npz.
    """
    path = Path(path)
    names = recording.joint_names or tuple(f"joint{k}" for k in range(recording.num_joints))
    named = {key: "goal" if key == "u" and recording.input_kind == "goal" else key for key in SIGNALS}
    signals = {named[key]: getattr(recording, key) for key in SIGNALS if getattr(recording, key) is not None}
    signals |= {} if recording.gain is None else {"gain": recording.gain}
    data = io.BytesIO()
    if path.suffix == ".npz":
        base: dict[str, Any] = base_columns(recording.base)
        np.savez(data, time=recording.time, joint_names=np.array(names, dtype=str), **signals, **base)
    elif path.suffix == ".csv":
        columns = {"time": recording.time}
        for key, values in signals.items():
            kept = [k for k in range(len(names)) if key not in ("u", "goal", "gain") or recording.driven[k]]
            columns |= {f"{key}.{names[k]}": values[:, k] for k in kept}
        columns |= base_columns(recording.base)
        table = np.column_stack([column.astype(float) for column in columns.values()])
        np.savetxt(data, table, fmt="%.17g", delimiter=",", header=",".join(columns), comments="")
    else:
        raise RecordingError(f'{path}: ends in "{path.suffix}"; use .csv or .npz')
    files.replace(path, data.getvalue())


def _tables(path: Path, column_map: Mapping[str, Any], joints: Sequence[str] | None, floating: bool) -> list[Table]:
    if not path.exists():
        raise RecordingError("there is no such file; give the path of a recording")
    ending = path.suffix.lower()
    if path.is_dir():
        return _folder_tables(path, column_map, joints, floating)
    if ending == ".csv" or path.name.lower().endswith(".csv.gz"):
        return csv_file.tables(path)
    if regular(path).stat().st_size == 0:
        raise RecordingError(f"is empty; give a recording ({ENDINGS})")
    readers = {".npz": array_files.npz_tables, ".mat": array_files.mat_tables, ".parquet": parquet_files.tables}
    readers |= {".pt": torch_files.tables}
    if ending == ".json" or path.name.lower().endswith(".json.gz"):
        return bam_logs.tables(path, column_map.get("input", "goal"))
    if ending in readers:
        return readers[ending](path)
    if ending in (".mcap", ".db3"):
        return ros_bags.tables(path, column_map, joints, floating)
    if ending == ".bag":
        name = path.stem
        raise RecordingError(
            f"is a bag of ROS 1; convert it by `rosbags-convert --src {path.name} --dst {name}` (of the package "
            f"rosbags) and give the folder {name}"
        )
    raise RecordingError(f'ends in "{path.suffix}"; use {ENDINGS}')


def _folder_tables(
    path: Path, column_map: Mapping[str, Any], joints: Sequence[str] | None, floating: bool
) -> list[Table]:
    if lerobot.is_lerobot(path):
        return lerobot.tables(path, column_map.get("episode"), column_map.get("input", "goal"))
    if sage_logs.is_sage(path):
        return sage_logs.tables(path)
    if ros_bags.is_bag(path):
        return ros_bags.tables(path, column_map, joints, floating)
    raise RecordingError(
        "is a folder, but no ROS 2 bag (metadata.yaml), no LeRobot data set (meta/info.json) and no SAGE motion "
        "(control.csv, state_motor.csv)"
    )


def _limits(robot: Robot | None) -> dict[str, tuple[float, float]]:
    if robot is None:
        return {}
    ends = np.asarray(robot.limits.lower, float), np.asarray(robot.limits.upper, float)
    ends = [each[robot.joint_links] for each in ends]
    return {name: (float(low), float(high)) for name, low, high in zip(robot.joint_names, *ends, strict=True)}


def _recording(
    table: Table,
    path: Path,
    column_map: Mapping[str, Any],
    joints: Sequence[str] | None,
    limits: Mapping[str, tuple[float, float]],
) -> Recording:
    layout = lay_out(table, column_map, joints, limits)
    columns = table.read(layout.columns)
    of_goals = layout.goal_columns
    _one_length({name: values for name, values in columns.items() if name not in of_goals})
    _one_length({name: columns[name] for name in of_goals})
    count = next(len(values) for name, values in columns.items() if name not in of_goals)
    base = {ours: np.asarray(columns[theirs], float) for ours, theirs in layout.base.items()}
    time = np.arange(count) / (layout.rate or 1.0) if layout.time is None else layout.time.value(columns)
    signals = _stack(layout, columns, count)
    notes = list(table.notes)
    if layout.unused:
        notes.append(f"columns not used: {', '.join(layout.unused[:8])}{' …' if len(layout.unused) > 8 else ''}")
    if layout.goal_time is not None:
        time, signals, note = held_at(time, signals, layout.goal_time.value(columns))
        notes += note
    if column_map.get("repair", False):
        time, signals, base, note = _repair(time, signals, base)
        notes += note
    if column_map.get("goals_from_start", False):
        signals["u"] = _from_start(signals, layout)
        notes.append("goals count from the first position")
    driven = [("u", joint) in layout.signals for joint in layout.joints]
    name = path.name if table.label is None else f"{path.name}, {table.label}"
    try:
        described: dict[str, Any] = {"joint_names": layout.joints, "driven": driven, "name": name, "notes": notes}
        described["input_kind"] = layout.input_kind
        recording = Recording(time=time, **signals, **described, base=base_motion(base, column_map))
        return as_held(recording) if column_map.get("measured", False) else recording
    except RecordingError as error:
        text = str(error).removeprefix(f"Recording {name!r}: ")
        advice = ", or repair = true in columns to drop them" if "finite" in text or "time" in text else ""
        raise RecordingError(text + advice) from None


def _one_length(columns: Mapping[str, np.ndarray]) -> None:
    """Refuse columns of different lengths, and of none."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {count}" for name, count in list(lengths.items())[:6])
        raise RecordingError(f"columns have different lengths ({found}); give one value a sample")
    if lengths and not min(lengths.values()):
        raise RecordingError("has no samples; give at least one")


def _from_start(signals: Mapping[str, Any], layout: Layout) -> np.ndarray:
    """Goals that count from the pose that the robot began in, as positions."""
    if layout.input_kind != "goal":
        raise RecordingError('goals_from_start is for position goals; give goal columns, or input = "goal"')
    driven = np.array([("u", joint) in layout.signals for joint in layout.joints])
    return signals["u"] + np.where(driven, signals["q"][0] - signals["u"][0], 0.0)


def _stack(layout: Layout, columns: Mapping[str, np.ndarray], count: int) -> dict[str, Any]:
    """Signals as (time, n); derivatives only where every joint has them, inputs zero where nothing drives a joint."""
    stacked: dict[str, Any] = {}
    for key in (*SIGNALS, "gain"):
        found = [layout.signals.get((key, joint)) for joint in layout.joints]
        if key in ("qd", "qdd") and any(signal is None for signal in found):
            stacked[key] = None
        elif key == "gain" and not any(found):
            stacked[key] = None
        elif key == "gain" and (bare := _without_gain(layout)):
            raise RecordingError(f'goals of "{bare[0]}" have no gain, those of others have; give gain.<joint> of all')
        else:
            size = len(columns[layout.goal_columns[0]]) if key == "u" and layout.goal_time else count
            parts = [np.zeros(size) if signal is None else signal.value(columns) for signal in found]
            stacked[key] = np.column_stack(parts) if parts else np.zeros((size, 0))
    return stacked


def _without_gain(layout: Layout) -> list[str]:
    """Joints that have goals and no gain."""
    return [j for j in layout.joints if ("u", j) in layout.signals and ("gain", j) not in layout.signals]


def _repair(
    time: np.ndarray, signals: dict[str, Any], base: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict, dict, list[str]]:
    """Leave out rows that are not numbers, or whose time is not later than all before."""
    good = np.isfinite(time)
    for values in signals.values():
        good &= True if values is None else np.isfinite(values).all(1)
    for values in base.values():
        good &= np.isfinite(values)
    latest = np.maximum.accumulate(np.where(good, time, -np.inf))
    late = np.concatenate([[True], time[1:] > latest[:-1]])
    kept = good & late
    note = f"{int((~good).sum())} rows that are no numbers and {int((good & ~late).sum())} out of order left out"
    signals = {key: None if values is None else values[kept] for key, values in signals.items()}
    base = {name: values[kept] for name, values in base.items()}
    return time[kept], signals, base, [] if kept.all() else [note]
