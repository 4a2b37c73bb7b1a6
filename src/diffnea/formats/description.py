"""What a robot file says: links and joints as written, fixed joints included, in numpy and double precision.

Readers turn text into a `Description`, `assembly` makes the `Robot` of it; `revision` goes back: it puts a robot's
numbers into the description of the file it came from, and changes nothing that did not change.
"""

from dataclasses import dataclass, field

import numpy as np

from diffnea.errors import DiffneaError
from diffnea.robot import STANDARD_GRAVITY

# Of lengths, masses and moments, in SI units: the product of three has still a place in single precision.
LARGEST = 1e12
MOST_LINKS = 2000


class RobotFileError(DiffneaError):
    """A robot file that cannot be used, in one line: where, what was found, what is accepted."""


class MissingRobotFile(FileNotFoundError, RobotFileError):
    """A robot file that is not there: Python's own error, and the package's."""


def _zeros(*shape: int):
    return field(default_factory=lambda: np.zeros(shape))


@dataclass(frozen=True)
class Link:
    """A link as the file has it; `offset` is where the file's frame sits in the frame at the link's joint.

    `lift` is the share of its weight that gravity compensation takes off.
    """

    name: str
    inertia: np.ndarray = _zeros(4, 4)
    offset: np.ndarray = _zeros(3)
    lift: float = 0.0


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
    Goals stay between `lower` and `upper`, come `delay` late and through a lag of the first order, both in s, and
    at most at `goal_speed`. `integral` is ki; its torque stays within ±limit.
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
    integral: float = 0.0
    goal_speed: float = np.inf


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
class Tendon:
    """A spring along `Σ weight · joint`, slack from `lower` to `upper`."""

    name: str
    weights: tuple[tuple[str, float], ...]
    stiffness: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Loop:
    """Two links held together: a "connect" holds the origins of their poses in one place, a "weld" the whole poses."""

    kind: str
    first: str
    second: str
    place_first: np.ndarray  # in the link's frame
    place_second: np.ndarray

    @property
    def words(self) -> str:
        return f'{self.kind} of "{self.first}" and "{self.second}"'


@dataclass(frozen=True)
class Description:
    """A whole robot file; `notes` are what a reader should tell the user, `couplings` joints that follow others."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    gravity: tuple[float, float, float] = STANDARD_GRAVITY
    notes: tuple[str, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    tendons: tuple[Tendon, ...] = ()
    loops: tuple[Loop, ...] = ()


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
