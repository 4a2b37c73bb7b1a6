"""Which links move as one: what fixed joints join is merged into the link that carries it."""

import heapq
from collections import Counter
from dataclasses import dataclass

import numpy as np

from diffnea.formats.description import Description, Joint, RobotFileError
from diffnea.formats.inertia import impossible, moved, parameters_of
from diffnea.text import meant


@dataclass(frozen=True)
class Merged:
    """Which moving link (−1: the base) each link belongs to, its pose there, and the moving joints in order."""

    joints: tuple[Joint, ...]
    owner: dict[str, int]
    pose: dict[str, np.ndarray]


def merge(description: Description) -> Merged:
    """Every link with the moving one that carries it."""
    moving: list[Joint] = []
    root = root_of(description)
    owner, pose = {root: -1}, {root: np.eye(4)}
    for joint in _outwards(description, root):
        if joint.kind == "fixed":
            owner[joint.child] = owner[joint.parent]
            pose[joint.child] = pose[joint.parent] @ joint.origin
        else:
            owner[joint.child] = len(moving)
            pose[joint.child] = np.eye(4)
            moving.append(joint)
    return Merged(tuple(moving), owner, pose)


def root_of(description: Description) -> str:
    """The one link that no joint moves; refuses what is not a tree."""
    links, joints = [link.name for link in description.links], description.joints
    for what, names in (("link", links), ("joint", [joint.name for joint in joints])):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise RobotFileError(f'two {what}s are named "{twice[0]}"; names must differ')
    known = set(links)
    for joint in joints:
        for end, name in (("parent", joint.parent), ("child", joint.child)):
            if name not in known:
                told = f'its {end} "{name}" is not a link of this file{meant(name, links)}'
                raise RobotFileError(f'joint "{joint.name}": {told}')
    movers: dict[str, str] = {}
    for joint in joints:
        if joint.child in movers:
            both = f'"{movers[joint.child]}" and "{joint.name}"'
            raise RobotFileError(f'link "{joint.child}" is the child of joints {both}; a tree gives a link one parent')
        movers[joint.child] = joint.name
    roots = [name for name in links if name not in movers]
    if len(roots) > 1:
        listed = ", ".join(f'"{name}"' for name in roots[:5])
        raise RobotFileError(f"{len(roots)} links have no parent ({listed}); join them, by fixed joints if need be")
    if not roots:
        raise RobotFileError("has no link" if not links else "its joints form a loop: every link has a parent")
    return roots[0]


def _outwards(description: Description, root: str) -> list[Joint]:
    """Joints in the file's order as far as parents before children allows."""
    leaving: dict[str, list[int]] = {}
    for index, joint in enumerate(description.joints):
        leaving.setdefault(joint.parent, []).append(index)
    ready, order = leaving.get(root, []).copy(), []
    heapq.heapify(ready)
    while ready:
        joint = description.joints[heapq.heappop(ready)]
        order.append(joint)
        for index in leaving.get(joint.child, []):
            heapq.heappush(ready, index)
    if len(order) < len(description.joints):
        reached = {joint.name for joint in order}
        left = next(joint for joint in description.joints if joint.name not in reached)
        raise RobotFileError(f'joint "{left.name}" is part of a loop that does not hang on "{root}"; use a tree')
    return order


def totals(description: Description, merged: Merged) -> np.ndarray:
    """The pseudo-inertia of each moving body, with all that is fixed to it."""
    total = np.zeros((len(merged.joints), 4, 4))
    for link in description.links:
        if merged.owner[link.name] >= 0:
            total[merged.owner[link.name]] += moved(link.inertia, merged.pose[link.name])
    return total


def frames(description: Description) -> dict[str, tuple[int, np.ndarray]]:
    """For each link of the file the moving link that carries it (−1: the base), and its file's frame in that one's."""
    merged = merge(description)
    placed = {}
    for link in description.links:
        offset = np.eye(4)
        offset[:3, 3] = link.offset
        placed[link.name] = (merged.owner[link.name], merged.pose[link.name] @ offset)
    return placed


def attached(description: Description) -> np.ndarray:
    """What is rigidly fixed to each moving link, in that link's frame: (n, 10) parameters, zero where nothing is."""
    merged = merge(description)
    inertia = np.zeros((len(merged.joints), 4, 4))
    carriers = {joint.child for joint in merged.joints}
    for link in description.links:
        owner = merged.owner[link.name]
        if owner >= 0 and link.name not in carriers:
            inertia[owner] += moved(link.inertia, merged.pose[link.name])
    return parameters_of(inertia)


def tips(description: Description) -> dict[str, tuple[str, np.ndarray]]:
    """For each moving link the last body that fixed joints of the file join to it, and that one's pose in it.

    Frames without mass, as a tool's centre point, are not bodies.
    """
    merged = merge(description)
    heavy = {link.name for link in description.links if link.inertia[3, 3] > 0}
    last = {i: joint.child for i, joint in enumerate(merged.joints)}
    for joint in _outwards(description, root_of(description)):
        owner = merged.owner[joint.child]
        if joint.kind == "fixed" and owner >= 0 and joint.child in heavy:
            last[owner] = joint.child
    return {merged.joints[i].child: (name, merged.pose[name]) for i, name in last.items()}


def check_physical(description: Description) -> list[str]:
    """Refuse a moving body that none can be, with all that is fixed to it; notes on links alone that none can be."""
    reasons = {link.name: reason for link in description.links if (reason := impossible(link.inertia))}
    if not reasons:
        return []
    merged = merge(description)
    for i, total in enumerate(totals(description, merged)):
        if impossible(total):  # then one of its parts is: bodies add up to bodies
            name = next(name for name, owner in merged.owner.items() if owner == i and name in reasons)
            raise RobotFileError(f'link "{name}": {reasons[name]} (allow_unphysical takes it all the same)')
    named = ", ".join(f'"{name}"' for name in reasons)
    return [f"no body has the inertia of link {named}, but it does not move, or what it is fixed to makes up for it"]
