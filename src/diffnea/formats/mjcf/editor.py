"""A changed Description into the MJCF text it came from: only attributes that differ are touched.

Bodies, joints and actuators of the text are matched with MuJoCo's by their order, and by name where they have one.
"""

import os
from collections.abc import Collection, Iterator

import numpy as np

from diffnea.formats.description import Description, Joint, Link, RobotFileError
from diffnea.formats.inertia import central_moments
from diffnea.formats.mjcf.compiler import LEAST
from diffnea.formats.mjcf.model import Model, ModelBody, ModelJoint, Motor, load_model, motion, shift
from diffnea.formats.mjcf.names import distinct
from diffnea.formats.mjcf.pid import EXTENSION, PLUGIN, needs_pid, servo_lines
from diffnea.formats.mjcf.scene import Scene, Written
from diffnea.formats.mjcf.text import (
    FRESH,
    HARD_FRICTION,
    NOT_RUNGE_KUTTA,
    actuator_range,
    bristles,
    friction_tag,
    inertial_attributes,
    tag,
    where,
    widened,
)
from diffnea.formats.xml_text import Element, format_numbers, parse
from diffnea.manifold import quaternion_of
from diffnea.robot import JOINT_KINDS

_ORIENTATIONS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")
# Numbers that differ by less than this share are the same ones that went through a change of frame.
_SAME = 1e-14


def edit(
    text: bytes,
    path: str,
    old: Description,
    new: Description,
    target: str | None = None,
    replacing: Collection[str] = (),
) -> Written:
    """The file with the numbers that differ between the two descriptions changed, and not a byte more.

    Where it goes to another folder, `target`, names of others in it, includes and meshes, are made good from there.
    """
    target, document = path if target is None else target, parse(text)
    folders = [os.path.dirname(os.path.abspath(each)) for each in (path, target)]
    pairs = zip((*old.links, *old.joints), (*new.links, *new.joints), strict=True)
    same = tuple(old.gravity) == tuple(new.gravity) and all(_equal(a, b) for a, b in pairs)
    if same and folders[0] == folders[1]:
        return Written(text, {})
    scene = Scene(document, path)
    if not same:
        _apply(_Change(scene, load_model(document, path, allow_unphysical=True), old, new))
    return scene.written(target, replacing)


def _apply(change: "_Change") -> None:
    change.gravity()
    change.motors()
    change.servos()
    change.curves()
    explicit = change.settle_inertias()
    for body, element in zip(change.model.bodies[1:], change.bodies, strict=True):
        change.placement(body, element)
        change.inertia(body, element, body.name in explicit)


def _equal(a: Link | Joint, b: Link | Joint) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(vars(a).values(), vars(b).values(), strict=True))


class _Side:
    """One of the two descriptions, by name."""

    def __init__(self, description: Description):
        self.gravity = tuple(description.gravity)
        self.links = {link.name: link for link in description.links}
        self.joints = {joint.name: joint for joint in description.joints}
        self.into = {joint.child: joint for joint in description.joints}

    def moving(self, body: ModelBody) -> list[Joint]:
        """The joints that move a body, or the one that fixes it."""
        return [self.joints[joint.name] for joint in body.joints] or [self.into[body.name]]


class _Change:
    """The text, what MuJoCo makes of it, and the description before and after."""

    def __init__(self, text: Scene, model: Model, old: Description, new: Description):
        self.text, self.model, self.old, self.new = text, model, _Side(old), _Side(new)
        self.named: set[str] = set()
        self.bodies = [body for world in text.sections("worldbody") for body in self._bodies(world)]
        for made, element in zip(model.bodies[1:], self.bodies, strict=False):
            self._match(made.name, element)
            for joint, joint_element in zip(made.joints, self._joints(element), strict=False):
                self._match(joint.name, joint_element)
            self._count(len(made.joints), len(self._joints(element)))
        self._count(len(model.bodies) - 1, len(self.bodies))

    def _match(self, name: str, element: Element) -> None:
        if element.attributes.get("name", name) != name:
            raise RobotFileError(f'{where(element)} stands in the text where MuJoCo has "{name}"; {FRESH}')

    def _count(self, made: int, written: int) -> None:
        if made != written:
            raise RobotFileError(f"{written} elements of the text make {made} bodies, joints or actuators; {FRESH}")

    def _bodies(self, element: Element) -> Iterator[Element]:
        """The bodies in an element, in MuJoCo's order."""
        for child in self.text.children(element):
            if _multiplies(child):
                raise RobotFileError(f"{where(child)} makes or scales bodies that have no text of their own; {FRESH}")
            if child.tag == "body":
                yield child
            if child.tag in ("body", "frame"):
                yield from self._bodies(child)

    def _joints(self, element: Element) -> list[Element]:
        """The joints of a body, those in its frames too."""
        found = []
        for child in self.text.children(element):
            if child.tag in ("joint", "freejoint"):
                found.append(child)
            elif child.tag == "frame":
                found += self._joints(child)
        return found

    # Placement ---------------------------------------------------------------------------------------------------

    def placement(self, body: ModelBody, element: Element) -> None:
        """The body's pose, and what belongs to its joints."""
        pose_before, anchors_before = self._layout(body, self.old)
        pose, anchors = self._layout(body, self.new)
        local = _undo(body.frame) @ pose
        if not np.array_equal(pose_before[:3, 3], pose[:3, 3]):
            self.text.set(element, "pos", local[:3, 3])
        if not np.array_equal(pose_before[:3, :3], pose[:3, :3]):
            self.text.put(element, _ORIENTATIONS, {"quat": format_numbers(quaternion_of(local[:3, :3]))})
        for i, (joint, joint_element) in enumerate(zip(body.joints, self._joints(element), strict=True)):
            if not np.array_equal(anchors_before[i], anchors[i]):
                self.text.set(joint_element, "pos", (_undo(joint.frame) @ shift(anchors[i]))[:3, 3])
            self._joint(joint, joint_element)

    def _layout(self, body: ModelBody, side: _Side) -> tuple[np.ndarray, list[np.ndarray]]:
        """A body's pose in its parent at its reference position, and the anchors of its joints in its own frame."""
        joints, anchors = side.moving(body), [body.anchor]
        starts = [
            joint.origin @ motion(made.slide, joint.axis, made.ref)
            for joint, made in zip(joints, body.joints, strict=False)
        ] or [joints[0].origin]
        for joint, start in reversed(list(zip(joints[1:], starts[1:], strict=True))):
            if not np.allclose(start[:3, :3], np.eye(3), rtol=0, atol=1e-9):
                others = f'the other joints of body "{body.name}", which share its axes'
                raise RobotFileError(f'joint "{joint.name}" is turned against {others}; {FRESH}')
            anchors.insert(0, anchors[0] - start[:3, 3])
        return shift(self.model.bodies[body.parent].anchor) @ starts[0] @ shift(-anchors[0]), anchors

    # Joints ------------------------------------------------------------------------------------------------------

    def _joint(self, made: ModelJoint, element: Element) -> None:
        old, new = self.old.joints[made.name], self.new.joints[made.name]
        regeared = new.gear != old.gear
        if not np.array_equal(old.axis, new.axis):
            self.text.set(element, "axis", made.frame[:3, :3].T @ new.axis)
        if new.steady_friction != old.steady_friction:
            self.text.set(element, "frictionloss", new.steady_friction)
            if new.steady_friction and made.soft:
                for name, values in HARD_FRICTION.items():
                    self.text.set(element, name, values)
        # What actuators add goes with the square of the gear.
        reflected = made.reflected * (new.gear / old.gear) ** 2 if regeared and old.gear else made.reflected
        if new.armature != old.armature or (regeared and reflected[0]):
            self.text.set(element, "armature", new.armature - reflected[0])
        if new.damping != old.damping or (regeared and reflected[1]):
            self.text.set(element, "damping", _trimmed([new.damping - reflected[1], *made.damping[1:]]))
        self._spring(made, element, old, new)
        if (old.lower, old.upper) != (new.lower, new.upper):
            self._limits(made, element, new)
        rubs = made.effort_limited and new.varying_friction != old.varying_friction
        rubs |= new.servo != old.servo and bool(np.isfinite(new.effort)) and not made.effort_limited
        if new.effort != old.effort or rubs or (regeared and np.isfinite(new.effort) and not made.effort_limited):
            self._effort(made, element, new)

    def _spring(self, made: ModelJoint, element: Element, old: Joint, new: Joint) -> None:
        if new.stiffness != old.stiffness:
            self.text.set(element, "stiffness", new.stiffness)
        if new.rest != old.rest:
            turns = self.model.degrees and not made.slide
            self.text.set(element, "springref", np.degrees(new.rest) if turns else new.rest)

    def _limits(self, made: ModelJoint, element: Element, new: Joint) -> None:
        if np.isinf([new.lower, new.upper]).all():
            self.text.set(element, "limited", "false")
            return
        limits = np.array([new.lower, new.upper])
        self.text.set(
            element, "range", widened(*(np.degrees(limits) if self.model.degrees and not made.slide else limits))
        )
        if not made.limited:
            self.text.set(element, "limited", "true")

    def _effort(self, made: ModelJoint, element: Element, new: Joint) -> None:
        limited = bool(np.isfinite(new.effort))
        if limited:
            self.text.set(element, "actuatorfrcrange", actuator_range(new))
        if limited != made.effort_limited:
            self.text.set(element, "actuatorfrclimited", "true" if limited else "false")

    # Inertia -----------------------------------------------------------------------------------------------------

    def settle_inertias(self) -> set[str]:
        """Make explicit inertias count, if any changed; the bodies that need one so that they stay as they are."""
        changed = {name for name, link in self.new.links.items() if not _equal(self.old.links[name], link)}
        nowhere = changed - {body.name for body in self.model.bodies[1:]}
        if nowhere:
            raise RobotFileError(f'link "{min(nowhere)}" has no body of its own in the file to hold a mass; {FRESH}')
        explicit = set()
        if changed and self.model.geoms_rule:
            self.text.set_compiler("inertiafromgeom", "auto")
            pairs = zip(self.model.bodies[1:], self.bodies, strict=True)
            explicit |= {body.name for body, element in pairs if self.text.first(element, "inertial")}
        if changed and self.model.total_mass:
            self.text.set_compiler("settotalmass", "-1")
            explicit |= {body.name for body in self.model.bodies[1:] if np.any(body.inertia)}
        return explicit

    def inertia(self, body: ModelBody, element: Element, explicit: bool) -> None:
        """The <inertial> of a body, where it changed or must be written."""
        old, new = self.old.links[body.name], self.new.links[body.name]
        if _equal(old, new) and not explicit:
            return
        inertial, least = self.text.first(element, "inertial"), LEAST if body.joints else 0.0
        turned = inertial is not None and "diaginertia" in inertial.attributes and not self.model.geoms_rule
        axes = body.axes if turned else np.eye(3)
        values = inertial_attributes(body.name, new.inertia, -body.anchor, least, axes)
        if inertial is None:
            self.text.add(element, [tag("inertial", **values)])
            return
        mass, centre, rotational = central_moments(new.inertia)
        mass_before, centre_before, rotational_before = central_moments(old.inertia)
        if explicit or mass != mass_before:
            self.text.set(inertial, "mass", values["mass"])
        if explicit or np.abs(centre - centre_before).max() > _SAME * np.abs(centre).max():
            self.text.set(inertial, "pos", values["pos"])
        rounding = _SAME * np.abs(old.inertia[:3, :3]).max()
        if explicit or np.abs(rotational - rotational_before).max() > rounding:
            rivals = ("fullinertia",) if turned and "quat" not in values else ("fullinertia", *_ORIENTATIONS)
            self.text.put(inertial, rivals, {name: values[name] for name in ("quat", "diaginertia") if name in values})

    # Motors and gravity ------------------------------------------------------------------------------------------

    def motors(self) -> None:
        """Gears; motors are added for joints that the file does not drive."""
        changed = [joint for joint in self.new.joints.values() if joint.gear != self.old.joints[joint.name].gear]
        changed = [joint for joint in changed if joint.servo is None]  # a servo's torque needs no gear
        if not changed:
            return
        elements = self._actuators()
        driven = {motor.joint for motor in self.model.motors}
        for motor in self.model.motors:
            if any(joint.name == motor.joint for joint in changed):
                self.text.set(elements[motor.index], "gear", _trimmed([self._gear(motor), *motor.gear[1:]]))
        # Without motors every joint counts as driven, so the first one needs the others beside it.
        wanted = changed if driven else [joint for joint in self.new.joints.values() if joint.kind in JOINT_KINDS]
        undriven = [joint for joint in wanted if joint.name not in driven]
        if undriven:
            self._add_motors(undriven)

    def _actuators(self) -> list[Element]:
        elements = [child for section in self.text.sections("actuator") for child in self.text.children(section)]
        self._count(len(self.model.actuators), len(elements))
        return elements

    def _gear(self, motor: Motor) -> float:
        old, new = self.old.joints[motor.joint].gear, self.new.joints[motor.joint].gear
        alone = sum(other.joint == motor.joint for other in self.model.motors) == 1
        if not motor.gain or not (alone or old):
            raise RobotFileError(f'the gear of joint "{motor.joint}" cannot be set: its motors cancel out; {FRESH}')
        return new / motor.gain if alone else motor.gear[0] * new / old

    def _add_motors(self, joints: list[Joint]) -> None:
        self._name(joints)
        plain = {"ctrllimited": "false", "forcelimited": "false"}  # whatever the file's defaults are
        lines = [tag("motor", joint=joint.name, gear=joint.gear, **plain) for joint in joints]
        self.text.add(self.text.root, ["<actuator>", *("  " + line for line in lines), "</actuator>"])

    def _name(self, joints: list[Joint]) -> None:
        """Names for joints that the text gives none, so that actuators can say whose they are."""
        wanted = {joint.name for joint in joints} - self.named
        for body, element in zip(self.model.bodies[1:], self.bodies, strict=True):
            for made, joint_element in zip(body.joints, self._joints(element), strict=True):
                if "name" not in joint_element.attributes and made.name in wanted:
                    self.text.set(joint_element, "name", made.name)
        self.named |= wanted

    def servos(self) -> None:
        """Servos of positions: in the place of what drives the joint, or behind the other actuators."""
        olds = self.old.joints
        changed = [joint for joint in self.new.joints.values() if joint.servo != olds[joint.name].servo and joint.servo]
        if not changed:
            return
        self._name(changed)
        elements, added = self._actuators(), []
        for joint in changed:
            assert joint.servo is not None
            taken = [motor.index for motor in self.model.motors if motor.joint == joint.name]
            index = self.model.servos.get(joint.name, taken[0] if taken else None)
            for other in [i for i in taken if i != index]:
                self.text.drop(elements[other])
            name = joint.name if index is None else elements[index].attributes.get("name", self.model.actuators[index])
            lines = servo_lines(joint.servo, name, joint.name, gear=1.0)
            if index is None:
                added += lines
            else:
                self.text.replace(elements[index], "\n".join(lines))
        if added:
            sections = self.text.sections("actuator")
            if sections:
                self.text.append(sections[-1], added)
            else:
                self.text.add(self.text.root, ["<actuator>", *("  " + line for line in added), "</actuator>"])
        if any(needs_pid(joint.servo) for joint in changed):
            self._extend()

    def _extend(self) -> None:
        """Say that the file uses the plugin, unless it does."""
        there = [child for section in self.text.sections("extension") for child in self.text.children(section)]
        if not any(child.attributes.get("plugin") == PLUGIN for child in there):
            self.text.add(self.text.root, list(EXTENSION))

    def curves(self) -> None:
        """Friction that changes with speed: in the actuator that says so, or in a new one behind the others."""
        joints = [joint for joint in self.new.joints.values() if _curved(joint) != _curved(self.old.joints[joint.name])]
        if not joints:
            return
        if self.model.runge_kutta:
            reason = "its integrator is RK4, with which MuJoCo takes no friction that changes with speed"
            raise RobotFileError(f"{reason}; use implicitfast, or save with fresh=True")
        elements, added = self._actuators(), []
        for joint in joints:
            index = self.model.frictions.get(joint.name)
            if index is None:
                added.append(joint)
            elif joint.curve is None:
                self.text.drop(elements[index])
            else:
                self.text.set(elements[index], "lugre", bristles(joint))
        if added:
            self._add_frictions(added)

    def _add_frictions(self, joints: list[Joint]) -> None:
        self._name(joints)
        plain = {"damping": 0.0, "armature": 0.0}  # whatever the file's defaults are
        names = [distinct(f"{joint.name}_friction", self.model.actuators) for joint in joints]
        lines = [friction_tag(joint, name, **plain) for joint, name in zip(joints, names, strict=True)]
        sections = self.text.sections("actuator")
        if sections:
            self.text.append(sections[-1], [NOT_RUNGE_KUTTA, *lines])
        else:
            self.text.add(
                self.text.root, ["<actuator>", *("  " + line for line in [NOT_RUNGE_KUTTA, *lines]), "</actuator>"]
            )

    def gravity(self) -> None:
        """Gravity in the last <option> that has it, or in a new one."""
        if self.old.gravity == self.new.gravity:
            return
        options = self.text.sections("option")
        for option in options:
            for flag in self.text.children(option):
                if flag.tag == "flag" and "gravity" in flag.attributes:
                    self.text.set(flag, "gravity", "enable")
        options = [option for option in options if "gravity" in option.attributes] or options
        if options:
            self.text.set(options[-1], "gravity", self.new.gravity)
        else:
            self.text.add(self.text.root, [tag("option", gravity=self.new.gravity)])


def _curved(joint: Joint) -> list[float] | None:
    return None if joint.curve is None else bristles(joint)


def _multiplies(element: Element) -> bool:
    """Whether bodies come from an element, or are scaled by it, in a way that no edit of theirs can follow."""
    scaled = element.tag == "frame" and not element.attributes.keys().isdisjoint(("scale", "massscale"))
    copied = element.tag == "replicate" and any(inner.tag in ("body", "include") for inner in element.walk())
    return scaled or copied or element.tag in ("attach", "composite", "flexcomp")


def _trimmed(values: list[float]) -> list[float]:
    """Without the zeros at the end, the first value excepted."""
    last = max((i for i, value in enumerate(values) if value), default=0)
    return values[: last + 1]


def _undo(pose: np.ndarray) -> np.ndarray:
    inverse = np.eye(4)
    inverse[:3, :3], inverse[:3, 3] = pose[:3, :3].T, -pose[:3, :3].T @ pose[:3, 3]
    return inverse
