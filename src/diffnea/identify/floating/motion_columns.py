"""Columns: the equations of motion of a free base as `A φ = b`, linear in masses, moments, rotors and friction.

With φ the ten inertial parameters of every link, the rotors' inertias, viscous and Coulomb friction of the joints,

    Y(q, q̇, q̈) π + armature q̈ + viscous q̇ + dry sign q̇ = τ     at the joints,
    Y(q, q̇, q̈) π = 0                                            at the base, in the air.

An accelerometer that is off by a bias, turned, or elsewhere than it says adds columns of its own: `M[:, :3]` times what
that does to the base's acceleration. A gyroscope's bias enters by products of velocities: its columns are slopes at the
robot as given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import batches
from diffnea.coupled import felt_damping, felt_friction
from diffnea.identify.floating.stretches import Stretch
from diffnea.identify.problem.besides_bodies import besides_bodies
from diffnea.models import Model
from diffnea.robot import Robot

BASE = 6
# Of an inertial sensor: bias m/s², turn rad and place m, bias of the gyroscope rad/s, of each three; how far off each
# is expected to be.
IMU_ERRORS = ("accelerometer bias", "accelerometer turned about", "accelerometer place", "gyroscope bias")
WANDERS = ("accelerometer bias", "gyroscope bias")  # from one log to the next
IMU_EXPECTED = np.repeat([0.2, 0.02, 0.005, 0.02], 3)
# Rows of the base's equation, for people.
BASE_ROWS = (*(f"base force {axis}" for axis in "xyz"), *(f"base moment {axis}" for axis in "xyz"))


@dataclass(frozen=True)
class Beside:
    """Numbers beside those of robot and friction, zero where all is as it says: a name each, how far off it may be."""

    labels: tuple[str, ...] = ()
    expected: tuple[float, ...] = ()

    @classmethod
    def of(cls, imu: bool) -> "Beside":
        """Those of an inertial sensor, where there is one."""
        labels = tuple(f"{what} {axis}" for what in IMU_ERRORS for axis in "xyz")
        return cls(labels, tuple(IMU_EXPECTED)) if imu else cls()


def numbers(model: Model) -> Float[Array, " m"]:
    """φ of a model, without a sensor's part: inertial parameters, rotors, viscous and Coulomb friction."""
    robot, n = model.robot, model.num_joints
    lost = model.actuator.resistance(jnp.zeros(n), jnp.ones(n))
    parts = robot.inertia.parameters.ravel(), robot.armature[robot.joint_links.astype(np.int32)]
    return jnp.concatenate([*parts, lost.viscous, lost.dry])


def given_numbers(robot: Robot, imu: bool) -> Float[np.ndarray, " m"]:
    """φ of the robot as its file has it, friction included, and of a sensor that is as it says."""
    rotors = np.asarray(robot.armature)[robot.joint_links]
    parts = np.asarray(robot.inertia.parameters).ravel(), rotors, felt_damping(robot), felt_friction(robot)
    return np.concatenate([*parts, np.zeros(len(IMU_EXPECTED) * imu)])


def states(stretch: Stretch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, q̇ and q̈ of the whole robot, in a frame that moves and turns with the base and has no gravity."""
    count = len(stretch)
    still = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (count, 1))
    q = np.column_stack([still, stretch.q])
    qd = np.column_stack([np.zeros((count, 3)), stretch.rates, stretch.qd])
    return q, qd, np.column_stack([stretch.proper, stretch.turning, stretch.qdd])


def columns(robot: Robot, stretch: Stretch, imu: bool) -> Float[np.ndarray, "time v m"]:
    """A and b side by side, b last."""
    weightless = replace(robot, gravity=jnp.zeros_like(robot.gravity))
    q, qd, qdd = states(stretch)
    Y = np.asarray(batches.regressor(weightless, q, qd, qdd))
    on_joints = np.concatenate([np.zeros((BASE, robot.num_joints)), np.eye(robot.num_joints)])
    rates = [x[:, None, :] * on_joints for x in (stretch.qdd, stretch.qd, np.sign(stretch.qd))]
    parts = [Y, *rates, *([_sensor(weightless, q, stretch)] if imu else [])]
    wanted = np.column_stack([np.zeros((len(q), BASE)), stretch.u]) - _given(robot, q, qd, qdd)
    return np.concatenate([*parts, wanted[:, :, None]], axis=2)


def _given(robot: Robot, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray | float:
    """What the file's springs take, and the rotors of joints that follow others."""
    if robot.couplings is None and not robot.stores:
        return 0.0
    led = robot.armature.at[robot.joint_links.astype(np.int32)].set(0.0)
    return besides_bodies(replace(robot, armature=led), q, qd, qdd)


def _sensor(robot: Robot, q: Float[np.ndarray, "time nq"], stretch: Stretch) -> Float[np.ndarray, "time v 12"]:
    """How the equations change with a bias, a turn and another place of the accelerometer, and the gyroscope's bias."""
    M = np.asarray(batches.mass_matrix(robot, q))[:, :, :3]
    moved = skew(stretch.turning) + skew(stretch.rates) @ skew(stretch.rates)
    effects = np.broadcast_to(-np.eye(3), moved.shape), -skew(stretch.proper), -moved
    return np.concatenate([*(M @ effect for effect in effects), _gyroscope(robot, M, stretch)], axis=2)


def _gyroscope(robot: Robot, M: Float[np.ndarray, "time v 3"], stretch: Stretch) -> Float[np.ndarray, "time v 3"]:
    """Rates less their bias: central differences, exact since the equations are of second order in velocities."""
    found, arm = [], stretch.arm
    q, qd, qdd = states(stretch)
    for axis in np.eye(3):
        off = np.concatenate([np.zeros(3), axis, np.zeros(qd.shape[1] - 6)])
        less, more = (np.asarray(batches.inverse_dynamics(robot, q, qd + sign * off, qdd)) for sign in (-1, 1))
        # The acceleration at the base's origin has − ω × (ω × r) in it, with the sensor at r.
        lever = np.cross(axis, np.cross(stretch.rates, arm)) + np.cross(stretch.rates, np.cross(axis, arm))
        found.append((less - more) / 2 + (M @ lever[:, :, None])[:, :, 0])
    return np.stack(found, axis=2)


def skew(v: Float[np.ndarray, "time 3"]) -> Float[np.ndarray, "time 3 3"]:
    """`[v] w = v × w`."""
    x, y, z = v.T
    o = np.zeros_like(x)
    return np.stack([o, -z, y, z, o, -x, -y, x, o], axis=1).reshape(-1, 3, 3)


def sizes(robot: Robot, stretches: Sequence[Stretch]) -> Float[np.ndarray, " v"]:
    """How large the terms of each equation are: torques at the joints, at the base what links take, by themselves."""
    found = []
    pi = np.asarray(batches.inertial_parameters(robot), float)
    for stretch in stretches:
        some = stretch.take(slice(None, None, max(1, len(stretch) // 500)))
        table = columns(robot, some, False)
        own = (table[:, :, : len(pi)] * pi).reshape(*table.shape[:2], -1, 10).sum(3)
        found.append(np.sqrt(np.sum(own**2, axis=2) + table[:, :, -1] ** 2))
    usual = np.sqrt(np.mean(np.square(np.concatenate(found)), axis=0))
    return np.where(usual > 0, usual, usual.max(initial=0.0) or 1.0)
