"""Wrapped angles, which jump by a whole turn, made continuous before anything is computed of them."""

import math

import numpy as np

from diffnea.recordings.recording import Recording

TURN = 2 * math.pi
# A jump of at least this much between two samples, in a signal that stays within a turn, is a wrapped angle.
WRAP = 0.8 * TURN


def unwrap(recording: Recording) -> Recording:
    """The recording with continuous angles; `unwrapped` counts the jumps that were taken out of each joint."""
    q = recording.q
    jumps = np.abs(np.diff(q, axis=0)) > WRAP
    wrapped = jumps.any(0) & (np.ptp(q, axis=0) <= 1.001 * TURN)
    if not wrapped.any():
        return recording
    counts = recording.unwrapped + (jumps & wrapped).sum(0)
    return recording.replace(q=np.where(wrapped, np.unwrap(q, axis=0), q).astype(q.dtype), unwrapped=counts)
