"""A free base in ROS 2 bags: poses, odometry and inertial sensors, on the stamps of the slowest stream.

A straight line between two readings has no acceleration, so that no stream is read between its samples more often than
it was sampled: joints at 500 Hz beside a pose at 100 Hz become a recording at 100 Hz.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea.recordings.columns.base_columns import NAMES
from diffnea.recordings.recording import RecordingError
from diffnea.recordings.ros import cdr

POSES = (cdr.ODOMETRY, cdr.POSE)
# Columns of a message of each kind, as `cdr` decodes it.
COLUMNS = {
    cdr.POSE: (*NAMES["position"], *NAMES["quaternion"]),
    cdr.ODOMETRY: (*NAMES["position"], *NAMES["quaternion"], *NAMES["velocity"]),
    cdr.IMU: (*NAMES["accelerometer"], *NAMES["gyroscope"]),
}


@dataclass(frozen=True)
class Stream:
    """Messages of one topic of a base, as flat buffers."""

    topic: str
    kind: str
    stamps: array = field(default_factory=lambda: array("q"))
    values: array = field(default_factory=lambda: array("d"))

    def add(self, logged: int, data: bytes) -> None:
        """Keep a message under its own stamp, or the time it was logged where it has none."""
        stamp, row = cdr.of_base(data, self.kind)
        self.stamps.append(stamp or logged)
        self.values.extend(row)

    def sorted(self) -> tuple[Int[np.ndarray, " time"], Float[np.ndarray, "time k"]]:
        """Stamps, each once, and rows; quaternions on one side."""
        stamps, first = np.unique(np.array(self.stamps, np.int64), return_index=True)
        rows = np.array(self.values).reshape(-1, len(COLUMNS[self.kind]))[first]
        if self.kind in POSES:
            turn = rows[:, 3:7]
            flips = np.where(np.sum(turn[1:] * turn[:-1], axis=1) < 0, -1.0, 1.0)
            rows[:, 3:7] = turn * np.cumprod(np.append(1.0, flips))[:, None]
        return stamps, rows


def choose_streams(topics: Mapping[str, str], column_map: Mapping[str, Any], floating: bool) -> dict[str, Stream]:
    """Topics of a free base: those that the column map names, else, of a robot that has one, the only one of a kind."""
    said = column_map.get("base", {})
    chosen = [
        _one(topics, said.get("pose_topic"), "pose_topic", POSES, floating),
        _one(topics, said.get("imu_topic"), "imu_topic", (cdr.IMU,), floating),
    ]
    return {topic: Stream(topic, topics[topic]) for topic in chosen if topic is not None}


def _one(topics: Mapping[str, str], asked: Any, key: str, kinds: tuple[str, ...], floating: bool) -> str | None:
    able = [topic for topic, kind in topics.items() if kind in kinds]
    if asked is not None and asked not in able:
        found = topics.get(str(asked), "not there")
        raise RecordingError(f'base.{key} "{asked}" is {found}; use {", ".join(able) or "a bag with " + kinds[0]}')
    if asked is None and floating and len(able) > 1:
        raise RecordingError(f"has several topics for the base, {', '.join(able[:6])}; say base.{key} in columns")
    return asked if asked is not None else able[0] if able and floating else None


@dataclass(frozen=True)
class Aligned:
    """Joints and base on one clock: stamps, joint signals, columns of the base, and what was done."""

    stamps: Int[np.ndarray, " time"]
    arrays: dict[str, np.ndarray]
    base: dict[str, np.ndarray]
    notes: tuple[str, ...]


def aligned(
    stamps: Int[np.ndarray, " time"], arrays: Mapping[str, np.ndarray], streams: Mapping[str, Stream]
) -> Aligned:
    """Everything at the stamps of the slowest stream, while all streams last."""
    found = {topic: stream.sorted() for topic, stream in streams.items()}
    for topic, (times, _) in found.items():
        if len(times) < 2:
            raise RecordingError(f"{topic} has {len(times)} messages; a base needs two at least")
    rates = {"joint states": stamps, **{topic: times for topic, (times, _) in found.items()}}
    slowest = max(rates, key=lambda name: float(np.median(np.diff(rates[name]))) if len(rates[name]) > 1 else 0.0)
    at = np.unique(rates[slowest])
    at = at[_within(at, stamps) & np.all([_within(at, times) for times, _ in found.values()], axis=0)]
    if not len(at):
        raise RecordingError(f"{', '.join(found)} and joint states are from different times; record them together")
    base = {}
    for topic, (times, rows) in found.items():
        columns = dict(zip(COLUMNS[streams[topic].kind], _straight(at, times, rows).T, strict=True))
        base |= columns
    turn = np.sqrt(sum(base[name] ** 2 for name in NAMES["quaternion"])) if "base.qw" in base else 1.0
    base |= {name: base[name] / turn for name in NAMES["quaternion"] if name in base}
    joints = {key: _straight(at, stamps, rows) for key, rows in arrays.items()}
    words = f"base of {', '.join(found)}, on the stamps of {slowest}, {len(at)} samples while all last"
    return Aligned(at, joints, base, (words,))


def _within(at: Int[np.ndarray, " at"], times: Int[np.ndarray, " time"]) -> Bool[np.ndarray, " at"]:
    return (at >= times.min()) & (at <= times.max())


def _straight(
    at: Int[np.ndarray, " at"], times: Int[np.ndarray, " time"], rows: Float[np.ndarray, "time k"]
) -> Float[np.ndarray, "at k"]:
    first = int(times.min())  # nanoseconds since 1970 have more digits than a double
    return np.column_stack([np.interp((at - first) * 1e-9, (times - first) * 1e-9, column) for column in rows.T])
