"""What motion takes besides bodies: rotors and springs, which are no columns of a regressor."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import batches
from diffnea.robot import Robot


def besides_bodies(
    robot: Robot,
    q: Float[np.ndarray, "sample nq"],
    qd: Float[np.ndarray, "sample n"],
    qdd: Float[np.ndarray, "sample n"],
) -> Float[np.ndarray, "sample n"]:
    """Torques of rotors and springs: `taken = regressor @ π + besides_bodies`."""
    if robot.couplings is None and not robot.stores:
        return qdd * np.asarray(robot.armature)
    bare = replace(robot, inertia=jax.tree.map(jnp.zeros_like, robot.inertia))
    return np.asarray(batches.inverse_dynamics(bare, *map(jnp.asarray, (q, qd, qdd))))


def file_rotors(robot: Robot) -> Float[np.ndarray, " n"]:
    """The file's rotors about each joint, with those of joints that follow it."""
    n = robot.num_joints
    still = np.zeros((n, n))
    return np.diag(besides_bodies(robot, still, still, np.eye(n)) - besides_bodies(robot, still, still, still))
