"""The two systems of the benchmark: their robots, the range they work in, their sensors and a controller."""

from importlib import resources

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.formats import load_robot
from diffnea.robot import Limits, Robot
from diffnea.systems.swing_up import SwingUp, swing_up


class Sensors(eqx.Module):
    """How a system is measured: standard deviations of what is added to states and inputs, and encoder steps."""

    position_noise: Float[Array, " n"]
    velocity_noise: Float[Array, " n"]
    input_noise: Float[Array, " n"]
    encoder_step: Float[Array, " n"]


class System(eqx.Module):
    """A machine to learn from. Its robot carries the viscous friction of its joints as `damping`."""

    robot: Robot
    limits: Limits  # where it works: the range of positions, speeds and inputs that data are drawn from
    sensors: Sensors
    swing_up: SwingUp  # (t, q, qd) -> u
    name: str = eqx.field(static=True)
    dt: float = eqx.field(static=True, default=1 / 250)

    @property
    def driven(self) -> np.ndarray:
        """Which joints have a motor."""
        return np.asarray(self.limits.effort) > 0


def cartpole() -> System:
    """The Quanser linear servo IP02 with its short pole: a cart on a rail, driven, and a free pole."""
    robot = _robot("cartpole")
    return System(
        robot=robot,
        limits=_limits(lower=(-0.35, -np.pi), upper=(0.35, np.pi), velocity=(1.5, 15.0), effort=(10.0, 0.0)),
        sensors=_sensors(counts=(2.275e-5, 2 * np.pi / 4096), speed=(1.5, 15.0), effort=10.0),
        swing_up=swing_up(robot, limit=10.0, strength=6.0, stiffness=8.0, slowing=3.0, overshoot=0.08),
        name="cartpole",
    )


def furuta() -> System:
    """The Quanser Qube-Servo 2: a horizontal arm, driven, and a free pendulum at its tip."""
    robot = _robot("furuta")
    step = 2 * np.pi / 2048
    return System(
        robot=robot,
        limits=_limits(lower=(-2.0, -np.pi), upper=(2.0, np.pi), velocity=(15.0, 25.0), effort=(0.05, 0.0)),
        sensors=_sensors(counts=(step, step), speed=(15.0, 25.0), effort=0.05),
        swing_up=swing_up(robot, limit=0.05, strength=50.0, stiffness=30.0, slowing=2.0, overshoot=0.15),
        name="furuta",
    )


def _robot(name: str) -> Robot:
    with resources.as_file(resources.files("diffnea.systems") / f"{name}.urdf") as path:
        return load_robot(path)


def _limits(**ranges: tuple[float, ...]) -> Limits:
    return Limits(**{name: jnp.asarray(values) for name, values in ranges.items()})


def _sensors(counts, speed, effort: float) -> Sensors:
    """Noise of half an encoder step on positions, and of half a per cent of the range on speeds and inputs."""
    counts, speed = jnp.asarray(counts), jnp.asarray(speed)
    return Sensors(counts / 2, 5e-3 * speed, jnp.asarray([5e-3 * effort, 0.0]), counts)
