"""Jumps out of local minima: other numbers of each joint's own servo, tried for all joints in the same roll-outs.

A joint's gains, friction and delay show in its own motion before all; so every roll-out tries a change of every joint
at once, and each joint keeps what made its own error least. Delay and lag are traded for each other, gains and friction
are scaled together, and all numbers are drawn at random about where they are.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from diffnea import parameters
from diffnea.actuators import AbstractActuator, Combined, Coulomb, Coupling, Delay, Servo, Stribeck
from diffnea.actuators.coefficients import positive, raw_of
from diffnea.identify.servo.loop_unknowns import Freedom
from diffnea.identify.servo.search.descent import Searched, polished, search
from diffnea.identify.servo.search.objective import Objective

# Samples that are moved from lag to delay, and back.
TRADED = (-2.0, -1.3, -0.7, 0.7, 1.3, 2.0, 3.0, 4.0)
# Factors of a joint's whole servo, its friction with it: where nothing but inertia tells them, slopes hardly do.
SCALED = (0.75, 0.9, 1.12, 1.35)
# Draws at random, by so much of each number's spread.
DRAWN = ((11, 0.4), (12, 0.15))
# The least lag that is left, in s.
LEAST_LAG_LEFT = 2e-3
# What makes a servo strong and what it overcomes, in each part.
STRENGTH_LEAVES = {
    Servo: ("raw_stiffness", "raw_damping"),
    Coulomb: ("raw",),
    Stribeck: ("raw_static", "raw_kinetic"),
}
# Jumps at most; how many in a row may lower the loss by less than a share, with the search after each.
MOST_JUMPS, MOST_UNPAID, JUMP_WORTH = 8, 2, 5e-3


def jumped(objective: Objective, theta: Float[np.ndarray, " p"], dt: float, seed: int) -> Float[np.ndarray, " p"]:
    """θ with what each joint prefers of all that is tried; the same θ where that is no better."""
    rng, joint = np.random.default_rng(seed), _joints(objective.free)
    own = joint >= 0
    for count, size in DRAWN:
        traded = []
        if size == DRAWN[0][1]:
            traded = [_traded(objective.free, theta, shift, dt) for shift in TRADED]
            traded += [_scaled(objective.free, theta, factor) for factor in SCALED]
        draws = theta + size * objective.spread * own * rng.standard_normal((count, len(theta)))
        theta = _best_of_joints(objective, np.stack([theta, *traded, *draws]), joint)
    return theta


def _best_of_joints(
    objective: Objective, thetas: Float[np.ndarray, "k p"], joint: Int[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """Of several θ, the first of which is where the search stands, the best of each joint together."""
    found = objective.compared(thetas)
    chosen = np.argmin([each.rms.mean(0) for each in found], axis=0)
    mixed = np.where(joint >= 0, thetas[chosen[joint], np.arange(len(joint))], thetas[0])
    # What one joint prefers may harm its neighbours: each is also tried alone.
    alone = [np.where(joint == j, mixed, thetas[0]) for j in np.flatnonzero(chosen)]
    tried = np.stack([mixed, *alone])
    losses = objective.losses(tried)
    best = int(np.argmin(losses))
    return tried[best] if losses[best] < found[0].loss else thetas[0]


def _joints(free: Freedom) -> Int[np.ndarray, " p"]:
    """Which joint an entry of θ is of, −1 where it is of several."""
    robot, actuator, table = free.tree
    n = actuator.num_joints

    def of_leaf(leaf: PyTree) -> np.ndarray:
        return np.arange(float(n)) if np.shape(leaf) == (n,) else _of_several(leaf)

    def of_part(part: AbstractActuator) -> AbstractActuator:
        return jax.tree.map(_of_several if isinstance(part, Coupling) else of_leaf, part)

    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    own = tuple(of_part(part) for part in parts)
    own = eqx.tree_at(lambda whole: whole.parts, actuator, own) if isinstance(actuator, Combined) else own[0]
    # A rotor hides in its own joint's motion.
    body = eqx.tree_at(lambda virtual: virtual.armature, jax.tree.map(_of_several, robot), of_leaf(robot.armature))
    tree = body, own, jax.tree.map(_of_several, table)
    return np.asarray(parameters.pack(tree, free.masks)).astype(int)


def _of_several(leaf: PyTree) -> np.ndarray:
    return np.full(np.shape(leaf), -1.0)


def _traded(free: Freedom, theta: Float[np.ndarray, " p"], samples: float, dt: float) -> Float[np.ndarray, " p"]:
    """θ with more delay and as much less lag."""
    robot, actuator, table = free.at(theta).tree
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    late = next((part for part in parts if isinstance(part, Delay) and part.raw.shape[0] == actuator.num_joints), None)
    servo = next(part for part in parts if isinstance(part, Servo))
    if late is None:
        return theta
    before, kp = np.asarray(late.delay), np.maximum(np.asarray(servo.stiffness), 1e-9)
    lag = np.asarray(servo.damping) / kp
    after = np.clip(before + samples, 0.02, 0.95 * late.samples)
    lag = np.maximum(lag - (after - before) * dt, LEAST_LAG_LEFT)
    changed = {
        id(late): Delay.of(after, late.joints, late.samples),
        id(servo): eqx.tree_at(lambda each: each.raw_damping, servo, raw_of(jnp.asarray(lag * kp))),
    }
    made: AbstractActuator = changed.get(id(actuator), actuator)
    if isinstance(actuator, Combined):
        made = eqx.tree_at(lambda whole: whole.parts, actuator, tuple(changed.get(id(p), p) for p in parts))
    return np.asarray(parameters.pack((robot, made, table), free.masks), np.float64)


def _scaled(free: Freedom, theta: Float[np.ndarray, " p"], factor: float) -> Float[np.ndarray, " p"]:
    """θ with servos and their dry friction so many times as strong."""
    robot, actuator, table = free.at(theta).tree

    def scaled(part: AbstractActuator) -> AbstractActuator:
        leaves = STRENGTH_LEAVES.get(type(part), ())
        if not leaves:
            return part
        raw = [getattr(part, name) for name in leaves]
        return eqx.tree_at(
            lambda each: [getattr(each, name) for name in leaves], part, [raw_of(factor * positive(x)) for x in raw]
        )

    if isinstance(actuator, Combined):
        made = eqx.tree_at(lambda whole: whole.parts, actuator, tuple(map(scaled, actuator.parts)))
    else:
        made = scaled(actuator)
    return np.asarray(parameters.pack((robot, made, table), free.masks), np.float64)


def search_with_jumps(
    objective: Objective,
    theta: Float[np.ndarray, " p"],
    rounds: int,
    dt: float,
    watch: Callable[[int, int, float], None] | None = None,
) -> Searched:
    """A search that goes on from jumps until they no longer pay, or so many sets of slopes are spent."""
    found = search(objective, theta, rounds, watch)
    history, unpaid = found.history, 0
    for seed in range(MOST_JUMPS):
        left = rounds - len(history) + 1
        start = jumped(objective, found.theta, dt, seed)
        if left < 1 or unpaid == MOST_UNPAID:
            break
        again = search(objective, start, left, watch)
        unpaid = 0 if again.loss < (1 - JUMP_WORTH) * found.loss else unpaid + 1
        found, history = (again if again.loss < found.loss else found), (*history, *again.history[1:])
    found = polished(objective, found)
    return replace(found, history=(*history, found.loss))
