"""Signs of a wrong unit: positions beyond the robot file's limits that some other unit explains."""

import numpy as np
from jaxtyping import Bool, Float

from diffnea.recordings.columns.units import DEGREE, TICK
from diffnea.recordings.recording import Recording
from diffnea.recordings.signal.smoothing import encoder_step
from diffnea.robot import Robot

# Positions this much outside of the robot file's range, as a share of it, are not those of this joint.
OUTSIDE = 0.1
# An encoder's step in degrees, of 4096 a turn, up to this share.
TICK_DEGREES, NEAR = TICK / DEGREE, 2e-3
MOST_TICKS = 4096
CURES = {
    "deg": 'are they degrees? Then say units = { q = "deg" } in a column map',
    "ticks": 'are they encoder ticks? Then say units = { q = "ticks" } in a column map',
    "normalised": "are they LeRobot's −100 … 100? Then say "
    'units = { q = "normalised" } and calibration = "<file>.json" in a column map',
}


def far_outside(recording: Recording, robot: Robot) -> Bool[np.ndarray, " n"]:
    """Which joints go so far beyond the limits of the robot file that they cannot be these joints in these units."""
    lower, upper = _limits(robot)
    spare = OUTSIDE * (upper - lower)
    return (recording.q.min(0) < lower - spare) | (recording.q.max(0) > upper + spare)


def unit_signs(recording: Recording, robot: Robot) -> list[str]:
    """A sentence for the joints beyond their limits, with the unit that would explain it; one for all of a kind."""
    found = _units(recording, robot)
    return [line for unit in dict.fromkeys(found.values()) for line in _said(unit, found, recording, robot)]


def in_other_units(recording: Recording, robot: Robot) -> bool:
    """Whether another unit would explain joints beyond their limits: then nothing else means anything."""
    return any(unit is not None for unit in _units(recording, robot).values())


def _units(recording: Recording, robot: Robot) -> dict[int, str | None]:
    """Of each joint beyond its limits, the unit that its positions seem to have."""
    far = np.flatnonzero(far_outside(recording, robot)).tolist()
    found = {k: _unit(recording.q[:, k].astype(float), k, robot) for k in far}
    if None not in found.values() and len(set(found.values())) > 1:  # a gripper may be in 0 … 100 beside degrees
        votes = list(found.values())
        found = dict.fromkeys(far, max(set(votes), key=votes.count))
    return found


def _said(unit: str | None, found: dict[int, str | None], recording: Recording, robot: Robot) -> list[str]:
    joints = [k for k, other in found.items() if other == unit]
    if unit is None:
        return [f"{_place(k, recording, robot)}; look at zero, sign and unit" for k in joints]
    more = [robot.joint_names[k] for k in joints[1:]]
    others = f" (and {', '.join(more)})" if more else ""
    return [f"{_place(joints[0], recording, robot)}{others}; {CURES[unit]}"]


def _place(k: int, recording: Recording, robot: Robot) -> str:
    lower, upper = _limits(robot)
    unit = "rad" if robot.tree.revolute[robot.joint_links[k]] else "m"
    lowest, highest = recording.q[:, k].min(), recording.q[:, k].max()
    stated = f"the robot file has {lower[k]:.3g} to {upper[k]:.3g} {unit}"
    return f"{robot.joint_names[k]}: positions from {lowest:.3g} to {highest:.3g} {unit}, but {stated}"


def _unit(q: Float[np.ndarray, " time"], k: int, robot: Robot) -> str | None:
    """The unit that would bring a joint's positions within its limits."""
    lower, upper = (limit[k] for limit in _limits(robot))
    spare = OUTSIDE * (upper - lower)
    if not robot.tree.revolute[robot.joint_links[k]] or max(-q.min(), q.max()) <= max(abs(lower), abs(upper)):
        return None
    if np.array_equal(q, np.round(q)) and 0 <= q.min() and 200 < q.max() < MOST_TICKS:
        return "ticks"
    as_degrees = q.min() * DEGREE >= lower - spare and q.max() * DEGREE <= upper + spare
    step = encoder_step(q)
    share = -100.5 <= q.min() and q.max() <= 100.5
    if share and step and abs(step / TICK_DEGREES - 1) > NEAR:  # a lattice, and not that of degrees
        return "normalised"
    return "deg" if as_degrees else "normalised" if share else None


def _limits(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    single = robot.joint_links
    return np.asarray(robot.limits.lower, float)[single], np.asarray(robot.limits.upper, float)[single]
