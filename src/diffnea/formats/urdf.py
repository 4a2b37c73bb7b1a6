"""URDF: text → Description, and a changed or fresh Description → text.

Only the robot file is read: meshes and other files it names are never opened. What URDF has no place for (armature,
gear, gravity other than −9.81 along z) is kept in a `<diffnea>` element, which other readers skip.
"""

import math
import re
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from diffnea.formats.description import (
    LARGEST,
    Coupling,
    Description,
    Joint,
    Link,
    RobotFileError,
    check_count,
)
from diffnea.formats.inertia import central_moments, pseudo_inertia
from diffnea.formats.xml_text import Edits, Element, format_numbers, parse
from diffnea.robot import JOINT_KINDS, STANDARD_GRAVITY

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ACCEPTED = ", ".join(JOINT_KINDS) + ", floating or fixed"
_TENSOR = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
# URDF demands numbers where a joint has no limit; anything this large is read as none.
_UNLIMITED = 1e30
# What no reader of the mechanics looks into, and xacro that makes no element by itself.
_UNREAD = ("visual", "collision", "gazebo", "transmission", "material", "xacro:property", "xacro:arg", "xacro:macro")
# Values that differ by less than this share are the same number that went through a change of frame.
_SAME = 1e-14


# Reading ---------------------------------------------------------------------------------------------------------


def read(text: bytes, allow_unphysical: bool = False) -> Description:
    """The robot a URDF file describes; raises `RobotFileError` with one line on what is wrong."""
    document = parse(text)
    root = document.root
    if root.tag != "robot":
        raise RobotFileError(f"its root element is <{root.tag}>; a URDF file has <robot>")
    check_count(len(root.all("link")))
    notes = ["blanks before <?xml are passed over"] if document.late else []
    notes += [*_xacro_notes(root), *_limit_notes(root)]
    joints = tuple(_read_joint(element, allow_unphysical) for element in root.all("joint"))
    couplings = tuple(_read_mimic(joint) for joint in root.all("joint") if _mimics(joint))
    _refuse_chains(couplings)
    links = tuple(_read_link(element) for element in root.all("link"))
    joints, gravity = _read_extension(root, joints)
    return Description(root.attributes.get("name", "robot"), links, joints, gravity, tuple(notes), couplings)


def _xacro_notes(root: Element) -> list[str]:
    """Refuse xacro where it counts; a word on what is left of it in elements that nobody reads."""
    unread = set()
    for element in root.walk():
        if element.parent in unread or element.tag in _UNREAD:
            unread.add(element)
    left = []
    for element in root.walk():
        unexpanded = [value for value in element.attributes.values() if "${" in value or "$(" in value]
        if not (element.tag.startswith("xacro:") or unexpanded):
            continue
        found = f"<{element.tag}>" if not unexpanded else f'"{unexpanded[0]}"'
        if element not in unread:
            raise RobotFileError(
                f"line {element.line}: {found} is xacro; expand it first (xacro robot.xacro > robot.urdf)"
            )
        left.append(f"{found} (line {element.line})")
    return [f"xacro is left over in elements that are not read: {', '.join(left[:3])}"] if left else []


def _limit_notes(root: Element) -> list[str]:
    limits = [(joint, limit) for joint in root.all("joint") for limit in joint.all("limit")[:1]]
    crossed = [_name(joint) for joint, limit in limits if _crossed(limit, _where(joint))]
    named = ", ".join(f'"{name}"' for name in crossed)
    return [f"a lower limit above the upper is read as none: joint {named}"] if crossed else []


def _crossed(limit: Element, where: str) -> bool:
    """Whether the lower limit is above the upper one, which says nothing."""
    lower, upper = (_numbers(limit, key, 1, where, (0.0,))[0] for key in ("lower", "upper"))
    return lower > upper


def _read_link(element: Element) -> Link:
    name = _name(element)
    where = f'link "{name}" (line {element.line})'
    inertials = element.all("inertial")
    if not inertials:
        return Link(name)
    if len(inertials) > 1:
        raise RobotFileError(f"{where} has {len(inertials)} <inertial> elements; give it one")
    mass_element, tensor_element = inertials[0].first("mass"), inertials[0].first("inertia")
    if mass_element is None or tensor_element is None:
        missing = "mass" if mass_element is None else "inertia"
        raise RobotFileError(f"{where}: its <inertial> has no <{missing}>; give mass and inertia, or no <inertial>")
    (mass,) = _numbers(mass_element, "value", 1, where)
    tensor = np.zeros((3, 3))
    for key, (row, column) in _TENSOR.items():
        default = None if row == column else (0.0,)
        (tensor[row, column],) = (tensor[column, row],) = _numbers(tensor_element, key, 1, where, default)
    origin = read_origin(inertials[0], where)
    rotation = origin[:3, :3]
    return Link(name, pseudo_inertia(mass, origin[:3, 3], rotation @ tensor @ rotation.T))


def _read_joint(element: Element, allow_unphysical: bool) -> Joint:
    name, kind, where = _name(element), element.attributes.get("type"), _where(element)
    if kind not in (*JOINT_KINDS, "floating", "fixed"):
        found = "has no type" if kind is None else f'is "{kind}"'
        raise RobotFileError(f"{where} {found}; use {_ACCEPTED}")
    parent, child = _end(element, "parent", where), _end(element, "child", where)
    origin = read_origin(element, where)
    if kind == "fixed":
        return Joint(name, kind, parent, child, origin)
    if kind == "floating":
        return Joint(name, "free", parent, child, origin, gear=0.0)
    axis_element = element.first("axis")
    axis = np.array([1.0, 0.0, 0.0] if axis_element is None else _numbers(axis_element, "xyz", 3, where))
    length = np.linalg.norm(axis)
    if length == 0:
        raise RobotFileError(f"{where}: its axis is 0 0 0; give a direction")
    values: dict[str, Any] = {
        **_read_dynamics(element, where, allow_unphysical),
        **_read_limits(element, kind, where),
    }
    axis = axis if abs(length - 1) < _SAME else axis / length
    return Joint(name, kind, parent, child, origin, axis, **values)


def _mimics(joint: Element) -> bool:
    return joint.first("mimic") is not None and joint.attributes.get("type") != "fixed"


def _read_mimic(joint: Element) -> Coupling:
    mimic, where = joint.first("mimic"), _where(joint)
    assert mimic is not None
    if len(joint.all("mimic")) > 1:
        raise RobotFileError(f"{where}: has {len(joint.all('mimic'))} <mimic>; a joint follows one other")
    leader = mimic.attributes.get("joint")
    if not leader:
        raise RobotFileError(f'{where}: its <mimic> names no joint; give <mimic joint="…"/>')
    (slope,) = _numbers(mimic, "multiplier", 1, where, (1.0,))
    (offset,) = _numbers(mimic, "offset", 1, where, (0.0,))
    return Coupling(_name(joint), leader, (offset, slope))


def _refuse_chains(couplings: tuple[Coupling, ...]) -> None:
    followers = {coupling.follower for coupling in couplings}
    for coupling in couplings:
        if coupling.leader in followers:
            what = f'joint "{coupling.follower}" mimics "{coupling.leader}", which mimics another'
            raise RobotFileError(f"{what}; let it mimic a joint that leads")


def _read_dynamics(element: Element, where: str, allow_unphysical: bool) -> dict[str, float]:
    dynamics = element.first("dynamics")
    if dynamics is None:
        return {}
    values = {key: _numbers(dynamics, key, 1, where, (0.0,))[0] for key in ("damping", "friction")}
    for key, value in values.items():
        if value < 0 and not allow_unphysical:
            raise RobotFileError(f"{where}: its {key} is {value:g}; at least 0 (or allow_unphysical)")
    return values


def _read_limits(element: Element, kind: str, where: str) -> dict[str, float]:
    limit = element.first("limit")
    if limit is None:
        return {}
    values = {}
    for key, default in (("effort", np.inf), ("velocity", np.inf), ("lower", 0.0), ("upper", 0.0)):
        if key in ("lower", "upper") and (kind == "continuous" or _crossed(limit, where)):
            continue
        (value,) = _numbers(limit, key, 1, where, (default,))
        values[key] = math.copysign(np.inf, value) if abs(value) >= _UNLIMITED else value
    return values


def read_origin(element: Element, where: str) -> np.ndarray:
    """The pose of an element's <origin>; none is no pose."""
    origin, pose = element.first("origin"), np.eye(4)
    if origin is not None:
        pose[:3, :3] = rpy_matrix(_numbers(origin, "rpy", 3, where, (0.0, 0.0, 0.0)))
        pose[:3, 3] = _numbers(origin, "xyz", 3, where, (0.0, 0.0, 0.0))
    return pose


def _read_extension(root: Element, joints: tuple[Joint, ...]) -> tuple[tuple[Joint, ...], tuple[float, float, float]]:
    extension = root.first("diffnea")
    if extension is None:
        return joints, STANDARD_GRAVITY
    gravity = _numbers(extension, "gravity", 3, f"<diffnea> (line {extension.line})", STANDARD_GRAVITY)
    by_name = {joint.name: joint for joint in joints}
    for element in extension.all("joint"):
        name = _name(element)
        where = f'<diffnea>: joint "{name}" (line {element.line})'
        if name not in by_name:
            raise RobotFileError(f"{where} is not a joint of this file")
        joint = by_name[name]
        (armature,) = _numbers(element, "armature", 1, where, (joint.armature,))
        (gear,) = _numbers(element, "gear", 1, where, (joint.gear,))
        spring = {key: _numbers(element, key, 1, where, (0.0,))[0] for key in ("stiffness", "rest")}
        by_name[name] = Joint(**{**vars(joint), "armature": armature, "gear": gear, **spring})
    return tuple(by_name[joint.name] for joint in joints), (gravity[0], gravity[1], gravity[2])


def _name(element: Element) -> str:
    name = element.attributes.get("name")
    if not name:
        raise RobotFileError(f"line {element.line}: a <{element.tag}> has no name")
    return name


def _where(joint: Element) -> str:
    return f'joint "{_name(joint)}" (line {joint.line})'


def _end(element: Element, tag: str, where: str) -> str:
    end = element.first(tag)
    if end is None or "link" not in end.attributes:
        raise RobotFileError(f'{where} has no {tag}; give <{tag} link="…"/>')
    return end.attributes["link"]


def _numbers(element: Element, name: str, count: int, where: str, default=None) -> tuple[float, ...]:
    """An attribute's numbers, finite and as many as there should be."""
    text = element.attributes.get(name)
    if text is None:
        if default is None:
            raise RobotFileError(f"{where}: <{element.tag}> has no {name}")
        return default
    words = text.split()
    wanted = "a number" if count == 1 else f"{count} numbers"
    if len(words) != count or not all(_NUMBER.fullmatch(word) for word in words):
        raise RobotFileError(f'{where}: <{element.tag} {name}="{text}">; {wanted} must stand there')
    values = tuple(float(word) for word in words)
    largest = math.inf if element.tag == "limit" else LARGEST
    if not all(math.isfinite(value) and abs(value) <= largest for value in values):
        raise RobotFileError(f'{where}: <{element.tag} {name}="{text}"> is too large; at most {LARGEST:g} in SI units')
    return values


def rpy_matrix(rpy: Iterable[float]) -> np.ndarray:
    """`R_z(yaw) R_y(pitch) R_x(roll)`; entries that are 0 or ±1 but for rounding are made so."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(list(rpy)), np.sin(list(rpy))
    roll = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    pitch = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    matrix = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]) @ pitch @ roll
    whole = np.round(matrix)
    return np.where(np.abs(matrix - whole) < 1e-15, whole + 0.0, matrix)


def matrix_rpy(rotation: np.ndarray) -> np.ndarray:
    """Roll, pitch and yaw of a rotation; roll makes up for yaw where pitch is ±90° and only their sum is known."""
    yaw = np.arctan2(rotation[1, 0], rotation[0, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    unyawed = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) @ rotation
    return np.array([np.arctan2(-unyawed[1, 2], unyawed[1, 1]), np.arctan2(-unyawed[2, 0], unyawed[0, 0]), yaw])


# Writing into the file the robot came from -----------------------------------------------------------------------


def edit(text: bytes, old: Description, new: Description) -> bytes:
    """The file with the numbers that differ between the two descriptions changed, and not a byte more."""
    edits = Edits(parse(text))
    root = edits.document.root
    elements = {(element.tag, element.attributes.get("name")): element for element in root.children}
    for before, after in zip(old.links, new.links, strict=True):
        if not np.array_equal(before.inertia, after.inertia):
            _edit_inertia(edits, elements["link", after.name], after)
    for before, after in zip(old.joints, new.joints, strict=True):
        _edit_joint(edits, elements["joint", after.name], before, after)
    _edit_extension(edits, old, new)
    return edits.apply()


def _edit_inertia(edits: Edits, element: Element, link: Link) -> None:
    inertial = element.first("inertial")
    if inertial is None:
        edits.add(element, "\n".join(_inertial_lines(link)))
        return
    mass, centre, rotational = central_moments(link.inertia)
    rotation = read_origin(inertial, link.name)[:3, :3]
    tensor = rotation.T @ rotational @ rotation
    scale = np.abs(tensor).max()
    mass_element, tensor_element, origin = (inertial.first(tag) for tag in ("mass", "inertia", "origin"))
    assert mass_element is not None and tensor_element is not None, "the reader saw both"
    _set(edits, mass_element, "value", mass)
    for key, place in _TENSOR.items():
        _set(edits, tensor_element, key, tensor[place], scale)
    if origin is not None:
        _set(edits, origin, "xyz", centre)
    elif np.any(centre):
        edits.add(inertial, f'<origin xyz="{format_numbers(centre)}" rpy="0 0 0"/>')


def _edit_joint(edits: Edits, element: Element, before: Joint, after: Joint) -> None:
    origin = {}
    if not np.array_equal(before.origin[:3, 3], after.origin[:3, 3]):
        origin["xyz"] = after.origin[:3, 3]
    if not np.array_equal(before.origin[:3, :3], after.origin[:3, :3]):
        origin["rpy"] = matrix_rpy(after.origin[:3, :3])
    _edit_child(edits, element, "origin", origin)
    _edit_child(edits, element, "axis", {} if np.array_equal(before.axis, after.axis) else {"xyz": after.axis})
    dynamics = {key: getattr(after, key) for key in ("damping", "friction")}
    _edit_child(edits, element, "dynamics", {k: v for k, v in dynamics.items() if v != getattr(before, k)})
    limits = {key: getattr(after, key) for key in ("lower", "upper", "effort", "velocity")}
    changed = {k: _limit(v) for k, v in limits.items() if v != getattr(before, k)}
    if changed and element.first("limit") is None:
        changed = {key: _limit(value) for key, value in limits.items()}
    _edit_child(edits, element, "limit", changed)


def _limit(value: float) -> float:
    return value if math.isfinite(value) else math.copysign(_UNLIMITED, value)


def _edit_child(edits: Edits, parent: Element, tag: str, values: dict) -> None:
    """Set attributes of the child `tag`, which is made if there is none."""
    child = parent.first(tag)
    if child is not None:
        for name, value in values.items():
            edits.set(child, name, format_numbers(value))
    elif values:
        edits.add(parent, _tag(tag, **values))


def _set(edits: Edits, element: Element, name: str, value, scale: float = 0.0) -> None:
    """Set numbers unless they are there already, but for what a change of frame rounds off."""
    text = element.attributes.get(name, "0")
    present = np.array([float(word) for word in text.split()])
    reach = max(scale, float(np.abs(value).max()))
    if present.shape != np.atleast_1d(value).shape or np.any(np.abs(present - value) > _SAME * reach):
        edits.set(element, name, format_numbers(value))


def _edit_extension(edits: Edits, old: Description, new: Description) -> None:
    """What URDF has no place for: rewritten as a whole when any of it changed."""
    if _extension_lines(old) == _extension_lines(new):
        return
    root = edits.document.root
    present = root.first("diffnea")
    lines = _extension_lines(new) or ["<diffnea/>"]
    if present is None:
        edits.add(root, "\n".join(lines))
    else:
        edits.replace(present, "\n  ".join(lines).encode())


# Writing a fresh file --------------------------------------------------------------------------------------------


def render(description: Description) -> bytes:
    """A tidy URDF file of its own."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<robot name={quoteattr(description.name)}>"]
    lines += _indented(_extension_lines(description))
    tied = {coupling.follower: coupling for coupling in description.couplings}
    for link in description.links:
        lines += _indented(_link_lines(link))
    for joint in description.joints:
        lines += _indented(_joint_lines(joint, tied.get(joint.name)))
    return ("\n".join([*lines, "</robot>"]) + "\n").encode()


def _link_lines(link: Link) -> list[str]:
    if not np.any(link.inertia):
        return [f"<link name={quoteattr(link.name)}/>"]
    return [f"<link name={quoteattr(link.name)}>", *_indented(_inertial_lines(link)), "</link>"]


def _inertial_lines(link: Link) -> list[str]:
    mass, centre, rotational = central_moments(link.inertia)
    return [
        "<inertial>",
        f"  {_tag('origin', xyz=centre, rpy=np.zeros(3))}",
        f"  {_tag('mass', value=mass)}",
        f"  {_tag('inertia', **{key: rotational[place] for key, place in _TENSOR.items()})}",
        "</inertial>",
    ]


def _joint_lines(joint: Joint, coupling: Coupling | None) -> list[str]:
    if joint.kind == "ball":
        raise RobotFileError(f'joint "{joint.name}" is a ball, which URDF has not; use .xml for MJCF')
    kind = "floating" if joint.kind == "free" else joint.kind
    lines = [
        f"<joint name={quoteattr(joint.name)} type={quoteattr(kind)}>",
        f"  <parent link={quoteattr(joint.parent)}/>",
        f"  <child link={quoteattr(joint.child)}/>",
        f"  {_tag('origin', xyz=joint.origin[:3, 3], rpy=matrix_rpy(joint.origin[:3, :3]))}",
    ]
    if joint.kind in JOINT_KINDS:
        lines.append(f"  {_tag('axis', xyz=joint.axis)}")
        keys = ("effort", "velocity") if joint.kind == "continuous" else ("lower", "upper", "effort", "velocity")
        lines.append(f"  {_tag('limit', **{key: _limit(getattr(joint, key)) for key in keys})}")
        lines.append(f"  {_tag('dynamics', damping=joint.damping, friction=joint.friction)}")
    if coupling is not None:
        lines.append(f"  {_mimic_tag(coupling)}")
    return [*lines, "</joint>"]


def _mimic_tag(coupling: Coupling) -> str:
    if not coupling.straight:
        raise RobotFileError(f'joint "{coupling.follower}" follows by a curve, which URDF has not; use .xml for MJCF')
    offset, slope = coupling.coefficients[:2]
    line = f'multiplier="{format_numbers(slope)}" offset="{format_numbers(offset)}"'
    return f"<mimic joint={quoteattr(coupling.leader)} {line}/>"


def _extension_lines(description: Description) -> list[str]:
    """The `<diffnea>` element, or nothing where URDF says it all."""
    special = [j for j in description.joints if j.kind != "fixed" and _is_special(j)]
    if not special and tuple(description.gravity) == STANDARD_GRAVITY:
        return []
    rows = [f"  {_special_tag(joint)}" for joint in special]
    return [f'<diffnea gravity="{format_numbers(description.gravity)}">', *rows, "</diffnea>"]


def _is_special(joint: Joint) -> bool:
    usual = 1.0 if joint.kind in JOINT_KINDS else 0.0
    return bool(joint.armature != 0 or joint.gear != usual or joint.stiffness != 0)


def _special_tag(joint: Joint) -> str:
    values = {"armature": joint.armature, "gear": joint.gear}
    if joint.stiffness:
        values |= {"stiffness": joint.stiffness, "rest": joint.rest}
    listed = " ".join(f'{key}="{format_numbers(value)}"' for key, value in values.items())
    return f"<joint name={quoteattr(joint.name)} {listed}/>"


def _tag(tag: str, **values) -> str:
    return f"<{tag} " + " ".join(f'{name}="{format_numbers(value)}"' for name, value in values.items()) + "/>"


def _indented(lines: list[str]) -> list[str]:
    return ["  " + line for line in lines]
