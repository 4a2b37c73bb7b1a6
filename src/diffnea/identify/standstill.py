"""Standstill: which way friction holds a joint that rests, told from how it last moved.

At rest dry friction has no sign of its own, and a measured velocity is noise. What it holds is left from the motion
before. Prandtl's element says how much: a spring that gives by a small length before it slides, so that a joint that
has come back by twice that length holds the other way. Inverse dynamics know the motion's past and can use it; a state
alone cannot.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.data import Track
from diffnea.robot import Robot

# The spring gives by so many radians, or metres at joints that slide: bearings and gears give by about that before
# they slip. Where positions are noisy, by this many times their noise.
GIVES, GIVES_SLIDING, NOISE = 5e-5, 5e-6, 4.0
# A joint rests that is slower than this share of its highest speed for so long; it does not where it only turns back.
SLOW, LASTING = 0.005, 0.05  # s


def held(tracks: Sequence[Track], robot: Robot) -> tuple[Track, ...]:
    """The same motion, with velocities at rest that point the way friction holds; samples without order stay."""
    return tuple(track if track.dt is None else _held(track, robot) for track in tracks)


def _held(track: Track, robot: Robot) -> Track:
    noise, dt = track.noise * track.q.std(0), track.dt or 0.0
    found = replace(track, qd=at_rest(robot, track.q, track.qd, dt, noise))
    if track.terms is None:
        return found
    return replace(found, terms=replace(track.terms, qd=at_rest(robot, track.terms.q, track.terms.qd, dt, noise)))


def at_rest(
    robot: Robot,
    q: Float[np.ndarray, "time n"],
    qd: Float[np.ndarray, "time n"],
    dt: float,
    noise: Float[np.ndarray, " n"] | float = 0.0,
) -> Float[np.ndarray, "time n"]:
    """Velocities, those at rest replaced by the spring's stretch; `noise` is that of positions, in rad or m."""
    length = np.maximum(np.where(robot.tree.revolute, GIVES, GIVES_SLIDING), NOISE * noise)
    slow = SLOW * np.abs(qd).max(axis=0)
    found = np.array(qd)
    for k, each in enumerate((np.abs(qd) < slow).T):
        rests = _lasting(each, round(LASTING / dt))
        if rests.any():
            found[rests, k] = slow[k] * _stretch(q[:, k], float(length[k]))[rests]
    return found


def _lasting(yes: Bool[np.ndarray, " time"], least: int) -> Bool[np.ndarray, " time"]:
    """Only what is so for that many samples on end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], yes, [False]]).astype(int)))
    found = np.zeros_like(yes)
    for first, last in edges.reshape(-1, 2):
        found[first:last] = last - first >= least
    return found


def _stretch(q: Float[np.ndarray, " time"], length: float) -> Float[np.ndarray, " time"]:
    """From −1 to 1: the way from a slider that follows when the spring is fully stretched."""
    places = q.tolist()  # each depends on the last; plain numbers go ten times faster through a loop than arrays
    slider, found = places[0], []
    for place in places:
        slider = min(max(slider, place - length), place + length)
        found.append(place - slider)
    return np.array(found) / length
