"""Units of logs: factors to SI, and what servos count in: encoder ticks and shares of a calibrated range."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffnea import files
from diffnea.recordings.recording import RecordingError

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
# Positions as servos and LeRobot count them: ticks of an encoder with 4096 a turn, or a share of the calibrated range.
# "normalised" is LeRobot's default: −100 … 100, and 0 … 100 for a gripper.
SERVO_UNITS = ("ticks", "normalised", "-100..100", "0..100")
TICK = 2 * math.pi / 4096
MIDDLE = 2048
LARGEST_CALIBRATION = 1 << 20  # bytes


@dataclass(frozen=True)
class Range:
    """The ticks between which a motor was calibrated; `reversed`: its normalised numbers count the other way."""

    lowest: float
    highest: float
    reversed: bool = False


@dataclass(frozen=True)
class Ranges:
    """What −100 … 100 means for each joint: its calibrated ticks, or the limits of the robot file, rad."""

    calibrated: Mapping[str, Range] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def si(self, unit: str, joint: str, where: str) -> tuple[float, float]:
        """Factor and offset from a servo's unit to rad, zero at the middle of the calibrated range."""
        ticks = self.calibrated.get(joint)
        if unit == "ticks":
            middle = MIDDLE if ticks is None else (ticks.lowest + ticks.highest) / 2
            return TICK, -middle * TICK
        if unit == "normalised":
            unit = "0..100" if is_gripper(joint) else "-100..100"
        lower, upper, way = self._ends(unit, joint, where)
        if unit == "0..100":
            factor, offset = (upper - lower) / 100, lower
            return (factor, offset) if way > 0 else (-factor, upper)
        return way * (upper - lower) / 200, (lower + upper) / 2

    def _ends(self, unit: str, joint: str, where: str) -> tuple[float, float, int]:
        lower, upper = self.limits.get(joint, (-math.inf, math.inf))
        known = math.isfinite(lower) and math.isfinite(upper)
        ticks = self.calibrated.get(joint)
        if ticks is None:
            if not known:
                cure = 'give calibration = "<file>.json" in the column map, or limits in the robot file'
                raise RecordingError(
                    f'{where}: unit is "{unit}", but the range of joint "{joint}" is not known; {cure}'
                )
            return lower, upper, 1
        span = (ticks.highest - ticks.lowest) * TICK
        # A jaw counts from where it is closed, which is the lower limit of the robot file.
        start = lower if unit == "0..100" and known else -span / 2
        return start, start + span, -1 if ticks.reversed else 1


def is_gripper(joint: str) -> bool:
    """Whether a joint is a jaw by its name: LeRobot counts those from 0 to 100."""
    return any(word in joint.lower() for word in ("gripper", "jaw"))


def plain_name(name: str) -> str:
    """A motor's name as LeRobot's calibration has it, without what its data sets put around it."""
    return name.removesuffix(".pos").removeprefix("main_")


def read_calibration(path: Path) -> dict[str, Range]:
    """The calibration file of a LeRobot robot: `{motor: {"range_min": …, "range_max": …, "drive_mode": …}}`."""
    try:
        if path.stat().st_size > LARGEST_CALIBRATION:
            raise RecordingError(f"calibration {path}: has {path.stat().st_size} bytes; give LeRobot's JSON file")
        content = json.loads(files.read(path, LARGEST_CALIBRATION))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, RecordingError):
            raise
        said = " ".join(str(error).split())[:120]
        raise RecordingError(f"calibration {path}: cannot be read ({said}); give LeRobot's JSON file") from None
    if not isinstance(content, dict) or not content:
        raise RecordingError(f"calibration {path}: holds no motors; give LeRobot's JSON file")
    return {plain_name(str(motor)): _range(motor, entry, path) for motor, entry in content.items()}


def _range(motor: str, entry: Any, path: Path) -> Range:
    ends = [entry.get(key) if isinstance(entry, dict) else None for key in ("range_min", "range_max")]
    numbers = [end for end in ends if isinstance(end, (int, float)) and not isinstance(end, bool)]
    if len(numbers) != 2 or not all(map(math.isfinite, numbers)) or numbers[1] <= numbers[0]:
        found = f"range_min {ends[0]!r} and range_max {ends[1]!r}"[:120]
        raise RecordingError(f"calibration {path}: motor {motor!r} has {found}; give two ticks, the lower first")
    return Range(float(numbers[0]), float(numbers[1]), bool(entry.get("drive_mode", 0)))
