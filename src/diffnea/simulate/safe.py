"""The energy-safe step: fourth order where motion is smooth, exact rest, and an energy that cannot rise by itself."""

from functools import partial

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.models import Model, constrained, mass
from diffnea.simulate import sticking
from diffnea.simulate.balance import level, settle
from diffnea.simulate.classical import runge_kutta
from diffnea.simulate.servo import servo_step

# How much of a velocity viscous friction may take in a step, x / (1 + x) with x = dt·λ, until it is integrated
# implicitly. At x = 2 both methods damp alike: Runge-Kutta's factor is 1 − 2 + 2 − 4/3 + 2/3 = 1/3, the implicit
# one's is 1 / (1 + 2).
STIFF = 2 / 3


def safe_step(
    model: Model,
    q: Float[Array, " nq"],
    qd: Float[Array, " n"],
    u: Float[Array, " joints"],
    dt: Float[Array, ""],
    *memory: Float[Array, " n"],
) -> tuple[Array, ...]:
    """The state a time `dt` later under a constant command, of a conserving or bounded model or one of servos.

    Args:
        model: as `Model(robot)`.
        q: joint positions of one sample.
        qd: joint velocities.
        u: the command.
        dt: the step in seconds.
        memory: arrays that servos keep, where they do; they come after q and q̇ again.
    """
    if model.actuator.loop is not None:
        return servo_step(model, q, qd, u, dt, *memory)
    if model.energy_class == "conserving":
        return _smooth(model, q, qd, u, dt)
    return _rubbing(model, q, qd, u, dt)


def _smooth(model, q, qd, u, dt):
    """Without friction: Runge-Kutta, and the energy put back on its level."""

    def slope(q, qd):
        push = model.forces.drive(u, q, qd)
        stored = model.forces.restoring(q)
        return constrained(model, q, qd, push - stored, jnp.ones_like(qd)), (push @ qd,)

    step = runge_kutta(model, slope, q, qd, dt)
    before, after = level(model, q, qd), level(model, step.q, step.qd)
    return settle(model, (q, before), (step.q, step.qd, after), dt * step.mean[0], conserve=True)


def _rubbing(model, q, qd, u, dt):
    """With friction: each joint keeps one mode for the step, and what changes on the way is made up for at its end."""
    tau, lost, _ = _torques(model, q, qd, u)
    M, bias = mass(model, q), dynamics.bias(model.robot, q, qd)
    mode = sticking.modes(M, partial(constrained, model, q, qd), bias, qd, tau, lost.dry)

    def slope(q, qd):
        tau, lost, push = _torques(model, q, qd, u)
        return constrained(model, q, qd, tau - lost.dry * mode.sliding, mode.free), (push @ qd,)

    step = runge_kutta(model, slope, q, qd, dt)
    damping = dt * mode.free * lost.viscous
    inverse = sticking.inverse(sticking.held(M, mode.free) + jnp.diag(damping))
    damped = inverse * damping[None, :]
    stiff = jnp.sum(damped * damped.T) > STIFF**2
    implicit = qd + dt * (inverse @ (mode.free * (tau - lost.dry * mode.sliding - bias)))
    rest = model.forces.resistance(q, jnp.zeros_like(qd)).dry
    end = sticking.stop(inverse, mode.sliding, qd, jnp.where(stiff, implicit, step.qd), rest, dt)
    q_new = jnp.where(stiff, model.displace(q, dt * end.qd), model.displace(step.q, end.shift))
    before, after = level(model, q, qd), level(model, q_new, end.qd)
    work = dt * jnp.where(stiff, model.forces.drive(u, q, end.qd) @ end.qd, step.mean[0])
    return settle(model, (q, before), (q_new, end.qd, after), work, conserve=False)


def _torques(model, q, qd, u):
    """Every torque on the joints but dry friction, what resists, and what the command brings."""
    push = model.forces.drive(u, q, qd)
    lost = model.forces.resistance(q, qd)
    stored = model.forces.restoring(q)
    return push - stored + model.forces.shared(q, qd) - lost.viscous * qd, lost, push
