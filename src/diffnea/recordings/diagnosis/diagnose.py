"""What a recording is worth before anything is fitted: sampling, noise, saturation, delay and excitation."""

from dataclasses import dataclass

import numpy as np

from diffnea.recordings.recording import Recording
from diffnea.recordings.signal.differentiate import Smoothed, joint_labels, smooth
from diffnea.recordings.signal.input_delay import Delay, input_delays
from diffnea.recordings.signal.resampling import is_regular, regular, split
from diffnea.recordings.signal.velocity_filter import VelocityLag, velocity_lag

# An input rests at its extreme when it stays there this many samples, and saturates when it does so this often.
SATURATED_RUN, SATURATED_SHARE = 3, 0.01
# Samples that are enough to tell a delay.
ENOUGH = 100_000


@dataclass(frozen=True)
class Sampling:
    """How the samples lie in time."""

    samples: int
    duration: float  # s
    rate: float  # Hz
    jitter: float  # s, standard deviation of the stamps about a regular clock, or of the time between them
    odd: int  # stamps that are much further off the clock than the others
    missing: int  # samples in gaps short enough to interpolate
    gaps: int  # longer gaps, which split the recording

    def __str__(self) -> str:
        """The sampling in plain words."""
        jitter = f"jitter {1e3 * self.jitter:.2g} ms" if self.jitter > 1e-3 / self.rate else "regular"
        odd = f", {self.odd} odd time stamp{'s' * (self.odd > 1)}" if self.odd else ""
        lost = f", {self.missing} samples missing" if self.missing else ""
        gaps = f", {self.gaps} gaps" if self.gaps else ""
        return f"{self.samples} samples, {self.duration:.4g} s at {self.rate:.5g} Hz, {jitter}{odd}{lost}{gaps}"


@dataclass(frozen=True)
class Saturation:
    """An input that rests at its extremes."""

    joint: str
    low: float
    high: float
    share: float  # of the samples
    runs: int

    def __str__(self) -> str:
        """The finding in plain words."""
        return f"{self.joint}: input rests at {self.low:.4g} or {self.high:.4g} for {self.share:.0%} of the time"


@dataclass(frozen=True)
class Excitation:
    """How much a joint moved."""

    joint: str
    lowest: float
    highest: float
    speed: float  # largest
    acceleration: float  # root mean square
    moving: float  # share of the time
    reversals: int
    signal_to_noise: float  # of the accelerations

    def __str__(self) -> str:
        """The motion in plain words."""
        return (
            f"{self.joint}: from {self.lowest:.3g} to {self.highest:.3g}, speed up to {self.speed:.3g}, "
            f"moving {self.moving:.0%} of the time, {self.reversals} reversals, acceleration "
            f"{self.signal_to_noise:.2g} times its noise"
        )


@dataclass(frozen=True)
class Diagnosis:
    """All findings on one recording; `lines` are the same in words."""

    sampling: Sampling
    smoothing: Smoothed
    excitation: tuple[Excitation, ...]
    saturation: tuple[Saturation, ...]
    delays: tuple[Delay, ...]
    velocity_lags: tuple[VelocityLag, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """What was found, one line each."""
        found = (self.sampling, *self.smoothing.joints, *self.excitation, *self.saturation)
        return tuple(map(str, (*found, *self.delays, *self.velocity_lags)))


def diagnose(recording: Recording) -> Diagnosis:
    """Look a recording over; where gaps split it, all but sampling and saturation are of its longest piece.

    Args:
        recording: the recording.
    """
    piece = max(regular(recording), key=len)
    found = smooth(piece)
    return Diagnosis(
        sampling=sampling(recording),
        smoothing=found,
        excitation=excitation(found),
        saturation=saturation(recording),
        delays=input_delays(_middle(piece)),
        velocity_lags=() if piece.qd is None else velocity_lag(piece),
    )


def _middle(recording: Recording) -> Recording:
    """As much of a long recording as a delay needs."""
    spare = max(len(recording) - ENOUGH, 0) // 2
    return recording[spare : len(recording) - spare]


def sampling(recording: Recording) -> Sampling:
    """Rate, jitter, and what is missing."""
    samples, duration = len(recording), recording.duration
    if is_regular(recording):
        return Sampling(samples, duration, recording.rate, jitter=0.0, odd=0, missing=0, gaps=0)
    found = split(recording)
    odd = 0 if found.clock is None else found.clock.odd
    return Sampling(samples, duration, 1 / found.period, found.jitter, odd, found.missing, found.gaps)


def saturation(recording: Recording) -> tuple[Saturation, ...]:
    """Inputs that rest at their largest or smallest value; constant ones are not counted."""
    found = []
    for name, u, driven in zip(joint_labels(recording), recording.u.T, recording.driven, strict=True):
        size = float(np.ptp(u))
        if not driven or size == 0:
            continue
        ends = np.minimum(np.abs(u - u.min()), np.abs(u - u.max())) < 1e-6 * size
        lengths = _runs(ends)
        lengths = lengths[lengths >= SATURATED_RUN]
        # Two values only is a relay, or a chirp of steps: it is meant to be at its extremes.
        if len(lengths) and lengths.sum() > SATURATED_SHARE * len(u) and not ends.all():
            found.append(Saturation(name, float(u.min()), float(u.max()), float(lengths.sum() / len(u)), len(lengths)))
    return tuple(found)


def _runs(flags: np.ndarray) -> np.ndarray:
    """Lengths of the stretches that are true."""
    edges = np.diff(np.concatenate([[0], flags.astype(int), [0]]))
    return np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)


def excitation(found: Smoothed) -> tuple[Excitation, ...]:
    """How far, how fast and how often each joint moved."""
    qd, qdd = found.recording.qd, found.recording.qdd
    assert qd is not None and qdd is not None
    rows = []
    for k, joint in enumerate(found.joints):
        speed = np.abs(qd[:, k])
        fast = speed > max(3 * joint.qd_std, 0.02 * float(speed.max()))
        signs = np.sign(qd[fast, k])
        rows.append(
            Excitation(
                joint=joint.joint,
                lowest=float(found.q[:, k].min()),
                highest=float(found.q[:, k].max()),
                speed=float(speed.max()),
                acceleration=float(np.sqrt(np.mean(qdd[:, k] ** 2))),
                moving=float(fast.mean()),
                reversals=int((signs[1:] != signs[:-1]).sum()),
                signal_to_noise=float(np.std(qdd[:, k]) / max(joint.qdd_std, 1e-300)),
            )
        )
    return tuple(rows)
