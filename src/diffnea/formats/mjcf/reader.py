"""MJCF text → Description, through MuJoCo's own compiler.

A link's frame sits at its joint's anchor with its body's axes; `Link.offset` is where the body's origin is in it.
A body with several joints is a chain of links, named `<body>/<joint>`, with neither mass nor a frame in the file, that
ends in the body's own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from diffnea.formats.description import Description, Joint, Link, Loop, RobotFileError
from diffnea.formats.mjcf.model import WORLD, Model, ModelBody, ModelJoint, load_model, motion, shift
from diffnea.formats.mjcf.names import distinct
from diffnea.formats.xml_text import parse
from diffnea.robot import SEVERAL


def read(
    text: bytes, path: str, allow_unphysical: bool = False, parts: Mapping[str, bytes] | None = None
) -> Description:
    """The robot an MJCF file describes; `path` only says where included files and meshes are looked for.

    `parts` are texts of included files, by path, that are not on the disk yet.
    """
    document = parse(text)
    if document.root.tag != "mujoco":
        raise RobotFileError(f"its root element is <{document.root.tag}>; an MJCF file has <mujoco>")
    model = load_model(document, path, allow_unphysical, parts)
    rows = [row for body in model.bodies[1:] for row in _rows(model, body)]
    links, joints = zip(*rows, strict=True) if rows else ((), ())
    name = document.root.attributes.get("model", "robot")
    tied = model.couplings, model.tendons, tuple(_placed(model, loop) for loop in model.loops)
    return Description(name, (Link(WORLD), *links), joints, model.gravity, model.notes, *tied)


def _placed(model: Model, loop: Loop) -> Loop:
    """A loop with poses in the links' frames, which sit at their joints."""
    anchors = {body.name: body.anchor for body in model.bodies}
    first, second = (shift(-anchors[name]) for name in (loop.first, loop.second))
    return replace(loop, place_first=first @ loop.place_first, place_second=second @ loop.place_second)


def _kind(joint: ModelJoint) -> str:
    if joint.kind in SEVERAL:
        return joint.kind
    return "prismatic" if joint.slide else "revolute" if joint.limited else "continuous"


def _rows(model: Model, body: ModelBody) -> Iterator[tuple[Link, Joint]]:
    """A body's links, each with the joint that moves it."""
    parent = model.bodies[body.parent]
    above, pose = parent.name, shift(-parent.anchor) @ body.pose
    if not body.joints:
        names = {joint.name for one in model.bodies for joint in one.joints}
        yield (
            Link(body.name, body.inertia, lift=body.lift),
            Joint(distinct(f"{body.name}_fixed", names), "fixed", above, body.name, pose),
        )
    for joint in body.joints:
        last = joint is body.joints[-1]
        name = body.name if last else distinct(f"{body.name}/{joint.name}", {one.name for one in model.bodies})
        back = shift(-joint.anchor)
        inertia = back @ body.inertia @ back.T
        yield (
            Link(name, inertia, 0.0 - joint.anchor, body.lift) if last else Link(name),
            Joint(
                name=joint.name,
                kind=_kind(joint),
                parent=above,
                child=name,
                origin=pose @ shift(joint.anchor) @ motion(joint.slide, joint.axis, -joint.ref),
                axis=joint.axis,
                damping=float(joint.damping[0] + joint.reflected[1]),
                friction=joint.friction,
                armature=float(joint.armature + joint.reflected[0]),
                gear=0.0 if joint.kind in SEVERAL else model.gear(joint.name),
                lower=float(joint.range[0]),
                upper=float(joint.range[1]),
                effort=joint.effort,
                stiffness=joint.stiffness,
                rest=joint.rest if joint.stiffness else 0.0,
                curve=joint.curve,
                servo=joint.servo,
            ),
        )
        above, pose = name, back
