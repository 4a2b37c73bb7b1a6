"""Limits of goals' profiles that no motion reached: of these only a lower bound is known."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators import GoalProfile
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import Model
from diffnea.simulate.delay import profiled

# So many times as high, a limit is none.
BEYOND_REACH = 1e3
# Halvings of the range that a bound is looked for in; it begins at this share of the estimate.
HALVINGS, LOWEST = 8, 1e-2


class Limits(NamedTuple):
    """What is said of one of a profile's limits: its field, its name and its unit."""

    field: str
    name: str
    unit: str


SERVO_LIMITS = (Limits("speed", "speed", "rad/s"), Limits("acceleration", "acceleration", "rad/s²"))


def unreached(model: Model, tracks: Sequence[Track]) -> list[Note]:
    """Notes on limits without which goals would have come the same, within what a reading tells."""
    profile = model.actuator.profile
    if profile is None:
        return []
    goals, said = _side_by_side(tracks), []
    dt = jnp.asarray(float(tracks[0].dt or 1.0))
    for limit in SERVO_LIMITS:
        if getattr(profile, limit.field) is None:
            continue
        bound = _lower_bound(profile, limit.field, goals, dt, _reading(tracks))
        for j in np.flatnonzero(np.isfinite(bound)):
            name = model.robot.joint_names[j]
            said.append(note("servo-profile", name, what=limit.name, least=float(bound[j]), unit=limit.unit))
    return said


def _lower_bound(
    profile: GoalProfile,
    field: str,
    goals: Float[np.ndarray, "motion time n"],
    dt: Float[Array, ""],
    reading: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """The least limit that leaves goals as they are without it; NaN where the profile's own does not."""
    own = np.asarray(getattr(profile, field), float)
    run = jax.jit(jax.vmap(lambda u, limits: profiled(u, limits, dt).end, (0, None)))
    u = jnp.asarray(goals)

    def course(limit: np.ndarray) -> np.ndarray:
        return np.asarray(run(u, profile._replace(**{field: jnp.asarray(limit)})))

    free = course(BEYOND_REACH * own)

    rate = np.gradient(free, float(dt), axis=1)

    def alike(limit: np.ndarray) -> np.ndarray:
        apart = course(limit) - free
        # What only comes later is a delay's to explain.
        later = np.sum(apart * rate, axis=(0, 1)) / np.maximum(np.sum(rate**2, axis=(0, 1)), 1e-12)
        return np.abs(apart - later * rate).max(axis=(0, 1)) <= reading

    never = ~alike(own)
    low, high = np.log(LOWEST * own), np.log(own)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = alike(np.exp(middle))
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(never, np.nan, np.exp(high))


def _side_by_side(tracks: Sequence[Track]) -> Float[np.ndarray, "motion time n"]:
    """Goals of all motions, each held at its end until the longest is over."""
    longest = max(len(track.u) for track in tracks)
    return np.stack([np.concatenate([t.u, np.repeat(t.u[-1:], longest - len(t.u), axis=0)]) for t in tracks])


def _reading(tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """The least difference of two readings of each joint, in rad; 0 where it does not move."""
    q = np.concatenate([track.measured for track in tracks])
    least = [np.min(np.diff(np.unique(column)), initial=np.inf) for column in q.T]
    return np.where(np.isfinite(least), least, 0.0)
