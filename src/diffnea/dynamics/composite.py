"""The mass matrix: composite rigid bodies (CRBA)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.coupled import whole
from diffnea.joints import joint_frames, joint_twists, row_bodies, row_numbers
from diffnea.spatial import Adjoint, Moments


@jax.jit
def crba(robot: AnyRobot, q: Float[Array, " nq"]) -> Float[Array, "n n"]:
    """The mass matrix by the composite rigid body algorithm, rotors included."""
    if robot.couplings is not None:
        full = whole(robot, q)  # M_y = Gᵀ M G
        return full.G.T @ crba(full.robot, full.q) @ full.G
    rows = composite_rows(robot, q)
    return rows + rows.T + jnp.diag(row_numbers(robot, robot.armature) - jnp.diagonal(rows))


def composite_rows(robot: AnyRobot, q: Float[Array, " nq"], bodies: Moments | None = None) -> Float[Array, "n n"]:
    """The mass matrix without rotors, each joint against itself and its descendants only; the other half is zero."""
    X, s, n = Adjoint(joint_frames(robot, q)), joint_twists(robot), robot.num_velocities
    bodies = row_bodies(robot, robot.inertia.moments if bodies is None else bodies)
    nothing = Moments.of_nothing(q.dtype), jnp.zeros((6, n), q.dtype)
    return robot.tree.rows.from_leaves(_compose, nothing, X, s, bodies, jnp.eye(n, dtype=q.dtype))


@jax.jit
def _compose(children, X, s, body, unit):
    body = body + children[0]  # the composite body: link i and all it carries
    F = children[1] + jnp.outer(body @ s, unit)  # column k: the wrench here that accelerates joint k alone
    return (X.carry(body), X.T @ F), s @ F
