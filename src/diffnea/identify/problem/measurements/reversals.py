"""Rows near reversals, stops and joint limits: there no equation of motion is known, and a fit leaves them out.

Where a joint turns back, dry friction jumps within the window over which positions were smoothed, and a joint that
sticks has no friction of a known size; before it first slips, nothing tells which way it is held. At a joint limit the
stop pushes with a force that no model here has. Friction and stop of joint j enter the torque of joint j only;
accelerations mix all joints.
"""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.notes import Note, note
from diffnea.identify.options import ProblemOptions
from diffnea.identify.problem.measurements.tracks import Split, Track, position_noise
from diffnea.models import Model
from diffnea.robot import Robot

# What the comparison filter sees to either side, in periods of its corner: LENGTH of `rows.py` by 4π, side lobes
# included.
FILTER_REACH = 1.0
# A joint has slipped once its friction is this share of what it is in motion: springs come to their ends slowly.
_SLIPPED = 0.99


@dataclass(frozen=True)
class _Events:
    """Where one track's joints turn back, stop or touch a limit."""

    dry: Bool[np.ndarray, "time n"]
    limit: Bool[np.ndarray, "time n"]
    width: float  # s, to either side of a reversal
    reach: float = 0.0  # s, of all that filters see


def without_reversals(parts: Split, model: Model, loss: str, unknowns: int, options: ProblemOptions) -> Split:
    """The data of a fit with the rows marked that it is to leave out; `unknowns` are the numbers to learn.

    At least a share of each joint's rows stays, those farthest from reversals; a note says where that was needed.
    """
    several = [_events(track, model, options) for track in parts.fitted]
    if not any(each.dry.any() or each.limit.any() for each in several):
        return parts
    least = min(1.0, max(options.least_rows, 2 * unknowns / max(sum(each.dry.size for each in several), 1)))
    touched = np.concatenate([each.limit for each in several]).mean(axis=0)
    believed, mixed = touched <= 1 - least, loss != "torque"
    margin = np.concatenate([_margin(*pair, believed) for pair in zip(parts.fitted, several, strict=True)])
    alone, used = _wanted(margin, least), _wanted(_mixed(margin, mixed), least)
    marked = {}
    for name in ("train", "validation", "fitted"):
        tracks = getattr(parts, name)
        found = [_events(track, model, options) for track in tracks]
        margins = [_margin(track, each, believed) for track, each in zip(tracks, found, strict=True)]
        marked[name] = tuple(
            replace(
                track,
                clear=_mixed(each, mixed) >= used,
                own=each >= alone,
                far=_mixed(_margin(track, _far(events), believed), mixed) >= 1,
                crowded=alone < 1,
            )
            for track, each, events in zip(tracks, margins, found, strict=True)
        )
    short = _reversal_notes(model.robot, _mixed(margin, mixed), used, mixed)
    return replace(parts, **marked, said=(*parts.said, *_limit_notes(model.robot, touched, believed), *short))


def _wanted(margin: Float[np.ndarray, "time n"], least: float) -> Float[np.ndarray, " n"]:
    """The margin that rows need: 1, or less where too few would be left."""
    return np.minimum(1.0, np.quantile(margin, 1 - least, axis=0))


def _mixed(margin: Float[np.ndarray, "time n"], mixed: bool) -> Float[np.ndarray, "time n"]:
    """The margins of a loss that mixes joints, or not."""
    return np.repeat(margin.min(axis=1, keepdims=True), margin.shape[1], axis=1) if mixed else margin


def _events(track: Track, model: Model, options: ProblemOptions) -> _Events:
    """Reversals count where derivatives come from positions: elsewhere velocities are exact."""
    n, little = model.num_joints, track.terms
    limit = _at_limit(track.q if little is None else little.q, model.robot)
    if little is None or track.dt is None:
        return _Events(np.zeros((len(track), n), bool), limit, 0.0)
    turns = np.concatenate([np.eye(n), np.array(model.actuator.turning, float).reshape(-1, n)])
    turns = turns[_dry(model)]
    period = 1 / little.wide + 1 / little.bandwidth
    reversals = _reversals(track, turns, options) @ (turns != 0)
    return _Events(reversals, limit, options.reversal_width * period, FILTER_REACH * period)


def _far(events: _Events) -> _Events:
    return replace(events, width=max(events.width, events.reach))


def _dry(model: Model) -> Bool[np.ndarray, " m"]:
    """Which joints and coupled motors have friction that jumps where the velocity changes its sign."""
    actuator, still = model.actuator, jnp.zeros(model.num_joints)
    joints = np.asarray(actuator.resistance(still, still).dry) > 0
    count = len(actuator.turning)
    if not count:
        return joints
    shared = [actuator.shared(still, still, jnp.asarray(way)) for way in np.eye(count)]
    return np.concatenate([joints, np.abs(np.asarray(shared)).max(axis=1) > 0])


def _reversals(track: Track, turns: Float[np.ndarray, "m n"], options: ProblemOptions) -> Bool[np.ndarray, "time m"]:
    """Where a velocity changes its sign, or is too small for its sign to be known."""
    little, dt = track.terms, track.dt
    assert little is not None and dt is not None
    velocity = little.qd @ turns.T
    change = np.zeros(velocity.shape, bool)
    change[1:] = np.sign(velocity[1:]) != np.sign(velocity[:-1])
    change[:-1] |= change[1:]
    if track.way is not None:
        change |= before_slipping(track.way[:, : track.q.shape[1]]) @ (turns != 0).T
    noise = position_noise(track, turns)
    # White noise of positions, low-passed at f and differentiated: σ² ∫ (2π ν)² 2 dt dν up to f.
    error = noise * 2 * np.pi * np.sqrt(2 * dt * little.wide**3 / 3)
    return change | (np.abs(velocity) < options.known_sign * error)


def before_slipping(way: Float[np.ndarray, "time n"]) -> Bool[np.ndarray, "time n"]:
    """From the start of a recording until a joint first slips; of one that never does nothing."""
    slipped = np.abs(way) >= _SLIPPED
    return ~np.logical_or.accumulate(slipped, axis=0) & slipped.any(axis=0)


def _at_limit(q: Float[np.ndarray, "time n"], robot: Robot) -> Bool[np.ndarray, "time n"]:
    limits = robot.joint_limits
    lower, upper = np.asarray(limits.lower, float), np.asarray(limits.upper, float)
    bounded = upper > lower
    return bounded & ((q <= lower) | (q >= upper))


def _margin(track: Track, found: _Events, believed: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "time n"]:
    """The time to the nearest reversal in units of the width, at most 1; −1 near a limit."""
    step = (track.dt or 0.0) / found.width if found.width else np.inf
    dry, limit = (np.column_stack([_distance(column) for column in each.T]) for each in (found.dry, found.limit))
    margin = np.where(dry > 0, np.minimum(np.maximum(dry, 1) * step, 1.0), 0.0)
    near = (limit == 0) | (np.maximum(limit, 1) * step < 1)
    return np.where(near & believed, -1.0, margin)


def _distance(event: Bool[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
    """Samples to the nearest event."""
    places = np.flatnonzero(event)
    if not len(places):
        return np.full(len(event), np.inf)
    index = np.arange(len(event))
    after = np.searchsorted(places, index)
    sides = places[np.maximum(after - 1, 0)], places[np.minimum(after, len(places) - 1)]
    return np.minimum(*(np.abs(index - side) for side in sides)).astype(float)


def _limit_notes(robot: Robot, touched: Float[np.ndarray, " n"], believed: Bool[np.ndarray, " n"]) -> list[Note]:
    codes = np.where(believed, "rows-at-limit", "limits-not-believed")
    rows = zip(codes.tolist(), robot.joint_names, touched.tolist(), strict=True)
    return [note(code, joint, share=share) for code, joint, share in rows if share > 0]


def _reversal_notes(
    robot: Robot, margin: Float[np.ndarray, "time n"], wanted: Float[np.ndarray, " n"], mixed: bool
) -> list[Note]:
    """Where rows near reversals had to stay."""
    near, kept = np.mean(margin < 1, axis=0).tolist(), np.mean(margin >= wanted, axis=0).tolist()
    if mixed:
        return [note("rows-near-reversals", near=near[0], kept=kept[0])] if wanted[0] < 1 else []
    short = np.flatnonzero(wanted < 1)
    return [note("joint-near-reversals", robot.joint_names[j], near=near[j], kept=kept[j]) for j in short]
