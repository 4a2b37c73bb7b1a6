"""How late a joint answers its command, in fractions of a sample, without a model of the robot.

The input at each of several delays is explained by the motion, all through one filter; the delay is where least is
left. What stands for the robot are the terms that equations of motion are made of, with free factors.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffnea.recordings.recording import Recording
from diffnea.recordings.signal.differentiate import Smoothed, smooth
from diffnea.recordings.signal.matched_input import held

# Delays that are tried, s: from a little before the command (a clock that is off) to what no drive needs.
EARLIEST, LATEST, COARSE, FINE = -6e-3, 0.06, 2e-3, 5e-4
# The share of the input that the motion must explain before a delay is named, and the largest standard deviation of
# one that is worth naming, s.
LEAST_EXPLAINED, LEAST_SURE = 0.8, 2e-3
# With more joints than this, the many products of accelerations and angles would explain anything.
FEW_JOINTS = 3


@dataclass(frozen=True)
class Delay:
    """How late the motion of a joint answers its command, the lag of its actuator included."""

    joint: str
    seconds: float
    std: float
    explained: float  # share of the input that the motion explains at that delay

    def __str__(self) -> str:
        """The finding in plain words."""
        return f"{self.joint}: answers its command after {1e3 * self.seconds:.2g} ± {2e3 * self.std:.1g} ms"


def input_delays(recording: Recording) -> tuple[Delay, ...]:
    """The delay of each driven joint; none where the data do not tell.

    Args:
        recording: the recording.
    """
    if not any(recording.driven):
        return ()
    found = smooth(recording, "common")
    bandwidth = found.joints[0].bandwidth
    # Four samples a period of the bandwidth hold all there is.
    kept = slice(found.dropped, len(recording) - found.dropped, max(int(recording.rate / (4 * bandwidth)), 1))
    basis = _orthonormal(_motion_terms(found, slice(0, None, kept.step)))
    delays = []
    for k, joint in enumerate(found.joints):

        def left(delay: float, k: int = k) -> float:
            u = held(recording.u[:, k].astype(float), recording.dt, bandwidth, delay, recording.measured)[kept]
            return float(np.sum((u - basis @ (basis.T @ u)) ** 2) / max(np.sum((u - u.mean()) ** 2), 1e-300))

        delay = _lowest(left, max(joint.samples - basis.shape[1], 2.0)) if recording.driven[k] else None
        delays += [Delay(joint.joint, *delay)] if delay else []
    return tuple(delays)


def _motion_terms(found: Smoothed, rows: slice) -> np.ndarray:
    """What an input may balance: inertia, gravity, centrifugal and Coriolis forces, friction."""
    q, qd, qdd = found.q[rows], found.recording.qd, found.recording.qdd
    assert qd is not None and qdd is not None
    qd, qdd = qd[rows], qdd[rows]
    slow = 3 * np.maximum([joint.qd_std for joint in found.joints], 1e-12)
    terms = [np.ones((len(q), 1)), q, np.sin(q), np.cos(q), qd, np.tanh(qd / slow), qdd]
    turned = range(q.shape[1]) if q.shape[1] <= FEW_JOINTS else ()
    for m in turned:
        angle = q[:, [m]]
        terms += [qdd * np.cos(angle), qdd * np.sin(angle), qdd * np.cos(2 * angle)]
        terms += [qd**2 * np.sin(angle), qd**2 * np.cos(angle), qd**2 * np.sin(2 * angle)]
        terms += [qd * qd[:, [m]] * np.sin(angle), qd * qd[:, [m]] * np.sin(2 * angle)]
    return np.column_stack(terms)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """A basis of the columns' span; terms that are combinations of others drop out."""
    scaled = columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    return left[:, sizes > 1e-8 * sizes[0]]


def _lowest(left: Callable[[float], float], samples: float) -> tuple[float, float, float] | None:
    """The delay that leaves least, its standard deviation and what is explained; None where that is unclear."""
    coarse = np.arange(EARLIEST, LATEST, COARSE)
    near = coarse[int(np.argmin([left(float(delay)) for delay in coarse]))]
    grid = np.arange(near - COARSE, near + 1.001 * COARSE, FINE)
    values = np.array([left(float(delay)) for delay in grid])
    best = int(np.argmin(values))
    if best in (0, len(grid) - 1) or values[best] > 1 - LEAST_EXPLAINED:
        return None
    # A parabola through the three lowest points; −2 log likelihood is n log(left), n as many as are independent.
    before, lowest, after = values[best - 1 : best + 2]
    bend = before - 2 * lowest + after
    if bend <= 0:
        return None
    std = FINE * math.sqrt(2 * lowest / (samples * bend))
    delay = float(grid[best] + 0.5 * FINE * (before - after) / bend)
    # Well before the command there is no answer to it: that is a controller answering the motion.
    return (delay, std, float(1 - lowest)) if std < LEAST_SURE and delay > -max(2 * std, FINE) else None
