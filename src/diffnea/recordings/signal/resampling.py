"""A log with jittered stamps and dropped samples → recordings sampled regularly, and words on what was done.

Most logs are sampled by a regular clock and stamped late: their samples are put on that clock as they are. Where the
stamps are the better times, positions are interpolated at them by splines. The data decide: less noise is left.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from diffnea.recordings.recording import SIGNALS, Recording, RecordingError
from diffnea.recordings.signal.sampling_clock import STRAY, Clock, regular_clock
from diffnea.recordings.signal.smoothing import encoder_step, noise_level
from diffnea.recordings.signal.wrapped_angles import unwrap

# A gap of more than this many periods splits the recording; shorter ones are interpolated.
LONGEST_GAP = 4.5
# A piece of fewer samples has no derivatives worth having.
SHORTEST = 16
# Splines smooth a little of the noise away, the more the further stamps are off; to be believed, stamps must leave less
# noise by this factor.
WORTH = 1.25
# Samples that are enough to compare noise on.
ENOUGH = 100_000


def is_regular(recording: Recording) -> bool:
    """Whether the stamps lie on a grid, up to a small share of a period.

    Args:
        recording: the recording.
    """
    if len(recording) < 3:
        return True
    grid = np.linspace(recording.time[0], recording.time[-1], len(recording))
    steps = np.diff(recording.time)
    dt = (grid[-1] - grid[0]) / (len(grid) - 1)
    return bool(np.abs(steps - dt).max() < STRAY * dt)


def gaps(recording: Recording) -> Int[np.ndarray, " gap"]:
    """The samples before which others are missing for long; late stamps that the next ones make up for are no gap."""
    time, dt = recording.time, recording.dt
    found = []
    for k in np.flatnonzero(np.diff(time) > LONGEST_GAP * dt):
        last = min(k + 1 + int(2 * (time[k + 1] - time[k]) / dt), len(time) - 1)
        if (time[last] - time[k]) / dt - (last - k) > LONGEST_GAP - 1:
            found.append(k + 1)
    return np.array(found, int)


@dataclass(frozen=True)
class Pieces:
    """A log split at its gaps, wrapped angles made continuous, and the clock that all pieces were sampled by."""

    kept: tuple[Recording, ...]
    gaps: int
    lost: int  # samples in pieces that are too short
    clock: Clock | None  # None where stamps are too irregular for one

    @property
    def _steps(self) -> Float[np.ndarray, " step"]:
        return np.concatenate([np.diff(piece.time) for piece in self.kept])

    @property
    def period(self) -> float:
        """The time between samples, s."""
        return float(np.median(self._steps)) if self.clock is None else self.clock.period

    @property
    def jitter(self) -> float:
        """Standard deviation of the stamps about the clock, or of the time between them where there is none, s."""
        return float(np.std(self._steps)) if self.clock is None else self.clock.jitter

    @property
    def missing(self) -> int:
        """How many samples were dropped in gaps that are short enough to interpolate."""
        if self.clock is not None:
            return self.clock.missing
        steps = self._steps / self.period
        return int(np.round(steps[steps > 1.5] - 1).sum())

    @property
    def stamps_in_words(self) -> str:
        """How far time stamps are off a regular clock."""
        if self.clock is None:
            return f"time stamps follow no regular clock, steps vary by {1e3 * self.jitter:.2g} ms"
        odd, far = self.clock.odd, 1e3 * self.clock.furthest
        said = [f"time stamps jitter by {1e3 * self.jitter:.2g} ms"] if self.jitter > 1e-3 * self.period else []
        verb = "is" if odd == 1 else "are"
        said += [f"{odd} of {sum(map(len, self.kept))} time stamps {verb} off by up to {far:.2g} ms"] if odd else []
        return ", ".join(said) or "time stamps are regular"


def split(recording: Recording) -> Pieces:
    """The pieces of a log between its gaps."""
    cuts = [0, *map(int, gaps(recording)), len(recording)]
    pieces = [recording[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    kept = tuple(unwrap(piece) for piece in pieces if len(piece) >= SHORTEST)
    if not kept:
        raise RecordingError(
            f"gaps leave no piece of {SHORTEST} samples in {len(recording)}; record without dropped samples"
        )
    lost = len(recording) - sum(map(len, kept))
    return Pieces(kept, len(cuts) - 2, lost, regular_clock([piece.time for piece in kept]))


def regular(recording: Recording, rate: float | int | None = None) -> list[Recording]:
    """The recording at a constant rate, split where samples are missing for long.

    Samples are put on the regular clock that their stamps scatter about, or interpolated at the stamps by cubic
    splines: whichever leaves less noise in the positions. Missing samples are interpolated; inputs are held. What was
    done, and why, is in the notes.

    Args:
        recording: the recording.
        rate: Hz; by default its own.
    """
    if rate is not None and not rate > 0:
        raise RecordingError(f"rate is {rate:g}; give a positive number of samples a second")
    if is_regular(recording):
        return [recording] if rate is None else [_resample(unwrap(recording), 1 / rate, f"resampled to {rate:.6g} Hz")]
    found = split(recording)
    less = 0.0 if found.clock is None else _less_noise(found.kept, found.clock)
    taken = found.clock if less * WORTH > 1 else None
    note = _say(found, taken, less)
    pieces = list(found.kept) if taken is None else _on_clock(found.kept, taken, note)
    if taken is not None and rate is None:
        return pieces
    note = note if taken is None else f"resampled to {rate:.6g} Hz"
    return [_resample(piece, found.period if rate is None else 1 / rate, note) for piece in pieces]


def _less_noise(pieces: tuple[Recording, ...], clock: Clock) -> float:
    """How many times less noise positions have on the clock than interpolated at their stamps, over all joints."""
    longest = int(np.argmax([len(piece) for piece in pieces]))
    piece = pieces[longest][:ENOUGH]
    index = clock.indices[longest][: len(piece)]
    on_clock = _filled(piece.q, index)
    at_stamps = _spline(piece.time, piece.q, clock.starts[longest] + clock.period * np.arange(len(on_clock)))
    inside = slice(1, -1)  # the clock may begin before the first stamp, and end after the last
    levels = [(noise_level(a[inside]), noise_level(b[inside])) for a, b in zip(on_clock.T, at_stamps.T, strict=True)]
    ratios = [stamped / clocked for clocked, stamped in levels if clocked > 0 and stamped > 0]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0


def _on_clock(pieces: tuple[Recording, ...], clock: Clock, note: str) -> list[Recording]:
    """Every sample as it is, at its place on the clock; missing ones are interpolated."""
    found = []
    for piece, start, index in zip(pieces, clock.starts, clock.indices, strict=True):
        held = np.searchsorted(index, np.arange(index[-1] + 1), side="right") - 1
        signals = {key: None if (y := getattr(piece, key)) is None else _filled(y, index) for key in SIGNALS[:3]}
        time, notes = start + clock.period * np.arange(len(held)), (*piece.notes, note)
        base = None if piece.base is None else piece.base.resampled(start + clock.period * index, time)
        found.append(piece.replace(time=time, **_held(piece, held), notes=notes, base=base, **signals))
    return found


def _held(piece: Recording, rows: Int[np.ndarray, " time"]) -> dict[str, np.ndarray | None]:
    """Inputs and gains, which stay until the next."""
    return {"u": piece.u[rows], "gain": None if piece.gain is None else piece.gain[rows]}


def _filled(values: Float[np.ndarray, "time n"], index: Int[np.ndarray, " time"]) -> Float[np.ndarray, "all n"]:
    """Values at their indices, those between them by cubic splines, on the encoder's lattice where there is one."""
    grid = np.arange(index[-1] + 1)
    if len(grid) == len(index):
        return values
    missing = np.setdiff1d(grid, index)
    found = np.empty((len(grid), values.shape[1]), values.dtype)
    found[index], found[missing] = values, _spline(index.astype(float), values, missing.astype(float))
    for y, step in zip(found.T, map(encoder_step, values.T), strict=True):
        if step:
            y[missing] = y[0] + step * np.round((y[missing] - y[0]) / step)
    return found


def _resample(piece: Recording, dt: float, note: str) -> Recording:
    count = int(np.floor(piece.duration / dt + 1e-6)) + 1
    time = piece.time[0] + dt * np.arange(count)
    held = np.clip(np.searchsorted(piece.time, time + 1e-6 * dt, side="right") - 1, 0, len(piece) - 1)
    signals = {key: None if (y := getattr(piece, key)) is None else _spline(piece.time, y, time) for key in SIGNALS[:3]}
    base = None if piece.base is None else piece.base.resampled(piece.time, time)
    return piece.replace(time=time, **_held(piece, held), notes=(*piece.notes, note), base=base, **signals)


def _spline(
    time: Float[np.ndarray, " time"], values: Float[np.ndarray, "time n"], at: Float[np.ndarray, " at"]
) -> Float[np.ndarray, "at n"]:
    from scipy.interpolate import CubicSpline  # slow to import, and seldom needed

    return CubicSpline(time, values)(at).astype(values.dtype)


def _say(found: Pieces, taken: Clock | None, less: float) -> str:
    """What was done to the stamps and why, in a sentence."""
    said = found.stamps_in_words
    if taken is None:
        said += "; positions are interpolated at the stamps by cubic splines"
        said += f": this leaves {_times(1 / less)} less noise than taking the samples as regular" if less else ""
    else:
        much = f"{_times(less)} less noise" if less > WORTH else "no more noise"
        said += f"; samples are taken as regular at {1 / found.period:.6g} Hz: "
        said += f"this leaves {much} than interpolating at the stamps"
    counts = {
        "missing samples interpolated": found.missing,
        "longer gaps split the recording": found.gaps,
        "samples between them dropped": found.lost,
    }
    return ", ".join([said, *(f"{count} {what}" for what, count in counts.items() if count)])


def _times(factor: float) -> str:
    return f"{factor:.2g} times" if factor < 100 else "more than 100 times"
