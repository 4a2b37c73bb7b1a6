"""Suspicions: what looks like a wrong unit in a log, said before anything is concluded from it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from diffnea.recordings import Recording
from diffnea.robot import Robot

# Fewer samples a second tell nothing of a machine that moves; times of a log may be in milliseconds.
SLOWEST = 5.0
# Positions this much outside of the robot file's range, as a share of it, are not those of this joint.
OUTSIDE = 0.1
DEGREE = 180 / np.pi


def suspicions(recordings: Sequence[Recording], robot: Robot) -> list[str]:
    """A sentence each, the same one once."""
    said = [sentence for recording in recordings for sentence in (*_slow(recording), *_far(recording, robot))]
    return list(dict.fromkeys(said))


def timing(recordings: Sequence[Recording]) -> list[str]:
    """For fits of torques: most logs have measured ones, but nothing in a file says so."""
    if all(recording.measured or recording.qdd is not None for recording in recordings):
        return []
    return ["inputs are treated as commands with zero-order hold; if they are measured torques, pass --measured"]


def _slow(recording: Recording) -> list[str]:
    if recording.rate >= SLOWEST:
        return []
    remedy = 'if its times are milliseconds, say so in a column map: time = { column = "time", unit = "ms" }'
    return [f"{recording.rate:.3g} samples a second are too few to see a motion; {remedy}"]


def far_outside(recording: Recording, robot: Robot) -> Bool[np.ndarray, " n"]:
    """Which joints go so far beyond the limits of the robot file that they cannot be these joints in these units."""
    lower, upper = (np.asarray(row, float) for row in (robot.limits.lower, robot.limits.upper))
    spare = OUTSIDE * (upper - lower)
    return (recording.q.min(0) < lower - spare) | (recording.q.max(0) > upper + spare)


def _far(recording: Recording, robot: Robot) -> list[str]:
    lower, upper = (np.asarray(row, float) for row in (robot.limits.lower, robot.limits.upper))
    lowest, highest = recording.q.min(0), recording.q.max(0)
    spare = OUTSIDE * (upper - lower)
    said = []
    for k in np.flatnonzero(far_outside(recording, robot)):
        turns = bool(robot.tree.revolute[k])
        large = max(-lowest[k], highest[k]) > max(abs(lower[k]), abs(upper[k]))
        within = lowest[k] / DEGREE >= lower[k] - spare[k] and highest[k] / DEGREE <= upper[k] + spare[k]
        as_degrees = turns and large and within
        remedy = (
            'are they degrees? Then say unit = "deg" in a column map' if as_degrees else "look at zero, sign and unit"
        )
        unit = "rad" if turns else "m"
        found = f"positions from {lowest[k]:.3g} to {highest[k]:.3g} {unit}"
        said.append(
            f"{robot.joint_names[k]}: {found}, but the robot file has {lower[k]:.3g} to {upper[k]:.3g} {unit}; {remedy}"
        )
    return said
