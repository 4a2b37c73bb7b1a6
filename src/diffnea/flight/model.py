"""Flyer: a flying body with rotors. Thrust and drag by physics, with trims of the flight's own past, and what these
leave of the state ahead by a regression on past and commands.

A controller holds the attitude of such a body, and on-board streams arrive late by times that wander: moments that are
integrated open loop lead away within a tenth of a second. So attitude and rates are not integrated: they are regressed.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from diffnea.actuators import EnergyClass
from diffnea.flight.features import features
from diffnea.flight.rotations import rotated, rotated_back, turned
from diffnea.flight.rotor import Rotor
from diffnea.flight.state import Flight
from diffnea.manifold import rotation_of
from diffnea.models import AbstractModel
from diffnea.robot import Robot

# Trims are what thrust and drag have left of the last so many seconds; fewer than these tell nothing.
TRIM, LEAST_TRIM = 0.5, 0.2


class State(NamedTuple):
    """Where a body is: position m, velocity m/s, attitude w x y z, rates rad/s; a row a window."""

    position: Float[np.ndarray, "w 3"]
    velocity: Float[np.ndarray, "w 3"]
    attitude: Float[np.ndarray, "w 4"]
    rates: Float[np.ndarray, "w 3"]


@final
class Ahead(eqx.Module):
    """A regression for each of several horizons, on features that are centred and scaled."""

    centre: Float[Array, " f"]
    scale: Float[Array, " f"]
    weight: Float[Array, "h f 12"]
    offset: Float[Array, "h 12"]
    horizons: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, rows: Float[np.ndarray, "w f"], which: int) -> Float[np.ndarray, "w 12"]:
        """What physics leave: position, velocity, turn and rates, in the body's axes at the start."""
        scaled = (rows - np.asarray(self.centre)) / np.asarray(self.scale)
        return scaled @ np.asarray(self.weight[which]) + np.asarray(self.offset[which])


@final
class Flyer(AbstractModel):
    """A free body under its rotors: `v̇ = thrust (tilt, 1) − drag v + g`, in its own axes; u are the rotors' y."""

    robot: Robot
    rotor: Rotor
    tilt: Float[Array, "2"]  # of the thrust, x and y by z, as the body's frame sees it
    drag: Float[Array, "2"]  # 1/s, across and along the thrust
    ahead: Ahead | None
    rotors: int = eqx.field(static=True)

    @property
    def num_joints(self) -> int:
        """How many inputs it has: one a rotor."""
        return self.rotors

    @property
    def num_positions(self) -> int:
        return 7

    @property
    def num_velocities(self) -> int:
        return 6

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    def predict(self, q: Float[Array, "7"], qd: Float[Array, "6"], u: Float[Array, " r"]) -> Float[Array, "6"]:
        """Of one sample; rates stay as they are, since moments are not known."""
        thrust, drag = self.rotor.thrust(u), self._drag()
        push = thrust * jnp.concatenate([self.tilt, jnp.ones(1)]) - drag * qd[:3]
        fall = rotation_of(q[3:]).T @ self.robot.gravity
        return jnp.concatenate([push + fall - jnp.cross(qd[3:], qd[:3]), jnp.zeros(3)])

    def _drag(self) -> Float[Array, "3"]:
        return self.drag[np.array([0, 0, 1], np.int32)]

    def pushes(self, flight: Flight) -> tuple[Float[np.ndarray, "time 3"], Float[np.ndarray, "time 3"]]:
        """Thrust per mass in the body's axes, and what it, drag and gravity do to the velocity, in the world's."""
        driven = self.rotor.driven(flight.time, flight.rotors, flight.battery)
        thrust = np.asarray(self.rotor.thrust(jnp.asarray(driven)))[:, None] * np.append(np.asarray(self.tilt), 1.0)
        own = thrust - np.asarray(self._drag()) * rotated_back(flight.attitude, flight.velocity)
        return thrust, rotated(flight.attitude, own) + np.asarray(self.robot.gravity)

    def falling(
        self, flight: Flight, first: Int[np.ndarray, " w"], last: Int[np.ndarray, " w"]
    ) -> tuple[Float[np.ndarray, "w 3"], Float[np.ndarray, "w 3"], Float[np.ndarray, "w 3"]]:
        """How far velocity and attitude held lead astray, by thrust, drag and trim; of position and velocity; the trim.

        In the body's axes at the start. The trim is what thrust and drag have left of the last half a second.
        """
        thrust, world = self.pushes(flight)
        gone = np.concatenate([np.zeros((1, 3)), np.cumsum(np.nan_to_num(world) * flight.steps[:, None], axis=0)])
        turn, dt = flight.attitude[first], float(np.median(flight.steps))
        before = np.maximum(first - round(TRIM / dt), 0)
        span = flight.time[first] - flight.time[before]
        missed = flight.velocity[first] - flight.velocity[before] - (gone[first] - gone[before])
        missed = np.where((span > LEAST_TRIM)[:, None], missed / np.maximum(span, 1e-9)[:, None], 0.0)
        trim = rotated_back(turn, missed)
        steady = trim + rotated_back(turn, np.broadcast_to(np.asarray(self.robot.gravity), trim.shape))
        start = rotated_back(turn, flight.velocity[first])
        position, velocity, drag = np.zeros_like(start), start.copy(), np.asarray(self._drag())
        for k in range(int((last - first).max(initial=0))):
            at = np.minimum(first + k, last - 1)
            h = np.where(first + k < last, flight.steps[at], 0.0)[:, None]
            push = thrust[at] - drag * velocity + steady
            position, velocity = position + h * velocity + h**2 / 2 * push, velocity + h * push
        length = (flight.time[last] - flight.time[first])[:, None]
        return position - length * start, velocity - start, trim

    def rows(self, flight: Flight, first: np.ndarray, last: np.ndarray) -> Float[np.ndarray, "w f"]:
        """What the regression sees: past, commands, and what physics say."""
        return np.concatenate([features(flight, first, last), *self.falling(flight, first, last)], axis=1)

    def after(self, flight: Flight, first: np.ndarray, last: np.ndarray, which: int | None = None) -> State:
        """The state at the last samples of windows, from everything up to their first, and rotors and battery after it.

        `which` of the horizons the windows have; None: by physics alone, the attitude held and rates calmed.
        """
        place, speed, _ = self.falling(flight, first, last)
        moved = np.concatenate([place, speed, np.zeros((len(first), 6))], axis=1)
        if which is not None:
            assert self.ahead is not None
            moved = moved + self.ahead(self.rows(flight, first, last), which)
        turn, length = flight.attitude[first], (flight.time[last] - flight.time[first])[:, None]
        return State(
            flight.position[first] + length * flight.velocity[first] + rotated(turn, moved[:, :3]),
            flight.velocity[first] + rotated(turn, moved[:, 3:6]),
            turned(turn, moved[:, 6:9]),
            moved[:, 9:],
        )
