"""The 3-D playback: a robot's skeleton and bodies, and measured and predicted motion, as plain numbers for the page."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.batches import forward_kinematics
from diffnea.coupled import whole
from diffnea.formats import link_shapes
from diffnea.identify import Fit
from diffnea.identify.judge.balance import Balance
from diffnea.identify.judge.windows import Windows, predict
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import Model
from diffnea.report.evidence import Evidence
from diffnea.robot import Robot

SECONDS, FRAMES_A_SECOND = 12.0, 40.0
# After so many seconds a prediction starts anew from what was measured; and after as many as the windows have.
OFTEN = 0.5
# Bodies are drawn no larger and no smaller than these shares of the robot's reach.
LARGEST, SMALLEST = 0.5, 0.01
DIGITS = 4
# Points of shapes on one page.
MOST_POINTS = 6000
# A base that goes farther than so many times the robot's reach is looked at from beside it.
FAR = 6.0


def playback(fit: Fit, found: Evidence) -> dict[str, Any] | None:
    """None for networks, which have no links, and for samples without order in time."""
    cut = found.windows
    if not isinstance(fit.model, Model) or cut is None:
        return None
    dt = cut.dt
    track = max((track for track in found.kept.tracks if track.dt and abs(track.dt / dt - 1) < 1e-6), key=len)
    track = track.take(slice(0, round(SECONDS / dt) + 1))
    stride = max(1, round(1 / (FRAMES_A_SECOND * dt)))
    measured = track.measured
    longest = cut.u.shape[1] - 1
    restarts = [steps for steps in (round(OFTEN / dt), longest) if steps <= longest]

    def places(model: Any, steps: int) -> np.ndarray:
        return of_links(fit.robot, _predicted(model, track, steps, cut)[::stride])

    runs = [
        {"model": name, "restart": round(steps * dt, 3), "q": _rounded(places(model, steps))}
        for name, model in (("fit", fit.model), ("start", found.kept.start))
        for steps in dict.fromkeys(restarts)
    ]
    return {
        "name": track.name,
        "dt": dt * stride,
        "scene": scene(fit.robot, of_links(fit.robot, measured), measured),
        "measured": _rounded(of_links(fit.robot, measured)[::stride]),
        "runs": runs,
        "follows": False,
    }


def free_playback(robot: Robot, kept: Balance) -> dict[str, Any]:
    """The measured motion of a robot with a free base: pose and joints, in the place of the first link's angle."""
    pose, joints = np.array(kept.pose, float), np.asarray(kept.q, float)
    q = of_links(robot, np.column_stack([pose, joints]))[:, 7:]
    follows = float(np.ptp(pose[:, :3], axis=0).max()) > FAR * _reach(robot, _centres(robot))
    pose[:, :3] = 0.0 if follows else pose[:, :3]
    rows = [[list(place), *angles] for place, angles in zip(_rounded(pose), _rounded(q), strict=True)]
    links = np.column_stack([np.zeros(len(q)), q])
    return {
        "name": kept.name,
        "dt": kept.step,
        "scene": scene(robot, links, np.column_stack([pose, joints])),
        "measured": rows,
        "runs": [],
        "follows": follows,
    }


def of_links(robot: Robot, q: Float[np.ndarray, "time n"]) -> Float[np.ndarray, "time links"]:
    """A coordinate a link, those of joints that follow others too."""
    if robot.couplings is None:
        return q
    return np.asarray(jax.vmap(lambda q: whole(robot, q).q)(jnp.asarray(q)), float)


def _rounded(values: np.ndarray) -> list[Any]:
    return np.round(np.nan_to_num(np.asarray(values, float), nan=0.0, posinf=1e6, neginf=-1e6), DIGITS).tolist()


def _predicted(model: Any, track: Track, steps: int, like: Windows) -> Float[np.ndarray, "time n"]:
    """Roll-outs one after the other, each from a measured state; as many and as long at once as the fit's own windows.

    So the program that judged the fit serves here too.
    """
    count, (batch, length) = len(track), like.u.shape[:2]
    starts = list(range(0, count, steps))
    # Behind the end the last sample is repeated, and what it predicts is cut off.
    longer = track.take(np.minimum(np.arange(count + length), count - 1))
    parts = []
    for first in range(0, len(starts), batch):
        some = starts[first : first + batch]
        rows = np.array(some + some[:1] * (batch - len(some)))
        times = rows[:, None] + np.arange(length)
        states = longer.q[rows], longer.qd[rows], longer.u[times], longer.measured[times]
        gain = None if longer.gain is None else longer.gain[times]
        cut = Windows(*states, like.dt, tuple((0, int(row)) for row in rows), like.spread, gain=gain)
        parts.append(predict(model, [longer], cut)[0][: len(some), :steps])
    return np.concatenate([row for part in parts for row in part])[:count]


def scene(
    robot: Robot, q: Float[np.ndarray, "time links"], whole: Float[np.ndarray, "time nq"] | None = None
) -> dict[str, Any]:
    """What moves how: placements, axes, ends of links, bodies as ellipsoids; and from where to look at it.

    `q` has a column a link, of which that of a free base says nothing; `whole` is the robot's own.
    """
    centres = _centres(robot)
    links = []
    reach = _reach(robot, centres)
    drawn = _hulls(robot)
    for i in range(robot.num_links):
        children = [k for k, parent in enumerate(robot.tree.parents) if parent == i]
        ends = [np.asarray(robot.placement.translation)[k] for k in children]
        if not children:
            ends = [2 * centres[i]]
        links.append(
            {
                "name": robot.link_names[i],
                "parent": robot.tree.parents[i],
                "slides": not bool(robot.tree.revolute[i]),
                "free": robot.tree.kinds[i] == "free",
                "rotation": _rounded6(np.asarray(robot.placement.rotation)[i]),
                "translation": _rounded6(np.asarray(robot.placement.translation)[i]),
                "axis": _rounded6(np.asarray(robot.axis)[i]),
                "rail": [float(q[:, i].min()), float(q[:, i].max())],
                "ends": [_rounded6(end) for end in ends if np.linalg.norm(end) > 1e-4 * reach],
                "centre": _rounded6(centres[i]),
                "body": _body(robot, i, reach),
                "hulls": drawn.get(i, []),
            }
        )
    points = _points(robot, q if whole is None else whole, centres)
    return {"links": links, "base": drawn.get(-1, []), **_view(points, reach)}


def _hulls(robot: Robot) -> dict[int, list[Any]]:
    """Shapes that the robot's file draws, by link, as long as they are not too many for a page."""
    found: dict[int, list[Any]] = {}
    count = 0
    for link, points in link_shapes(robot):
        count += len(points)
        if count > MOST_POINTS:
            break
        found.setdefault(link, []).append(_rounded(points))
    return found


def _rounded6(values: np.ndarray) -> Any:
    return np.round(np.asarray(values, float), 6).tolist()


def _centres(robot: Robot) -> np.ndarray:
    mass = np.asarray(robot.inertia.mass, float)
    safe = np.where(np.abs(mass) > 1e-9, mass, np.inf)
    return np.asarray(robot.inertia.first_moment, float) / safe[:, None]


def _reach(robot: Robot, centres: np.ndarray) -> float:
    """How far the links reach, stretched out."""
    lengths = np.linalg.norm(np.asarray(robot.placement.translation, float), axis=1)
    return float(lengths.sum() + np.linalg.norm(centres, axis=1).max(initial=0.0)) or 1.0


def _body(robot: Robot, i: int, reach: float) -> Any:
    """Axes of the solid ellipsoid with the link's mass and inertia, as columns; None where no body has them."""
    mass, centre = float(robot.inertia.mass[i]), _centres(robot)[i]
    if not mass > 1e-9:
        return None
    about = np.asarray(robot.inertia.rotational_matrix, float)[i]
    about = about - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    moments, axes = np.linalg.eigh(about)
    squares = 2.5 * (moments.sum() - 2 * moments) / mass  # a² = 5/(2m) (I_b + I_c − I_a)
    if not np.all(np.isfinite(squares)):
        return None
    radii = np.clip(np.sqrt(np.maximum(squares, 0.0)), SMALLEST * reach, LARGEST * reach)
    return _rounded6(axes * radii)


def _points(robot: Robot, q: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Places that links come through, over time."""
    some = q[np.unique(np.linspace(0, len(q) - 1, 60).astype(int))]
    poses = np.asarray(forward_kinematics(robot, some))
    offset = np.asarray(robot.frame_offset, float)
    origins = poses[:, :, :3, 3] - np.einsum("tnij,nj->tni", poses[:, :, :3, :3], offset)
    tips = origins + np.einsum("tnij,nj->tni", poses[:, :, :3, :3], 2 * centres)
    return np.concatenate([origins, tips], axis=1).reshape(-1, 3)


def _view(points: np.ndarray, reach: float) -> dict[str, Any]:
    """The middle, the size, and a direction from which the motion is seen best: across the plane it takes place in."""
    low, high = points.min(0), points.max(0)
    values, vectors = np.linalg.eigh(np.cov((points - points.mean(0)).T))
    normal = vectors[:, 0] * (1 if vectors[1, 0] <= 0 else -1)
    flat = abs(normal[2]) > 0.8 or values[1] < 1e-9 * max(values[2], 1e-300)
    yaw = 0.6 if flat else float(np.arctan2(normal[1], normal[0])) + np.pi / 2 + 0.35
    return {
        "middle": _rounded6((low + high) / 2),
        "size": float(max(np.linalg.norm(high - low), 0.4 * reach)),
        "lowest": float(low[2]),
        "yaw": round(yaw, 4),
        "pitch": 0.9 if abs(normal[2]) > 0.8 else 0.3,
    }
