"""A column map: which columns of a log are which joint's signal, in which unit, sign and ratio.

TOML, or the same as a dict:

    time = { column = "stamp", unit = "ms" }     # or rate = 250, where the log has no times
    units = { q = "deg", u = "mNm" }             # of whatever says nothing else
    repair = true                                # drop rows that are not numbers or not in order of time
    input = "goal"                               # u is the position goal of a servo, in units of q
    names = ["shoulder", "elbow"]                # of the log's joints in their order, where it has others or none
    calibration = "follower.json"                # LeRobot's, for units = { q = "normalised" }

    [joints.shoulder]                            # the robot's name for the joint
    q = "motor_1"                                # a column; "states[2]" is one of an array's
    u = { column = "current_1", scale = 0.35 }   # torque a unit
    gear = 50                                    # columns are of the motor: q / 50, u · 50
    sign = -1
    offset = 0.1                                 # added to q, rad or m, after everything else

    [base]                                       # of a free base
    columns = { "base.x" = "pose_x" }            # our names of its columns, and the log's
    imu_position = [0.02, 0, 0.04]               # of the inertial sensor in the base's frame, m
    pose_topic = "/odom"                         # of a bag, where it has several; imu_topic the same
    imu_quaternion = [1, 0, 0, 0]                # w x y z

A list of columns is summed, for joints that share motors.
"""

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diffnea import files
from diffnea.recordings.columns.base_columns import KEYS as BASE_KEYS
from diffnea.recordings.columns.table import NAMED
from diffnea.recordings.columns.units import read_calibration
from diffnea.recordings.recording import INPUT_KINDS, RecordingError

LARGEST = 1 << 22  # bytes of a column map

MAP_KEYS = (
    *("time", "rate", "units", "repair", "measured", "joints", "topic", "command_topic", "episode"),
    *("input", "names", "calibration", "goal_time", "goals_from_start", "base"),
)
JOINT_KEYS = (*NAMED, "sign", "gear", "offset")
TERM_KEYS = ("column", "unit", "scale", "sign", "gear", "offset")


def read_map(columns: Mapping[str, Any] | str | os.PathLike[str] | None) -> dict[str, Any]:
    """A column map from a TOML file or a dict, its keys checked."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        table, where = dict(columns), "column map"
    else:
        table, where = _read(Path(columns)), str(columns)
    check_keys(table, MAP_KEYS, where)
    if table.get("input", "goal") not in INPUT_KINDS:
        raise RecordingError(f"{where}: input is {table['input']!r}; use {' or '.join(map(repr, INPUT_KINDS))}")
    if "calibration" in table:
        table["calibration"] = _calibration(table["calibration"], columns, where)
    for key in ("repair", "measured", "goals_from_start"):
        if not isinstance(table.get(key, False), bool):
            raise RecordingError(f"{where}: {key} is {table[key]!r}; use true or false")
    _check_joints(table, where)
    _check_base(table.get("base", {}), where)
    check_keys(table.get("units", {}), ("time", *NAMED), f"{where}: units")
    names = table.get("names", [])
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise RecordingError(f'{where}: names is {names!r}; give a list of joints, as ["shoulder", "elbow"]')
    return table


def _check_joints(table: Mapping[str, Any], where: str) -> None:
    if not isinstance(table.get("joints", {}), Mapping):
        raise RecordingError(f"{where}: joints is {table['joints']!r}; give a table [joints.<name>] for each joint")
    for joint, entry in table.get("joints", {}).items():
        if not isinstance(entry, Mapping):
            raise RecordingError(f"{where}: joints.{joint} is {entry!r}; give a table with q, u, …")
        check_keys(entry, JOINT_KEYS, f"{where}: joints.{joint}")


def _check_base(base: Any, where: str) -> None:
    if not isinstance(base, Mapping) or not isinstance(base.get("columns", {}), Mapping):
        raise RecordingError(f"{where}: base is {base!r}; give a table [base] with columns, imu_position, …")
    check_keys(base, BASE_KEYS, f"{where}: base")
    for key, count in (("imu_position", 3), ("imu_quaternion", 4)):
        given = base.get(key, [0.0] * count)
        if not isinstance(given, (list, tuple)) or len(given) != count:
            raise RecordingError(f"{where}: base.{key} is {given!r}; give {count} numbers")
        for value in given:
            number(value, f"{where}: base.{key}")
    for key in ("pose_topic", "imu_topic"):
        if not isinstance(base.get(key, ""), str):
            raise RecordingError(f"{where}: base.{key} is {base[key]!r}; give the name of one topic")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(files.read(path, LARGEST).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordingError(f"{path}: no column map can be read: {' '.join(str(error).split())}") from None


def _calibration(given: Any, columns: Any, where: str) -> Mapping[str, Any]:
    """The ranges of LeRobot's calibration file, which is named from the folder of the map."""
    if isinstance(given, Mapping):  # read before
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise RecordingError(f"{where}: calibration is {given!r}; give the path of LeRobot's JSON file")
    folder = Path() if isinstance(columns, Mapping) else Path(columns).parent
    return read_calibration(folder / given)


def number(value: Any, where: str) -> float:
    """A finite number of the map."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RecordingError(f"{where} is {value!r}; give a number")
    return float(value)


def check_keys(table: Mapping[str, Any], accepted: Sequence[str], where: str) -> None:
    """Refuse a key that is not known."""
    for key in table:
        if key not in accepted:
            raise RecordingError(f'{where}: "{key}" is not known; use {", ".join(accepted)}')
