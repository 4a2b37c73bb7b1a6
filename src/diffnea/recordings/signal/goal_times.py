"""Goals with times of their own, by zero-order hold at the times of the samples."""

from typing import Any

import numpy as np
from jaxtyping import Float

from diffnea.recordings.recording import RecordingError


def held_at(
    time: Float[np.ndarray, " time"], signals: dict[str, Any], goal_time: Float[np.ndarray, " goal"]
) -> tuple[Float[np.ndarray, " kept"], dict[str, Any], list[str]]:
    """Time and signals with the goal in force at each sample; samples long before the first goal are left out.

    Within a usual period of the first goal, that goal counts: its stamp is as late as any.
    """
    if not np.isfinite(goal_time).all():
        raise RecordingError(f"goal_time is not finite in row {int(np.argmin(np.isfinite(goal_time)))}; give numbers")
    order = np.argsort(goal_time, kind="stable")
    last = np.searchsorted(goal_time[order], time, side="right") - 1
    period = float(np.nanmedian(np.diff(time))) if len(time) > 1 else 0.0
    kept = (last >= 0) | (time >= goal_time[order[0]] - period)
    if not kept.any():
        raise RecordingError(
            f"goals begin at {goal_time.min():g} s, after the last sample ({time[-1]:g} s); give both on one clock"
        )
    held = signals["u"][order][np.maximum(last, 0)]
    signals = {key: value if value is None else value[kept] for key, value in {**signals, "u": held}.items()}
    early = int((~kept).sum())
    notes = ["goals have times of their own and are held from one to the next"]
    return time[kept], signals, [*notes, *([f"{early} samples before the first goal are left out"] if early else [])]
