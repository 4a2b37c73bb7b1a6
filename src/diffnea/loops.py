"""Loops: links that are held together, as equations `φ(q) = 0` between joints that are all in q.

Forward dynamics then solve `M q̈ − Jᵀ λ = τ − C q̇ − g` with `J q̈ + J̇ q̇ = 0`, J the slope of φ. Where constraints say the
same twice, as the third row of a planar four-bar does, λ is a least-squares solution, and q̈ the one there is.
"""

from dataclasses import replace
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.coupled import whole
from diffnea.joints import tree_poses
from diffnea.manifold import displace
from diffnea.robot import Robot
from diffnea.spatial import Transform, identity

AnyRobot = TypeVar("AnyRobot")
# What is added to the diagonal of a matrix with ones on it, as a power of the precision: 3e-7 of doubles. Constraints
# that files have twice differ by their rounding, 1e-8 of a length, and must not count the more for it.
REGULAR = 5 / 12
# Times that what the regularised solution leaves is solved for again: directions with an eigenvalue above 1e-5 are then
# exact to 1e-10.
REFINEMENTS = 6


def opened(robot: AnyRobot) -> AnyRobot:
    """The tree without its loops."""
    return replace(robot, loops=None) if isinstance(robot, Robot) and robot.loops is not None else robot


def gap(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, " m"]:
    """φ(q): between two points in world axes, three rows; of a weld also `2 tan(θ/2) â` of the turn."""
    loops = robot.loops
    assert loops is not None
    if robot.couplings is not None:
        full = whole(robot, q)
        return gap(full.robot, full.q)
    poses, rows = tree_poses(robot, q), []
    for k, kind in enumerate(loops.kinds):
        first = _row(poses, loops.first[k]) @ _row(loops.first_place, k)
        second = _row(poses, loops.second[k]) @ _row(loops.second_place, k)
        rows.append(first.translation - second.translation)
        if kind == "weld":
            R = first.rotation.T @ second.rotation
            twice = jnp.stack([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])  # 2 sin θ â
            rows.append(2 * twice / (1 + jnp.trace(R)))  # 1 + tr R = 2 (1 + cos θ)
    return jnp.concatenate(rows)


def _row(frames: Transform, k: int) -> Transform:
    """One of several frames; that of the ground is −1."""
    return identity(frames.translation.dtype) if k < 0 else jax.tree.map(lambda x: x[k], frames)


def slopes(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, "m n"]:
    """J: how the gaps change along the joints' columns."""
    still = jnp.zeros(robot.num_velocities, q.dtype)
    return jax.jacrev(lambda step: gap(robot, displace(robot, q, step)))(still)


def drift(robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Float[Array, " m"]:
    """`J̇ q̇`: how fast the gaps open by velocities that stay as they are."""

    def speed(t):
        return jax.jvp(lambda t: gap(robot, displace(robot, q, t * qd)), (t,), (jnp.ones_like(t),))[1]

    return jax.jvp(speed, (jnp.zeros((), q.dtype),), (jnp.ones((), q.dtype),))[1]


def saddle(mass, J: Float[Array, "m n"], M: Float[Array, "n n"], push: Float[Array, " n"], rate: Float[Array, " m"]):
    """x with `M x + Jᵀ y = push` and `J x = rate`, differentiable; `mass(x)` is M x, by which derivatives go."""
    n = len(push)

    def matrix(z):
        return jnp.concatenate([mass(z[:n]) + J.T @ z[n:], J @ z[:n]])

    def solve(_, z):
        L = jax.lax.linalg.cholesky(M, symmetrize_input=False)
        both = jnp.concatenate([J.T, z[:n, None]], axis=1)
        half = jax.lax.linalg.triangular_solve(L, both, left_side=True, lower=True)
        W, freely = half[:, :-1], half[:, -1]
        y = least_squares(W.T @ W, W.T @ freely - z[n:])
        x = jax.lax.linalg.triangular_solve(L, (freely - W @ y)[:, None], left_side=True, lower=True, transpose_a=True)
        return jnp.concatenate([x[:, 0], y])

    return jax.lax.custom_linear_solve(matrix, jnp.concatenate([push, rate]), solve, symmetric=True)[:n]


def least_squares(A: Float[Array, "m m"], b: Float[Array, " m"]) -> Float[Array, " m"]:
    """A solution of `A x = b` with a symmetric A that may be singular: regularised, and refined where it is not."""
    small, diagonal = float(jnp.finfo(A.dtype).eps) ** REGULAR, jnp.diagonal(A)
    largest = jnp.max(diagonal)
    some = jnp.maximum(diagonal, small * jnp.where(largest > 0, largest, 1.0))  # a row of rounding errors stays small
    scale = 1 / jnp.sqrt(some)
    A, b = A * scale[:, None] * scale[None, :], b * scale
    L = jax.lax.linalg.cholesky(A + small * jnp.eye(len(b), dtype=A.dtype), symmetrize_input=False)

    def solve(b):
        half = jax.lax.linalg.triangular_solve(L, b[:, None], left_side=True, lower=True)
        return jax.lax.linalg.triangular_solve(L, half, left_side=True, lower=True, transpose_a=True)[:, 0]

    x = solve(b)
    for _ in range(REFINEMENTS):
        x = x + solve(b - A @ x)
    return x * scale


def undriven(robot: Robot, q: Float[Array, " nq"], passive: Float[Array, " n"], tau: Float[Array, " n"]):
    """`τ − Jᵀ λ` with the λ that leaves the least on joints that nothing drives, where `passive` is 1."""
    J = slopes(robot, q)
    wanted = J @ (passive * tau)

    def matrix(y):
        return J @ (passive * (J.T @ y))

    def solve(_, b):
        return least_squares((J * passive[None]) @ J.T, b)

    return tau - J.T @ jax.lax.custom_linear_solve(matrix, wanted, solve, symmetric=True)
