"""Bodies for robots whose file has none: a third of public URDFs say nothing of mass, and a fit has to start somewhere.

A link is taken for a bar of water from its joint to its children's, a fifth as thick as long. Its mass is right within
a factor of a few; whoever uses it says so.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from diffnea.robot import Robot
from diffnea.spatial import Inertia

DENSITY, THICKNESS = 1000.0, 0.2  # kg/m³; thickness by length
# Of a robot whose joints are all in one place.
LENGTH = 0.2  # m


def has_mass(robot: Robot) -> bool:
    """Whether any link has.

    Args:
        robot: the robot.
    """
    return bool(np.any(np.asarray(robot.inertia.mass) > 0))


def with_reference_bodies(robot: Robot) -> Robot:
    """The robot with a bar for every link.

    Args:
        robot: the robot.
    """
    steps = np.asarray(robot.placement.translation, float)
    children: dict[int, list[int]] = {}
    for i, parent in enumerate(robot.tree.parents):
        children.setdefault(parent, []).append(i)
    spans = [np.mean(steps[children[i]], axis=0) if i in children else np.zeros(3) for i in range(robot.num_links)]
    lengths = np.linalg.norm(spans, axis=1)
    usual = float(np.mean(lengths[lengths > 0])) if np.any(lengths > 0) else LENGTH
    rows = [_bar(span, length if length > 0 else usual) for span, length in zip(spans, lengths, strict=True)]
    dtype = robot.inertia.mass.dtype
    return replace(robot, inertia=Inertia.from_parameters(jnp.asarray(np.array(rows), dtype)))


def _bar(span: np.ndarray, length: float) -> np.ndarray:
    """Ten inertial parameters; a link without children is a ball about its joint's middle."""
    mass, thick = DENSITY * length * (THICKNESS * length) ** 2, (THICKNESS * length) ** 2 / 12
    along = span / length if np.any(span) else np.zeros(3)
    second = mass * (thick * np.eye(3) + length**2 / 12 * (np.outer(along, along) if np.any(span) else np.eye(3) / 3))
    centre = span / 2
    second = second + mass * np.outer(centre, centre)
    inertia = np.trace(second) * np.eye(3) - second
    return np.concatenate([[mass], mass * centre, inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
