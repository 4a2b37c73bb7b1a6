"""Forward dynamics in the paper's form: the articulated body algorithm (ABA)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.dynamics.newton_euler import base_acceleration
from diffnea.joints import joint_frames, joint_motions, joint_twists, row_bodies, row_numbers
from diffnea.passive import passive_torques
from diffnea.spatial import Adjoint, ad


def articulated(robot: AnyRobot, q, qd, tau, free) -> Float[Array, " n"]:
    """The articulated body algorithm, with joints locked where `free` is zero."""
    X, s = Adjoint(joint_frames(robot, q)), joint_twists(robot)
    tau = tau - passive_torques(robot, q) if robot.stores else tau
    still = jnp.zeros(6, q.dtype)
    tree, nothing = robot.tree.rows, (jnp.zeros((6, 6), q.dtype), still)
    bodies, armature = row_bodies(robot, robot.inertia), row_numbers(robot, robot.armature)
    if robot.tree.simple:
        v, eta = tree.from_root(_move_twist, still, X, s, qd)
    else:
        v, eta = tree.from_root(_move_twist_row, still, X, s, joint_motions(robot, s, qd), qd)
    U, psi, tau_free = tree.from_leaves(_articulate, nothing, X, s, bodies, armature, free, v, eta, tau)
    return tree.from_root(_accelerate, base_acceleration(robot), X, s, eta, U, psi, tau_free)


@jax.jit
def _move_twist(v_parent, X, s, qd):  # v_i = Ad v_λ + s_i q̇_i,   η_i = ad(v_i) s_i q̇_i
    v = X @ v_parent + s * qd
    return v, (v, ad(v) @ s * qd)


@jax.jit
def _move_twist_row(v_parent, X, s, joint, qd):  # the same by columns of S; η = ad(Ad v_λ) S q̇, since ad(S q̇) S q̇ = 0
    carried = X @ v_parent
    v = carried + s * qd
    return v, (v, ad(carried) @ joint)


@jax.jit
def _articulate(children, X, s, inertia, armature, free, v, eta, tau):
    M = inertia.matrix()
    M_hat = M + children[0]  # M̂_i = M_i + Σ_k Adᵀ Π_k Ad
    b = -ad(v).T @ (M @ v) + children[1]  # b_i = −ad(v_i)ᵀ M_i v_i + Σ_k Adᵀ (b_k + β_k)
    U = M_hat @ s
    psi = free / (s @ U + armature)  # Ψ_i = 1 / (s_iᵀ M̂_i s_i), rotor included; 0 if locked
    tau_free = tau - s @ b
    Pi = M_hat - psi * jnp.outer(U, U)  # Π_i = M̂_i − M̂_i s_i Ψ_i s_iᵀ M̂_i
    beta = M_hat @ eta + U * psi * (tau_free - U @ eta)  # β_i = M̂_i (η_i + s_i Ψ_i (τ_i − s_iᵀ (M̂_i η_i + b_i)))
    return (X.congruence(Pi), X.T @ (b + beta)), (U, psi, tau_free)


@jax.jit
def _accelerate(a_parent, X, s, eta, U, psi, tau_free):  # a_i = Ad a_λ + η_i + s_i q̈_i
    a = X @ a_parent + eta
    qdd = psi * (tau_free - U @ a)  # q̈_i = Ψ_i (τ_i − s_iᵀ (M̂_i (Ad a_λ + η_i) + b_i))
    return a + s * qdd, qdd
