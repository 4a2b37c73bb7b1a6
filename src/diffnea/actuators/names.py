"""Actuators by name: `make("motor+stribeck", 2)`, and with starts taken from a robot."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, PRNGKeyArray

from diffnea import batches, formats, manifold
from diffnea.actuators.base import AbstractActuator, Ideal
from diffnea.actuators.coefficients import static
from diffnea.actuators.combined import combine
from diffnea.actuators.coupling import Coupling
from diffnea.actuators.drives import Delay, Driven, Gain, Motor, Truths, checked
from diffnea.actuators.friction import Coulomb, Grease, Stribeck, Viscous
from diffnea.actuators.networks import NetworkFriction, NetworkResidual, NetworkTorque, Scales
from diffnea.actuators.offset import Offset
from diffnea.actuators.ripple import Ripple
from diffnea.actuators.servo import Integral, Lead, Limit, Load, Play, Profile, Servo
from diffnea.arrays import Numbers
from diffnea.coupled import felt_damping, felt_friction
from diffnea.formats import Servo as FileServo
from diffnea.robot import Robot
from diffnea.text import meant

# The supply of a motor that nothing else is known of.
SUPPLY = 12.0
# A joint of unknown robot turns this fast, in rad/s or m/s, and reaches this far, in m.
USUAL_SPEED = 10.0
USUAL_REACH = 1.0
# Where a robot says nothing: friction brakes a joint at 1 rad/s², damping takes ten seconds, torque gives 10 rad/s².
DRY_DECELERATION = 1.0
DAMPING_RATE = 0.1
FULL_ACCELERATION = 10.0
# Parts that contain another: together, the other's coefficients could not be told apart.
CONTAINS = {
    "stribeck": ("viscous", "coulomb"),
    "nn-torque": ("nn-residual",),
    "offset": ("constant",),
    "servo": ("motor", "gain", "nn-torque"),
    "differential": ("coupling",),
}
# Parts that stand for what a servo's goals and gear do.
OF_SERVOS = ("play", "load", "lead", "limit", "profile", "integral")
# A servo of which nothing is known: its joint comes to its goal in this time, in s, and rests within this, in rad or m.
SERVO_LAG = 0.05
SERVO_BAND = 0.01


@dataclass(frozen=True)
class Sizes:
    """How large the learned parts are."""

    width: int = 8  # units of a network's layer
    depth: int = 2  # hidden layers
    harmonics: int = 3  # of a position-dependent torque
    most_delay: int = 8  # samples
    shared_delay: bool | None = None  # one delay for all joints; None: unless they are servos, each read by itself
    inner_steps: int = 4  # of a servo, for each sample
    saturation: Numbers | None = None  # of gain; None: none
    reference: Sequence[float | int] | None = None  # the gain of servos' firmware, as logs count, that kp holds for
    coupled: Sequence[Sequence[float | int]] | None = (
        None  # how motors turn with the joints; None: one with the last two
    )
    # How often motors turn with their joints, for their ripple; a row a joint: how often each of its waves comes again.
    reduction: Numbers | Sequence[Sequence[float | int]] | None = None


@dataclass(frozen=True)
class Start:
    """Where coefficients start, one entry a joint."""

    scales: Scales
    effort: Float[np.ndarray, " n"]
    viscous: Numbers
    dry: Numbers
    inertia: Numbers
    gain: Numbers
    period: tuple[float, ...]
    driven: Driven
    servos: Mapping[int, FileServo] = field(default_factory=dict)  # of the robot's file, by joint

    @property
    def num_joints(self) -> int:
        return len(self.scales.turns)


Builder = Callable[[Start, Sizes, PRNGKeyArray], AbstractActuator]


def _motor(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Motor:
    """A motor on `SUPPLY` that stalls at the joint's effort and runs free at its speed, turning as the gain says."""
    effort, speed = start.effort, np.array(start.scales.speed)
    constant = SUPPLY / speed
    direction = np.where(np.asarray(start.gain) < 0, -1.0, 1.0)
    return Motor.of(constant, constant * SUPPLY / effort, direction, driven=start.driven)


def _stribeck(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Stribeck:
    dry = jnp.asarray(start.dry)
    # Over at a hundredth of the usual speed: from a wide curve fits end in one that mimics viscous friction.
    shape = (100 / np.array(start.scales.speed)) ** 2
    return Stribeck.of(1.2 * dry, dry, start.viscous, shape)


def _grease(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Grease:
    """A tenth of the dry friction, at the usual speed."""
    return Grease.of(0.1 * np.asarray(start.dry) / np.sqrt(start.scales.speed))


def _delay(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Delay:
    count = start.num_joints
    return Delay.of(np.full(count, 0.5) if sizes.shared_delay is False else 0.5, count, sizes.most_delay)


def _servo(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Servo:
    """A stiffness whose friction leaves a usual band, and a damping that leaves a usual lag."""
    stiffness = _stiffness(start)
    damping = SERVO_LAG * stiffness
    for k, servo in start.servos.items():
        stiffness[k], damping[k] = servo.stiffness, servo.damping
    made = Servo.of(stiffness, damping, driven=start.driven, steps=sizes.inner_steps)
    return made if sizes.reference is None else replace(made, reference=tuple(map(float, sizes.reference)))


def _stiffness(start: Start) -> Float[np.ndarray, " n"]:
    return np.maximum(np.asarray(start.dry), start.effort / 20) / SERVO_BAND


def _limit(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Limit:
    """The joint's effort and speed; of a file's servos their own limit, which few logs show to fall with speed."""
    stated = _file_limits(start)
    if stated is not None:
        return Limit.of(stated, num_joints=start.num_joints)
    return Limit.of(start.effort, np.array(start.scales.speed), start.num_joints)


def _file_limits(start: Start) -> Float[np.ndarray, " n"] | None:
    """The most torque of the file's servos, where all joints have one."""
    limit = np.array([start.servos[k].limit if k in start.servos else np.inf for k in range(start.num_joints)])
    return limit if np.isfinite(limit).all() else None


def _of_file(start: Start) -> Iterator[str]:
    """Parts that the file's servos have."""
    if _file_limits(start) is not None:
        yield "limit"
    if any(servo.integral > 0 for servo in start.servos.values()):
        yield "integral"
    if _file_speeds(start) is not None:
        yield "profile"


def _file_speeds(start: Start) -> Float[np.ndarray, " n"] | None:
    """The rate limit of goals of the file's servos, where all joints have one."""
    speed = np.array([start.servos[k].goal_speed if k in start.servos else np.inf for k in range(start.num_joints)])
    return speed if np.isfinite(speed).all() else None


def _profile(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Profile:
    """The joint's speed, reached in a usual lag; of a file's servos their rate limit."""
    stated, speed = _file_speeds(start), np.array(start.scales.speed)
    return Profile.of(speed, speed / SERVO_LAG) if stated is None else Profile.of(stated)


def _integral(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Integral:
    """An error that stays for a second brings as much torque as the stiffness at once; a file's servos their own."""
    integral = _stiffness(start)
    for k, servo in start.servos.items():
        integral[k] = servo.integral
    return Integral.of(integral)


def _coupling(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Coupling:
    """Motors that rub a tenth as much as the joints that they turn with, and have a tenth of their inertia."""
    count = start.num_joints
    if sizes.coupled is None and count < 2:
        raise ValueError(f"coupling: {count} joint has no motor in common with another; leave it out")
    rows = np.array([np.arange(count) >= count - 2] if sizes.coupled is None else sizes.coupled, float)
    turned = np.abs(rows) / np.abs(rows).sum(1, keepdims=True)
    slow = float(np.min(start.scales.speed)) / 100
    own = start.dry, start.viscous, start.inertia
    dry, viscous, rotor = (0.1 * turned @ np.asarray(of_joints) for of_joints in own)
    return Coupling.of(dry, viscous, rows.tolist(), slow, 0.1 * dry / np.sqrt(100 * slow), rotor)


def _differential(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Coupling:
    """Dry friction where two neighbours turn together or against each other; data tell which of them do."""
    count = start.num_joints
    if count < 2:
        raise ValueError("differential: 1 joint has no neighbour; leave it out")
    own, beside = np.eye(count)[:-1], np.eye(count)[1:]
    rows = np.stack([own + beside, own - beside], axis=1).reshape(-1, count)
    dry = 0.1 * np.abs(rows) @ np.asarray(start.dry) / 2
    return Coupling.of(dry, 0.0, rows.tolist(), float(np.min(start.scales.speed)) / 200)


def _ripple(start: Start, sizes: Sizes, key: PRNGKeyArray) -> Ripple:
    if sizes.reduction is None:
        raise ValueError(
            "ripple: how often do the motors turn with each joint? Give reduction, as --set reduction=32,45"
        )
    return Ripple.none(sizes.reduction, start.num_joints, max(sizes.harmonics, 1))


BUILDERS: dict[str, Builder] = {
    "ideal": lambda start, sizes, key: Ideal(start.num_joints),
    "viscous": lambda start, sizes, key: Viscous.of(start.viscous),
    "stribeck": _stribeck,
    "nn-friction": lambda start, sizes, key: NetworkFriction.random(
        key, start.scales, jnp.asarray(start.effort), jnp.asarray(start.dry), sizes.width, sizes.depth
    ),
    "nn-residual": lambda start, sizes, key: NetworkResidual.random(
        key, start.scales, jnp.asarray(start.effort), sizes.width, sizes.depth
    ),
    "nn-torque": lambda start, sizes, key: NetworkTorque.random(
        key, start.scales, jnp.asarray(start.effort), sizes.width, sizes.depth
    ),
    "motor": _motor,
    "offset": lambda start, sizes, key: Offset.none(start.num_joints, sizes.harmonics, start.period),
    "delay": _delay,
    "coupling": _coupling,
    "gain": lambda start, sizes, key: Gain.of(start.gain, sizes.saturation, start.driven),
    # Keys of random starts go by place: what is new comes last.
    "grease": _grease,
    "constant": lambda start, sizes, key: Offset.none(start.num_joints, 0),
    "ripple": _ripple,
    "coulomb": lambda start, sizes, key: Coulomb.of(start.dry),
    "servo": _servo,
    "play": lambda start, sizes, key: Play.of(np.full(start.num_joints, SERVO_BAND / 10)),
    "load": lambda start, sizes, key: Load.of(np.full(start.num_joints, 0.1), np.full(start.num_joints, 0.1)),
    "lead": lambda start, sizes, key: Lead.of(np.full(start.num_joints, SERVO_LAG / 10)),
    "differential": _differential,
    "limit": _limit,
    "profile": _profile,
    "integral": _integral,
}
NAMES = tuple(BUILDERS)


def make(
    name: str,
    num_joints: int,
    *,
    key: PRNGKeyArray | None = None,
    revolute: Sequence[bool] | np.ndarray | None = None,
    driven: Truths = None,
    speed: Numbers = USUAL_SPEED,
    effort: Numbers = 1.0,
    **sizes: Any,
) -> AbstractActuator:
    """An actuator by name.

    Args:
        name: parts joined by `+`, in any order, as "motor+stribeck".
        num_joints: how many joints.
        key: of random weights, as `jax.random.key(0)`; networks need it.
        revolute: which joints turn, so that networks see their sine and cosine.
        driven: which joints the command reaches through `gain` and `motor`; None: all.
        speed: what is usual, in rad/s or m/s, one for all joints or one for each.
        effort: what is usual, in N·m or N, one for all joints or one for each.
        sizes: fields of `Sizes`, as `width=16` of networks, `harmonics=2` of an offset or `reduction=[30, 30]`.
    """
    if not isinstance(name, str) or not isinstance(num_joints, int):
        found = f"make({name!r}, {num_joints!r})"
        raise TypeError(f'actuators.{found}: give a name such as "viscous" and a number of joints')
    turns = np.zeros(num_joints, bool) if revolute is None else np.asarray(revolute, bool)
    if turns.shape != (num_joints,):
        raise ValueError(f"revolute has shape {turns.shape}; give {num_joints} truths, one a joint")
    small = np.array(static("effort", effort, num_joints))
    scales = Scales(
        tuple(turns.tolist()),
        static("reach", USUAL_REACH, num_joints),
        static("speed", speed, num_joints),
    )
    # Without a word on the joints a position may be an angle: a period of 2π serves both.
    period = np.where(turns | (revolute is None), 2 * np.pi, 4 * USUAL_REACH)
    start = Start(
        scales,
        effort=small,
        viscous=small * DAMPING_RATE / FULL_ACCELERATION,
        dry=small * DRY_DECELERATION / FULL_ACCELERATION,
        inertia=small / FULL_ACCELERATION,
        gain=np.ones(num_joints),
        period=tuple(period.tolist()),
        driven=checked(driven, num_joints),
    )
    return _build(name, start, _sizes(name, sizes), key)


def for_robot(
    name: str,
    robot: Robot,
    *,
    key: PRNGKeyArray | None = None,
    driven: Truths = None,
    **sizes: Any,
) -> AbstractActuator:
    """An actuator by name that starts at the robot's own damping, friction and gear.

    Where the robot's file gives no friction, it starts small beside the joint's inertia. A `servo` starts at the gains
    and limits that an MJCF file has for it, and drives the joints that have one there. The gear is where `gain`
    starts; a motor takes only its sign. Both drive the joints with a gear and an effort, unless `driven` says which.

    Args:
        name: parts joined by `+`, in any order, as "motor+stribeck".
        robot: the robot, whose numbers must be known: not one that JAX is tracing.
        key: of random weights, as `jax.random.key(0)`; networks need it.
        driven: which joints the command reaches through `gain`, `motor` and `servo`.
        sizes: fields of `Sizes`, as `width=16` of networks or `harmonics=2` of an offset.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(robot)):
        raise ValueError(
            f'actuator "{name}": it starts at numbers of the robot, which JAX is tracing here; make it before, by '
            "actuators.for_robot, and give that"
        )
    inertia = _typical_inertia(robot)
    single = robot.joint_links  # balls and free links have no actuator
    lower, upper, speed, effort = (np.asarray(row, float)[single] for row in jax.tree.leaves(robot.limits))
    gear, damping, friction = np.asarray(robot.gear, float)[single], felt_damping(robot), felt_friction(robot)
    servos = _file_servos(robot) if "servo" in name.split("+") else {}
    if driven is None and servos:
        driven = np.array([k in servos for k in range(len(gear))])
    if driven is None:  # an effort of 0 at every joint is a file that does not know
        driven = (gear != 0) & ((effort > 0) | ~np.any(effort > 0))
    effort = np.where((effort > 0) & np.isfinite(effort), effort, FULL_ACCELERATION * inertia)
    speed = np.where((speed > 0) & np.isfinite(speed), speed, USUAL_SPEED)
    span = upper - lower
    ranged = np.isfinite(span) & (span > 0)
    reach = np.where(ranged, span / 2, USUAL_REACH)
    turns, kinds = robot.tree.revolute[single], np.array(robot.tree.kinds)[single]
    wraps = kinds == "continuous"
    period = np.where(wraps | (turns & ~(ranged & (span < np.pi))), 2 * np.pi, 4 * reach)
    start = Start(
        Scales(*(tuple(row.tolist()) for row in (turns, reach, speed))),
        effort=effort,
        viscous=np.where(damping > 0, damping, DAMPING_RATE * inertia),
        dry=np.where(friction > 0, friction, DRY_DECELERATION * inertia),
        inertia=inertia,
        gain=np.where(gear == 0, 1.0, gear),
        period=tuple(period.tolist()),
        driven=checked(driven, robot.num_joints),
        servos=servos,
    )
    return _build(name, start, _sizes(name, sizes), key)


def _file_servos(robot: Robot) -> dict[int, FileServo]:
    """Servos of positions in the robot's file, by joint."""
    found = formats.servos(robot)
    kept = {k: found[name] for k, name in enumerate(robot.joint_names) if name in found}
    return {k: servo for k, servo in kept.items() if servo.kind == "position"}


def _typical_inertia(robot: Robot) -> np.ndarray:
    """What each joint has to move, from the mass matrix in two poses."""
    robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), robot)
    joints = [part for part in manifold.parts(robot) if part.kind == "single"]
    still = manifold.neutral(robot)
    poses = (still, still.at[np.array([part.q.start for part in joints], int)].set(1.0))
    diagonals = [np.diagonal(np.asarray(batches.mass_matrix(robot, q))) for q in poses]
    inertia = np.maximum(*diagonals)[np.array([part.v.start for part in joints], int)]
    return np.where(np.isfinite(inertia) & (inertia > 0), inertia, 1.0)


def _sizes(name: str, given: dict) -> Sizes:
    known = Sizes.__dataclass_fields__
    for size in given:
        if size not in known:
            raise TypeError(f'actuator "{name}": unknown size "{size}"; use {", ".join(known)}')
    return Sizes(**given)


def _build(name: str, start: Start, sizes: Sizes, key: PRNGKeyArray | None) -> AbstractActuator:
    """Each part gets the key of its kind, so that the order of the names changes nothing."""
    parts = _parts(name)
    if key is None and any(part.startswith("nn-") for part in parts):
        raise ValueError(f'actuator "{name}": networks start at random; give key=jax.random.key(seed)')
    keys = jax.random.split(jax.random.key(0) if key is None else key, len(NAMES))
    if sizes.reduction is not None and "ripple" not in parts:
        raise ValueError(f'actuator "{name}": a reduction is for "ripple", which is not among its parts')
    if sizes.shared_delay is None:
        sizes = replace(sizes, shared_delay="servo" not in parts)
    parts += [part for part in _of_file(start) if "servo" in parts and part not in parts]
    made = {part: BUILDERS[part](start, sizes, keys[NAMES.index(part)]) for part in parts}
    ripple, coupling = made.get("ripple"), made.get("coupling")
    if isinstance(ripple, Ripple) and isinstance(coupling, Coupling):
        made["ripple"] = ripple.turning_with(coupling.rows)
    useful = [part for kind, part in made.items() if kind != "ideal"]
    return combine(*useful) if useful else made["ideal"]


def _parts(name: str) -> list[str]:
    """The parts in the order of `NAMES`, after a look at whether they go together."""
    parts = [part.strip() for part in name.split("+")]
    for part in parts:
        if part not in BUILDERS:
            told = f'unknown part "{part}"{meant(part, NAMES)}; use {", ".join(NAMES)}, joined by +'
            raise ValueError(f'actuator "{name}": {told}')
        if parts.count(part) > 1:
            raise ValueError(f'actuator "{name}": part "{part}" is named twice; name it once')
    for part in parts:
        if part in OF_SERVOS and "servo" not in parts:
            raise ValueError(
                f'actuator "{name}": "{part}" is of a servo\'s goals or gear; add "servo", or leave it out'
            )
    for whole, piece in [(whole, piece) for whole, pieces in CONTAINS.items() for piece in pieces]:
        if whole in parts and piece in parts:
            raise ValueError(f'actuator "{name}": "{whole}" already contains "{piece}"; leave out "{piece}"')
    return sorted(parts, key=NAMES.index)
