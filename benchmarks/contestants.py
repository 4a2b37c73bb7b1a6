"""What a contestant is, and diffnea as one.

A contestant is made from a robot's files and gives `Work`: a call that does everything and returns when the result is
there, and a reading of that result to compare with the others'. What can be prepared outside of the call, is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import diffnea as dn
from diffnea import batching, kernels
from diffnea.batching import batched
from diffnea.dynamics import forward

TIME_STEP = 1e-3


@dataclass(frozen=True)
class Files:
    """A robot for everyone: one link a joint, full inertias, no damping, as URDF and as MJCF; `joints` orders q."""

    urdf: str
    mjcf: str
    joints: tuple[str, ...]


@dataclass(frozen=True)
class Inputs:
    """Samples, one a row."""

    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray

    def each(self, change: Callable[[np.ndarray], Any]) -> list[Any]:
        """q, q̇ and τ, changed."""
        return [change(self.q), change(self.qd), change(self.tau)]


@dataclass(frozen=True)
class Work:
    """`run()` returns when its result is complete; `read` turns it into numpy, joints in the order of `Files`."""

    run: Callable[[], Any]
    read: Callable[[Any], np.ndarray]


class Contestant:
    """What a contestant may offer, `quantities` of it; its gradient is that of Σ q̈² in parameters or in the state."""

    packages: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ("forward",)
    gradient_of = ""
    compiles = True  # whether the first call is slower than the others
    tolerance = 1e-6  # relative, against Pinocchio

    def __init__(self, files: Files, cores: int):
        raise NotImplementedError

    def forward(self, inputs: Inputs) -> Work:
        """Joint accelerations of every sample."""
        raise NotImplementedError

    def gradient(self, inputs: Inputs) -> Work:
        """The gradient: a row a sample in the state (q, q̇), a row a link in the parameters (m, m·c, J)."""
        raise NotImplementedError

    def rollout(self, inputs: Inputs, steps: int) -> Work:
        """Every state (q, q̇) of RK4 roll-outs, torques in an array, a row a step: (samples, steps, 2 n)."""
        raise NotImplementedError

    @classmethod
    def versions(cls) -> dict[str, str]:
        """The version of each package."""
        return {package: _version(package) for package in cls.packages}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def places(wanted: tuple[str, ...], found: Iterable[str]) -> list[int]:
    """Where in `wanted` each joint of `found` stands: `x[:, places]` is in the order of `found`."""
    found = list(found)
    if sorted(found) != sorted(wanted):
        raise ValueError(f"its joints are {found}, not {list(wanted)}")
    return [wanted.index(name) for name in found]


def runge_kutta(slope: Callable, state: Any) -> Any:
    """One step of the classical method of fourth order."""
    k1 = slope(state)
    k2 = slope(state + TIME_STEP / 2 * k1)
    k3 = slope(state + TIME_STEP / 2 * k2)
    k4 = slope(state + TIME_STEP * k3)
    return state + TIME_STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


# diffnea -----------------------------------------------------------------------------------------------------------


def squares(robot: dn.Robot, q, qd, tau):
    """Σ q̈² of one sample."""
    return jnp.sum(forward(robot, q, qd, tau) ** 2)


class Diffnea(Contestant):
    """The public functions under `jit`, the robot closed over; the loss of the gradient is one kernel too."""

    packages = ("diffnea", "jax", "jaxlib", "llvmlite", "numpy")
    quantities = ("forward", "gradient", "rollout")
    gradient_of = "parameters"
    tolerance = 1e-9

    def __init__(self, files: Files, cores: int):
        self.robot, self.joints = dn.load_robot(files.urdf), files.joints

    def accelerations(self, robot, q, qd, tau):
        """Of a batch."""
        return dn.forward_dynamics(robot, q, qd, tau)

    def forward(self, inputs: Inputs) -> Work:
        function, arrays = jax.jit(partial(self.accelerations, self.robot)), inputs.each(jax.device_put)
        return Work(lambda: function(*arrays).block_until_ready(), np.asarray)

    def losses(self, robot, q, qd, tau):
        """Of each sample; its gradient is one kernel, which finds the accelerations on its way."""
        return batched(squares, robot, q=q, qd=qd, tau=tau)

    def gradient(self, inputs: Inputs) -> Work:
        def loss(inertia, *arrays):
            return self.losses(replace(self.robot, inertia=inertia), *arrays).sum()

        function, arrays = jax.jit(jax.grad(loss)), inputs.each(jax.device_put)
        return Work(
            lambda: jax.block_until_ready(function(self.robot.inertia, *arrays)),
            lambda slope: np.asarray(slope.parameters),
        )

    def rollout(self, inputs: Inputs, steps: int) -> Work:
        roll = batching.kernel_for(whole, batching.whole_numbers(self.robot))
        function = jax.jit(lambda state, torques: jax.vmap(roll, (None, 0, 0))(self.robot, state, torques))
        start = np.stack([inputs.q, inputs.qd], 1)
        torques = np.ascontiguousarray(np.broadcast_to(inputs.tau[:, None], (len(inputs.q), steps, len(self.joints))))
        arrays = [jax.device_put(array) for array in (start, torques)]
        return Work(
            lambda: function(*arrays).block_until_ready(),
            lambda states: np.asarray(states).reshape(*states.shape[:2], -1),
        )


acceleration = kernels.compile(forward)


def whole(robot: dn.Robot, state: jax.Array, torques: jax.Array) -> jax.Array:
    """A roll-out under a torque a step: all states after the first, as one kernel."""

    def step(state, tau):
        state = runge_kutta(lambda x: jnp.stack([x[1], acceleration(robot, x[0], x[1], tau)]), state)
        return state, state

    return jax.lax.scan(step, state, torques)[1]


class DiffneaCall(Diffnea):
    """`forward_dynamics` as one calls it by hand, outside of `jit`."""

    quantities = ("forward",)

    def forward(self, inputs: Inputs) -> Work:
        arrays = inputs.each(jax.device_put)
        return Work(lambda: self.accelerations(self.robot, *arrays).block_until_ready(), np.asarray)


class DiffneaXla(Diffnea):
    """The readable equations through XLA, no kernel."""

    quantities = ("forward", "gradient")

    def accelerations(self, robot, q, qd, tau):
        return jax.vmap(partial(forward, robot))(q, qd, tau)

    def losses(self, robot, q, qd, tau):
        return jax.vmap(partial(squares, robot))(q, qd, tau)


OURS: dict[str, type[Contestant]] = {"diffnea": Diffnea, "diffnea-call": DiffneaCall, "diffnea-xla": DiffneaXla}
