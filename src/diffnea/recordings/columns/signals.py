"""Columns of a log → signals of joints: by the column map where it says, by their names otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from diffnea.recordings.columns.base_columns import base_sources
from diffnea.recordings.columns.column_map import TERM_KEYS, check_keys, number
from diffnea.recordings.columns.table import NAMED, Table, renamed
from diffnea.recordings.columns.units import SERVO_UNITS, UNITS, Ranges
from diffnea.recordings.recording import SIGNALS, InputKind, RecordingError
from diffnea.text import meant

# The joints of one arm by all its names: the SO-100 and SO-101 as LeRobot has them, and as Menagerie and SAGE do.
ARMS = (
    ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"),
    ("Rotation", "Pitch", "Elbow", "Wrist_Pitch", "Wrist_Roll", "Jaw"),
)


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
    """Which columns make which signal of which joint; joints without an input are passive.

    `goal_time`: goals have times of their own, and may be more or fewer than the samples.
    """

    joints: tuple[str, ...]
    signals: dict[tuple[str, str], Signal]
    time: Signal | None
    rate: float | None
    unused: tuple[str, ...] = ()
    input_kind: InputKind = "command"
    goal_time: Signal | None = None
    base: Mapping[str, str] = field(default_factory=dict)  # the log's columns of a free base, by our names

    @property
    def columns(self) -> list[str]:
        """All columns that have to be read."""
        return list(
            dict.fromkeys([*_columns([*self.signals.values(), self.time, self.goal_time]), *self.base.values()])
        )

    @property
    def goal_columns(self) -> list[str]:
        """Those of them that count on the goals' own times."""
        if self.goal_time is None:
            return []
        return _columns([self.goal_time, *(signal for (key, _), signal in self.signals.items() if key == "u")])


def _columns(signals: Sequence[Signal | None]) -> list[str]:
    return list(dict.fromkeys(name for signal in signals if signal for name, _ in signal.terms))


def lay_out(
    table: Table,
    column_map: Mapping[str, Any],
    robot_joints: Sequence[str] | None,
    limits: Mapping[str, tuple[float, float]] | None = None,
) -> Layout:
    """Match a table's columns to joints: by the map where it says, by their names otherwise.

    `limits`, by joint, are what LeRobot's normalised positions are shares of where there is no calibration.
    """
    mapped = column_map.get("joints", {})
    joints = tuple(robot_joints) if robot_joints is not None else _joints_of(table, column_map)
    strange = [name for name in mapped if name not in joints]
    if strange:
        raise RecordingError(
            f'the column map names a joint "{strange[0]}"; the robot has {_some(joints)}{meant(strange[0], joints)}'
        )
    _check_count(table, joints, mapped)
    _check_positions(table, joints, mapped)
    units, signals = column_map.get("units", {}), {}
    kind, source = _input(table, column_map)
    ranges = Ranges(column_map.get("calibration", {}), limits or {})
    for k, joint in enumerate(joints):
        entry = mapped.get(joint, {})
        for key in (*SIGNALS[:3], source, *(("gain",) if kind == "goal" else ())):
            quantity = "goal" if key == source and kind == "goal" else key
            signal = _Reader(table, units, entry, ranges, joint, k).signal(key, quantity)
            if signal is not None:
                signals["u" if key == source else key, joint] = signal
    rate = column_map.get("rate")
    time = None if rate is not None else _time("time", column_map.get("time", "time"), units, table)
    goal_time = _goal_time(column_map, units, table) if source == "goal" else None
    base = base_sources(table.names, column_map)
    layout = Layout(joints, signals, time, None if rate is None else number(rate, "rate"), (), kind, goal_time, base)
    used = set(layout.columns)
    unused = tuple(n for n in table.names if n not in used and n.partition(".")[0] in NAMED and "." in n)
    return replace(layout, unused=unused)


def _input(table: Table, column_map: Mapping[str, Any]) -> tuple[InputKind, str]:
    """What the inputs are, and which columns have them: goals where there are some, unless the map says otherwise."""
    mapped = any("goal" in entry for entry in column_map.get("joints", {}).values())
    goals = mapped or any(name.startswith(("goal.", "goal[")) for name in table.names)
    kind = column_map.get("input") or ("goal" if goals else "command")
    return kind, "goal" if goals and kind == "goal" else "u"


def by_names(table: Table, column_map: Mapping[str, Any], robot_joints: Sequence[str] | None) -> Table:
    """The table with its joints called as the map says, or as the robot calls the same arm's joints."""
    names = list(column_map.get("names", ()))
    if names:
        return renamed(table, names)
    if robot_joints is None or "joints" in column_map:
        return table
    logged = [name[2:] for name in table.names if name.startswith("q.")]
    if not logged or set(logged) & set(robot_joints):
        return table
    for ours in ARMS:
        for theirs in ARMS:
            if set(robot_joints) <= set(ours) and set(logged) <= set(theirs):
                said = f"joints {', '.join(logged)} are called {', '.join(ours[theirs.index(n)] for n in logged)} here"
                found = renamed(table, [ours[theirs.index(name)] for name in logged])
                return replace(found, notes=(*found.notes, said))
    return table


def _joints_of(table: Table, column_map: Mapping[str, Any]) -> tuple[str, ...]:
    """Joints in the order of the log, where no robot says which; a free base may have none."""
    mapped = column_map.get("joints", {})
    if mapped:
        return tuple(mapped)
    named = tuple(name[2:] for name in table.names if name.startswith("q."))
    numbered = tuple(name for name in table.names if name.startswith("q[")) if not named else ()
    if not named and not numbered and not base_sources(table.names, column_map):
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
        near = meant(named, table.names)
        logged = [name[2:] for name in table.names if name.startswith("q.")]
        if len(lacking) == len(joints) == len(logged):  # all there, under other names
            still = f"; or, if {_some(logged)} are in this order {_some(joints)}, say so: names = {list(joints)}"
        raise RecordingError(f'no column "{named}"{near}; found {_some(table.names)}; name it in a column map{still}')


@dataclass(frozen=True)
class _Reader:
    """How one joint's columns become its signals: the map's entry, units, and the range of its servo."""

    table: Table
    units: Mapping[str, Any]
    entry: Mapping[str, Any]
    ranges: Ranges
    joint: str
    index: int

    def signal(self, key: str, quantity: str) -> Signal | None:
        """One signal, or None where the log has none; `quantity` goal: in units of q, with its sign, gear and zero."""
        source = _source(key, self.joint, self.index, self.entry, self.table)
        if source is None:
            return None
        terms, offset = [], float(self.entry.get("offset", 0.0)) if quantity in ("q", "goal") else 0.0
        for one in source if isinstance(source, list) else [source]:
            column, factor, shift = _term(one, quantity, self, f"joints.{self.joint}.{key}", self.table)
            terms.append((column, factor))
            offset += shift
        return Signal(tuple(terms), offset)

    def unit(self, quantity: str) -> Any:
        """The unit that nothing says otherwise of: goals are in that of the joint's positions."""
        if quantity != "goal":
            return self.units.get(quantity)
        own = self.entry.get("q")
        stated = own.get("unit") if isinstance(own, Mapping) else None
        return self.units.get("goal") or stated or self.units.get("q")

    def si(self, unit: Any, quantity: str, where: str) -> tuple[float, float]:
        """Factor and offset of a unit."""
        kind = "q" if quantity == "goal" else quantity
        if kind == "q" and unit in SERVO_UNITS:
            return self.ranges.si(unit, self.joint, where)
        if unit is None:
            return 1.0, 0.0
        if unit not in UNITS[kind]:
            more = SERVO_UNITS if kind == "q" else ()
            raise RecordingError(f"{where}: unit is {unit!r}; use {', '.join([*UNITS[kind], *more])}")
        return UNITS[kind][unit], 0.0


def _source(key: str, joint: str, k: int, entry: Mapping, table: Table) -> Any:
    """Where a joint's signal comes from: as the map says, by its name, or by its number where no column has a name."""
    if key in entry:
        return entry[key]
    if f"{key}.{joint}" in table.names:
        return f"{key}.{joint}"
    numbered = f"{key}[{k}]" in table.names and not any(name.startswith(f"{key}.") for name in table.names)
    return f"{key}[{k}]" if numbered else None


def _term(source: Any, key: str, reader: _Reader, where: str, table: Table) -> tuple[str, float, float]:
    """Column, factor and offset of one entry of the map."""
    source = {"column": source} if isinstance(source, str) else source
    if not isinstance(source, Mapping) or not isinstance(source.get("column"), str):
        raise RecordingError(f'{where} is {source!r}; give a column\'s name, or {{ column = "name", … }}')
    check_keys(source, TERM_KEYS, where)
    if source["column"] not in table.names:
        near = meant(source["column"], table.names)
        raise RecordingError(f'{where}: no column "{source["column"]}"{near}; found {_some(table.names)}')
    sign = number(source.get("sign", reader.entry.get("sign", 1)), f"{where}: sign")
    gear = number(source.get("gear", reader.entry.get("gear", 1)), f"{where}: gear")
    scale = number(source.get("scale", 1.0), f"{where}: scale")
    if abs(sign) != 1 or gear == 0:
        raise RecordingError(f"{where}: sign is {sign:g} and gear {gear:g}; use 1 or −1, and a ratio other than 0")
    factor, offset = reader.si(source.get("unit", reader.unit(key)), key, where)
    ratio = 1.0 if key in ("time", "gain") else sign * (gear if key == "u" else 1 / gear)
    return (
        source["column"],
        ratio * scale * factor,
        ratio * offset + number(source.get("offset", 0.0), f"{where}: offset"),
    )


def _time(name: str, source: Any, units: Mapping[str, Any], table: Table) -> Signal:
    if source == name and name not in table.names:
        raise RecordingError(
            f'no column "{name}"{meant(name, table.names)}; found {_some(table.names)}; '
            f"name it in a column map, or give rate = <samples a second> there"
        )
    reader = _Reader(table, units, {}, Ranges(), name, 0)
    column, factor, offset = _term(source, "time", reader, name, table)
    return Signal(((column, factor),), offset)


def _goal_time(column_map: Mapping[str, Any], units: Mapping[str, Any], table: Table) -> Signal | None:
    """The goals' own times, where they have some."""
    source = column_map.get("goal_time", "goal_time" if "goal_time" in table.names else None)
    return None if source is None else _time("goal_time", source, units, table)


def _some(names: Sequence[str]) -> str:
    """The first few of many names."""
    shown = ", ".join(names[:8])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 8 else shown or "nothing"
