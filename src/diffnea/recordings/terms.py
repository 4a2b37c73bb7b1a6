"""The terms of an equation of motion from noisy positions: smoothed little, all through one low-pass, input included.

Smoothing biases what is not linear in the states, and a filter on one side of an equation only shows as a delay. So
states keep more than is known of them and the input is filtered as they are; whoever uses them filters the equations.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.recordings.differentiate import MOVING, Smoothed, joint_by_joint, unwrap
from diffnea.recordings.matched_input import held
from diffnea.recordings.recording import Recording

# States are smoothed to this many times the bandwidth at which their accelerations are best, equations to this many.
WIDE, KEPT = 3.0, 0.7


@dataclass(frozen=True)
class Terms:
    """States, accelerations and inputs, in double precision."""

    q: Float[np.ndarray, "time n"]
    qd: Float[np.ndarray, "time n"]
    qdd: Float[np.ndarray, "time n"]
    u: Float[np.ndarray, "time n"]
    wide: float  # Hz, to which they are smoothed
    bandwidth: float  # Hz, up to which equations of them are worth something

    def take(self, rows: slice | np.ndarray) -> "Terms":
        """Some of the samples."""
        return replace(self, **{key: getattr(self, key)[rows] for key in ("q", "qd", "qdd", "u")})


def terms(recording: Recording, smoothed: Smoothed) -> Terms:
    """Of the samples that `smoothed`, which is of this recording, has kept."""
    best = _slowest(smoothed)
    found = joint_by_joint(unwrap(recording)[0], recording.dt, WIDE * best)
    wide = found[0].bandwidth
    kept = slice(smoothed.dropped, len(recording) - smoothed.dropped)
    q, qd, qdd = (np.column_stack([getattr(each, key) for each in found])[kept] for key in ("q", "qd", "qdd"))
    u = np.column_stack([held(u.astype(np.float64), recording.dt, wide, 0.0) for u in recording.u.T])[kept]
    return Terms(q, qd, qdd, u, wide, KEPT / WIDE * wide)


def _slowest(smoothed: Smoothed) -> float:
    """The lowest bandwidth of those that move; a joint that only trembles says nothing about the others."""
    spread = np.std(np.asarray(smoothed.recording.qdd), axis=0)
    moving = [
        each.bandwidth for each, size in zip(smoothed.joints, spread, strict=True) if size > MOVING * each.qdd_std
    ]
    return min(moving or [each.bandwidth for each in smoothed.joints])
