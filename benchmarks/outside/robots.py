"""Robots drawn by seed: the machine as it is, and the file that its owner has of it."""

from dataclasses import dataclass, replace

import numpy as np
import pinocchio
from numpy.random import Generator

from benchmarks.outside.families import FAMILIES, Piece

GRAVITY = (0.0, 0.0, -9.81)
SKEWED = 0.25, 0.3  # how often an axis is not along x, y or z, and how far off, rad
USUAL = {"revolute": 6.0, "continuous": 6.0, "prismatic": 2.0}  # accelerations, rad/s² or m/s²
SPEEDS = {"revolute": 2.0, "continuous": 2.0, "prismatic": 0.5}  # rad/s or m/s
UNLIMITED = 1e6


@dataclass(frozen=True)
class Friction:
    """`sign(v) (f_k + (f_s − f_k) exp(−(v/v_s)²)) + μ v`, one number a joint each."""

    static: np.ndarray
    kinetic: np.ndarray
    speed: np.ndarray
    viscous: np.ndarray


@dataclass(frozen=True)
class Machine:
    """A machine as it is; bodies are pseudo-inertias [Σ, m c; m cᵀ, m] in the frame of their joint."""

    name: str
    pieces: tuple[Piece, ...]
    origins: np.ndarray  # (n, 3): of each joint in its parent's frame
    axes: np.ndarray  # (n, 3)
    bodies: np.ndarray  # (n, 4, 4)
    armature: np.ndarray  # (n,)
    friction: Friction
    gravity: tuple[float, float, float] = GRAVITY

    @property
    def count(self) -> int:
        """How many joints it has."""
        return len(self.pieces)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """In the order of q."""
        return tuple(f"j{i + 1}" for i in range(self.count))

    @property
    def driven(self) -> np.ndarray:
        """Which joints have motors."""
        return np.array([piece.driven for piece in self.pieces])

    @property
    def slides(self) -> np.ndarray:
        """Which joints are prismatic."""
        return np.array([piece.kind == "prismatic" for piece in self.pieces])

    @property
    def reach(self) -> np.ndarray:
        """How far each joint is driven to either side, rad or m."""
        return np.array([piece.reach for piece in self.pieces])


# Drawing ---------------------------------------------------------------------------------------------------------


def draw(family: str, seed: int) -> Machine:
    """The machine of this family and seed."""
    rng = np.random.default_rng([seed, *family.encode()])
    pieces = tuple(
        p._replace(length=p.length * rng.uniform(0.7, 1.3), mass=p.mass * rng.uniform(0.6, 1.5))
        for p in FAMILIES[family]
    )
    ends = np.array([p.length * np.array(p.along) for p in pieces])
    origins = np.array([ends[p.parent] if p.parent >= 0 else (0.0, 0.0, 0.3) for p in pieces])
    axes = np.array([_skewed(rng, p) for p in pieces])
    bodies = np.array([_body(rng, p) for p in pieces])
    nothing = np.zeros(len(pieces))
    bare = Machine(f"{family}_{seed}", pieces, origins, axes, bodies, nothing, Friction(*[nothing] * 4))
    return _with_motors(rng, bare)


def _skewed(rng: Generator, piece: Piece) -> np.ndarray:
    often, far = SKEWED
    if rng.uniform() > often:
        return np.array(piece.axis)
    return _rotation(rng, far) @ np.array(piece.axis)


def _rotation(rng: Generator, size: float) -> np.ndarray:
    """A turn by about `size` rad about any axis."""
    return pinocchio.exp3(size * rng.standard_normal(3))


def _body(rng: Generator, piece: Piece) -> np.ndarray:
    """A rod with some breadth, not quite straight, centre near its middle."""
    length, mass, along = piece.length, piece.mass, np.array(piece.along)
    centre = 0.5 * length * along + 0.12 * length * rng.standard_normal(3)
    breadth = length * np.where(np.abs(along) > 0.5, rng.uniform(0.25, 0.35, 3), rng.uniform(0.08, 0.2, 3))
    turned = _rotation(rng, 0.3)
    return pseudo_inertia(mass, centre, mass * turned @ np.diag(breadth**2) @ turned.T)


def _with_motors(rng: Generator, bare: Machine) -> Machine:
    """Rotors and friction in proportion to what moving each joint takes; joints without motors turn easily."""
    felt, force = efforts(bare)
    motor = np.where(bare.driven, 1.0, 0.08)
    speed = np.array([SPEEDS[p.kind] for p in bare.pieces])
    kinetic = rng.uniform(0.03, 0.1, bare.count) * force * motor
    friction = Friction(
        static=kinetic * (1 + rng.uniform(0.15, 0.8, bare.count)),
        kinetic=kinetic,
        speed=rng.uniform(0.01, 0.05, bare.count) * speed,
        viscous=rng.uniform(0.03, 0.1, bare.count) * force * motor / speed,
    )
    return replace(
        bare, armature=np.where(bare.driven, rng.uniform(0.05, 0.3, bare.count) * felt, 0.0), friction=friction
    )


def efforts(machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """The inertia each joint feels at q = 0, and the force that its usual motion takes."""
    model = pinocchio_model(machine)
    data, rest = model.createData(), np.zeros(model.nv)
    felt = np.diag(pinocchio.crba(model, data, rest)).copy()
    poses = np.random.default_rng(0).uniform(-1, 1, (20, model.nv)) * np.maximum(machine.reach, 0.3)
    weight = np.sqrt(np.mean([pinocchio.rnea(model, data, q, rest, rest) ** 2 for q in poses], axis=0))
    return felt, felt * np.array([USUAL[p.kind] for p in machine.pieces]) + weight


# What others get to see ------------------------------------------------------------------------------------------


def nominal(machine: Machine, size: float, seed: int, rotors: float = 0.0) -> Machine:
    """The machine as its file has it: masses off by about `size`, `rotors` likewise, and no friction.

    Bodies are `U T Tᵀ Uᵀ` with `U Uᵀ` the true one, T upper triangular: `log T_ii ~ N(0, size²/4)`,
    `T_ij ~ N(0, size²/2)`, so that the logarithm of a mass has the standard deviation `size`.
    """
    rng = np.random.default_rng([seed, 77])
    nothing = np.zeros(machine.count)
    return replace(
        machine,
        bodies=np.array([_off(rng, body, size) for body in machine.bodies]),
        armature=machine.armature * np.exp(rotors * rng.standard_normal(machine.count)),
        friction=Friction(*[nothing] * 4),
    )


def _off(rng: Generator, body: np.ndarray, size: float) -> np.ndarray:
    flipped = np.linalg.cholesky(body[::-1, ::-1])[::-1, ::-1]  # upper triangular: body = U Uᵀ
    change = np.triu(size / np.sqrt(2) * rng.standard_normal((4, 4)), 1)
    change += np.diag(np.exp(size / 2 * rng.standard_normal(4)))
    factor = flipped @ change
    return factor @ factor.T


def without_dry_friction(machine: Machine) -> Machine:
    """The same machine with viscous friction only."""
    nothing = np.zeros(machine.count)
    return replace(machine, friction=replace(machine.friction, static=nothing, kinetic=nothing))


def pseudo_inertia(mass: float, centre: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[Σ + m c cᵀ, m c; m cᵀ, m], with the second moments Σ about the centre of mass."""
    first = mass * centre
    return np.block([[second + np.outer(first, centre), first[:, None]], [first[None], np.array([[mass]])]])


def urdf(machine: Machine) -> str:
    """The machine as a URDF file; rotors stand in a `<diffnea>` element. Friction is in no file."""
    names = [f"l{i + 1}" for i in range(machine.count)]
    lines = [f'<robot name="{machine.name}">', '<link name="base"/>']
    for name, body in zip(names, machine.bodies, strict=True):
        lines.append(f'<link name="{name}">{_inertial(body)}</link>')
    for i, piece in enumerate(machine.pieces):
        parent = names[piece.parent] if piece.parent >= 0 else "base"
        ends = f'<parent link="{parent}"/><child link="{names[i]}"/><origin xyz="{_numbers(machine.origins[i])}"/>'
        axis = f'<axis xyz="{_numbers(machine.axes[i])}"/>'
        lines.append(f'<joint name="j{i + 1}" type="{piece.kind}">{ends}{axis}{_limit(piece)}</joint>')
    rotors = [f'<joint name="j{i + 1}" armature="{value:.17g}"/>' for i, value in enumerate(machine.armature) if value]
    return "\n".join([*lines, f'<diffnea gravity="{_numbers(machine.gravity)}">', *rotors, "</diffnea></robot>"])


def _inertial(body: np.ndarray) -> str:
    mass = body[3, 3]
    centre = body[:3, 3] / mass
    second = body[:3, :3] - mass * np.outer(centre, centre)
    tensor = np.trace(second) * np.eye(3) - second
    entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    moments = " ".join(f'{key}="{tensor[place]:.17g}"' for key, place in entries.items())
    return f'<inertial><origin xyz="{_numbers(centre)}"/><mass value="{mass:.17g}"/><inertia {moments}/></inertial>'


def _limit(piece: Piece) -> str:
    effort = 1000 if piece.driven else 0
    if piece.kind == "continuous":
        return f'<limit effort="{effort}" velocity="50"/>'
    return f'<limit lower="{-2 * piece.reach}" upper="{2 * piece.reach}" effort="{effort}" velocity="50"/>'


def _numbers(values) -> str:
    return " ".join(f"{value:.17g}" for value in values)


def pinocchio_model(machine: Machine) -> pinocchio.Model:
    """The same in Pinocchio, through its own reader of URDF; its joints are in the machine's order."""
    endless = tuple(
        p._replace(kind="revolute", reach=UNLIMITED) if p.kind == "continuous" else p for p in machine.pieces
    )
    model = pinocchio.buildModelFromXML(urdf(replace(machine, pieces=endless)))
    assert tuple(model.names)[1:] == machine.joint_names, tuple(model.names)
    model.gravity.linear = np.array(machine.gravity)
    model.armature = machine.armature.copy()
    model.damping, model.friction = np.zeros(model.nv), np.zeros(model.nv)
    return model
