"""What predicts accelerations: a robot with actuators."""

import equinox as eqx
from jaxtyping import Array, ArrayLike, Float, Real

from diffnea import dynamics
from diffnea.actuators import AbstractActuator, EnergyClass, Ideal
from diffnea.batches import batched
from diffnea.robot import Robot


class Model(eqx.Module):
    """A robot and the actuators that drive it: `q̈ = forward dynamics under actuator(u, q, q̇)`."""

    robot: Robot
    actuator: AbstractActuator

    def __init__(self, robot: Robot, actuator: AbstractActuator | None = None):
        self.robot = robot
        self.actuator = Ideal(robot.num_joints) if actuator is None else actuator
        if self.actuator.num_joints != robot.num_joints:
            raise ValueError(
                f'Model: the actuator is for {self.actuator.num_joints} joints, robot "{robot.name}" has '
                f"{robot.num_joints}; make both for the same"
            )

    @property
    def num_joints(self) -> int:
        """How many joints move."""
        return self.robot.num_joints

    @property
    def energy_class(self) -> EnergyClass:
        """What is known of the energy without command; the actuator decides, a robot conserves it."""
        return self.actuator.energy_class

    def __call__(
        self, q: Real[ArrayLike, "*#batch n"], qd: Real[ArrayLike, "*#batch n"], u: Real[ArrayLike, "*#batch n"]
    ) -> Float[Array, "*batch n"]:
        """Joint accelerations under the commands `u`."""
        return batched(acceleration, self, q=q, qd=qd, u=u)

    def energy(self, q: Real[ArrayLike, "*#batch n"], qd: Real[ArrayLike, "*#batch n"]) -> Float[Array, "*batch"]:
        """The model's own energy in joules: kinetic and potential, and what its actuators store."""
        return batched(own_energy, self, q=q, qd=qd)


def acceleration(
    model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Joint accelerations of one sample."""
    return dynamics.aba(model.robot, q, qd, model.actuator(u, q, qd))


def own_energy(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, ""]:
    """The model's own energy of one sample."""
    kinetic, potential = dynamics.energies(model.robot, q, qd)
    return kinetic + potential + model.actuator.potential(q)
