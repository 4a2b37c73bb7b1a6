"""Rows of motion and torque for hints: all signals of the recordings through one low-pass, and few of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PyTree
from scipy.signal import butter, sosfiltfilt

from diffnea.identify.judge.mistakes.torque_map import Motion
from diffnea.identify.judge.windows import without_delay
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import AbstractModel, Model

# Torque equations that are solved; rows stand so many to a period of the highest frequency that is kept.
EQUATIONS, LEAST_ROWS, A_PERIOD = 4500, 60, 3
# Friction turns over within this share of a joint's usual speed.
TURNS_OVER = 0.02
HUGE = 1e50  # squares of more are not finite


class Stretch(NamedTuple):
    """One recording through the low-pass, all of its samples, and which of them are rows."""

    signals: Motion
    chosen: slice
    dt: float | None

    def late(self, seconds: float) -> Float[np.ndarray, "row n"]:
        """Its inputs as they were so long before each row."""
        time = (self.dt or 1.0) * np.arange(len(self.signals.u))
        then = time[self.chosen] - seconds
        return np.column_stack([np.interp(then, time, column) for column in self.signals.u.T])


class MotionRows(NamedTuple):
    """The rows of all recordings."""

    stretches: tuple[Stretch, ...]

    @property
    def motion(self) -> Motion:
        """One after the other."""
        parts = [[signal[each.chosen] for signal in each.signals] for each in self.stretches]
        return Motion(*map(np.concatenate, zip(*parts, strict=True)))

    @property
    def dt(self) -> float | None:
        """Between samples of the first recording."""
        return self.stretches[0].dt

    def late(self, seconds: float) -> Float[np.ndarray, "row n"]:
        """The inputs that came so long before each row."""
        return np.concatenate([each.late(seconds) for each in self.stretches])


def motion_rows(tracks: Sequence[Track], model: AbstractModel | None = None) -> MotionRows | None:
    """Few enough to be solved at once; None where there are too few. A model's motors make torques of volts."""
    corner = min([track.terms.bandwidth for track in tracks if track.terms is not None], default=None)
    most = max(EQUATIONS // tracks[0].q.shape[1], 4 * LEAST_ROWS)
    every = -(-sum(map(len, tracks)) // most)
    found = [_stretch(track, model, corner, every) for track in tracks]
    rows = MotionRows(tuple(each for each in found if each is not None))
    if not rows.stretches or len(rows.motion.q) < LEAST_ROWS:
        return None
    return rows if all(np.all(np.abs(signal) < HUGE) for signal in rows.motion) else None


def _stretch(track: Track, model: AbstractModel | None, corner: float | None, every: int) -> Stretch | None:
    source = track if track.terms is None else track.terms
    u = track.acting(None) if track.terms is None else track.terms.u
    way = np.tanh(source.qd / (TURNS_OVER * source.qd.std(0) + 1e-12))
    signals, edge = [source.q, source.qd, source.qdd, _torque(model, source, u), way], 0
    if corner is not None and track.dt is not None:
        sections = butter(3, min(0.8, 2 * corner * track.dt), output="sos")
        edge = int(0.5 / (corner * track.dt)) + 1
        if len(track) < 4 * edge + 30:
            return None
        signals = [sosfiltfilt(sections, signal, axis=0) for signal in signals]
        every = max(every, int(1 / (A_PERIOD * corner * track.dt)))
    return Stretch(Motion(*signals), slice(edge, len(track) - edge, max(1, every)), track.dt)


def _torque(model: AbstractModel | None, source: PyTree, u: Float[np.ndarray, "time n"]) -> Float[np.ndarray, "time n"]:
    """What the inputs bring: of volts and the like, by the motor that was found."""
    if not isinstance(model, Model):
        return u
    prompt, _ = without_delay(model)
    assert isinstance(prompt, Model)
    return torques(prompt, source.q, source.qd, source.qdd, u).driven
