"""ROS 2 messages without ROS: the CDR encoding of the few types of joint states, commands and a base's motion."""

import struct
import sys
from dataclasses import dataclass

import numpy as np

from diffnea.recordings.recording import RecordingError

JOINT_STATE = "sensor_msgs/msg/JointState"
FLOATS = "std_msgs/msg/Float64MultiArray"
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
ODOMETRY, POSE, IMU = "nav_msgs/msg/Odometry", "geometry_msgs/msg/PoseStamped", "sensor_msgs/msg/Imu"
# Encapsulation → byte order and the largest alignment: XCDR 1 aligns doubles to 8 bytes, XCDR 2 to 4.
ENCODINGS = {0: (">", 8), 1: ("<", 8), 6: (">", 4), 7: ("<", 4)}


@dataclass(frozen=True)
class JointState:
    """A decoded message: stamp in ns (0: none), joint names, and what each joint does, empty where not given."""

    stamp: int
    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    fixed: tuple[tuple[int, int], ...] = ()  # spans of the message that do not change from one to the next
    spans: tuple[tuple[int, int], ...] = ()  # spans of the three arrays of doubles


@dataclass(frozen=True)
class JointTrajectory:
    """A decoded message: stamp in ns (0: none), joint names, and points: ns from the start, a row of positions each."""

    stamp: int
    names: tuple[str, ...]
    after: np.ndarray
    positions: np.ndarray


class Cursor:
    """A place in a CDR message; positions count from after the four bytes that say how it is encoded."""

    def __init__(self, data: bytes):
        if len(data) < 4 or data[1] not in ENCODINGS:
            found = f"encapsulation {data[:2].hex()}" if len(data) >= 4 else f"{len(data)} bytes"
            raise RecordingError(f"holds a message with {found}; ROS 2 messages in plain CDR are read")
        self.data, self.place = memoryview(data)[4:], 0
        self.order, self.widest = ENCODINGS[data[1]]

    def align(self, size: int) -> None:
        """Move on to the next multiple of a type's size."""
        self.place += -self.place % min(size, self.widest)

    def integer(self) -> int:
        """An unsigned number of four bytes."""
        self.align(4)
        (value,) = struct.unpack_from(f"{self.order}I", self.data, self.place)
        self.place += 4
        return value

    def string(self) -> str:
        """Text with its length, which counts the closing zero."""
        length = self.integer()
        raw = bytes(self.data[self.place : self.place + length])
        if len(raw) != length:
            raise struct.error
        self.place += length
        return raw.rstrip(b"\0").decode("utf-8", "replace")

    def several(self, count: int) -> np.ndarray:
        """So many doubles, one after the other."""
        self.align(8)
        end = self.place + 8 * count
        if end > len(self.data):
            raise struct.error
        values = np.frombuffer(self.data[self.place : end], f"{self.order}f8")
        self.place = end
        return values

    def doubles(self) -> np.ndarray:
        """A sequence of doubles; an empty one has no padding after its length."""
        count = self.integer()
        return self.several(count) if count else np.empty(0)


def joint_state(data: bytes) -> JointState:
    """Decode `sensor_msgs/msg/JointState`."""
    try:
        cursor = Cursor(data)
        seconds, nanoseconds = cursor.integer(), cursor.integer()
        begin = cursor.place
        cursor.string()  # frame_id
        names = tuple(cursor.string() for _ in range(cursor.integer()))
        values, spans, fixed = [], [], [(0, 4)]
        for _ in range(3):
            values.append(cursor.doubles())
            spans.append((cursor.place + 4 - values[-1].nbytes, cursor.place + 4))
            fixed.append((begin + 4, spans[-1][0]))
            begin = cursor.place
        return JointState(seconds * 10**9 + nanoseconds, names, *values, fixed=tuple(fixed), spans=tuple(spans))
    except (struct.error, ValueError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError("holds a JointState message that ends too early; record it again") from None


class Repeated:
    """Joint states of one publisher: those laid out like the last one are sliced, not decoded."""

    def __init__(self, message: JointState, data: bytes):
        self.names, self.size = message.names, len(data)
        self.fixed = [(slice(*span), data[slice(*span)]) for span in message.fixed]
        self.spans = [slice(*span) for span in message.spans]
        self.order = ENCODINGS[data[1]][0]
        self.same_order = (self.order == "<") == (sys.byteorder == "little")

    def fits(self, data: bytes) -> bool:
        """Whether all but the stamp and the numbers is the same."""
        return self.same_order and len(data) == self.size and all(data[where] == what for where, what in self.fixed)

    def stamp(self, data: bytes) -> int:
        """Nanoseconds."""
        seconds, nanoseconds = struct.unpack_from(f"{self.order}II", data, 4)
        return seconds * 10**9 + nanoseconds


def floats(data: bytes) -> np.ndarray:
    """Decode `std_msgs/msg/Float64MultiArray`: the numbers, without their layout."""
    try:
        cursor = Cursor(data)
        for _ in range(cursor.integer()):
            cursor.string()  # a dimension: its label, size and stride
            cursor.integer()
            cursor.integer()
        cursor.integer()  # offset of the first number
        return cursor.doubles()
    except (struct.error, ValueError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError("holds a Float64MultiArray message that ends too early; record it again") from None


def joint_trajectory(data: bytes) -> JointTrajectory:
    """Decode `trajectory_msgs/msg/JointTrajectory`."""
    try:
        cursor = Cursor(data)
        stamp = cursor.integer() * 10**9 + cursor.integer()
        cursor.string()  # frame_id
        names = tuple(cursor.string() for _ in range(cursor.integer()))
        points = [_point(cursor) for _ in range(cursor.integer())]
    except (struct.error, ValueError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError("holds a JointTrajectory message that ends too early; record it again") from None
    if any(len(positions) != len(names) for _, positions in points):
        raise RecordingError(f"holds a JointTrajectory without a position for each of its {len(names)} joints")
    after = np.array([when for when, _ in points], np.int64)
    return JointTrajectory(stamp, names, after, np.array([row for _, row in points]).reshape(len(points), len(names)))


def _point(cursor: Cursor) -> tuple[int, np.ndarray]:
    """Time from the start in ns, and positions; velocities, accelerations and efforts are passed over."""
    positions = cursor.doubles()
    for _ in range(3):
        cursor.doubles()
    return cursor.integer() * 10**9 + cursor.integer(), positions


def of_base(data: bytes, kind: str) -> tuple[int, list[float]]:
    """Decode a pose, odometry or an inertial sensor: stamp in ns (0: none), and its numbers.

    A pose is x, y, z and the quaternion w first; odometry has the velocity in the world's axes behind it, which its
    message has in those of its child frame; a sensor is acceleration and rates.
    """
    try:
        cursor = Cursor(data)
        stamp = cursor.integer() * 10**9 + cursor.integer()
        cursor.string()  # frame_id
        if kind == IMU:
            cursor.several(4 + 9)  # attitude and its covariance
            rates, _, force = cursor.several(3), cursor.several(9), cursor.several(3)
            return stamp, [*force.tolist(), *rates.tolist()]
        if kind == ODOMETRY:
            cursor.string()  # child_frame_id
        x, y, z, i, j, k, w = cursor.several(7).tolist()
        pose = [x, y, z, w, i, j, k]
        if kind == POSE:
            return stamp, pose
        cursor.several(36)
        return stamp, [*pose, *_turned(w, (i, j, k), cursor.several(3)).tolist()]
    except (struct.error, ValueError) as error:
        if isinstance(error, RecordingError):
            raise
        short = kind.rpartition("/")[2]
        raise RecordingError(f"holds a message {short} that ends too early; record it again") from None


def _turned(w: float, axis: tuple[float, float, float], v: np.ndarray) -> np.ndarray:
    """R v of a quaternion: `v + 2 u × (u × v + w v)`."""
    return v + 2 * np.cross(axis, np.cross(axis, v) + w * v)
