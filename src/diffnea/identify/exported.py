"""What a robot file holds of a model: gears, damping in a line, dry friction of one height; and what it lacks."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators import AbstractActuator, Combined, Coupling, Delay, Gain, Motor, Offset
from diffnea.actuators.base import Resistance
from diffnea.batches import batched
from diffnea.identify.held_out import HeldOut
from diffnea.models import Model
from diffnea.robot import Robot

# So many measured states say which speeds count; below this share of the highest a joint is at rest.
STATES, AT_REST = 512, 0.02
# Friction that a straight line meets to this share is one; what it misses by more is said.
STRAIGHT, NOTABLE = 1e-9, 1e-3


@dataclass(frozen=True)
class Exported:
    """The robot to write, and what its file cannot say of the model, a sentence each."""

    robot: Robot
    lacking: tuple[str, ...]


def exported(model: Model, kept: HeldOut | None = None) -> Exported:
    """The model as a robot file can have it; friction is met best at the speeds of the data kept back."""
    actuator, robot = model.actuator, model.robot
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    if actuator.energy_class == "conserving" and not any(isinstance(part, Gain) for part in parts):
        return Exported(robot, tuple(_lacking(parts)))
    q, qd = _states(robot, kept)
    lost = batched(_resistance, model, q=q, qd=qd)
    lines = [_line(*(np.asarray(array)[:, k] for array in (qd, *lost))) for k in range(robot.num_joints)]
    dry, viscous, missed = (np.array(column) for column in zip(*lines, strict=True))
    robot = replace(_geared(robot, parts), friction=jnp.asarray(dry), damping=jnp.asarray(viscous))
    return Exported(robot, (*_bent(robot, missed, dry + viscous * np.abs(qd).max(0)), *_lacking(parts)))


def _resistance(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
    return model.actuator.resistance(q, qd)


def _states(robot: Robot, kept: HeldOut | None) -> tuple[np.ndarray, np.ndarray]:
    """Where and how fast the joints were; all speeds up to one, of every joint alone, where nothing is known."""
    if kept is None:
        speed = np.linspace(1 / STATES, 1, STATES)[:, None] * np.ones(robot.num_joints)
        return np.zeros_like(speed), speed
    q, qd = (np.concatenate([getattr(track, key) for track in kept.tracks]) for key in ("q", "qd"))
    rows = np.unique(np.linspace(0, len(q) - 1, STATES).astype(int))
    return q[rows], qd[rows]


def _line(qd: np.ndarray, dry: np.ndarray, viscous: np.ndarray) -> tuple[float, float, float]:
    """Dry friction and damping nearest to what opposes the motion, and by how much they miss it at most."""
    from scipy.optimize import nnls  # slow to import, and seldom needed

    speed = np.abs(qd)
    moves = speed > AT_REST * speed.max(initial=0.0)
    if not moves.any() or max(np.ptp(dry) / max(dry.max(), 1e-300), np.ptp(viscous) / max(viscous.max(), 1e-300)) < (
        STRAIGHT
    ):
        return float(dry[0]), float(viscous[0]), 0.0
    speed, force = speed[moves], (dry + viscous * speed)[moves]
    columns = np.column_stack([np.ones_like(speed), speed])
    found, _ = nnls(columns, force)
    return float(found[0]), float(found[1]), float(np.abs(columns @ found - force).max())


def _geared(robot: Robot, parts: tuple[AbstractActuator, ...]) -> Robot:
    """With the torque per unit of command, where that was learned."""
    factors = [np.asarray(part.gain if isinstance(part, Gain) else part.torque_per_volt) for part in _drives(parts)]
    driven = [np.array(part.driven, bool) for part in _drives(parts) if part.driven is not None]
    if not factors:
        return robot
    gear = np.where(np.all(driven, axis=0), np.prod(factors, axis=0), 0.0)
    return replace(robot, gear=jnp.asarray(gear))


def _drives(parts: tuple[AbstractActuator, ...]) -> list[Gain | Motor]:
    return [part for part in parts if isinstance(part, (Gain, Motor))]


def _bent(robot: Robot, missed: Float[np.ndarray, " n"], whole: Float[np.ndarray, " n"]) -> Iterator[str]:
    """Which friction is no straight line over speed."""
    bent = np.flatnonzero(missed > NOTABLE * whole)
    if len(bent):
        names = ", ".join(robot.joint_names[k] for k in bent)
        worst = int(bent[np.argmax(missed[bent])])
        unit = "N·m" if robot.tree.revolute[worst] else "N"
        off = f"off by up to {missed[worst]:.2g} {unit} ({robot.joint_names[worst]})"
        yield f"how friction changes with speed ({names}): they have the nearest straight line, {off}"


def _lacking(parts: tuple[AbstractActuator, ...]) -> Iterator[str]:
    """What has no place in a robot file."""
    for part in parts:
        if isinstance(part, Delay):
            yield f"the input delay of {float(np.max(np.asarray(part.delay))):.3g} samples"
        elif isinstance(part, Offset):
            yield "torques that joints feel at rest (offset)"
        elif isinstance(part, Coupling):
            yield "friction of motors that turn with several joints (coupling)"
        elif isinstance(part, Gain) and part.raw_limit is not None:
            yield "where the command saturates"
        elif part.energy_class == "unbounded":
            yield "the torque of a network"
