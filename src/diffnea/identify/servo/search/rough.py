"""The first part of a fit of servos: what is free, starts by regression, and a short search with one jump."""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.progress import tell
from diffnea.identify.servo.loop_unknowns import Freedom, freedom
from diffnea.identify.servo.search.descent import Searched, search
from diffnea.identify.servo.search.jumps import jumped
from diffnea.identify.servo.search.objective import Objective
from diffnea.identify.servo.search.regression_starts import closed_loops, paced, started


def posed(free: Unknowns, tracks: Sequence[Track], from_name: bool) -> Freedom:
    """What motions under goals can show; an actuator that is only named starts where regressions say."""
    freed = freedom(free, coasting(tracks))
    if not from_name:
        return freed
    before, dt = freed.model(jnp.asarray(freed.start)), float(tracks[0].dt or 1.0)
    begun = paced(started(before.actuator, closed_loops(before.robot, tracks), dt), dt)
    masks = jax.tree.unflatten(jax.tree.structure(begun), jax.tree.leaves(freed.masks[1]))
    begun = _with_known(before.actuator, begun, masks)
    return replace(freed, tree=(freed.tree[0], begun, None), masks=(freed.masks[0], masks, None))


def _with_known(before: PyTree, begun: PyTree, masks: PyTree) -> PyTree:
    """The start with what is known of it as it was: numbers that are not free while others of the actuator are."""
    free, structure = jax.tree.leaves(masks), jax.tree.structure(begun)
    if not any(np.any(mask) for mask in free):
        return begun
    pairs = zip(free, jax.tree.leaves(begun), jax.tree.leaves(before), strict=True)
    return jax.tree.unflatten(structure, [jnp.where(mask, new, old) for mask, new, old in pairs])


def coasting(tracks: Sequence[Track]) -> bool:
    """Whether torque is off at times."""
    return any(track.gain is not None and bool(np.any(track.gain == 0)) for track in tracks)


def roughly(objective: Objective, rounds: int, dt: float) -> Searched:
    """A short search, a jump, and another short search."""
    found = search(objective, objective.start, rounds, tell)
    again = search(objective, jumped(objective, found.theta, dt, seed=0), rounds, tell)
    return replace(again, history=(*found.history, *again.history))
