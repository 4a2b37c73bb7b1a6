"""The step of robots that servos drive: implicit in their position loops, stable however stiff these are.

A sample is divided into inner steps. With the mass matrix M and the bias torques c of the sample's middle,

    (M + h D + h² K) v = M v₀ + h (K e − c) + corrections,

is the velocity at the part h of an inner step at which forces are balanced: half of it, which is of second order, up
to the whole where loops are stiff beside the masses. K and D are stiffness and damping of loops, viscous friction and
touching points, e = g − q. Corrections are what straight loops leave out: dry friction, limits of the torque and play.
Joint after joint they are solved exactly, with the others as they are (projected Gauss-Seidel); the stiffer the loops,
the less joints feel of each other.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.models import Model, held_energies, mass
from diffnea.simulate import sticking
from diffnea.simulate.balance import Level, settle
from diffnea.simulate.memory import Kept

# Rounds over the joints for each inner step; loops are already solved together.
ROUNDS = 2
# What a joint feels of masses is at least this share of what it feels of its own loop: so far digits reach.
LEAST_SHARE = 1e-9


def servo_step(
    model: Model,
    q: Float[Array, " n"],
    qd: Float[Array, " n"],
    u: Float[Array, " goals"],
    dt: Float[Array, ""],
    *memory: Float[Array, " n"],
) -> tuple[Array, ...]:
    """The state a time `dt` later under a goal that is held, and what servos keep, of a model with a position loop.

    Its energy, with what is stored between goal and position, does not rise, once the profile of its goals has arrived
    and unless it has an integral term. `u` may have two goals of each joint: that of the sample's end and, after these,
    that of its beginning, held until the rest of the model's delay is over. And it may have the gain that each servo is
    set to, after two goals. Without a `memory` goals act at once, and nothing has been summed.
    """
    n = len(q)
    if len(u) == 3 * n:
        model, u = eqx.tree_at(lambda m: m.actuator, model, model.actuator.at_gain(u[2 * n :])), u[: 2 * n]
    goals, kept = _goals(model, u, n), Kept.of(model.actuator, memory)
    before = Level(*held_energies(model, q, qd, kept.acting(model.actuator, goals[0])))
    new_q, new_qd, work, goal, kept = _inner_steps(model, q, qd, goals, dt, kept)
    after = Level(*held_energies(model, new_q, new_qd, goal))
    settled = settle(model, (q, before), (new_q, new_qd, after), work, conserve=False)
    return *settled, *kept.memory


def with_gains(acting: Float[Array, "time arriving"], gain: Float[Array, "time n"]) -> Float[Array, "time wide"]:
    """Goals as `servo_step` takes them together with gains."""
    twice = acting if acting.shape[1] == 2 * gain.shape[1] else jnp.tile(acting, (1, 2))
    return jnp.concatenate([twice, gain], axis=1)


def _goals(model, u, n: int):
    """The goal of the sample's beginning, and that of each inner step."""
    steps = model.actuator.inner_steps
    if len(u) == n:
        return [u] * (steps + 1)
    ended, begun = u[:n], u[n:]
    late = model.actuator.delay
    turned = steps * (late - jnp.floor(late))  # inner steps until the new goal is there
    return [begun, *(begun + jnp.clip(k + 1 - turned, 0.0, 1.0) * (ended - begun) for k in range(steps))]


def _inner_steps(model, q, qd, goals, dt, kept):
    """State and work of goals that change: what they add between goal and position where the robot then is; the last
    goal that acted, and what servos keep."""
    actuator, loop = model.actuator, model.actuator.loop
    h = dt / actuator.inner_steps
    middle = q + dt / 2 * qd
    M, bias = mass(model, middle), dynamics.bias(model.robot, middle, qd)
    viscous, table = actuator.resistance(q, qd).viscous, model.contact
    touched = None if table is None else table.slopes(model.robot, q)
    springs = jnp.zeros_like(M)
    if table is not None and touched is not None:
        springs = touched[1].T @ (jnp.where(touched[0] > 0, table.stiffness, 0.0)[:, None] * touched[1])
    theta = _theta(h * (viscous + loop.damping) + h * h * (loop.stiffness + jnp.diagonal(springs)), jnp.diagonal(M))
    whole, h = h, theta * h
    own = h * loop.damping + h * h * loop.stiffness
    W = sticking.inverse(M + jnp.diag(h * viscous + own) + h * h * springs)
    effort = 1 / jnp.diagonal(W)
    start, work = q, jnp.zeros((), q.dtype)
    goal = kept.acting(actuator, goals[0])
    for told in goals[1:]:
        last, kept = goal, kept.towards(actuator, told, whole)
        goal = kept.acting(actuator, told)
        outside = actuator.shared(q, qd) - bias - jax.grad(actuator.potential)(q)
        if table is not None and touched is not None:
            depth = touched[0] + touched[1] @ (q - start)
            outside = outside - touched[1].T @ (table.stiffness * jnp.maximum(depth, 0.0))
        error = goal - q
        if goal is not last:
            work = work + loop.energy(error) - loop.energy(last - q)
        motor = loop.torque(error, qd)
        dry = actuator.resistance(q, qd).dry + actuator.loaded(motor, outside, qd)
        linear = h * loop.stiffness * error
        v = W @ (M @ qd + h * outside + linear)
        v = _corrected(loop, v, W, effort, own, linear, error, dry, h)
        end = qd + (v - qd) / theta
        # A joint that rests, or that dry friction would have to turn back within the step, ends it at rest.
        stops = (v == 0) | ((end * v < 0) & (dry > 0))
        q, qd = q + whole * v, jnp.where(stops, 0.0, end)
        kept = kept.summed(actuator, told, q, whole)
    return q, qd, work, goal, kept


def _theta(stiff, inertia):
    """Where in an inner step forces are balanced: at its middle, to second order; at its end where loops are stiff."""
    ratio = jnp.max(stiff / inertia) ** 2
    return (1 + ratio / (4 + ratio)) / 2


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
