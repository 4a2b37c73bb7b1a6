"""The energy-safe step: fourth order where motion is smooth, exact rest, and an energy that cannot rise by itself."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.models import Model
from diffnea.rollout import sticking
from diffnea.rollout.balance import level, settle
from diffnea.rollout.classical import runge_kutta

# Viscous friction that takes away so much of a velocity in a step (dt·λ) is integrated implicitly. There both methods
# damp alike: Runge-Kutta's factor is 1 − 2 + 2 − 4/3 + 2/3 = 1/3, the implicit one's is 1 / (1 + 2).
STIFF = 2.0


def safe_step(
    model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"], dt: Float[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The state a time `dt` later under a constant command, of a conserving or bounded model."""
    if model.energy_class == "conserving":
        return _smooth(model, q, qd, u, dt)
    return _rubbing(model, q, qd, u, dt)


def _smooth(model, q, qd, u, dt):
    """Without friction: Runge-Kutta, and the energy put back on its level."""

    def slope(q, qd):
        push = model.actuator.drive(u, q, qd)
        stored = jax.grad(model.actuator.potential)(q)
        return dynamics.forward(model.robot, q, qd, push - stored), (push @ qd,)

    step, before = runge_kutta(slope, q, qd, dt), level(model, q, qd)
    wanted = before.total + dt * step.mean[0]
    return settle((q, before), (step.q, step.qd, level(model, step.q, step.qd)), wanted, wanted)


def _rubbing(model, q, qd, u, dt):
    """With friction: each joint keeps one mode for the step, and what changes on the way is made up for at its end."""
    robot = model.robot
    tau, lost, _ = _torques(model, q, qd, u)
    mode = sticking.modes(robot, q, qd, tau, lost.dry)

    def slope(q, qd):
        tau, lost, push = _torques(model, q, qd, u)
        return dynamics.constrained(robot, q, qd, tau - lost.dry * mode.sliding, mode.free), (push @ qd,)

    step, before = runge_kutta(slope, q, qd, dt), level(model, q, qd)
    M = sticking.held(dynamics.crba(robot, q), mode.free)
    damping = dt * mode.free * lost.viscous
    stiff = jnp.sum(jnp.diagonal(sticking.inverse(M)) * damping) > STIFF
    inverse = sticking.inverse(M + jnp.diag(jnp.where(stiff, damping, 0.0)))
    pull = mode.free * (tau - lost.dry * mode.sliding - dynamics.bias(robot, q, qd))
    implicit = qd + dt * (inverse @ pull)
    rest = model.actuator.resistance(q, jnp.zeros_like(qd)).dry
    end = sticking.stop(inverse, mode.sliding, qd, jnp.where(stiff, implicit, step.qd), rest, dt)
    q_new = jnp.where(stiff, q + dt * end.qd, step.q + end.shift)
    after = level(model, q_new, end.qd)
    most = before.total + dt * jnp.where(stiff, model.actuator.drive(u, q, end.qd) @ end.qd, step.mean[0])
    return settle((q, before), (q_new, end.qd, after), jnp.minimum(after.total, most), most)


def _torques(model, q, qd, u):
    """Every torque on the joints but dry friction, what resists, and what the command brings."""
    push = model.actuator.drive(u, q, qd)
    lost = model.actuator.resistance(q, qd)
    stored = jax.grad(model.actuator.potential)(q)
    return push - stored - lost.viscous * qd, lost, push
