"""The stand-in for a real machine: a simulated plant with effects that no model of the benchmark has.

Bristle friction with a Stribeck curve (LuGre), a cable that pulls the driven joint, cogging, a motor that lags, a dead
band, an input that arrives a sample late, quantised encoders, and masses that differ from the data sheet.
"""

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.robot import Robot
from diffnea.spatial import Inertia
from diffnea.systems import System

SUBSTEPS = 16  # the bristles are stiff: 250 Hz × 16 integrates them with room to spare


class Plant(eqx.Module):
    """A machine's numbers beyond the robot's own; per joint where there are two."""

    robot: Robot
    viscous: Float[Array, "2"]
    coulomb: Float[Array, "2"]
    static: Float[Array, "2"]
    stribeck_speed: Float[Array, "2"]
    bristle_stiffness: Float[Array, "2"]
    bristle_damping: Float[Array, "2"]
    lag: Float[Array, ""]  # s, of the motor's torque
    dead_band: Float[Array, ""]  # of the torque
    gain: Float[Array, ""]
    cable: Float[Array, ""]  # spring that pulls the driven joint to its centre
    cogging: Float[Array, ""]  # amplitude of the torque that repeats with the driven joint's position
    cogging_pitch: Float[Array, ""]


class State(NamedTuple):
    """Joints, bristles, the motor's torque, and the input that is still on its way."""

    q: Float[Array, "*batch 2"]
    qd: Float[Array, "*batch 2"]
    bristles: Float[Array, "*batch 2"]
    torque: Float[Array, "*batch"]
    waiting: Float[Array, "*batch"]


def stand_in(system: System) -> Plant:
    """The stand-in of a system, with numbers of the size that its recordings show."""
    robot = system.robot
    changed = scaled(robot.inertia, jnp.asarray([1.06, 0.95]), jnp.asarray([1.0, 1.03]))
    numbers = _CARTPOLE if system.name == "cartpole" else _FURUTA
    return Plant(replace(robot, inertia=changed), **{name: jnp.asarray(value) for name, value in numbers.items()})


def scaled(inertia: Inertia, mass: Float[Array, "2"], size: Float[Array, "2"]) -> Inertia:
    """Links of other masses and other lengths, otherwise alike."""
    return Inertia(
        inertia.mass * mass,
        inertia.first_moment * (mass * size)[:, None],
        inertia.rotational * (mass * size**2)[:, None],
    )


def start(q: Float[Array, "*batch 2"]) -> State:
    """At rest, with nothing on its way."""
    nothing = jnp.zeros_like(q)
    return State(q, nothing, nothing, nothing[..., 0], nothing[..., 0])


_CARTPOLE = {
    "viscous": (4.5, 0.0012),
    "coulomb": (0.45, 0.0015),
    "static": (0.75, 0.0022),
    "stribeck_speed": (0.05, 0.3),
    "bristle_stiffness": (1e3, 0.3),
    "bristle_damping": (8.0, 5e-4),
    "lag": 0.006,
    "dead_band": 0.15,
    "gain": 0.95,
    "cable": 0.0,
    "cogging": 0.25,
    "cogging_pitch": 0.02,
}
_FURUTA = {
    "viscous": (8e-4, 2e-5),
    "coulomb": (1e-3, 4e-5),
    "static": (1.5e-3, 6e-5),
    "stribeck_speed": (0.5, 0.5),
    "bristle_stiffness": (0.15, 0.006),
    "bristle_damping": (5e-4, 2e-5),
    "lag": 0.003,
    "dead_band": 5e-4,
    "gain": 0.95,
    "cable": 8e-4,
    "cogging": 0.0,
    "cogging_pitch": 1.0,
}


def step(plant: Plant, state: State, u: Float[Array, "2"], dt: Float[Array, ""]) -> State:
    """One sample later: the input given now acts after the one that waits."""
    arrives, h = state.waiting, dt / SUBSTEPS

    def substep(_, moving):
        def moved(slope, time):
            return jax.tree.map(lambda x, k: x + time * k, moving, slope)

        k1 = _slope(plant, moving, arrives)
        k2 = _slope(plant, moved(k1, h / 2), arrives)
        k3 = _slope(plant, moved(k2, h / 2), arrives)
        k4 = _slope(plant, moved(k3, h), arrives)
        return jax.tree.map(lambda x, a, b, c, d: x + h / 6 * (a + 2 * b + 2 * c + d), moving, k1, k2, k3, k4)

    moving = (state.q, state.qd, state.bristles, state.torque)
    q, qd, bristles, torque = jax.lax.fori_loop(0, SUBSTEPS, substep, moving)
    return State(q, qd, bristles, torque, u[0])


def _slope(plant: Plant, moving, u):
    q, qd, bristles, torque = moving
    calm = jnp.exp(-((qd / plant.stribeck_speed) ** 2))
    grip = plant.coulomb + (plant.static - plant.coulomb) * calm
    bending = qd - plant.bristle_stiffness * jnp.abs(qd) / grip * bristles
    friction = plant.bristle_stiffness * bristles + plant.bristle_damping * calm * bending + plant.viscous * qd
    pushed = plant.gain * jnp.sign(torque) * jnp.maximum(jnp.abs(torque) - plant.dead_band, 0.0)
    held = plant.cable * q[0] + plant.cogging * jnp.sin(2 * jnp.pi * q[0] / plant.cogging_pitch)
    tau = jnp.stack([pushed - held, jnp.zeros_like(pushed)]) - friction
    return qd, dynamics.forward(plant.robot, q, qd, tau), bending, (u - torque) / plant.lag
