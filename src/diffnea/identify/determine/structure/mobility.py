"""Mobility: how the joints between a link and the base let it turn."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.coupled import gearing
from diffnea.robot import SEVERAL, Robot

_PARALLEL = 1e-9


@dataclass(frozen=True)
class Mobility:
    """How a link can move: the directions about which it turns, and whether its origin moves."""

    turning: int  # dimensions of its angular velocity
    axis: Float[np.ndarray, "3"] | None  # in the link's frame, when it turns about one direction only
    vertical: bool  # that direction is along gravity, or there is no gravity


def mobility(robot: Robot) -> list[Mobility]:
    """Each link's, from the axes of the joints between it and the base."""
    rotation = np.array(robot.placement.rotation, float)
    for i, parent in enumerate(robot.tree.parents):
        rotation[i] = rotation[parent] @ rotation[i] if parent >= 0 else rotation[i]
    axes = np.einsum("nij,nj->ni", rotation, np.asarray(robot.axis, float))
    gravity = np.asarray(robot.gravity, float)
    found = []
    for i in range(robot.num_links):
        path = _path(robot, i)
        if any(robot.tree.kinds[k] in SEVERAL for k in path):
            found.append(Mobility(3, None, False))
            continue
        turning = [k for k in path if robot.tree.revolute[k]]
        stacked = _together(robot, turning, axes)
        rank = int(np.linalg.matrix_rank(stacked, tol=1e-6)) if turning else 0
        direction = stacked[-1] if rank == 1 else np.zeros(3)
        along = bool(np.linalg.norm(np.cross(direction, gravity)) <= _PARALLEL * max(np.linalg.norm(gravity), 1e-300))
        axis = rotation[i].T @ direction if rank == 1 else None
        found.append(Mobility(rank, axis, rank == 1 and along))
    return found


def _together(robot: Robot, turning: list[int], axes: Float[np.ndarray, "links 3"]) -> Float[np.ndarray, "k 3"]:
    """The directions of turning joints; parallel ones with one leader are one, and none where they turn back as far."""
    if robot.couplings is None:
        return axes[turning].reshape(-1, 3)
    found = []
    for row in gearing(robot):
        own = [row[k] * axes[k] for k in turning if row[k]]
        parallel = np.linalg.matrix_rank(np.array(own).reshape(-1, 3), tol=1e-6) <= 1
        found += [np.sum(own, axis=0)] if own and parallel else own
    sizes = np.linalg.norm(np.array(found).reshape(-1, 3), axis=1)
    return np.array([each / size for each, size in zip(found, sizes, strict=True) if size > _PARALLEL]).reshape(-1, 3)


def _path(robot: Robot, link: int) -> list[int]:
    """The joints from the base to a link."""
    path = []
    while link >= 0:
        path.append(link)
        link = robot.tree.parents[link]
    return path[::-1]
