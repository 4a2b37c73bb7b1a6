"""A log with jittered stamps and dropped samples → recordings sampled regularly, and a count of what was done."""

import numpy as np

from diffnea.recordings.recording import SIGNALS, Recording, RecordingError
from diffnea.recordings.wrapped_angles import unwrap

# Stamps that stray from the grid by less than this share of a period are the grid, written with few digits.
STRAY = 0.02
# A gap of more than this many periods splits the recording; shorter ones are interpolated.
LONGEST_GAP = 4.5
# A piece of fewer samples has no derivatives worth having.
SHORTEST = 16


def is_regular(recording: Recording) -> bool:
    """Whether the stamps lie on a grid, up to a small share of a period."""
    if len(recording) < 3:
        return True
    grid = np.linspace(recording.time[0], recording.time[-1], len(recording))
    steps = np.diff(recording.time)
    dt = (grid[-1] - grid[0]) / (len(grid) - 1)
    return bool(np.abs(steps - dt).max() < STRAY * dt)


def regular(recording: Recording, rate: float | int | None = None) -> list[Recording]:
    """The recording at a constant rate (Hz; by default its own median), split where samples are missing for long.

    Angles are unwrapped, then positions and derivatives are interpolated by cubic splines; inputs are held. What was
    done is in the notes.
    """
    if rate is not None and not rate > 0:
        raise RecordingError(f"rate is {rate:g}; give a positive number of samples a second")
    if rate is None and is_regular(recording):
        return [recording]
    dt = recording.dt if rate is None else 1 / rate
    steps = np.diff(recording.time)
    long = steps > LONGEST_GAP * recording.dt
    cuts = np.concatenate([[0], np.flatnonzero(long) + 1, [len(recording)]])
    pieces = [recording[int(a) : int(b)] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    kept = [piece for piece in pieces if len(piece) >= SHORTEST]
    if not kept:
        raise RecordingError(
            f"gaps leave no piece of {SHORTEST} samples in {len(recording)}; record without dropped samples"
        )
    filled = int(np.round(steps[(steps > 1.5 * recording.dt) & ~long] / recording.dt - 1).sum())
    jitter = float(np.std(steps[~long]))
    note = (
        f"resampled to {1 / dt:.6g} Hz: stamps jitter by {1e3 * jitter:.2g} ms, {filled} missing samples interpolated, "
        f"{int(long.sum())} longer gaps split the recording"
    )
    lost = sum(len(piece) for piece in pieces) - sum(len(piece) for piece in kept)
    note += f", {lost} samples between them dropped" if lost else ""
    return [_resample(unwrap(piece), dt, note) for piece in kept]


def _resample(piece: Recording, dt: float, note: str) -> Recording:
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    count = int(np.floor(piece.duration / dt + 1e-6)) + 1
    time = piece.time[0] + dt * np.arange(count)
    held = np.clip(np.searchsorted(piece.time, time + 1e-6 * dt, side="right") - 1, 0, len(piece) - 1)
    signals: dict[str, np.ndarray | None] = {"u": piece.u[held]}
    for key in SIGNALS[:3]:
        values = getattr(piece, key)
        signals[key] = None if values is None else CubicSpline(piece.time, values)(time).astype(values.dtype)
    return piece.replace(time=time, notes=(*piece.notes, note), **signals)
