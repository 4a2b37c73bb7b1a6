"""Whether the robot touched a table, and where that is: tried on training motions, taken where it explains them.

A fit that does not know of a table bends gravity and friction to explain what it does: joints that leave their goals
together. The points that may touch are where the file ends the last link, and one beside it, as of an open jaw.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import batches
from diffnea.contact import Table
from diffnea.formats import flange
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.servo.lanes import Lanes
from diffnea.identify.servo.loop_unknowns import Freedom
from diffnea.identify.servo.search.objective import Objective
from diffnea.robot import Robot

# Heights that are tried: as many shares of the motion have the tip below them.
SHARES = (0.002, 0.01, 0.03, 0.06, 0.12)
# How far beside the tip a second point is tried, in m.
BESIDE = (0.03, 0.08)
# N/m of the first try; soft, so that a height that is a little off still leads somewhere.
STIFFNESS = 1000.0


def tip(robot: Robot) -> Float[np.ndarray, "3"]:
    """The end of the last link, in its frame: where the file has its last fixed body, or past its centre of mass."""
    pose = np.asarray(flange(robot, robot.link_names[-1])[1], float)[:3, 3]
    if np.linalg.norm(pose) > 1e-6:
        return pose
    body = robot.inertia
    return 2 * np.asarray(body.first_moment, float)[-1] / max(float(body.mass[-1]), 1e-9)


def candidates(robot: Robot, tracks: Sequence[Track]) -> list[Table]:
    """Tables at several heights, touched by the tip alone, which is there twice: so all tables are of one form."""
    point, link = tip(robot), robot.num_joints - 1
    poses = np.concatenate([np.asarray(batches.forward_kinematics(robot, t.measured[::5])[:, link]) for t in tracks])
    heights = poses[:, 2, 3] + poses[:, 2, :3] @ point
    levels = np.quantile(heights, SHARES)
    return [_table(level, np.stack([point, point]), link) for level in levels]


def at_one_point(table: Table) -> Table:
    """The same with the first point alone."""
    return Table(table.height, jnp.asarray(STIFFNESS), table.points[:1], table.links[:1])


def beside(table: Table) -> list[Table]:
    """The same with the second point beside the first, in each direction of the link's frame."""
    point = np.asarray(table.points, float)[0]
    shifts = [sign * size * axis for size in BESIDE for axis in np.eye(3) for sign in (1, -1)]
    return [_table(float(table.height), np.stack([point, point + shift]), table.links[0]) for shift in shifts]


def _table(height: float, points: np.ndarray, link: int) -> Table:
    """Points where there are several of one place bear their part."""
    each = STIFFNESS * len(np.unique(points, axis=0)) / len(points)
    return Table(jnp.asarray(height), jnp.asarray(each), jnp.asarray(points), (link,) * len(points))


@dataclass(frozen=True)
class Tried:
    """The best of several tables, not fitted yet, and what the loss is with it."""

    free: Freedom
    loss: float


def best(data: Lanes, free: Freedom, theta: Float[np.ndarray, " p"], tables: Sequence[Table]) -> Tried:
    """The table that explains most, with all other numbers as they are."""
    settled = free.at(theta)
    freedoms = [settled.with_table(each) for each in tables]
    objective = Objective(data, freedoms[0])
    losses = objective.losses(np.stack([each.start for each in freedoms]))
    k = int(np.argmin(losses))
    return Tried(freedoms[k], float(losses[k]))


def touched(model_table: Table, robot: Robot, q: Float[np.ndarray, "row n"]) -> np.ndarray:
    """Which rows of a motion touch it."""
    poses = np.asarray(batches.forward_kinematics(robot, q))
    points, links = np.asarray(model_table.points, float), np.array(model_table.links)
    up = poses[:, links, 2, 3] + np.einsum("tki,ki->tk", poses[:, links, 2, :3], points)
    return np.any(up < float(model_table.height), axis=1)
