"""What a recording is worth before anything is fitted: sampling, noise, saturation, delay and excitation."""

from dataclasses import dataclass

import numpy as np

from diffnea.recordings.differentiate import Smoothed, joint_labels, smooth
from diffnea.recordings.input_delay import Delay, input_delays
from diffnea.recordings.recording import Recording
from diffnea.recordings.resampling import LONGEST_GAP, is_regular, regular
from diffnea.recordings.velocity_filter import VelocityLag, velocity_lag

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
    jitter: float  # s, standard deviation of the time between samples, gaps left out
    missing: int  # samples in gaps short enough to interpolate
    gaps: int  # longer gaps, which split the recording

    def __str__(self) -> str:
        """The sampling in plain words."""
        jitter = f"jitter {1e3 * self.jitter:.2g} ms" if self.jitter > 1e-3 / self.rate else "regular"
        lost = f", {self.missing} samples missing" if self.missing else ""
        gaps = f", {self.gaps} gaps" if self.gaps else ""
        return f"{self.samples} samples, {self.duration:.4g} s at {self.rate:.5g} Hz, {jitter}{lost}{gaps}"


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
    """Look a recording over; where gaps split it, all but sampling and saturation are of its longest piece."""
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
    steps = np.diff(recording.time)
    usual = recording.dt
    long = steps > LONGEST_GAP * usual
    short = ~long & (steps > 1.5 * usual)
    return Sampling(
        samples=len(recording),
        duration=recording.duration,
        rate=1 / usual,
        jitter=0.0 if is_regular(recording) else float(np.std(steps[~long])),
        missing=int(np.round(steps[short] / usual - 1).sum()),
        gaps=int(long.sum()),
    )


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
