"""Inverse dynamics: recursive Newton-Euler (RNEA), and what is one call of it: bias, gravity, the regressor."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.coupled import whole
from diffnea.joints import joint_frames, joint_motions, joint_twists, row_bodies, row_numbers
from diffnea.loops import opened, undriven
from diffnea.manifold import parts
from diffnea.passive import passive_torques
from diffnea.robot import Robot
from diffnea.spatial import Adjoint, Inertia, Moments, skew

_DIAGONAL, _BELOW = np.eye(3, dtype=bool), np.tri(3, k=-1, dtype=bool)

# The step of a walk through the tree stands beside it, under `jit`: JAX traces it once for all links, and so its
# derivatives. So do the algorithms: a step of a roll-out asks for some of them several times.


def base_acceleration(robot: AnyRobot) -> Float[Array, "6"]:
    """`a_0 = (−g, 0)`: a base that accelerates upwards is a base at rest under gravity."""
    return jnp.concatenate([-robot.gravity, jnp.zeros_like(robot.gravity)])


@jax.jit
def rnea(
    robot: AnyRobot,
    q: Float[Array, " nq"],
    qd: Float[Array, " n"],
    qdd: Float[Array, " n"],
    bodies: Moments | None = None,
) -> Float[Array, " n"]:
    """Inverse dynamics by the recursive Newton-Euler algorithm: the joint torques that give `qdd`.

    Here `a_i` is how the link's origin accelerates in space; a point at r of the link accelerates by `a_i + W_i r`.
    """
    if robot.loops is not None:
        tau = rnea(opened(robot), q, qd, qdd, bodies)  # and what loops carry is taken off joints without a motor
        return undriven(robot, q, _without_motor(robot), tau)
    if robot.couplings is not None:
        full = whole(robot, q)  # τ_y = Gᵀ τ
        return full.G.T @ rnea(full.robot, full.q, full.velocities(qd), full.accelerations(qd, qdd), bodies)
    T, s, tree = joint_frames(robot, q), joint_twists(robot), robot.tree.rows
    still, bodies = jnp.zeros(3, q.dtype), row_bodies(robot, robot.inertia.moments if bodies is None else bodies)
    base = still, still, base_acceleration(robot)[:3]
    if robot.tree.simple:
        f = tree.from_root(_move, base, T, s, bodies, qd, qdd)
    else:
        f = tree.from_root(_move_row, base, T, s, joint_motions(robot, s, qd), bodies, qd, qdd)
    tau = tree.from_leaves(_collect, jnp.zeros(6, q.dtype), T, s, f) + row_numbers(robot, robot.armature) * qdd
    return tau + passive_torques(robot, q) if robot.stores else tau


def _without_motor(robot: Robot) -> Float[Array, " n"]:
    """1 at joints that nothing drives, balls and free links among them, 0 elsewhere."""
    own = replace(robot, couplings=None, loops=None)
    rows = row_numbers(own, jnp.where(robot.gear == 0, 1.0, 0.0).astype(robot.axis.dtype))
    every = {part.link: part.v.start for part in parts(own)}
    return jnp.concatenate([rows[every[link] : every[link] + v.stop - v.start] for _, _, v, link in parts(robot)])


@jax.jit
def _move(parent, T, s, body, qd, qdd):
    w, wd, a = parent
    back, slide, turn = T.rotation.T, s[:3], s[3:]
    a = back @ (a + _spin(w, wd) @ T.translation)
    w = back @ w + turn * qd  # ω_i = Rᵀ ω_λ + â_i q̇_i
    wd = back @ wd + turn * qdd + skew(w) @ turn * qd  # ω̇_i = Rᵀ ω̇_λ + â_i q̈_i + ω_i × â_i q̇_i
    a = a + slide * qdd + 2 * (skew(w) @ slide) * qd  # a_i = Rᵀ (a_λ + W_λ p) + â_i q̈_i + 2 ω_i × â_i q̇_i
    return (w, wd, a), _inertial_wrench(body, a, _spin(w, wd))


@jax.jit
def _move_row(parent, T, s, joint, body, qd, qdd):  # the same by columns of S; `joint` is S q̇ = (v, ω) at the first one
    w, wd, a = parent
    back, slide, turn = T.rotation.T, s[:3], s[3:]
    a = back @ (a + _spin(w, wd) @ T.translation)
    w = back @ w
    wd = back @ wd + turn * qdd + skew(w) @ joint[3:]  # ω̇_i = Rᵀ ω̇_λ + S^ω q̈ + Rᵀ ω_λ × ω
    a = a + slide * qdd + skew(2 * w + joint[3:]) @ joint[:3]  # a_i = Rᵀ (a_λ + W_λ p) + S^v q̈ + (2 Rᵀ ω_λ + ω) × v
    w = w + turn * qd
    return (w, wd, a), _inertial_wrench(body, a, _spin(w, wd))


def _spin(w, wd):  # W = [ω̇] + [ω][ω]
    return skew(wd) + skew(w) @ skew(w)


@jax.jit
def _collect(f_children, T, s, f):  # f_i += Σ_k Adᵀ f_k,   τ_i = s_iᵀ f_i
    f = f + f_children
    return Adjoint(T).T @ f, s @ f


def _inertial_wrench(body: Moments, a, W) -> Float[Array, "6"]:
    """`∫ [r̈, r × r̈] dm` where a body's points accelerate by `r̈ = a + W r`: `m a + W h` and, of `N = W Σ`, `N − Nᵀ`.

    Of W's diagonal only differences count, `(W_ii − W_jj) Σ_ij`: three products fewer.
    """
    nothing, diagonal = jnp.zeros_like(W), jnp.diagonal(W)
    differences = (diagonal[:, None] - diagonal[None]) * body.second
    N = jnp.where(_DIAGONAL, nothing, W) @ body.second + jnp.where(_BELOW, differences, nothing)
    turn = jnp.stack([N[2, 1] - N[1, 2], N[0, 2] - N[2, 0], N[1, 0] - N[0, 1]])
    return jnp.concatenate([body.mass * a + W @ body.first, turn + skew(body.first) @ a])


def bias(
    robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"], bodies: Moments | None = None
) -> Float[Array, " n"]:
    """`C(q, q̇) q̇ + g(q)`: the torque that keeps the joints at constant velocity."""
    return rnea(opened(robot), q, qd, jnp.zeros_like(qd), bodies)


def holding(robot: AnyRobot, q: Float[Array, " nq"]) -> Float[Array, " n"]:
    """`g(q)`: the torque that holds the robot still."""
    return bias(robot, q, jnp.zeros(robot.num_velocities, q.dtype))


def rnea_jacobian(
    robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"], qdd: Float[Array, " n"]
) -> Float[Array, "n p"]:
    """The regressor: RNEA without rotors is linear in the inertial parameters, so its Jacobian is exact."""

    def torque(parameters):
        inertia = Inertia.from_parameters(parameters.reshape(-1, 10))
        bare = replace(robot, inertia=inertia, armature=jnp.zeros_like(robot.armature))
        return rnea(bare, q, qd, qdd)

    return jax.jacfwd(torque)(robot.inertia.parameters.reshape(-1))
