"""Recorded velocities against differentiated positions: how late they are, and which filter made them so."""

import math
from dataclasses import dataclass

import numpy as np

from diffnea.recordings.recording import Recording, RecordingError
from diffnea.recordings.signal.differentiate import joint_labels, smooth

# A model with one more number, or an unusual one, must leave less than this share of what the simpler one leaves.
WORTH = 0.5


@dataclass(frozen=True)
class VelocityLag:
    """One joint's recorded velocity as `e^(−s·delay) · corner / (s + corner)` of the true one."""

    joint: str
    lag: float  # s, at low frequencies: delay + 1 / corner
    corner: float  # rad/s of the first-order low-pass, inf where none is seen
    delay: float  # s
    gain: float  # size of the recorded velocity against the derivative of the position: 1 unless units differ
    explained: float  # share of the recorded velocity's variance that the model explains

    def __str__(self) -> str:
        """The finding in plain words."""
        low_pass = f", as of a low-pass at {self.corner:.3g} rad/s" if math.isfinite(self.corner) else ""
        size = f", {self.gain:.3g} times too large" if abs(self.gain - 1) > 0.05 else ""
        return f"{self.joint}: recorded velocity is {1e3 * self.lag:.3g} ms late{low_pass}{size}"


def velocity_lag(recording: Recording) -> tuple[VelocityLag, ...]:
    """Lag and low-pass corner of each joint's recorded velocity, by comparing spectra within the smoother's band.

    Args:
        recording: the recording.
    """
    if recording.qd is None:
        raise RecordingError("Recording: it has no recorded velocities (qd); there is nothing to compare")
    found = smooth(recording)
    kept = slice(found.dropped, len(recording) - found.dropped)
    derived = found.recording.qd
    assert derived is not None
    rows = zip(joint_labels(recording), derived.T, recording.qd[kept].T, found.joints, strict=True)
    return tuple(_compare(name, v, w, recording.dt, joint.bandwidth) for name, v, w, joint in rows)


def _compare(name: str, derived: np.ndarray, recorded: np.ndarray, dt: float, bandwidth: float) -> VelocityLag:
    from scipy.optimize import least_squares  # slow to import, and seldom needed

    taper = np.hanning(len(derived) - 1)
    omega = 2 * np.pi * np.fft.rfftfreq(len(taper), dt)
    band = omega < 2 * np.pi * bandwidth
    omega = omega[band]
    # Of their changes: slow motion says little about a lag, and would hide it behind the taper.
    true, seen = (np.fft.rfft(taper * np.diff(v))[band] for v in (derived, recorded))
    size = np.linalg.norm(seen)
    if size == 0 or np.linalg.norm(true) == 0:
        return VelocityLag(name, 0.0, math.inf, 0.0, 1.0, 0.0)

    def misfit(low_pass, delay, gain):
        error = (gain * true * np.exp(-1j * omega * delay) / (1 + 1j * omega * low_pass) - seen) / size
        return np.concatenate([error.real, error.imag])

    # In milliseconds, so that all three numbers are of order one.
    shapes = {
        "gain": lambda x: (0.0, 0.0, x[0]),
        "delay": lambda x: (0.0, 1e-3 * x[1], x[0]),
        "filter": lambda x: (1e-3 * abs(x[1]), 0.0, x[0]),
        "both": lambda x: (1e-3 * abs(x[1]), 1e-3 * x[2], x[0]),
    }
    starts = {"gain": [1.0], "delay": [1.0, 1.0], "filter": [1.0, 5.0], "both": [1.0, 5.0, 0.0]}
    fits = {key: least_squares(lambda x, f=shapes[key]: misfit(*f(x)), starts[key]) for key in shapes}
    single = "delay" if fits["delay"].cost < WORTH * fits["filter"].cost else "filter"
    best = "gain"
    for key in (single, "both"):
        best = key if fits[key].cost < WORTH * fits[best].cost else best
    low_pass, delay, gain = (float(value) for value in shapes[best](fits[best].x))
    corner = 1 / low_pass if low_pass > 0 else math.inf
    return VelocityLag(name, low_pass + delay, corner, delay, gain, 1 - 2 * float(fits[best].cost))
