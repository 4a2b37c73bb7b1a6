"""Where links are in the world."""

import jax
from jaxtyping import Array, Float

from diffnea.coupled import whole
from diffnea.joints import tree_poses
from diffnea.robot import Robot
from diffnea.spatial import Transform


def link_poses(robot: Robot, q: Float[Array, " nq"]) -> Transform:
    """Each link's frame in the world (the frame at its joint)."""
    if robot.couplings is not None:
        full = whole(robot, q)
        return link_poses(full.robot, full.q)
    return tree_poses(robot, q)


def file_poses(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, "links 4 4"]:
    """Each link's frame in the world, where the robot's file has it."""
    turned = jax.vmap(lambda pose, offset: Transform(pose.rotation, pose.rotation @ offset + pose.translation))
    return jax.vmap(Transform.matrix)(turned(link_poses(robot, q), robot.frame_offset))
