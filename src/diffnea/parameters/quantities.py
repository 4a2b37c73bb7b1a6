"""A robot's physical quantities by name, for tables."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.parameters.angles import roll_pitch_yaw
from diffnea.robot import Robot
from diffnea.spatial import skew

_OF_LINK = (
    ("mass", "kg"),
    *((f"centre of mass {axis}", "m") for axis in "xyz"),
    *((f"inertia {axes}", "kg·m²") for axes in ("xx", "xy", "yy", "xz", "yz", "zz")),
)
_OF_JOINT = (*((f"translation {axis}", "m") for axis in "xyz"), *((angle, "rad") for angle in ("roll", "pitch", "yaw")))
# Where xx, xy, yy, xz, yz, zz stand; int32, as in `spatial`: JAX keeps index arrays between calls of either precision.
_ROWS, _COLUMNS = np.array([0, 0, 1, 0, 1, 2], np.int32), np.array([0, 1, 1, 2, 2, 2], np.int32)


class Quantity(NamedTuple):
    """One row of a table."""

    name: str
    unit: str
    value: float

    @property
    def label(self) -> str:
        """As "pole mass [kg]"."""
        return f"{self.name} [{self.unit}]"


def physical(robot: Robot) -> list[Quantity]:
    """Each link's mass, centre of mass and inertia about it (link's axes); each joint's placement and armature.

    Args:
        robot: the robot.
    """
    names = [(f"{link} {name}", unit) for link in robot.link_names for name, unit in _OF_LINK]
    names += [(f"{joint} {name}", unit) for joint in robot.tree.joint_names for name, unit in _OF_JOINT]
    units = np.where(robot.tree.revolute, "kg·m²", "kg")
    names += [(f"{joint} armature", str(unit)) for joint, unit in zip(robot.tree.joint_names, units, strict=True)]
    values = np.asarray(physical_values(robot)).tolist()
    return [Quantity(name, unit, value) for (name, unit), value in zip(names, values, strict=True)]


@jax.jit
def physical_values(robot: Robot) -> Float[Array, " quantities"]:
    """The values of `physical` in its order, as a differentiable function of the robot.

    Args:
        robot: the robot.
    """
    links = jax.vmap(_of_link)(robot.inertia)
    rpy = jax.vmap(roll_pitch_yaw)(robot.placement.rotation)
    joints = jnp.concatenate([robot.placement.translation, rpy], axis=1)
    return jnp.concatenate([links.ravel(), joints.ravel(), robot.armature])


def _of_link(inertia) -> Float[Array, "10"]:
    """A link without mass has its centre at the origin."""
    massless = inertia.mass == 0
    centre = jnp.where(massless, 0, inertia.first_moment / jnp.where(massless, 1, inertia.mass))
    central = inertia.rotational_matrix + skew(inertia.first_moment) @ skew(centre)  # J_c = J + m[c][c]
    return jnp.concatenate([inertia.mass[None], centre, central[_ROWS, _COLUMNS]])
