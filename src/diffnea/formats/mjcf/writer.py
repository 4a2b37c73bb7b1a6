"""Description → a fresh, tidy MJCF file that MuJoCo takes."""

from collections.abc import Iterator
from dataclasses import replace
from xml.sax.saxutils import quoteattr

import numpy as np

from diffnea.formats.description import Description, Joint, Link, RobotFileError
from diffnea.formats.inertia import central_moments
from diffnea.formats.mjcf.compiler import LEAST
from diffnea.formats.mjcf.model import WORLD, shift
from diffnea.formats.mjcf.names import distinct
from diffnea.formats.mjcf.pid import EXTENSION, needs_pid, servo_lines
from diffnea.formats.mjcf.text import (
    HARD_FRICTION,
    NOT_RUNGE_KUTTA,
    actuator_range,
    friction_tag,
    inertial_attributes,
    refusal,
    tag,
    widened,
)
from diffnea.manifold import quaternion_of
from diffnea.robot import JOINT_KINDS, SEVERAL


def render(description: Description) -> bytes:
    """A tidy MJCF file of its own, which MuJoCo takes."""
    moving = [joint for joint in description.joints if joint.kind in JOINT_KINDS]
    driven = [joint for joint in moving if joint.gear != 0] or moving
    motors = [line for joint in driven for line in _actuator(joint)]
    extension = EXTENSION if any(needs_pid(joint.servo) for joint in driven) else ()
    rubbing = [joint for joint in moving if joint.curve is not None]
    servos = any(joint.servo is not None for joint in driven)
    integrator = {"integrator": "implicitfast"} if rubbing or servos else {}
    if rubbing:
        taken = {joint.name for joint in driven}
        motors.append(NOT_RUNGE_KUTTA)
        motors += [friction_tag(joint, distinct(f"{joint.name}_friction", taken)) for joint in rubbing]
    lines = [
        f"<mujoco model={quoteattr(description.name)}>",
        '  <compiler angle="radian" autolimits="true" inertiafromgeom="false"/>',
        f"  {tag('option', gravity=description.gravity, **integrator)}",
        *("  " + line for line in extension),
        "  <worldbody>",
        *("    " + line for line in _Bodies(description).lines()),
        "  </worldbody>",
        *_tendon_lines(description),
        *_equality_lines(description),
        *(["  <actuator>", *("    " + motor for motor in motors), "  </actuator>"] if motors else []),
        "</mujoco>",
    ]
    return ("\n".join(lines) + "\n").encode()


def _actuator(joint: Joint) -> list[str]:
    """What drives a joint: a servo of positions where it has one, else a motor."""
    if joint.servo is None or joint.servo.kind != "position":
        return [tag("motor", name=joint.name, joint=joint.name, gear=joint.gear)]
    return servo_lines(joint.servo, joint.name, joint.name)


def _tendon_lines(description: Description) -> list[str]:
    """Springs along sums of joints."""
    lines = []
    for tendon in description.tendons:
        spring = {"stiffness": tendon.stiffness, "springlength": [tendon.lower, tendon.upper]}
        lines.append("    " + tag("fixed", name=tendon.name, **spring).removesuffix("/>") + ">")
        lines += ["      " + tag("joint", joint=name, coef=weight) for name, weight in tendon.weights]
        lines.append("    </fixed>")
    return ["  <tendon>", *lines, "  </tendon>"] if lines else []


def _equality_lines(description: Description) -> list[str]:
    """Joints that follow others, and links that are held together."""
    if not description.couplings and not description.loops:
        return []
    lines = ["    " + tag(x.kind, site1=_site(i, 1), site2=_site(i, 2)) for i, x in enumerate(description.loops)]
    for coupling in description.couplings:
        if len(coupling.coefficients) > 5:
            raise RobotFileError(f'joint "{coupling.follower}" follows by a polynomial of a degree above 4; MJCF has 4')
        values = [*coupling.coefficients, *[0.0] * (5 - len(coupling.coefficients))]
        lines.append("    " + tag("joint", joint1=coupling.follower, joint2=coupling.leader, polycoef=values))
    return ["  <equality>", *lines, "  </equality>"]


def _site(loop: int, end: int) -> str:
    return f"loop_{loop + 1}_{end}"


class _Bodies:
    """The tree of a description on its way into nested bodies."""

    def __init__(self, description: Description):
        self.links = {link.name: link for link in description.links}
        self.leaving: dict[str, list[Joint]] = {name: [] for name in self.links}
        for joint in description.joints:
            self.leaving[joint.parent].append(joint)
        moved = {joint.child for joint in description.joints}
        self.sites: dict[str, list[tuple[str, np.ndarray]]] = {name: [] for name in self.links}
        for i, loop in enumerate(description.loops):
            self.sites[loop.first].append((_site(i, 1), loop.place_first))
            self.sites[loop.second].append((_site(i, 2), loop.place_second))
        self.root = next(name for name in self.links if name not in moved)
        if WORLD in moved:
            raise RobotFileError(f'link "{WORLD}" is not the root, but MuJoCo gives the ground that name; rename it')
        for carrier in [self.root, *(joint.child for joint in description.joints if joint.kind != "fixed")]:
            self.settle(carrier)

    def settle(self, carrier: str) -> None:
        """Where MuJoCo refuses a link, the one that carries it takes all that is fixed to it; the base needs none."""
        rigid = dict(self.rigid(carrier, np.eye(4)))
        refused = [name for name in rigid if refusal(self.links[name].inertia)]
        total = sum((pose @ self.links[name].inertia @ pose.T for name, pose in rigid.items()), np.zeros((4, 4)))
        if refused:
            for name in refused if carrier == self.root else rigid:
                self.links[name] = replace(self.links[name], inertia=np.zeros((4, 4)))
            if carrier != self.root:
                self.links[carrier] = replace(self.links[carrier], inertia=total)

    def rigid(self, name: str, pose: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """A link and what is fixed to it, with poses in the first."""
        yield name, pose
        for joint in self.leaving[name]:
            if joint.kind == "fixed":
                yield from self.rigid(joint.child, pose @ joint.origin)

    def lines(self) -> Iterator[str]:
        if self.root == WORLD:
            yield from self.marked(WORLD, np.zeros(3))
            yield from self.children(WORLD, np.zeros(3))
        else:
            yield from self.body([Joint("", "fixed", WORLD, self.root)], np.zeros(3))

    def children(self, name: str, anchor: np.ndarray) -> Iterator[str]:
        for joint in self.leaving[name]:
            yield from self.body(self.chain(joint), anchor)

    def body(self, chain: list[Joint], anchor_above: np.ndarray) -> Iterator[str]:
        """The body that a chain of joints moves, and what hangs on it."""
        link = self.links[chain[-1].child]
        anchors = [np.zeros(3) if chain[-1].kind == "fixed" else -link.offset]
        for joint in reversed(chain[1:]):
            anchors.insert(0, anchors[0] - joint.origin[:3, 3])
        pose = shift(anchor_above) @ chain[0].origin @ shift(-anchors[0])
        lift = {"gravcomp": link.lift} if link.lift else {}
        yield tag("body", name=link.name, **_placed(pose), **lift).removesuffix("/>") + ">"
        inertial = self.inertial(link, chain[-1], anchors[-1])
        if inertial:
            yield "  " + tag("inertial", **inertial)
        for joint, anchor in zip(chain, anchors, strict=True):
            if joint.kind != "fixed":
                yield "  " + _joint_tag(joint, anchor)
        yield from ("  " + line for line in self.marked(link.name, anchors[-1]))
        yield from ("  " + line for line in self.children(link.name, anchors[-1]))
        yield "</body>"

    def marked(self, name: str, anchor: np.ndarray) -> Iterator[str]:
        """The ends of loops on a link."""
        for site, place in self.sites[name]:
            yield tag("site", name=site, **_placed(shift(anchor) @ place))

    def chain(self, joint: Joint) -> list[Joint]:
        """The joints of one body, where links without mass tell that they were read from one."""
        chain = [joint]
        while following := self.following(chain[-1]):
            chain += following
        body = chain[-1].child
        return chain if all(one.child == f"{body}/{one.name}" for one in chain[:-1]) else [joint]

    def following(self, joint: Joint) -> list[Joint]:
        """The one joint that can share a body with this one, if there is one: the same axes, no mass between."""
        link, leaving = self.links[joint.child], self.leaving[joint.child]
        if len(leaving) != 1 or "fixed" in (joint.kind, leaving[0].kind) or np.any(link.inertia) or np.any(link.offset):
            return []
        return leaving if np.allclose(leaving[0].origin[:3, :3], np.eye(3), rtol=0, atol=1e-14) else []

    def inertial(self, link: Link, joint: Joint, anchor: np.ndarray) -> dict[str, str]:
        least = 0.0
        if joint.kind != "fixed" and not self.weighs(link.name):
            least = LEAST
            if not (joint.armature or self.carries(link.name)):
                remedy = "give it a mass, or its joint an armature"
                raise RobotFileError(f'link "{link.name}" moves without mass, which MuJoCo refuses; {remedy}')
        if not (least or np.any(link.inertia)):
            return {}
        return inertial_attributes(link.name, link.inertia, -anchor, least, np.eye(3))

    def weighs(self, name: str) -> bool:
        """Whether MuJoCo finds mass and moments in a link, or in one that is fixed to it."""
        mass, _, rotational = central_moments(self.links[name].inertia)
        own = bool(mass >= LEAST and np.linalg.eigvalsh(rotational)[0] >= LEAST)
        return own or any(self.weighs(joint.child) for joint in self.leaving[name] if joint.kind == "fixed")

    def carries(self, name: str) -> bool:
        """Whether there is mass in a link or beyond."""
        return bool(self.links[name].inertia[3, 3] > 0) or any(
            self.carries(joint.child) for joint in self.leaving[name]
        )


def _placed(pose: np.ndarray) -> dict[str, np.ndarray]:
    """`pos` and `quat`, as far as they are not MuJoCo's defaults."""
    position = {"pos": pose[:3, 3]} if np.any(pose[:3, 3]) else {}
    return position if np.array_equal(pose[:3, :3], np.eye(3)) else {**position, "quat": quaternion_of(pose[:3, :3])}


def _joint_tag(joint: Joint, anchor: np.ndarray) -> str:
    values: dict = {"name": joint.name}
    if joint.kind == "free" and not (joint.damping or joint.friction or joint.armature):
        return tag("freejoint", **values)
    if joint.kind not in ("revolute", "continuous"):
        values["type"] = {"prismatic": "slide"}.get(joint.kind, joint.kind)
    if np.any(anchor):
        values["pos"] = anchor
    if joint.kind not in SEVERAL:
        values["axis"] = joint.axis
    if np.isfinite([joint.lower, joint.upper]).any():
        values["range"] = widened(joint.lower, joint.upper)
    numbers = {"damping": joint.damping, "frictionloss": joint.steady_friction, "armature": joint.armature}
    values |= {name: number for name, number in numbers.items() if number}
    if joint.stiffness:
        values |= {"stiffness": joint.stiffness} | ({} if joint.kind in SEVERAL else {"springref": joint.rest})
    if joint.steady_friction:
        values |= HARD_FRICTION
    if np.isfinite(joint.effort):
        values["actuatorfrcrange"] = actuator_range(joint)
    return tag("joint", **values)
