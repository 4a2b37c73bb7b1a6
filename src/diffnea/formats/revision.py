"""Robot → Description: of a robot without a file, or the numbers that changed in the file that it came from."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from diffnea.formats.assembly import assemble
from diffnea.formats.couplings import named_couplings, named_tendons
from diffnea.formats.description import Curve, Description, Joint, Link, RobotFileError, Servo
from diffnea.formats.inertia import impossible, moved, pseudo_of
from diffnea.formats.loops import named_loops
from diffnea.formats.merging import Merged, merge
from diffnea.robot import Robot, astype

# How much of its inertia a fixed link may keep when the link that carries it changes.
SHARES = (*0.5 ** np.arange(30), 0.0)

Curves = Mapping[str, Curve]
Servos = Mapping[str, Servo]


def describe(robot: Robot, curves: Curves | None = None, servos: Servos | None = None) -> Description:
    """A robot that came from nowhere: a base link, and a link and a joint a row; friction curves, servos by joint."""
    usual = ("world", "ground", "world_") if "free" in robot.tree.kinds else ("base", "base_link", "base_")
    base = next(name for name in usual if name not in robot.link_names)
    numbers = _numbers(robot)
    links = [Link(base)]
    joints = []
    tree = robot.tree
    for i, (parent, name, link) in enumerate(zip(tree.parents, tree.joint_names, tree.link_names, strict=True)):
        above = base if parent < 0 else robot.link_names[parent]
        links.append(Link(link, numbers["inertia"][i], numbers["offset"][i], float(numbers["lift"][i])))
        values = {key: numbers[key][i] for key in _JOINT_NUMBERS}
        curve = (curves or {}).get(name)
        joints.append(Joint(name, robot.tree.kinds[i], above, link, numbers["placement"][i], **values, curve=curve))
    joints = [replace(joint, servo=(servos or {}).get(joint.name)) for joint in joints]
    tied = named_couplings(robot), named_tendons(robot), named_loops(robot, base)
    return Description(robot.name, tuple(links), tuple(joints), tuple(numbers["gravity"].tolist()), (), *tied)


_JOINT_NUMBERS = (
    "axis", "damping", "friction", "armature", "gear", "lower", "upper", "velocity", "effort", "stiffness", "rest",
)  # fmt: skip


def _numbers(robot: Robot) -> dict[str, np.ndarray]:
    """A robot's numbers as a description holds them, in double precision."""
    count = robot.num_links
    placement = np.tile(np.eye(4), (count, 1, 1))
    placement[:, :3, :3], placement[:, :3, 3] = robot.placement.rotation, robot.placement.translation
    limits = robot.limits
    leaves = {
        "axis": robot.axis, "damping": robot.damping, "friction": robot.friction, "armature": robot.armature,
        "gear": robot.gear, "lower": limits.lower, "upper": limits.upper, "velocity": limits.velocity,
        "effort": limits.effort, "offset": robot.frame_offset, "gravity": robot.gravity,
        "stiffness": np.zeros(count) if robot.springs is None else robot.springs.stiffness,
        "lift": np.zeros(count) if robot.lift is None else robot.lift.share,
        "rest": np.zeros(count) if robot.springs is None else robot.springs.rest,
    }  # fmt: skip
    doubles = {name: np.asarray(value, float) for name, value in leaves.items()}
    return {**doubles, "placement": placement, "inertia": pseudo_of(robot.inertia)}


def revise(
    description: Description, robot: Robot, curves: Curves | None = None, servos: Servos | None = None
) -> Description:
    """The description with the robot's numbers in it; what is equal in the robot's precision stays as it was.

    Friction curves and servos are those given by joint, or the description's own where none are given at all.
    """
    merged = merge(description)
    before = assemble(description)
    if before.tree != robot.tree:
        raise RobotFileError("the robot's joints are no longer those of its file; save with fresh=True")
    old, new = _numbers(astype(before, robot.inertia.mass.dtype)), _numbers(robot)
    joints = {joint.name: joint for joint in description.joints}
    links = {link.name: link for link in description.links}
    for i, joint in enumerate(merged.joints):
        changed = {key: new[key][i] for key in _JOINT_NUMBERS if not np.array_equal(old[key][i], new[key][i])}
        origin = _revised_origin(joint, merged.pose[joint.parent], old["placement"][i], new["placement"][i])
        curve = joint.curve if curves is None else curves.get(joint.name)
        servo = joint.servo if servos is None else servos.get(joint.name)
        joints[joint.name] = replace(joint, origin=origin, curve=curve, servo=servo, **changed)
        if not np.array_equal(old["inertia"][i], new["inertia"][i]):
            links.update(_revised_inertia(i, new["inertia"][i], joint.child, links, merged))
    gravity = tuple(new["gravity"].tolist())
    same = np.array_equal(old["gravity"], new["gravity"])
    return replace(
        description,
        links=tuple(links[link.name] for link in description.links),
        joints=tuple(joints[joint.name] for joint in description.joints),
        gravity=description.gravity if same else gravity,
    )


def _revised_origin(joint: Joint, above: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The joint's own origin for a new placement in the moving link above, through the fixed joints between."""
    origin = joint.origin.copy()
    if not np.array_equal(old[:3, :3], new[:3, :3]):
        origin[:3, :3] = above[:3, :3].T @ new[:3, :3]
    if not np.array_equal(old[:3, 3], new[:3, 3]):
        origin[:3, 3] = above[:3, :3].T @ (new[:3, 3] - above[:3, 3])
    return origin


def _revised_inertia(
    index: int, total: np.ndarray, carrier: str, links: dict[str, Link], merged: Merged
) -> dict[str, Link]:
    """The moving link takes the change; what is fixed to it keeps as much of its inertia as leaves a possible body."""
    attached = [name for name, owner in merged.owner.items() if owner == index and name != carrier]
    theirs = sum((moved(links[name].inertia, merged.pose[name]) for name in attached), np.zeros((4, 4)))
    share = next((share for share in SHARES if not impossible(total - share * theirs)), 1.0)
    kept = {name: replace(links[name], inertia=share * links[name].inertia) for name in attached if share != 1}
    return {**kept, carrier: replace(links[carrier], inertia=total - share * theirs)}
