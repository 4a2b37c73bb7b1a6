"""Contact with a table: points of links that a horizontal plane pushes up, as stiff springs do."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.robot import Robot


@final
class Table(eqx.Module):
    """A plane at `height` over the robot's base, and the points of links that may touch it.

    A point below it is pushed up by `stiffness` times its depth, so that contact conserves energy; there is no friction
    along the plane.
    """

    height: Float[Array, ""]  # m
    stiffness: Float[Array, ""]  # N/m
    points: Float[Array, "k 3"]  # in the frames of their links, m
    links: tuple[int, ...] = eqx.field(static=True)

    def depths(self, robot: Robot, q: Float[Array, " n"]) -> Float[Array, " k"]:
        """How deep each point is below the plane; negative above it."""
        poses = dynamics.link_poses(robot, q)
        rows = np.array(self.links)
        up = poses.translation[rows, 2] + jnp.sum(poses.rotation[rows, 2] * self.points, axis=-1)
        return self.height - up

    def potential(self, robot: Robot, q: Float[Array, " n"]) -> Float[Array, ""]:
        """The energy stored in all points."""
        return self.stiffness * jnp.sum(jnp.maximum(self.depths(robot, q), 0.0) ** 2) / 2

    def slopes(self, robot: Robot, q: Float[Array, " n"]) -> tuple[Float[Array, " k"], Float[Array, "k n"]]:
        """The depths, and how they change with each joint."""
        return self.depths(robot, q), jax.jacfwd(lambda q: self.depths(robot, q))(q)
