"""Actuators of joints in a robot that has balls and free links besides, which nothing drives."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators.base import AbstractActuator, EnergyClass, Resistance, Stage
from diffnea.canonical import AnyRobot
from diffnea.manifold import parts


@final
class OnJoints(AbstractActuator):
    """The same actuator, asked with the whole robot's q and q̇: its torques in their places, zero elsewhere."""

    actuator: AbstractActuator
    positions: tuple[int, ...] = eqx.field(static=True)  # where its joints stand in q, and in q̇
    velocities: tuple[int, ...] = eqx.field(static=True)
    num_velocities: int = eqx.field(static=True)

    @property
    def num_joints(self) -> int:
        return self.actuator.num_joints

    @property
    def energy_class(self) -> EnergyClass:
        return self.actuator.energy_class

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.positions, np.int32), np.array(self.velocities, np.int32)

    def _own(self, q: Array, qd: Array) -> tuple[Array, Array]:
        at, moving = self._places()
        return q[at], qd[moving]

    def _spread(self, torque: Array) -> Array:
        places = np.full(self.num_velocities, len(torque), np.int32)
        places[self._places()[1]] = np.arange(len(torque))
        return jnp.concatenate([torque, jnp.zeros(1, torque.dtype)])[places]

    def drive(self, u: Float[Array, " n"], q: Float[Array, " nq"], qd: Float[Array, " nv"]) -> Float[Array, " nv"]:
        return self._spread(self.actuator.drive(u, *self._own(q, qd)))

    def potential(self, q: Float[Array, " nq"]) -> Float[Array, ""]:
        return self.actuator.potential(q[self._places()[0]])

    def restoring(self, q: Float[Array, " nq"]) -> Float[Array, " nv"]:
        return self._spread(self.actuator.restoring(q[self._places()[0]]))

    def resistance(self, q: Float[Array, " nq"], qd: Float[Array, " nv"]) -> Resistance:
        lost = self.actuator.resistance(*self._own(q, qd))
        return Resistance(self._spread(lost.dry), self._spread(lost.viscous))

    @property
    def turning(self) -> tuple[tuple[float, ...], ...]:
        rows = np.zeros((len(self.actuator.turning), self.num_velocities))
        if len(rows):
            rows[:, self._places()[1]] = self.actuator.turning
        return tuple(tuple(row) for row in rows.tolist())

    @property
    def rotors(self) -> Float[Array, " k"]:
        return self.actuator.rotors

    def shared(
        self, q: Float[Array, " nq"], qd: Float[Array, " nv"], way: Float[Array, " k"] | None = None
    ) -> Float[Array, " nv"]:
        return self._spread(self.actuator.shared(*self._own(q, qd), way))

    def residual(self, u: Float[Array, " n"], q: Float[Array, " nq"], qd: Float[Array, " nv"]) -> Float[Array, " nv"]:
        return self._spread(self.actuator.residual(u, *self._own(q, qd)))

    @property
    def grows_with_load(self) -> bool:
        return self.actuator.grows_with_load

    def loaded(
        self, motor: Float[Array, " nv"], outside: Float[Array, " nv"], qd: Float[Array, " nv"]
    ) -> Float[Array, " nv"]:
        moving = self._places()[1]
        return self._spread(self.actuator.loaded(motor[moving], outside[moving], qd[moving]))

    @property
    def delay(self) -> Float[Array, " n"]:
        return self.actuator.delay

    @property
    def most_delay(self) -> int:
        return self.actuator.most_delay

    @property
    def stage(self) -> Stage:
        return self.actuator.stage


def on_joints(actuator: AbstractActuator, robot: AnyRobot) -> AbstractActuator:
    """The actuator as the robot's q and q̇ ask for it: itself, where every joint has one coordinate."""
    if robot.tree.simple:
        return actuator
    single = [part for part in parts(robot) if part.kind == "single"]
    places = tuple(part.q.start for part in single), tuple(part.v.start for part in single)
    return OnJoints(actuator, *places, robot.num_velocities)
