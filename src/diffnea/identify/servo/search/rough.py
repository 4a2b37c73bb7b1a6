"""The first part of a fit of servos: what is free, starts by regression, and a short search with one jump."""

from collections.abc import Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from diffnea.actuators import AbstractActuator
from diffnea.actuators.coefficients import raw_of
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.progress import tell
from diffnea.identify.servo.loop_unknowns import Freedom, freedom
from diffnea.identify.servo.search.descent import Searched, search
from diffnea.identify.servo.search.jumps import jumped
from diffnea.identify.servo.search.objective import Objective
from diffnea.identify.servo.search.regression_starts import closed_loops, has_constant, paced, started
from diffnea.parameters import VirtualRobot

# How long windows of the rough search are, in s: longer than a servo's lag by far.
WINDOW_SECONDS = 2.0
# A rotor that no file has starts so heavy that its joint is at its servo's speed after this long, s.
ROTOR_SECONDS = 5e-3


def posed(free: Unknowns, tracks: Sequence[Track], from_name: bool) -> Freedom:
    """What motions under goals can show; an actuator that is only named starts where regressions say."""
    freed = freedom(free, coasting(tracks))
    if not from_name:
        return freed
    before, dt = freed.model(jnp.asarray(freed.start)), float(tracks[0].dt or 1.0)
    closed = closed_loops(before.robot, tracks, has_constant(before.actuator))
    begun = paced(started(before.actuator, closed, dt), dt)
    masks = jax.tree.unflatten(jax.tree.structure(begun), jax.tree.leaves(freed.masks[1]))
    begun = _with_known(before.actuator, begun, masks)
    robot = _with_rotors(freed.tree[0], freed.masks[0], begun)
    return replace(freed, tree=(robot, begun, None), masks=(freed.masks[0], masks, None))


def _with_rotors(robot: VirtualRobot, masks: VirtualRobot, actuator: AbstractActuator) -> VirtualRobot:
    """Rotors that the file does not have, as heavy as shows at once: where they hide, no slope would find them."""
    assert actuator.loop is not None
    missing = np.asarray(masks.armature) & (np.asarray(robot.own.armature) == 0)
    heavy = ROTOR_SECONDS * np.asarray(actuator.loop.damping) / np.asarray(robot.armature_scale)
    return eqx.tree_at(lambda v: v.armature, robot, jnp.where(missing, raw_of(jnp.asarray(heavy)), robot.armature))


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
    """A short search, a jump, and another short search, on windows; the errors where they end are of whole motions.

    Windows start from where the robot was, so that a start that leads away says where it should have led.
    """
    windows = Objective(objective.data.windowed(max(round(WINDOW_SECONDS / dt), 2)), objective.free)
    found = search(windows, objective.start, rounds, tell)
    again = search(windows, jumped(windows, found.theta, dt, seed=0), rounds, tell)
    whole = objective.compared(again.theta[None])[0]
    return replace(again, loss=whole.loss, rms=whole.rms, history=(*found.history, *again.history))
