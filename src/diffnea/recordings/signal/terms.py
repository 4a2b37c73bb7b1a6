"""The terms of an equation of motion from noisy positions: smoothed little, all through one low-pass, input included.

Smoothing biases what is not linear in the states, and a filter on one side of an equation only shows as a delay. So
states keep more than is known of them and the input is filtered as they are; whoever uses them filters the equations.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.recordings.recording import Recording
from diffnea.recordings.signal.differentiate import MOVING, Smoothed, joint_by_joint
from diffnea.recordings.signal.matched_input import held
from diffnea.recordings.signal.wrapped_angles import unwrap

# Equations are kept up to this many times the bandwidth at which accelerations are best: the more, the cleaner they are
# there. Their noise grows with the bandwidth to the power of 5/2, and may be this share of the accelerations' spread.
LEAST, MOST, NOISE, POWER = 0.7, 8.0, 0.01, 2.5
# States are smoothed less: to this many times the best bandwidth, and to this many times what is kept.
WIDE, WIDER = 3.0, 2.0


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
    best, bandwidth = _slowest(smoothed)
    found = joint_by_joint(unwrap(recording).q, recording.dt, max(WIDE * best, WIDER * bandwidth))
    wide = found[0].bandwidth
    kept = slice(smoothed.dropped, len(recording) - smoothed.dropped)
    q, qd, qdd = (np.column_stack([getattr(each, key) for each in found])[kept] for key in ("q", "qd", "qdd"))
    u = np.column_stack(
        [held(u, recording.dt, wide, 0.0, recording.measured) for u in recording.u.T.astype(np.float64)]
    )[kept]
    return Terms(q, qd, qdd, u, wide, min(bandwidth, wide / WIDER))


def _slowest(smoothed: Smoothed) -> tuple[float, float]:
    """The lowest best bandwidth, and the lowest to keep, of joints that move (all where none does): others tremble."""
    clean = np.std(np.asarray(smoothed.recording.qdd), axis=0) / [max(each.qdd_std, 1e-300) for each in smoothed.joints]
    best = np.array([each.bandwidth for each in smoothed.joints])
    moving = next(some for some in (clean > MOVING, clean > 0, clean >= 0) if np.any(some))
    kept = best * np.clip((NOISE * clean) ** (1 / POWER), LEAST, MOST)
    return float(best[moving].min()), float(kept[moving].min())
