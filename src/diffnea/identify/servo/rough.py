"""The first part of a fit of servos: what is free, starts by regression, and a short search with one jump."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.identify.problem.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.progress import tell
from diffnea.identify.servo.jumps import jumped
from diffnea.identify.servo.objective import Objective
from diffnea.identify.servo.search import Searched, search
from diffnea.identify.servo.starts import closed_loops, paced, started
from diffnea.identify.servo.unknowns import Freedom, freedom


def posed(free: Unknowns, tracks: Sequence[Track], from_name: bool) -> Freedom:
    """What motions under goals can show; an actuator that is only named starts where regressions say."""
    freed = freedom(free, coasting(tracks))
    if not from_name:
        return freed
    before, dt = freed.model(jnp.asarray(freed.start)), float(tracks[0].dt or 1.0)
    begun = paced(started(before.actuator, closed_loops(before.robot, tracks), dt), dt)
    masks = jax.tree.unflatten(jax.tree.structure(begun), jax.tree.leaves(freed.masks[1]))
    return replace(freed, tree=(freed.tree[0], begun, None), masks=(freed.masks[0], masks, None))


def coasting(tracks: Sequence[Track]) -> bool:
    """Whether torque is off at times."""
    return any(track.gain is not None and bool(np.any(track.gain == 0)) for track in tracks)


def roughly(objective: Objective, rounds: int, dt: float) -> Searched:
    """A short search, a jump, and another short search."""
    found = search(objective, objective.start, rounds, tell)
    again = search(objective, jumped(objective, found.theta, dt, seed=0), rounds, tell)
    return replace(again, history=(*found.history, *again.history))
