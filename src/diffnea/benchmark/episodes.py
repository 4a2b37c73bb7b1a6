"""The controller at work on a simulated machine: recordings of it, all at once, as functions of a seed."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics, kernels
from diffnea.models import Model
from diffnea.recordings import Recording
from diffnea.robot import Robot
from diffnea.simulate.classical import runge_kutta
from diffnea.systems import System, varied

SUBSTEPS = 4  # of the simulated systems, so that their own integration error does not matter
SECONDS = 10.0


class Ideal(eqx.Module):
    """A machine that is its robot, with viscous friction."""

    robot: Robot
    damping: Float[Array, "2"]


class Moving(NamedTuple):
    """A state of such a machine."""

    q: Float[Array, "2"]
    qd: Float[Array, "2"]


class Machine(NamedTuple):
    """Something to record: its numbers, how it starts from a pose, and how it goes on for one sample."""

    numbers: Any
    start: Callable[[Array], Any]
    step: Callable[..., Any]  # (numbers, state, u, dt) -> state


def ideal(robot: Robot, damping: Float[Array, "2"]) -> Machine:
    """The machine of `Ideal`."""
    return Machine(Ideal(robot, damping), lambda q: Moving(q, jnp.zeros_like(q)), _step)


def _step(machine: Ideal, state: Moving, u: Float[Array, "2"], dt: Float[Array, ""]) -> Moving:
    def slope(q, qd):
        return dynamics.forward(machine.robot, q, qd, u - machine.damping * qd), ()

    def substep(_, moving):
        q, qd = moving
        end = runge_kutta(Model(machine.robot), slope, q, qd, dt / SUBSTEPS)
        return end.q, end.qd

    return Moving(*jax.lax.fori_loop(0, SUBSTEPS, substep, (state.q, state.qd)))


def record(system: System, machine: Machine, seed: int, count: int, noisy: bool, aside: float = 0.0) -> list[Recording]:
    """So many recordings, each of its own variety of the controller; without noise they hold exact velocities.

    The pole begins near hanging, or `aside` radians to either side.
    """
    keys = jax.random.split(jax.random.key(seed), count)
    reach = 0.2 * float(system.limits.upper[0])
    controllers = jax.vmap(lambda key: varied(system.swing_up, key, reach))(keys)
    steps = round(SECONDS / system.dt)
    rng = np.random.default_rng([seed, 3])
    noise = jnp.asarray(rng.normal(size=(steps, 3, count, 2)) * (1.0 if noisy else 0.0))
    begin = rng.normal(0, 0.1, (count, 2)) * [0.0, 1.0]
    q0 = jnp.asarray(begin + aside * np.sign(begin))
    times = jnp.asarray(system.dt * np.arange(steps))
    states = _run(machine.step, machine.numbers, system, controllers, machine.start(q0), times, noise)
    q, qd, u = (np.asarray(x).swapaxes(0, 1) for x in states)
    names, driven = system.robot.joint_names, tuple(bool(d) for d in system.driven)
    about = {"joint_names": names, "driven": driven}
    return [
        Recording(np.asarray(times), q[k], u[k], None if noisy else qd[k], name=f"{system.name} {seed}.{k}", **about)
        for k in range(count)
    ]


@partial(jax.jit, static_argnums=0)
def _run(step, numbers, system, controllers, state, times, noise):
    sample = jax.vmap(_sampled(step), (None, None, 0, 0, None, 0, 0, 0))

    def advance(state, now):
        time, noise = now
        return sample(numbers, system, controllers, state, time, *noise)

    return jax.lax.scan(advance, state, (times, noise))[1]


@cache
def _sampled(step):
    def sample(numbers, system, controller, state, time, position_noise, velocity_noise, input_noise):
        sensors = system.sensors
        measured = state.q + sensors.position_noise * position_noise
        u = controller(time, measured, state.qd + sensors.velocity_noise * velocity_noise)
        moved = step(numbers, state, u + sensors.input_noise * input_noise, jnp.asarray(system.dt, u.dtype))
        return moved, (measured, state.qd, u)

    return kernels.compile(sample)
