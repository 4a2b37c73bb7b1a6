"""Dry friction in a step: which joints are held at rest, which way the others slide, and what stops them on the way."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Rounds of projected Gauss-Seidel over the joints that stop in one step. Joints seldom stop together, and each round
# can only take kinetic energy away, so that an early end is no danger.
ROUNDS = 3


class Modes(NamedTuple):
    """For one step: `free` is 0 at joints that friction holds, 1 elsewhere; `sliding` the sign with which they go."""

    free: Float[Array, " n"]
    sliding: Float[Array, " n"]


def modes(M: Float[Array, "n n"], qdd: Callable[..., Array], bias: Array, qd: Array, tau: Array, dry: Array) -> Modes:
    """What each joint does in this step; `tau` is every torque but dry friction, `dry` its greatest size.

    A joint at rest is held if friction is strong enough to hold it while the others move; it breaks away otherwise.
    `qdd(tau, free)` are the accelerations with joints locked.
    """
    resting = jnp.where((qd == 0) & (dry > 0), 1.0, 0.0).astype(qd.dtype)
    pull = tau - bias - M @ qdd(tau - dry * jnp.sign(qd), 1 - resting)  # what friction must withstand
    stuck = jnp.where(jnp.abs(pull) <= dry, resting, 0.0)
    return Modes(1 - stuck, jnp.where(resting > 0, (1 - stuck) * jnp.sign(pull), jnp.sign(qd)))


def held(M: Float[Array, "n n"], free: Float[Array, " n"]) -> Float[Array, "n n"]:
    """The mass matrix with joints held: their rows and columns are those of the identity."""
    return M * free[:, None] * free[None, :] + jnp.diag(1 - free)


@jax.custom_jvp
def inverse(M: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of a small positive definite matrix, `L⁻ᵀ D⁻¹ L⁻¹` with ones on the diagonal of L."""
    factor = jax.lax.linalg.cholesky(M, symmetrize_input=False)
    scale = 1 / jnp.diagonal(factor)
    unit, eye = factor * scale[None, :], jnp.eye(len(M), dtype=M.dtype)
    root = jax.lax.linalg.triangular_solve(unit, eye, left_side=True, lower=True, unit_diagonal=True)
    return root.T @ (scale[:, None] ** 2 * root)


@inverse.defjvp
def _inverse_tangent(primals, tangents):
    found = inverse(*primals)
    return found, -found @ tangents[0] @ found


class Stop(NamedTuple):
    """After joints turned round: the velocity, and the change of position."""

    qd: Float[Array, " n"]
    shift: Float[Array, " n"]


def stop(
    inverse_mass: Float[Array, "n n"],
    way: Float[Array, " n"],
    qd_old: Float[Array, " n"],
    qd_new: Float[Array, " n"],
    dry: Float[Array, " n"],
    dt: float | Array,
) -> Stop:
    """Joints that crossed zero on their way: friction turns with them from the crossing on, and may stop them.

    From then until the step's end the friction that was taken, `−dry·way`, should have been up to `+dry·way`. So an
    impulse between 0 and `2·dry` times that time is missing: as much as stops the joint, or all of it.
    """
    speed, before = way * qd_new, way * qd_old
    crossed = (speed < 0) & (dry > 0)
    late = jnp.where(crossed, dt * speed / jnp.where(crossed, speed - before, 1.0), 0.0)
    most = 2 * dry * late
    effort = way / jnp.diagonal(inverse_mass)
    impulses, qd = jnp.zeros_like(qd_new), qd_new
    for _ in range(ROUNDS):
        for own in np.eye(len(way)):
            impulses, qd = _withhold(impulses, qd, jnp.asarray(own, qd.dtype), inverse_mass, way, effort, most)
    stays = crossed & (impulses < most)
    shift = inverse_mass @ (way * impulses * late) / 2
    return Stop(jnp.where(stays, 0.0, qd), shift)


@jax.jit  # traced once for all joints
def _withhold(impulses, qd, own, inverse_mass, way, effort, most):
    """The impulse of the joint whose entry in `own` is one, with the others' as they are."""
    before = own @ impulses
    taken = jnp.clip(before - (own @ effort) * (own @ qd), 0.0, own @ most)
    more = taken - before
    return impulses + own * more, qd + (inverse_mass @ own) * ((own @ way) * more)
