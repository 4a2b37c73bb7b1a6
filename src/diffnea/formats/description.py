"""What a robot file says: links and joints as written, fixed joints included, in numpy and double precision.

Readers turn text into a `Description`, `assemble` merges what is rigidly joined and makes the `Robot`; `revise` goes
back: it puts a robot's numbers into the description of the file it came from, and changes nothing that did not change.
An inertia is the 4 × 4 pseudo-inertia `P = [Σ, m·c; (m·c)ᵀ, m]`, which moves between frames as `T P Tᵀ`.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.errors import DiffneaError
from diffnea.robot import JOINT_KINDS, STANDARD_GRAVITY, Limits, Robot, Source, Tree, astype
from diffnea.spatial import Inertia, Transform
from diffnea.ties import Couplings, Springs

# How much of its inertia a fixed link may keep when the link that carries it changes.
SHARES = (*0.5 ** np.arange(30), 0.0)
# Files carry six or so digits: a moment that misses a bound by less than this share of the largest is rounding.
ROUNDING = 1e-4
# Of lengths, masses and moments, in SI units: the product of three has still a place in single precision.
LARGEST = 1e12
MOST_LINKS = 2000


class RobotFileError(DiffneaError):
    """A robot file that cannot be used, in one line: where, what was found, what is accepted."""


def _zeros(*shape: int):
    return field(default_factory=lambda: np.zeros(shape))


@dataclass(frozen=True)
class Link:
    """A link as the file has it; `offset` is where the file's frame sits in the frame at the link's joint."""

    name: str
    inertia: np.ndarray = _zeros(4, 4)
    offset: np.ndarray = _zeros(3)


@dataclass(frozen=True)
class Curve:
    """Dry friction that changes with speed: `friction + (static − friction)·exp(−(v/speed)²)`, Stribeck's curve.

    `stiffness`, a force per travel, is that of the bristles which MuJoCo has such friction from.
    """

    static: float
    speed: float
    stiffness: float


@dataclass(frozen=True)
class Servo:
    """A servo as the file has it: `τ = clip(stiffness (g − q) − damping q̇, ±limit)`, goal g = `scale · u + offset`.

    Of `kind` "velocity" it is `damping (scale · u − q̇)`; of "intvelocity" the goal is the integral of `scale · u`.
    Goals stay between `lower` and `upper`, come `delay` late and through a lag of the first order, both in s.
    """

    stiffness: float
    damping: float
    limit: float = np.inf
    lower: float = -np.inf
    upper: float = np.inf
    delay: float = 0.0
    lag: float = 0.0
    scale: float = 1.0
    offset: float = 0.0
    kind: str = "position"


@dataclass(frozen=True)
class Joint:
    """A joint as the file has it; `kind` may be fixed, and then only names and `origin` matter, or ball, or free.

    The `origin` of a free joint is where the file has its link.
    """

    name: str
    kind: str
    parent: str
    child: str
    origin: np.ndarray = field(default_factory=lambda: np.eye(4))
    axis: np.ndarray = field(default_factory=lambda: np.array([1.0, 0.0, 0.0]))
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0
    gear: float = 1.0
    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    effort: float = np.inf
    stiffness: float = 0.0  # of a spring that pulls towards `rest`
    rest: float = 0.0
    curve: Curve | None = None  # `friction` is dry friction at high speed where there is one
    servo: Servo | None = None

    @property
    def steady_friction(self) -> float:
        """What there is of dry friction at every speed."""
        return self.friction if self.curve is None else min(self.friction, self.curve.static)

    @property
    def varying_friction(self) -> float:
        """What dry friction may have beyond that."""
        return 0.0 if self.curve is None else abs(self.curve.static - self.friction)


@dataclass(frozen=True)
class Coupling:
    """A joint that follows another: `follower = Σ_j c_j leader^j`."""

    follower: str
    leader: str
    coefficients: tuple[float, ...]

    @property
    def straight(self) -> bool:
        return not any(self.coefficients[2:])

    def at(self, leader: float) -> float:
        """Where the follower is."""
        return float(np.polynomial.polynomial.polyval(leader, self.coefficients))


@dataclass(frozen=True)
class Description:
    """A whole robot file; `notes` are what a reader should tell the user, `couplings` joints that follow others."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    gravity: tuple[float, float, float] = STANDARD_GRAVITY
    notes: tuple[str, ...] = ()
    couplings: tuple[Coupling, ...] = ()


# Inertia ---------------------------------------------------------------------------------------------------------


def pseudo_inertia(mass: float, centre: np.ndarray, rotational: np.ndarray) -> np.ndarray:
    """P from the mass, the centre of mass, and the rotational inertia about it."""
    second = _flip(rotational) + mass * np.outer(centre, centre)
    first = mass * centre
    return np.block([[second, first[:, None]], [first[None], np.array([[mass]])]])


def central_moments(inertia: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass, and rotational inertia about it; a body without mass has its centre at the origin."""
    mass = float(inertia[3, 3])
    centre = inertia[:3, 3] / mass if mass else np.zeros(3)
    second = inertia[:3, :3] - mass * np.outer(centre, centre)
    return mass, centre, np.trace(second) * np.eye(3) - second


def _flip(rotational: np.ndarray) -> np.ndarray:
    """Second moments Σ from the rotational inertia J: `½ tr(J)·1 − J`."""
    return np.trace(rotational) / 2 * np.eye(3) - rotational


def impossible(inertia: np.ndarray) -> str | None:
    """Why no body has this inertia; None if one has."""
    mass, _, rotational = central_moments(inertia)
    if mass < 0:
        return f"its mass is {mass:g}; a mass is at least 0"
    moments = np.linalg.eigvalsh(rotational)
    slack = ROUNDING * np.abs(moments).max() + 1e-14 * np.abs(inertia).max()
    listed = ", ".join(f"{moment:.6g}" for moment in moments)
    if mass == 0 and np.any(inertia):
        return f"its mass is 0 but its principal moments are {listed}; give it a mass, or no inertia"
    if moments[0] < -slack:
        return f"its inertia has the eigenvalue {moments[0]:.6g} (of {listed}); a moment of inertia is at least 0"
    if moments[2] > moments[0] + moments[1] + slack:
        return (
            f"its principal moments break the triangle inequality: {moments[2]:.6g} > "
            f"{moments[0]:.6g} + {moments[1]:.6g}; no moment may exceed the sum of the other two"
        )
    return None


def check_count(links: int) -> None:
    """Refuse more links than robots have."""
    if links > MOST_LINKS:
        raise RobotFileError(f"has {links} links; at most {MOST_LINKS} are read")


def check_bounds(description: Description) -> None:
    """Refuse numbers so large that what is computed from them has no end, and more links than robots have."""
    check_count(len(description.links))
    for link in description.links:
        if not np.all(np.abs(link.inertia) <= LARGEST**3) or not np.all(np.abs(link.offset) <= LARGEST):
            raise RobotFileError(f'link "{link.name}" is too heavy or too far off; at most {LARGEST:g} in SI units')
    for joint in description.joints:
        own = [joint.damping, joint.friction, joint.armature, joint.gear, *joint.axis, *joint.origin.flat]
        if not np.all(np.abs(own) <= LARGEST):
            raise RobotFileError(f'joint "{joint.name}" has a number above {LARGEST:g}; use SI units')
    if not np.all(np.abs(description.gravity) <= LARGEST):
        raise RobotFileError(f"its gravity is {description.gravity}; use m/s²")


def check_physical(description: Description) -> list[str]:
    """Refuse a moving body that none can be, with all that is fixed to it; notes on links alone that none can be."""
    reasons = {link.name: reason for link in description.links if (reason := impossible(link.inertia))}
    if not reasons:
        return []
    merged = _merge(description)
    for i, total in enumerate(_totals(description, merged)):
        if impossible(total):  # then one of its parts is: bodies add up to bodies
            name = next(name for name, owner in merged.owner.items() if owner == i and name in reasons)
            raise RobotFileError(f'link "{name}": {reasons[name]} (allow_unphysical takes it all the same)')
    named = ", ".join(f'"{name}"' for name in reasons)
    return [f"no body has the inertia of link {named}, but it does not move, or what it is fixed to makes up for it"]


# Description → Robot ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Merged:
    """Which moving link (−1: the base) each link belongs to, its pose there, and the moving joints in order."""

    joints: tuple[Joint, ...]
    owner: dict[str, int]
    pose: dict[str, np.ndarray]


def assemble(description: Description, source: Source | None = None) -> Robot:
    """Merge what is rigidly joined into the link that carries it, and make the robot."""
    merged = _merge(description)
    joints, owner, pose = merged.joints, merged.owner, merged.pose
    inertia = _totals(description, merged)
    for joint in joints:
        if joint.kind == "free" and owner[joint.parent] >= 0:
            raise RobotFileError(
                f'joint "{joint.name}" is free, but "{joint.parent}" moves; it must stand on the ground'
            )
    placement = np.array([pose[joint.parent] @ joint.origin for joint in joints]).reshape(-1, 4, 4)
    parents = tuple(owner[joint.parent] for joint in joints)
    offsets = {link.name: link.offset for link in description.links}
    tree = Tree(
        parents,
        tuple(joint.kind for joint in joints),
        tuple(joint.name for joint in joints),
        tuple(joint.child for joint in joints),
    )

    def column(name: str) -> jax.Array:
        return jnp.asarray([getattr(joint, name) for joint in joints], float)

    return Robot(
        tree=tree,
        placement=Transform(jnp.asarray(placement[:, :3, :3]), jnp.asarray(placement[:, :3, 3])),
        axis=jnp.asarray(np.array([joint.axis for joint in joints]).reshape(-1, 3)),
        inertia=Inertia.from_parameters(jnp.asarray(_parameters(inertia))),
        armature=column("armature"),
        damping=column("damping"),
        friction=column("friction"),
        gear=column("gear"),
        limits=Limits(column("lower"), column("upper"), column("velocity"), column("effort")),
        frame_offset=jnp.asarray(np.array([offsets[joint.child] for joint in joints]).reshape(-1, 3)),
        gravity=jnp.asarray(description.gravity, float),
        couplings=_couplings(description, joints),
        springs=Springs(column("stiffness"), column("rest")) if any(joint.stiffness for joint in joints) else None,
        name=description.name,
        source=source,
    )


def _couplings(description: Description, joints: tuple[Joint, ...]) -> Couplings | None:
    """Couplings by link, each with a leader that follows none; refuses what makes no sense."""
    if not description.couplings:
        return None
    places = {joint.name: i for i, joint in enumerate(joints)}
    found = {coupling.follower: coupling for coupling in description.couplings}
    for coupling in description.couplings:
        _check_coupling(coupling, description, joints)
        if found[coupling.follower] is not coupling:
            raise RobotFileError(f'joint "{coupling.follower}" follows two others; let it follow one')
    led = [_composed(coupling, found) for coupling in description.couplings]
    degrees = max(len(coupling.coefficients) for coupling in led)
    rows = [(*coupling.coefficients, *[0.0] * (degrees - len(coupling.coefficients))) for coupling in led]
    followers, leaders = ([places[getattr(c, end)] for c in led] for end in ("follower", "leader"))
    return Couplings(tuple(followers), tuple(leaders), jnp.asarray(rows, float))


def _check_coupling(coupling: Coupling, description: Description, joints: tuple[Joint, ...]) -> None:
    kinds = {joint.name: joint.kind for joint in description.joints}
    for end in (coupling.follower, coupling.leader):
        if end not in kinds:
            close = get_close_matches(end, kinds, 1)
            hint = f' (did you mean "{close[0]}"?)' if close else ""
            raise RobotFileError(
                f'joint "{coupling.follower}" is coupled to "{coupling.leader}": no joint "{end}"{hint}'
            )
        if kinds[end] not in JOINT_KINDS:
            what = f'joint "{coupling.follower}" is coupled to "{coupling.leader}", but "{end}" is {kinds[end]}'
            raise RobotFileError(f"{what}; couple revolute, continuous and prismatic joints")
    if coupling.follower == coupling.leader:
        raise RobotFileError(f'joint "{coupling.follower}" is coupled to itself; let it follow another')


def _composed(coupling: Coupling, found: dict[str, Coupling]) -> Coupling:
    """The coupling with the first leader of a chain of straight lines."""
    seen = {coupling.follower}
    while coupling.leader in found:
        above = found[coupling.leader]
        if above.follower in seen:
            raise RobotFileError(
                f'the couplings of joint "{coupling.follower}" go round in a circle; let one joint lead'
            )
        if not above.straight:
            raise RobotFileError(
                f'joint "{coupling.follower}" follows "{above.follower}", which follows another by a curve; '
                "let it follow a joint that leads"
            )
        seen.add(above.follower)
        line = np.polynomial.Polynomial(above.coefficients[:2])
        through = np.polynomial.Polynomial(coupling.coefficients)(line)
        coupling = Coupling(coupling.follower, above.leader, tuple(np.atleast_1d(through.coef).tolist()))
    return coupling


def attached(description: Description) -> np.ndarray:
    """What is rigidly fixed to each moving link, in that link's frame: (n, 10) parameters, zero where nothing is."""
    merged = _merge(description)
    inertia = np.zeros((len(merged.joints), 4, 4))
    carriers = {joint.child for joint in merged.joints}
    for link in description.links:
        owner = merged.owner[link.name]
        if owner >= 0 and link.name not in carriers:
            inertia[owner] += _moved(link.inertia, merged.pose[link.name])
    return _parameters(inertia)


def tips(description: Description) -> dict[str, tuple[str, np.ndarray]]:
    """For each moving link the last body that fixed joints of the file join to it, and that one's pose in it.

    Frames without mass, as a tool's centre point, are not bodies.
    """
    merged = _merge(description)
    heavy = {link.name for link in description.links if link.inertia[3, 3] > 0}
    last = {i: joint.child for i, joint in enumerate(merged.joints)}
    for joint in _outwards(description, root_of(description)):
        owner = merged.owner[joint.child]
        if joint.kind == "fixed" and owner >= 0 and joint.child in heavy:
            last[owner] = joint.child
    return {merged.joints[i].child: (name, merged.pose[name]) for i, name in last.items()}


def _totals(description: Description, merged: _Merged) -> np.ndarray:
    """The pseudo-inertia of each moving body, with all that is fixed to it."""
    total = np.zeros((len(merged.joints), 4, 4))
    for link in description.links:
        if merged.owner[link.name] >= 0:
            total[merged.owner[link.name]] += _moved(link.inertia, merged.pose[link.name])
    return total


def frames(description: Description) -> dict[str, tuple[int, np.ndarray]]:
    """For each link of the file the moving link that carries it (−1: the base), and its file's frame in that one's."""
    merged = _merge(description)
    placed = {}
    for link in description.links:
        offset = np.eye(4)
        offset[:3, 3] = link.offset
        placed[link.name] = (merged.owner[link.name], merged.pose[link.name] @ offset)
    return placed


def _merge(description: Description) -> _Merged:
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
    return _Merged(tuple(moving), owner, pose)


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
                close = get_close_matches(name, links, 1)
                hint = f' (did you mean "{close[0]}"?)' if close else ""
                raise RobotFileError(f'joint "{joint.name}": its {end} "{name}" is not a link of this file{hint}')
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


def uncouple(description: Description) -> Description:
    """The description with all joints independent, and a word on those that follow others."""
    named = ", ".join(f'"{coupling.follower}"' for coupling in description.couplings)
    note = (f"joints that follow others are treated as independent: {named}",) if named else ()
    return replace(description, couplings=(), notes=(*description.notes, *note))


def massless_note(robot: Robot) -> list[str]:
    """A word on joints that move no mass, where forward dynamics divide by zero."""
    carried = np.asarray(robot.inertia.mass).copy()
    for i in reversed(range(robot.num_links)):
        if robot.tree.parents[i] >= 0:
            carried[robot.tree.parents[i]] += carried[i]
    idle = np.flatnonzero((carried == 0) & (np.asarray(robot.armature) == 0))
    named = ", ".join(f'"{robot.tree.joint_names[i]}"' for i in idle)
    return [f"no mass moves with {named}: no forward dynamics there; give a mass or armature"] if named else []


def _moved(inertia: np.ndarray, pose: np.ndarray) -> np.ndarray:
    return pose @ inertia @ pose.T


def _parameters(inertia: np.ndarray) -> np.ndarray:
    """(n, 4, 4) pseudo-inertias → (n, 10) linear parameters."""
    second = inertia[:, :3, :3]
    rotational = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    unique = rotational[:, [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([inertia[:, 3, 3:], inertia[:, :3, 3], unique], axis=1)


def _pseudo(inertia: Inertia) -> np.ndarray:
    """An `Inertia` of n bodies → (n, 4, 4) pseudo-inertias."""
    mass, first = np.asarray(inertia.mass, float), np.asarray(inertia.first_moment, float)
    second = [_flip(matrix) for matrix in np.asarray(inertia.rotational_matrix, float)]
    rows = zip(second, first, mass, strict=True)
    return np.array([np.block([[s, h[:, None]], [h[None], np.array([[m]])]]) for s, h, m in rows]).reshape(-1, 4, 4)


# Robot → Description ---------------------------------------------------------------------------------------------


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
        links.append(Link(link, numbers["inertia"][i], numbers["offset"][i]))
        values = {key: numbers[key][i] for key in _JOINT_NUMBERS}
        curve = (curves or {}).get(name)
        joints.append(Joint(name, robot.tree.kinds[i], above, link, numbers["placement"][i], **values, curve=curve))
    joints = [replace(joint, servo=(servos or {}).get(joint.name)) for joint in joints]
    couplings = _coupling_names(robot)
    return Description(robot.name, tuple(links), tuple(joints), tuple(numbers["gravity"].tolist()), (), couplings)


def _coupling_names(robot: Robot) -> tuple[Coupling, ...]:
    tied, names = robot.couplings, robot.tree.joint_names
    if tied is None:
        return ()
    rows = zip(tied.followers, tied.leaders, np.asarray(tied.coefficients, float).tolist(), strict=True)
    return tuple(Coupling(names[follower], names[leader], tuple(row)) for follower, leader, row in rows)


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
        "rest": np.zeros(count) if robot.springs is None else robot.springs.rest,
    }  # fmt: skip
    doubles = {name: np.asarray(value, float) for name, value in leaves.items()}
    return {**doubles, "placement": placement, "inertia": _pseudo(robot.inertia)}


def revise(
    description: Description, robot: Robot, curves: Curves | None = None, servos: Servos | None = None
) -> Description:
    """The description with the robot's numbers in it; what is equal in the robot's precision stays as it was.

    Friction curves and servos are those given by joint, or the description's own where none are given at all.
    """
    merged = _merge(description)
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
    index: int, total: np.ndarray, carrier: str, links: dict[str, Link], merged: _Merged
) -> dict[str, Link]:
    """The moving link takes the change; what is fixed to it keeps as much of its inertia as leaves a possible body."""
    attached = [name for name, owner in merged.owner.items() if owner == index and name != carrier]
    theirs = sum((_moved(links[name].inertia, merged.pose[name]) for name in attached), np.zeros((4, 4)))
    share = next((share for share in SHARES if not impossible(total - share * theirs)), 1.0)
    kept = {name: replace(links[name], inertia=share * links[name].inertia) for name in attached if share != 1}
    return {**kept, carrier: replace(links[carrier], inertia=total - share * theirs)}
