"""A column map: which columns of a log are which joint's signal, in which unit, sign and ratio.

TOML, or the same as a dict:

    time = { column = "stamp", unit = "ms" }     # or rate = 250, where the log has no times
    units = { q = "deg", u = "mNm" }             # of whatever says nothing else
    repair = true                                # drop rows that are not numbers or not in order of time

    [joints.shoulder]                            # the robot's name for the joint
    q = "motor_1"                                # a column; "states[2]" is one of an array's
    u = { column = "current_1", scale = 0.35 }   # torque a unit
    gear = 50                                    # columns are of the motor: q / 50, u · 50
    sign = -1
    offset = 0.1                                 # added to q, rad or m, after everything else

A list of columns is summed, for joints that share motors.
"""

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from diffnea.recordings.recording import SIGNALS, RecordingError
from diffnea.recordings.table import Table

DEGREE = math.pi / 180
UNITS = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0},
    "q": {"rad": 1.0, "deg": DEGREE, "rev": 2 * math.pi, "m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6},
    "qd": {
        **{"rad/s": 1.0, "deg/s": DEGREE, "rev/s": 2 * math.pi, "rpm": math.pi / 30},
        **{"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3},
    },
    "qdd": {"rad/s^2": 1.0, "deg/s^2": DEGREE, "rev/s^2": 2 * math.pi, "m/s^2": 1.0, "mm/s^2": 1e-3},
    "u": {"Nm": 1.0, "mNm": 1e-3, "N": 1.0, "kN": 1e3, "V": 1.0, "mV": 1e-3, "A": 1.0, "mA": 1e-3, "%": 1e-2, "1": 1.0},
}
MAP_KEYS = ("time", "rate", "units", "repair", "measured", "joints", "topic", "command_topic", "episode")
JOINT_KEYS = (*SIGNALS, "sign", "gear", "offset")
TERM_KEYS = ("column", "unit", "scale", "sign", "gear", "offset")


@dataclass(frozen=True)
class Signal:
    """A sum of columns, each times a factor, plus an offset."""

    terms: tuple[tuple[str, float], ...]
    offset: float = 0.0

    def value(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """The signal in SI units."""
        total = sum(factor * columns[name] for name, factor in self.terms)
        return np.asarray(total + self.offset, float)


@dataclass(frozen=True)
class Layout:
    """Which columns make which signal of which joint; joints without an input are passive."""

    joints: tuple[str, ...]
    signals: dict[tuple[str, str], Signal]
    time: Signal | None
    rate: float | None
    unused: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """All columns that have to be read."""
        signals = [*self.signals.values(), *([self.time] if self.time else [])]
        return list(dict.fromkeys(name for signal in signals for name, _ in signal.terms))


def read_map(columns: Mapping[str, Any] | str | os.PathLike[str] | None) -> dict[str, Any]:
    """A column map from a TOML file or a dict, its keys checked."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        table, where = dict(columns), "column map"
    else:
        where = str(columns)
        try:
            table = tomllib.loads(Path(columns).read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RecordingError(f"{where}: no column map can be read: {_line(error)}") from None
    _check_keys(table, MAP_KEYS, where)
    for key in ("repair", "measured"):
        if not isinstance(table.get(key, False), bool):
            raise RecordingError(f"{where}: {key} is {table[key]!r}; use true or false")
    if not isinstance(table.get("joints", {}), Mapping):
        raise RecordingError(f"{where}: joints is {table['joints']!r}; give a table [joints.<name>] for each joint")
    for joint, entry in table.get("joints", {}).items():
        if not isinstance(entry, Mapping):
            raise RecordingError(f"{where}: joints.{joint} is {entry!r}; give a table with q, u, …")
        _check_keys(entry, JOINT_KEYS, f"{where}: joints.{joint}")
    _check_keys(table.get("units", {}), ("time", *SIGNALS), f"{where}: units")
    return table


def lay_out(table: Table, column_map: Mapping[str, Any], robot_joints: Sequence[str] | None) -> Layout:
    """Match a table's columns to joints: by the map where it says, by their names otherwise."""
    mapped = column_map.get("joints", {})
    joints = tuple(robot_joints) if robot_joints is not None else _joints_of(table, mapped)
    strange = [name for name in mapped if name not in joints]
    if strange:
        raise RecordingError(
            f'the column map names a joint "{strange[0]}"; the robot has {_some(joints)}{_nearest(strange[0], joints)}'
        )
    _check_count(table, joints, mapped)
    _check_positions(table, joints, mapped)
    units, signals = column_map.get("units", {}), {}
    for k, joint in enumerate(joints):
        entry = mapped.get(joint, {})
        for key in SIGNALS:
            signal = _signal(key, joint, k, entry, units, table)
            if signal is not None:
                signals[key, joint] = signal
    rate = column_map.get("rate")
    time = None if rate is not None else _time(column_map.get("time", "time"), units, table)
    layout = Layout(joints, signals, time, None if rate is None else _number(rate, "rate"), ())
    used = set(layout.columns)
    unused = tuple(n for n in table.names if n not in used and n.partition(".")[0] in SIGNALS and "." in n)
    return Layout(joints, signals, time, layout.rate, unused)


def _joints_of(table: Table, mapped: Mapping[str, Any]) -> tuple[str, ...]:
    """Joints in the order of the log, where no robot says which."""
    if mapped:
        return tuple(mapped)
    named = tuple(name[2:] for name in table.names if name.startswith("q."))
    numbered = tuple(name for name in table.names if name.startswith("q[")) if not named else ()
    if not named and not numbered:
        raise RecordingError(
            f'no column "q.<joint>" (found {_some(table.names)}); name the columns so, or give a column map'
        )
    return named or tuple(f"joint{k}" for k in range(len(numbered)))


def _check_count(table: Table, joints: Sequence[str], mapped: Mapping[str, Any]) -> None:
    """Columns by number only fit a robot with as many joints."""
    numbered = sum(name.startswith("q[") for name in table.names)
    by_number = numbered and not mapped and not any(name.startswith("q.") for name in table.names)
    if by_number and numbered != len(joints):
        raise RecordingError(
            f"q has {numbered} columns, the robot {len(joints)} joints; add joint_names or a column map"
        )


def _check_positions(table: Table, joints: Sequence[str], mapped: Mapping[str, Any]) -> None:
    """Every joint must have been measured, or be held still."""
    lacking = [name for k, name in enumerate(joints) if _source("q", name, k, mapped.get(name, {}), table) is None]
    if lacking:
        named = f"q.{lacking[0]}"
        still = (
            "" if len(lacking) == len(joints) else f"; or hold what was not recorded still: lock {' '.join(lacking)}"
        )
        near = _nearest(named, table.names)
        raise RecordingError(f'no column "{named}"{near}; found {_some(table.names)}; name it in a column map{still}')


def _signal(key: str, joint: str, k: int, entry: Mapping, units: Mapping, table: Table) -> Signal | None:
    """One joint's signal, or None where the log has none."""
    source = _source(key, joint, k, entry, table)
    if source is None:
        return None
    sources = source if isinstance(source, list) else [source]
    terms, offset = [], float(entry.get("offset", 0.0)) if key == "q" else 0.0
    for one in sources:
        column, factor, shift = _term(one, key, entry, units, f"joints.{joint}.{key}", table)
        terms.append((column, factor))
        offset += shift
    return Signal(tuple(terms), offset)


def _source(key: str, joint: str, k: int, entry: Mapping, table: Table) -> Any:
    """Where a joint's signal comes from: as the map says, by its name, or by its number where no column has a name."""
    if key in entry:
        return entry[key]
    if f"{key}.{joint}" in table.names:
        return f"{key}.{joint}"
    numbered = f"{key}[{k}]" in table.names and not any(name.startswith(f"{key}.") for name in table.names)
    return f"{key}[{k}]" if numbered else None


def _term(source: Any, key: str, entry: Mapping, units: Mapping, where: str, table: Table) -> tuple[str, float, float]:
    """Column, factor and offset of one entry of the map."""
    source = {"column": source} if isinstance(source, str) else source
    if not isinstance(source, Mapping) or not isinstance(source.get("column"), str):
        raise RecordingError(f'{where} is {source!r}; give a column\'s name, or {{ column = "name", … }}')
    _check_keys(source, TERM_KEYS, where)
    if source["column"] not in table.names:
        near = _nearest(source["column"], table.names)
        raise RecordingError(f'{where}: no column "{source["column"]}"{near}; found {_some(table.names)}')
    sign = _number(source.get("sign", entry.get("sign", 1)), f"{where}: sign")
    gear = _number(source.get("gear", entry.get("gear", 1)), f"{where}: gear")
    scale = _number(source.get("scale", 1.0), f"{where}: scale")
    if abs(sign) != 1 or gear == 0:
        raise RecordingError(f"{where}: sign is {sign:g} and gear {gear:g}; use 1 or −1, and a ratio other than 0")
    factor = sign * scale * _unit(source.get("unit", units.get(key)), key, where)
    factor *= {"u": gear, "time": 1.0}.get(key, 1 / gear)
    return source["column"], factor, _number(source.get("offset", 0.0), f"{where}: offset")


def _time(source: Any, units: Mapping[str, Any], table: Table) -> Signal:
    if source == "time" and "time" not in table.names:
        raise RecordingError(
            f'no column "time"{_nearest("time", table.names)}; found {_some(table.names)}; '
            f"name it in a column map, or give rate = <samples a second> there"
        )
    column, factor, offset = _term(source, "time", {}, units, "time", table)
    return Signal(((column, factor),), offset)


def _unit(unit: Any, key: str, where: str) -> float:
    if unit is None:
        return 1.0
    if unit not in UNITS[key]:
        raise RecordingError(f"{where}: unit is {unit!r}; use {', '.join(UNITS[key])}")
    return UNITS[key][unit]


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RecordingError(f"{where} is {value!r}; give a number")
    return float(value)


def _check_keys(table: Mapping[str, Any], accepted: Sequence[str], where: str) -> None:
    for key in table:
        if key not in accepted:
            raise RecordingError(f'{where}: "{key}" is not known; use {", ".join(accepted)}')


def _nearest(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names[:2000], 1)
    return f' (did you mean "{near[0]}"?)' if near else ""


def _some(names: Sequence[str]) -> str:
    """The first few of many names."""
    shown = ", ".join(names[:8])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 8 else shown or "nothing"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
