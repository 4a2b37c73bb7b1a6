"""Presliding: which way dry friction points, and how much of it, told from how a joint has moved.

At rest and where a joint turns back a measured velocity is noise and its sign means nothing. Yet friction holds a
torque there, left from the motion before. Prandtl's element says how much: a spring that gives by a small length before
it slips, so that a joint that has come back by twice that length is held the other way. Recorded positions drive it.
Where a joint rests for long, creep lets go of some of it. Inverse dynamics know a motion's past and can use it; a state
alone cannot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.actuators import AbstractActuator
from diffnea.identify.problem.measurements.tracks import Track, position_noise

# To and fro by no more than this many standard deviations of what positions are read with is noise, and no motion: they
# are smoothed, and noise is less than half of what it was.
SEEN_REVERSAL = 2.0
# A joint rests that is slower than this share of its highest speed for so long.
RESTING_SHARE, LASTING = 0.005, 0.05  # s


@dataclass(frozen=True)
class Slip:
    """How far each coordinate gives before it slips, in rad or m; the share of its friction that a long rest leaves,
    one for all or one each."""

    lengths: Float[np.ndarray, " m"]
    hold: float | Float[np.ndarray, " m"] = 1.0


def coordinates(actuator: AbstractActuator) -> Float[np.ndarray, "m n"]:
    """What rubs: every joint by itself, then the motors that turn with several; how fast each turns with the joints."""
    joints = np.eye(actuator.num_joints)
    return np.concatenate([joints, np.array(actuator.turning, float).reshape(-1, len(joints))])


def ways(
    q: Float[np.ndarray, "time m"],
    qd: Float[np.ndarray, "time m"],
    dt: float,
    slip: Slip,
    least: Float[np.ndarray, " m"] | float = 0.0,
) -> Float[np.ndarray, "time m"]:
    """From −1 to 1: each spring's stretch, 1 where its joint slides forward; 0 until it first moves.

    What goes back by no more than `least` has not turned.
    """
    lengths = slip.lengths
    path = np.stack([_turning_points(q, qd, dt), q], axis=1).reshape(2 * len(q), -1)
    columns = zip(path.T, lengths, np.broadcast_to(least, len(lengths)), strict=True)
    stretch = np.column_stack([_stretch(*column)[1::2] for column in columns])
    slow = np.abs(qd) < RESTING_SHARE * np.abs(qd).max(axis=0)
    rests = np.column_stack([_lasting(column, max(round(LASTING / dt), 1)) for column in slow.T])
    return np.where(rests, slip.hold * stretch, stretch)


def _lasting(yes: Bool[np.ndarray, " time"], least: int) -> Bool[np.ndarray, " time"]:
    """Only what is so for that many samples on end."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], yes, [False]]).astype(int)))
    found = np.zeros_like(yes)
    for first, last in edges.reshape(-1, 2):
        found[first:last] = last - first >= least
    return found


def _turning_points(q: Float[np.ndarray, "time m"], qd: Float[np.ndarray, "time m"], dt: float) -> np.ndarray:
    """Where each coordinate turned back before each sample, since the one before it; elsewhere where that one stood.

    What a spring has done depends on these points alone, so samples may be far apart. Between them velocities are taken
    to lie on a line; of the places that this gives from either side, the nearer counts.
    """
    before, after = qd[:-1], qd[1:]
    turned = before * after < 0
    share = before / np.where(turned, before - after, 1.0)
    sides = q[:-1] + 0.5 * share * before * dt, q[1:] - 0.5 * (1 - share) * after * dt
    up = np.maximum(np.minimum(*sides), np.maximum(q[:-1], q[1:]))
    down = np.minimum(np.maximum(*sides), np.minimum(q[:-1], q[1:]))
    return np.concatenate([q[:1], np.where(turned, np.where(before > 0, up, down), q[:-1])])


def _stretch(path: Float[np.ndarray, " point"], length: float, least: float) -> Float[np.ndarray, " point"]:
    """Of a spring that follows the path, in lengths; between two turns it gives until it slips."""
    found, turns = np.zeros(len(path)), _turns(path, least)
    for first, last in zip(turns[:-1], turns[1:], strict=True):
        way = path[first : last + 1]
        onward = (np.maximum if way[-1] > way[0] else np.minimum).accumulate(way)
        found[first : last + 1] = np.clip(found[first] + (onward - way[0]) / length, -1.0, 1.0)
    for before, turn, after in zip(turns[:-2], turns[1:-1], turns[2:], strict=True) if least > 0 else ():
        first, last = _around(path[before : after + 1], turn - before, least)
        here = slice(before + first, before + last + 1)
        found[here] = np.linspace(found[here.start], found[here.stop - 1], last - first + 1)
    return found


def _around(path: Float[np.ndarray, " point"], turn: int, least: float) -> tuple[int, int]:
    """From where to where noise hides what a path does about its turn.

    It may have stood still, while the torque went from what moved it one way to what moves it the other.
    """
    away = np.abs(path - path[turn]) > least
    before, after = np.flatnonzero(away[:turn]), np.flatnonzero(away[turn:])
    return int(before[-1]) if len(before) else turn, turn + int(after[0]) if len(after) else turn


def _turns(path: Float[np.ndarray, " point"], least: float) -> list[int]:
    """Where a path turns and goes back by more than `least`, with the point from which it first moves and the last."""
    steps = np.sign(np.diff(path))
    moving = np.flatnonzero(steps)
    corners = moving[1:][np.diff(steps[moving]) != 0]
    places = path.tolist()
    low = high = far = direction = 0
    turns = []
    for i in [*corners.tolist(), len(places) - 1]:
        if direction == 0:  # it has not moved yet
            low, high = (i if places[i] < places[low] else low), (i if places[i] > places[high] else high)
            if places[high] - places[low] > least:
                direction, far = (1, high) if low < high else (-1, low)
                turns.append(min(low, high))
        elif direction * (places[i] - places[far]) >= 0:
            far = i
        elif direction * (places[far] - places[i]) > least:
            turns.append(far)
            far, direction = i, -direction
    return [*turns, len(places) - 1] if turns else []


def known(tracks: Sequence[Track], actuator: AbstractActuator, slip: Slip) -> tuple[Track, ...]:
    """The same motion with the way that friction points; samples without order stay."""
    rows = coordinates(actuator)
    return tuple(track if track.dt is None else replace(track, way=_of_track(track, rows, slip)) for track in tracks)


def _of_track(track: Track, rows: Float[np.ndarray, "m n"], slip: Slip) -> np.ndarray:
    """By the positions that are smoothed the least; where derivatives were given with them, they are exact."""
    if track.terms is None:
        return ways(track.q @ rows.T, track.qd @ rows.T, track.dt or 0.0, slip)
    least = SEEN_REVERSAL * position_noise(track, rows)
    return ways(track.terms.q @ rows.T, track.terms.qd @ rows.T, track.dt or 0.0, slip, least)
