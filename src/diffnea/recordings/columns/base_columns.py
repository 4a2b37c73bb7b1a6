"""Columns of a free base: `base.x … base.qz`, `imu.ax … imu.gz`, `contact.<foot>`, `rotor.<name>` and `battery`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffnea.recordings.base_motion import BaseMotion
from diffnea.recordings.error import RecordingError

NAMES = {
    "position": ("base.x", "base.y", "base.z"),
    "quaternion": ("base.qw", "base.qx", "base.qy", "base.qz"),
    "velocity": ("base.vx", "base.vy", "base.vz"),
    "accelerometer": ("imu.ax", "imu.ay", "imu.az"),
    "gyroscope": ("imu.gx", "imu.gy", "imu.gz"),
    "battery": ("battery",),
}
# Signals with as many columns as the robot has feet or rotors.
SEVERAL = {"contacts": "contact.", "rotors": "rotor."}
KEYS = ("columns", "imu_position", "imu_quaternion", "pose_topic", "imu_topic")


def base_sources(names: Sequence[str], column_map: Mapping[str, Any]) -> dict[str, str]:
    """The log's column of each of ours: as the map's `base.columns` says, by its name otherwise."""
    mapped = column_map.get("base", {}).get("columns", {})
    known = [each for several in NAMES.values() for each in several]
    strange = [ours for ours in mapped if ours not in known and not ours.startswith(tuple(SEVERAL.values()))]
    if strange:
        raise RecordingError(f'base.columns: "{strange[0]}" is not known; use {", ".join(known)}, contact.…, rotor.…')
    lacking = [theirs for theirs in mapped.values() if theirs not in names]
    if lacking:
        raise RecordingError(f'base.columns: no column "{lacking[0]}"; the log has {", ".join(map(str, names[:12]))}')
    own = [name for name in names if name in known or name.startswith(tuple(SEVERAL.values()))]
    return {name: name for name in own if name not in mapped} | dict(mapped)


def base_motion(columns: Mapping[str, np.ndarray], column_map: Mapping[str, Any]) -> BaseMotion | None:
    """The base of a log from its columns, by our names; None where it has none."""
    if not columns:
        return None
    signals: dict[str, Any] = {}
    for signal, wanted in NAMES.items():
        found = [name for name in wanted if name in columns]
        if found and len(found) < len(wanted):
            lacking = next(name for name in wanted if name not in columns)
            raise RecordingError(f'no column "{lacking}" beside "{found[0]}"; give all of {", ".join(wanted)}')
        if found:
            signals[signal] = np.column_stack([columns[name] for name in wanted])
    for signal, start in SEVERAL.items():
        found = [name for name in columns if name.startswith(start)]
        if found:
            signals[signal] = np.column_stack([columns[name] for name in found])
            signals |= {"contact_names": [name.removeprefix(start) for name in found]} if signal == "contacts" else {}
    said = column_map.get("base", {})
    return BaseMotion(**signals, **{key: said[key] for key in ("imu_position", "imu_quaternion") if key in said})


def base_columns(base: BaseMotion | None) -> dict[str, np.ndarray]:
    """The same as columns, to be written."""
    if base is None:
        return {}
    found: dict[str, np.ndarray] = {}
    for signal, values in base.signals.items():
        start = SEVERAL.get(signal, "")
        several = base.contact_names if signal == "contacts" else map(str, range(1, values.shape[1] + 1))
        names = [f"{start}{name}" for name in several] if start else NAMES[signal]
        found |= dict(zip(names, values.T, strict=True))
    return found
