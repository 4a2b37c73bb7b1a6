"""What servos keep from one inner step to the next: where the profile of their goals is, and the integral of errors.

It travels through roll-outs as a tuple of arrays, one entry a joint, empty where an actuator keeps nothing.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.actuators import AbstractActuator
from diffnea.models import AbstractModel, Model

Memory = tuple[Array, ...]


class Kept(NamedTuple):
    """A memory by its meaning; None is what an actuator does not keep."""

    goal: Float[Array, " n"] | None = None
    rate: Float[Array, " n"] | None = None
    integral: Float[Array, " n"] | None = None  # of g − q over time, in rad·s

    @classmethod
    def of(cls, actuator: AbstractActuator, memory: Memory) -> "Kept":
        """Of what travels; of nothing, an actuator whose goals have arrived and whose integral is 0."""
        if not memory:
            return cls()
        goal, rate = memory[:2] if actuator.profile is not None else (None, None)
        return cls(goal, rate, memory[-1] if actuator.integral is not None else None)

    @property
    def memory(self) -> Memory:
        """As it travels."""
        return tuple(each for each in self if each is not None)

    def acting(self, actuator: AbstractActuator, told: Float[Array, " n"]) -> Float[Array, " n"]:
        """The goal that the position loop follows while its servo is told another: `kp (acting − q)` has ki's part."""
        goal = told if self.goal is None else self.goal
        return goal if self.integral is None else goal + _per_stiffness(actuator) * self.integral

    def towards(self, actuator: AbstractActuator, told: Float[Array, " n"], h: Float[Array, ""]) -> "Kept":
        """A time h later, on the way to the goal that is told."""
        if self.goal is None or self.rate is None or actuator.profile is None:
            return self
        goal, rate = actuator.profile.advance(self.goal, self.rate, told, h)
        return self._replace(goal=goal, rate=rate)

    def summed(
        self, actuator: AbstractActuator, told: Float[Array, " n"], q: Float[Array, " n"], h: Float[Array, ""]
    ) -> "Kept":
        """With the error of a time h, up to where its torque alone is the most that the servo gives."""
        if self.integral is None:
            return self
        goal = told if self.goal is None else self.goal
        return self._replace(integral=_clamped(actuator, self.integral + h * (goal - q)))


def keeps(actuator: AbstractActuator) -> bool:
    """Whether an actuator keeps anything."""
    return actuator.profile is not None or actuator.integral is not None


def at_rest(model: AbstractModel, q: Float[Array, " n"], told: Float[Array, " goals"]) -> Memory:
    """What is kept where a robot has rested at q under these goals: they have arrived, the integral holds the weight.

    Goals may be told as `servo_step` takes them, those of a sample's end first.
    """
    if not isinstance(model, Model):
        return ()
    actuator, n = model.actuator, model.num_joints
    if actuator.loop is None or not keeps(actuator):
        return ()
    actuator = actuator.at_gain(told[2 * n :]) if len(told) == 3 * n else actuator
    goal, none = told[:n], jnp.zeros_like(q)
    way = (goal, none) if actuator.profile is not None else (None, None)
    if actuator.integral is None:
        return Kept(*way).memory
    outside = dynamics.bias(model.robot, q, none) + actuator.restoring(q)
    assert actuator.loop is not None
    missing = outside - actuator.loop.torque(goal - q, none)
    needed = jnp.where(actuator.integral > 0, missing / jnp.where(actuator.integral > 0, actuator.integral, 1.0), 0.0)
    return Kept(*way, _clamped(actuator, needed)).memory


def _per_stiffness(actuator: AbstractActuator) -> Float[Array, " n"]:
    """ki/kp: how far a goal would have to be off for the torque of an integral of 1."""
    assert actuator.loop is not None and actuator.integral is not None
    stiffness = actuator.loop.stiffness
    return jnp.where(stiffness > 0, actuator.integral / jnp.where(stiffness > 0, stiffness, 1.0), 0.0)


def _clamped(actuator: AbstractActuator, integral: Float[Array, " n"]) -> Float[Array, " n"]:
    """Against windup: what a torque limit would cut off is not summed."""
    if actuator.bounds is None or actuator.integral is None:
        return integral
    most = actuator.bounds[0] / jnp.maximum(actuator.integral, 1e-12)
    return jnp.clip(integral, -most, most)
