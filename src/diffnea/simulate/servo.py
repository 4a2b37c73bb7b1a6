"""The step of robots that servos drive: implicit in their position loops, stable however stiff these are.

A sample is divided into inner steps of length h. With the mass matrix M and the bias torques c of its start,

    (M + h D + h² K) v = M v₀ + h (K e − c) + corrections,

where K and D are stiffness and damping of loops, viscous friction and touching points, e = g − q. Corrections are what
straight loops leave out: dry friction, limits of the torque and play. Joint after joint they are solved exactly, with
the others as they are (projected Gauss-Seidel); the stiffer the loops, the less joints feel of each other.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.models import Model, held_energies, mass
from diffnea.simulate import sticking
from diffnea.simulate.balance import Level, settle

# Rounds over the joints for each inner step; loops are already solved together.
ROUNDS = 2
# What a joint feels of masses is at least this share of what it feels of its own loop: so far digits reach.
LEAST_SHARE = 1e-9


def servo_step(
    model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"], dt: Float[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The state a time `dt` later under a goal that is held, of a bounded model with a position loop.

    Its energy, with what is stored between goal and position, does not rise.
    """
    before = Level(*held_energies(model, q, qd, u))
    new_q, new_qd = _inner_steps(model, q, qd, u, dt)
    after = Level(*held_energies(model, new_q, new_qd, u))
    return settle(model, (q, before), (new_q, new_qd, after), jnp.zeros_like(before.kinetic), conserve=False)


def _inner_steps(model, q, qd, u, dt):
    actuator, loop = model.actuator, model.actuator.loop
    h = dt / actuator.inner_steps
    M, bias = mass(model, q), dynamics.bias(model.robot, q, qd)
    A = M + jnp.diag(h * actuator.resistance(q, qd).viscous)
    table = model.contact
    touched = None if table is None else table.slopes(model.robot, q)
    if table is not None and touched is not None:
        touching = jnp.where(touched[0] > 0, table.stiffness, 0.0)
        A = A + h * h * touched[1].T @ (touching[:, None] * touched[1])
    own = h * loop.damping + h * h * loop.stiffness
    W = sticking.inverse(A + jnp.diag(own))
    effort = 1 / jnp.diagonal(W)
    start = q
    for _ in range(actuator.inner_steps):
        outside = actuator.shared(q, qd) - bias - jax.grad(actuator.potential)(q)
        if table is not None and touched is not None:
            depth = touched[0] + touched[1] @ (q - start)
            outside = outside - touched[1].T @ (table.stiffness * jnp.maximum(depth, 0.0))
        error = u - q
        motor = loop.torque(error, qd)
        dry = actuator.resistance(q, qd).dry + actuator.loaded(motor, outside, qd)
        linear = h * loop.stiffness * error
        v = W @ (M @ qd + h * outside + linear)
        v = _corrected(loop, v, W, effort, own, linear, error, dry, h)
        q, qd = q + h * v, v
    return q, qd


def _corrected(loop, v, W, effort, own, linear, error, dry, h):
    """The velocities with friction, limits and play: impulses of all joints in turn, each with one exact root."""
    n = len(v)
    impulse, wanted = [jnp.zeros((), v.dtype)] * n, [jnp.zeros((), v.dtype)] * n
    for _ in range(ROUNDS):
        for i in range(n):
            without = effort[i] * v[i] - impulse[i]  # what the joint would have without its own correction
            bare = jnp.maximum(effort[i] - own[i], LEAST_SHARE * effort[i])
            wanted[i] = loop.velocity(i, bare, without - linear[i], error[i], dry[i], h)
            needed = effort[i] * wanted[i] - without
            v = v + W[:, i] * (needed - impulse[i])
            impulse[i] = needed
    return jnp.where(jnp.stack(wanted) == 0, 0.0, v)
