"""Joints held still, and bases set free: in the description of a file, and undone when the file is written.

A log seldom has every joint of a robot file: grippers are not recorded, and passive joints are clamped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from diffnea.formats.description import Description, Joint, Link, RobotFileError, Tendon
from diffnea.formats.merging import root_of
from diffnea.robot import SEVERAL
from diffnea.text import meant


def places(description: Description, lock: Mapping[str, float | None] | Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Where each joint is held: as asked for, or at 0, or at the limit that is nearest to it."""
    asked: dict[str, float | None] = dict(lock) if isinstance(lock, Mapping) else dict.fromkeys(lock)
    joints = {joint.name: joint for joint in description.joints if joint.kind != "fixed"}
    for name in asked:
        if name not in joints:
            raise RobotFileError(f'no joint "{name}" to lock{meant(name, joints)}; it has {", ".join(joints)}')
    if joints and len(asked) == len(joints):
        raise RobotFileError("all its joints are locked; leave one that moves")
    held = {name: _place(joints[name], value) for name, value in asked.items()}
    while following := [c for c in description.couplings if c.leader in held and c.follower not in held]:
        held |= {coupling.follower: coupling.at(held[coupling.leader]) for coupling in following}
    return tuple(held.items())


def _place(joint: Joint, value: float | None) -> float:
    if joint.kind in SEVERAL:
        if value:
            raise RobotFileError(
                f'joint "{joint.name}" is {joint.kind}: it is held where the file has it; give no number'
            )
        return 0.0
    if value is None:
        return float(np.clip(0.0, joint.lower, joint.upper))
    if not joint.lower <= value <= joint.upper:
        reach = f"{joint.lower:g} to {joint.upper:g}"
        raise RobotFileError(f'joint "{joint.name}" is locked at {value:g}; it goes from {reach} (rad or m)')
    return float(value)


def lock(description: Description, held: Iterable[tuple[str, float]]) -> Description:
    """The description with these joints fixed."""
    at = dict(held)
    joints = tuple(_fixed(joint, at[joint.name]) if joint.name in at else joint for joint in description.joints)
    couplings = tuple(coupling for coupling in description.couplings if coupling.follower not in at)
    tendons = tuple(shortened for tendon in description.tendons if (shortened := _shortened(tendon, at)).weights)
    return replace(description, joints=joints, couplings=couplings, tendons=tendons)


def _shortened(tendon: Tendon, at: dict[str, float]) -> Tendon:
    """The tendon less what joints that are held have of its length."""
    held = sum(weight * at[name] for name, weight in tendon.weights if name in at)
    left = tuple(pair for pair in tendon.weights if pair[0] not in at)
    return replace(tendon, weights=left, lower=tendon.lower - held, upper=tendon.upper - held)


def unlock(description: Description, before: Description) -> Description:
    """The description with all joints as they were before they were locked, and everything else as it is now."""
    own = {joint.name: joint for joint in before.joints}
    joints = tuple(
        own[joint.name] if joint.kind == "fixed" and own[joint.name].kind != "fixed" else joint
        for joint in description.joints
    )
    return replace(description, joints=joints, couplings=before.couplings, tendons=before.tendons)


ROOT_JOINT = "root_joint"


def float_base(description: Description) -> Description:
    """The description with its root free, standing on a ground of its own."""
    free = [joint.name for joint in description.joints if joint.kind == "free"]
    if free:
        return description
    root = root_of(description)
    links = {link.name for link in description.links}
    joints = {joint.name for joint in description.joints}
    ground = next(name for name in ("world", "ground", "world_") if name not in links)
    name = next(name for name in (ROOT_JOINT, "floating_base", "root_joint_") if name not in joints)
    joint = Joint(name, "free", ground, root, gear=0.0)
    return replace(description, links=(Link(ground), *description.links), joints=(joint, *description.joints))


def ground_base(description: Description) -> Description:
    """The description as it was before its base was set free."""
    first = description.joints[0]
    links = tuple(link for link in description.links if link.name != first.parent)
    return replace(description, links=links, joints=description.joints[1:])


def _fixed(joint: Joint, value: float) -> Joint:
    return Joint(joint.name, "fixed", joint.parent, joint.child, joint.origin @ _motion(joint, value))


def _motion(joint: Joint, value: float) -> np.ndarray:
    """The pose of what a joint moves, in the joint's frame at 0."""
    pose = np.eye(4)
    if joint.kind in SEVERAL:
        return pose
    if joint.kind == "prismatic":
        pose[:3, 3] = value * joint.axis
        return pose
    x, y, z = joint.axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    pose[:3, :3] += np.sin(value) * cross + (1 - np.cos(value)) * cross @ cross
    return pose
