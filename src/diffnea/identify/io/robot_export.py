"""What robot files hold of a model: gears, damping in a line, dry friction or its curve; and what they lack."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.actuators import AbstractActuator, Combined, Coupling, Delay, Gain, Motor, Offset, Ripple, Stribeck
from diffnea.actuators.base import Resistance
from diffnea.batching import batched
from diffnea.coupled import handed_back
from diffnea.formats import Curve, Servo
from diffnea.identify.io.servo_export import (
    EXPORT_STATES,
    exported_servos,
    lacking_servo,
    sampling_period,
    with_usual_load,
)
from diffnea.identify.judge.held_out import HeldOut
from diffnea.models import Model
from diffnea.robot import Robot

# Below this share of the highest speed a joint is at rest.
AT_REST = 0.02
# Friction that a straight line meets to this share is one; what it misses by more is said.
STRAIGHT, NOTABLE = 1e-9, 1e-3

# MuJoCo's friction yields as a spring before a joint slides. With what it moves, this one swings at 1/BRISTLES rad/s:
# about as fast as time steps can follow, so that travel before sliding is lost in them.
BRISTLES = 2.5e-4  # s


@dataclass(frozen=True)
class Exported:
    """The robot to write, and what its files cannot say of the model, a sentence each.

    `robot` has friction in a line. `curved` and `curves` are for MJCF, which takes Stribeck's curve too; None leaves
    friction to the file.
    """

    robot: Robot
    lacking: tuple[str, ...]
    curved: Robot
    curves: dict[str, Curve] | None
    servos: dict[str, Servo] | None = None


def exported(model: Model, kept: HeldOut | None = None, curves: bool = True) -> Exported:
    """The model as robot files can have it; friction is met best at the speeds of the data kept back.

    Without `curves` as if MJCF took none.
    """
    actuator, robot = model.actuator, model.robot
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    servos = exported_servos(model, kept) or None
    if actuator.energy_class == "conserving" and not any(isinstance(part, Gain) for part in parts):
        return Exported(robot, (*_delays(parts), *_lacking(parts)), robot, None)
    q, qd = _states(robot, kept)
    columns = [np.asarray(array).T for array in (qd, *_resistances(model, q, qd))]
    rubbing = [_Rubbing(*joint) for joint in zip(*columns, strict=True)]
    dry, viscous, missed = (np.array(column) for column in zip(*map(_line, rubbing), strict=True))
    friction, damping = _rubbing_at_links(robot, dry, viscous)
    robot = replace(_geared(robot, parts), friction=friction, damping=damping)
    robot = with_usual_load(model, robot, kept)
    bent = np.flatnonzero(missed > NOTABLE * (dry + viscous * np.abs(qd).max(0))).tolist()
    found = {k: curve for k in bent if curves and (curve := _stribeck(parts, k, rubbing[k]))}
    said = [*_bent(robot, missed, [*found], ", in the URDF: it has")]
    said += _bent(robot, missed, [k for k in bent if k not in found], ": they have")
    late = [] if servos and sampling_period(kept) is not None else list(_delays(parts))
    said += [*late, *_lacking(parts), *lacking_servo(model, kept)]
    return Exported(robot, tuple(said), *_curved(robot, found, q), servos)


def _at_links(robot: Robot, numbers: Float[np.ndarray, " n"]) -> Float[Array, " links"]:
    """Numbers of joints at their links; free links and balls have none."""
    found = np.zeros(robot.num_links)
    found[robot.joint_links] = numbers
    return jnp.asarray(found)


def _rubbing_at_links(robot: Robot, dry: np.ndarray, viscous: np.ndarray) -> tuple[Array, Array]:
    """Dry friction and damping at links; joints that follow keep their shares of what is felt where they are led."""
    if robot.couplings is None:
        return _at_links(robot, dry), _at_links(robot, viscous)
    own = np.asarray(robot.friction, float), np.asarray(robot.damping, float)
    found = handed_back(robot, own[0], dry, 1), handed_back(robot, own[1], viscous, 2)
    return jnp.asarray(found[0]), jnp.asarray(found[1])


def _resistances(model: Model, q: Float[np.ndarray, "state n"], qd: Float[np.ndarray, "state n"]) -> Resistance:
    """Of joint states; a free robot's own functions ask for its base as well."""
    if model.robot.tree.simple:
        return batched(_resistance, model, q=q, qd=qd)
    return jax.vmap(model.actuator.resistance)(jnp.asarray(q), jnp.asarray(qd))


def _resistance(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
    return model.actuator.resistance(q, qd)


def _states(robot: Robot, kept: HeldOut | None) -> tuple[np.ndarray, np.ndarray]:
    """Where and how fast the joints were; all speeds up to one, of every joint alone, where nothing is known."""
    if kept is None:
        speed = np.linspace(1 / EXPORT_STATES, 1, EXPORT_STATES)[:, None] * np.ones(robot.num_joints)
        return np.zeros_like(speed), speed
    q, qd = (np.concatenate([getattr(track, key) for track in kept.tracks]) for key in ("q", "qd"))
    rows = np.unique(np.linspace(0, len(q) - 1, EXPORT_STATES).astype(int))
    return q[rows], qd[rows]


class _Rubbing(NamedTuple):
    """A joint's velocities in some states, and what opposes its motion there."""

    qd: np.ndarray
    dry: np.ndarray
    viscous: np.ndarray


def _line(joint: _Rubbing) -> tuple[float, float, float]:
    """Dry friction and damping nearest to what opposes the motion, and by how much they miss it at most."""
    from scipy.optimize import nnls  # slow to import, and seldom needed

    speed = np.abs(joint.qd)
    moves = speed > AT_REST * speed.max(initial=0.0)
    if not moves.any() or max(map(_change, joint[1:])) < STRAIGHT:
        return float(joint.dry[0]), float(joint.viscous[0]), 0.0
    speed, force = speed[moves], (joint.dry + joint.viscous * speed)[moves]
    columns = np.column_stack([np.ones_like(speed), speed])
    found, _ = nnls(columns, force)
    return float(found[0]), float(found[1]), float(np.abs(columns @ found - force).max())


def _change(values: np.ndarray) -> float:
    """By what share of the largest some numbers, none of them negative, differ."""
    return float(np.ptp(values) / max(values.max(), 1e-300))


class _Stribeck(NamedTuple):
    """Dry friction of a joint at speed and at rest, the speed at which it changes, and viscous friction."""

    kinetic: float
    static: float
    speed: float
    viscous: float


def _stribeck(parts: tuple[AbstractActuator, ...], k: int, joint: _Rubbing) -> _Stribeck | None:
    """The curve that a joint's friction is, if it is one: Stribeck's, and nothing else that changes with the state."""
    bends = [part for part in parts if isinstance(part, Stribeck)]
    if len(bends) != 1:
        return None
    kinetic, static, shape = (float(getattr(bends[0], name)[k]) for name in ("kinetic", "static", "shape"))
    still = np.exp(-shape * joint.qd**2)
    rest = joint.dry - kinetic * (1 - still) - static * still
    if np.ptp(rest) > STRAIGHT * joint.dry.max() or _change(joint.viscous) > STRAIGHT:
        return None
    other = max(float(rest.mean()), 0.0)  # rounding, where there is no other
    return _Stribeck(kinetic + other, static + other, shape**-0.5, float(joint.viscous[0]))


def _curved(robot: Robot, found: dict[int, _Stribeck], q: np.ndarray) -> tuple[Robot, dict[str, Curve]]:
    """The robot with friction at speed where there are curves, and these, with bristles that suit what they move."""
    if not found:
        return robot, {}
    mobility = np.linalg.inv(np.asarray(batched(dynamics.crba, robot, q=q)))
    stiffness = 1 / (np.diagonal(mobility, axis1=1, axis2=2).max(0) * BRISTLES**2)
    friction, damping = np.array(robot.friction), np.array(robot.damping)
    for k, curve in found.items():
        link = robot.joint_links[k]
        friction[link], damping[link] = curve.kinetic, curve.viscous
    names = robot.joint_names
    curves = {names[k]: Curve(curve.static, curve.speed, float(stiffness[k])) for k, curve in found.items()}
    return replace(robot, friction=jnp.asarray(friction), damping=jnp.asarray(damping)), curves


def _geared(robot: Robot, parts: tuple[AbstractActuator, ...]) -> Robot:
    """With the torque per unit of command, where that was learned."""
    factors = [np.asarray(part.gain if isinstance(part, Gain) else part.torque_per_volt) for part in _drives(parts)]
    driven = [np.array(part.driven, bool) for part in _drives(parts) if part.driven is not None]
    if not factors:
        return robot
    gear = np.asarray(robot.gear, float).copy()
    gear[robot.joint_links] = np.where(np.all(driven, axis=0), np.prod(factors, axis=0), 0.0)
    return replace(robot, gear=jnp.asarray(gear))


def _drives(parts: tuple[AbstractActuator, ...]) -> list[Gain | Motor]:
    return [part for part in parts if isinstance(part, (Gain, Motor))]


def _bent(robot: Robot, missed: Float[np.ndarray, " n"], bent: list[int], where: str) -> Iterator[str]:
    """Which friction is no straight line over speed, where it is written as one."""
    if bent:
        names = ", ".join(robot.joint_names[k] for k in bent)
        worst = max(bent, key=lambda k: missed[k])
        unit = "N·m" if robot.turning[worst] else "N"
        off = f"off by up to {missed[worst]:.2g} {unit} ({robot.joint_names[worst]})"
        yield f"how friction changes with speed ({names}){where} the nearest straight line, {off}"


def _delays(parts: tuple[AbstractActuator, ...]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Delay):
            yield f"the input delay of {float(np.max(np.asarray(part.delay))):.3g} samples"


def _lacking(parts: tuple[AbstractActuator, ...]) -> Iterator[str]:
    """What has no place in a robot file."""
    for part in parts:
        if isinstance(part, Ripple):
            yield "torques that come again with every turn of a motor (ripple)"
        elif isinstance(part, Offset):
            yield "torques that joints feel at rest (offset)"
        elif isinstance(part, Coupling):
            yield "friction and rotors of motors that turn with several joints (coupling)"
        elif isinstance(part, Gain) and part.raw_limit is not None:
            yield "where the command saturates"
        elif part.energy_class == "unbounded" and part.integral is None:
            yield "the torque of a network"
