"""Loops of a file: links that are held together, as the merged tree has them; refused where they cannot close."""

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.formats.description import Coupling, Description, Joint, Loop, RobotFileError
from diffnea.formats.merging import Merged
from diffnea.robot import Robot
from diffnea.spatial import Transform
from diffnea.ties import Loops

# A gap that is left, in m or rad, of a loop that counts as closed; and Gauss-Newton steps from where the file has it.
CLOSED = 1e-6
STEPS = 100


def loops_of(description: Description, merged: Merged) -> Loops | None:
    """Loops by link; what is held to what it is fixed to is none."""
    found = []
    for loop in description.loops:
        if loop.first == loop.second:
            raise RobotFileError(f'{loop.kind} of "{loop.first}" with itself; give two bodies')
        ends = merged.owner[loop.first], merged.owner[loop.second]
        if ends[0] != ends[1]:
            placed = merged.pose[loop.first] @ loop.place_first, merged.pose[loop.second] @ loop.place_second
            found.append((loop, ends, placed))
    if not found:
        return None
    _check(found, merged, description.couplings)
    return Loops(
        kinds=tuple(loop.kind for loop, _, _ in found),
        first=tuple(ends[0] for _, ends, _ in found),
        second=tuple(ends[1] for _, ends, _ in found),
        first_place=_transforms([placed[0] for _, _, placed in found]),
        second_place=_transforms([placed[1] for _, _, placed in found]),
    )


def _transforms(poses: list[np.ndarray]) -> Transform:
    rows = np.array(poses)
    return Transform(jnp.asarray(rows[:, :3, :3]), jnp.asarray(rows[:, :3, 3]))


def named_loops(robot: Robot, base: str) -> tuple[Loop, ...]:
    """A robot's loops by the names of its links."""
    loops, names = robot.loops, (*robot.link_names, base)
    if loops is None:
        return ()
    first, second = (
        [np.asarray(jax.tree.map(lambda x, k=k: x[k], place).matrix(), float) for k in range(len(loops.kinds))]
        for place in (loops.first_place, loops.second_place)
    )
    rows = zip(loops.kinds, loops.first, loops.second, first, second, strict=True)
    return tuple(Loop(kind, names[a], names[b], at, there) for kind, a, b, at, there in rows)


Found = list[tuple[Loop, tuple[int, int], tuple[np.ndarray, np.ndarray]]]


def _check(found: Found, merged: Merged, couplings: tuple[Coupling, ...]) -> None:
    """Refuse loops that Gauss-Newton cannot close from where the file has the joints."""
    joints = merged.joints
    count = 6 * len(joints)

    def gaps(step: np.ndarray) -> np.ndarray:
        poses = _poses(merged, step.reshape(-1, 6), couplings)
        return np.concatenate([_gap(loop.kind, poses, ends, placed) for loop, ends, placed in found])

    step, damping, units = np.zeros(count), 1e-6, np.eye(count)
    moving = np.flatnonzero([free for joint in joints for free in _columns(joint)])
    left = gaps(step)
    for _ in range(STEPS):
        if np.abs(left).max() < CLOSED:
            return
        J = np.array([(gaps(step + 1e-6 * units[i]) - left) / 1e-6 for i in moving]).T
        change = np.zeros(count)
        change[moving] = -J.T @ np.linalg.solve(J @ J.T + damping * np.trace(J @ J.T) * np.eye(len(J)), left)
        after = gaps(step + change)
        if np.linalg.norm(after) < np.linalg.norm(left):
            step, left, damping = step + change, after, max(damping / 10, 1e-14)
        elif damping > 1e3:
            break
        else:
            damping *= 10
    sizes = [np.abs(part).max() for part in np.split(left, np.cumsum([_size(loop) for loop, _, _ in found])[:-1])]
    worst = found[int(np.argmax(sizes))][0]
    raise RobotFileError(f"{worst.words} cannot close: {max(sizes):.2g} m or rad are left at best")


def _size(loop: Loop) -> int:
    return 3 if loop.kind == "connect" else 6


def _columns(joint: Joint) -> tuple[bool, ...]:
    """Which of a link's six coordinates its joint moves: a turn, then a shift; those of one axis in the first place."""
    if joint.kind in ("revolute", "continuous", "prismatic"):
        return (True, False, False, False, False, False)
    return (True, True, True, *[joint.kind == "free"] * 3)


def _poses(merged: Merged, step: np.ndarray, couplings: tuple[Coupling, ...]) -> list[np.ndarray]:
    """Each moving link's pose in the world."""
    places = {joint.name: float(row[0]) for joint, row in zip(merged.joints, step, strict=True)}
    for _ in couplings:  # a follower may lead another
        places |= {coupling.follower: coupling.at(places[coupling.leader]) for coupling in couplings}
    poses: list[np.ndarray] = []
    for joint, row in zip(merged.joints, step, strict=True):
        owner = merged.owner[joint.parent]
        above = (poses[owner] if owner >= 0 else np.eye(4)) @ merged.pose[joint.parent]
        poses.append(above @ joint.origin @ _motion(joint, places[joint.name], row))
    return poses


def _motion(joint: Joint, place: float, row: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    if joint.kind == "prismatic":
        pose[:3, 3] = place * joint.axis
        return pose
    single = joint.kind in ("revolute", "continuous")
    turn, pose[:3, 3] = (place * joint.axis, 0.0) if single else (row[:3], row[3:])
    angle = float(np.linalg.norm(turn))
    cross = np.cross(np.eye(3), -turn / angle) if angle else np.zeros((3, 3))
    pose[:3, :3] += np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return pose


def _gap(kind: str, poses: list[np.ndarray], ends: tuple[int, int], placed: tuple[np.ndarray, np.ndarray]):
    first, second = ((poses[end] if end >= 0 else np.eye(4)) @ place for end, place in zip(ends, placed, strict=True))
    away = first[:3, 3] - second[:3, 3]
    if kind == "connect":
        return away
    R = first[:3, :3].T @ second[:3, :3]
    twice = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])  # 2 sin θ â
    return np.concatenate([away, 2 * twice / max(1 + np.trace(R), 1e-12)])  # 2 tan(θ/2) â
