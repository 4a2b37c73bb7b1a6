"""BAM's logs (Rhoban): one servo with a pendulum, a JSON file with a header and one entry a sample."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from diffnea.recordings.columns.table import Table, from_arrays
from diffnea.recordings.recording import InputKind, RecordingError

LARGEST = 1 << 28  # bytes, unpacked
# Present PWM of Dynamixel's XL330, a signed number that logs have as one without sign; full scale.
WRAP, SIGNED, FULL_SCALE = 65536, 32767, 885


def tables(path: Path, input_kind: InputKind) -> list[Table]:
    """Goals, with the gain of the servo, 0 where torque is off; as commands, the motor's voltage."""
    log = _log(path)
    entries = log["entries"]
    columns = {name: _column(entries, key) for name, key in (("time", "timestamp"), ("q", "position"))}
    if input_kind == "command":
        return [from_arrays({**columns, "u": _voltage(entries)})]
    columns["goal"] = _column(entries, "goal_position")
    on = np.array([bool(entry.get("torque_enable", True)) for entry in entries])
    if not on.any():
        raise RecordingError('torque is off all the time; goals tell nothing then: say input = "command" in columns')
    gain = _gain(log)
    off = () if on.all() else (f"torque is off in {int((~on).sum())} of {len(on)} samples",)
    if gain is None and on.all():
        return [from_arrays(columns)]
    known = () if gain is None else (f"the servo's gain is {gain:g}, as its firmware counts",)
    return [from_arrays({**columns, "gain": np.where(on, gain or 1.0, 0.0)}, notes=(*known, *off))]


def _gain(log: dict[str, Any]) -> float | None:
    """The header's kp."""
    gain = log.get("kp")
    if gain is None:
        return None
    if isinstance(gain, bool) or not isinstance(gain, (int, float)) or not 0 < gain < float("inf"):
        raise RecordingError(f"kp is {str(gain)[:40]!r}; give a number above zero, or leave it out")
    return float(gain)


def _log(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as stream:
        text = stream.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise RecordingError(f"has more than {LARGEST} bytes; BAM's logs have a few megabytes")
    try:
        log = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"is no JSON ({' '.join(str(error).split())[:80]}); give a log of BAM") from None
    entries = log.get("entries") if isinstance(log, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise RecordingError('has no "entries", one object a sample; BAM\'s logs have them, and no other JSON is read')
    return log


def _column(entries: list[dict[str, Any]], key: str) -> np.ndarray:
    values = [entry.get(key) for entry in entries]
    for k, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RecordingError(f'entry {k} has {key} = {str(value)[:40]!r}; give a number ("{key}" of a BAM log)')
    return np.array(values, float)


def _voltage(entries: list[dict[str, Any]]) -> np.ndarray:
    """Duty times supply; the log's duty is without sign."""
    load, supply = _column(entries, "load"), _column(entries, "input_volts")
    return np.where(load > SIGNED, load - WRAP, load) / FULL_SCALE * supply
