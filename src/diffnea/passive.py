"""Forces that store energy without a motor: springs of joints, springs along tendons, weight that is taken off links.

Each is an energy of q; the torque is its slope along the joints' columns.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot, Canonical
from diffnea.joints import tree_poses
from diffnea.manifold import displace, parts, turn_between
from diffnea.robot import Robot


def passive_torques(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, " n"]:
    """`∂V/∂q`: what holds springs and tendons where they are, less what takes weight off."""
    still = jnp.zeros(robot.num_velocities, q.dtype)
    return jax.grad(lambda step: stored_energy(robot, displace(robot, q, step)))(still)


def stored_energy(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, ""]:
    """V(q): what springs and tendons store, less what gravity has of weight that is taken off."""
    kinds = (robot.springs, _springs), (robot.tendons, _tendons), (robot.lift, _lifted)
    return sum((energy(robot, q) for part, energy in kinds if part is not None), jnp.zeros((), q.dtype))


def weightless(robot: AnyRobot) -> AnyRobot:
    """The robot where nothing pulls."""
    none = replace(robot, gravity=jnp.zeros_like(robot.gravity), springs=None)
    return none if isinstance(robot, Canonical) else replace(none, tendons=None, lift=None)


def _springs(robot: Robot, q: Array) -> Array:
    """`½ Σ k (q − rest)²`; `½ k θ²` of balls."""
    assert robot.springs is not None
    links, places = _singles(robot)
    energy = jnp.sum(robot.springs.stiffness[links] * (q[places] - robot.springs.rest[links]) ** 2) / 2
    for part in parts(robot):
        if part.kind == "ball":
            turn = turn_between(jnp.eye(4, dtype=q.dtype)[0], q[part.q])
            energy = energy + robot.springs.stiffness[part.link] * (turn @ turn) / 2
    return energy


def _tendons(robot: Robot, q: Array) -> Array:
    """`½ Σ k d²`, d by how much `Σ_i w_i q_i` is outside of its range."""
    tendons = robot.tendons
    assert tendons is not None
    links, places = _singles(robot)
    length = tendons.weights[:, links] @ q[places]
    outside = jnp.maximum(length - tendons.upper, 0.0) + jnp.maximum(tendons.lower - length, 0.0)
    return jnp.sum(tendons.stiffness * outside**2) / 2


def _lifted(robot: Robot, q: Array) -> Array:
    """`g · Σ m_i c_i` of what is lifted."""
    lift, inertia = robot.lift, robot.inertia
    assert lift is not None
    pose = tree_poses(robot, q)
    first = lift.share[:, None] * inertia.first_moment + lift.excess
    moments = (lift.share * inertia.mass)[:, None] * pose.translation + jax.vmap(jnp.matmul)(pose.rotation, first)
    return jnp.sum(moments @ robot.gravity)


def _singles(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """Links whose joints have one coordinate, and where that is in q."""
    single = robot.tree.layout.single
    return single.astype(np.int32), np.array(robot.tree.layout.first_position, np.int32)[single]
