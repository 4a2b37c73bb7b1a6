"""A motion that tells the most: its series optimised with exact gradients, within the robot's limits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from diffnea.actuators import AbstractActuator
from diffnea.excitation.choosing import AUTO, chosen
from diffnea.excitation.information import CRITERIA, Information, information
from diffnea.excitation.series import Basis, basis, harmonics
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.unknowns import unknowns
from diffnea.recordings import Recording
from diffnea.robot import Robot, pulled, require_single

# Samples for each wave of the highest frequency while a motion is sought; the result is checked on a finer grid.
_SAMPLES_A_WAVE = 16
# Limits are approached up to this share, so that what lies between two samples stays within.
_MARGIN = 0.98
_STARTS, _ROUNDS, _ITERATIONS = 4, (1.0, 30.0, 1000.0), 60
# A motion that has to be made this much smaller to stay within the limits is none.
_SMALLEST = 0.02


@dataclass(frozen=True)
class Bounds:
    """What a motion may do, one entry a joint."""

    lower: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    velocity: Float[np.ndarray, " n"]
    acceleration: Float[np.ndarray, " n"]
    effort: Float[np.ndarray, " n"]

    @property
    def reach(self) -> Float[np.ndarray, " n"]:
        """Half of the range."""
        return (self.upper - self.lower) / 2

    def random(self, seed: int) -> Float[np.ndarray, "three sample n"]:
        """States all over the limits; accelerations as large as the velocities."""
        n = len(self.reach)
        draw = np.random.default_rng(seed).uniform(-1, 1, (3, max(64, 8 * n), n))
        middle = (self.upper + self.lower) / 2
        return np.stack([middle + self.reach * draw[0], self.velocity * draw[1], self.velocity * draw[2]])

    def excess(self, q, qd, qdd, drive) -> Float[Array, "time four_n"]:
        """How far beyond each limit, as a share of it; negative within."""
        middle = jnp.asarray((self.upper + self.lower) / 2)
        parts = ((q - middle[None], self.reach), (qd, self.velocity), (qdd, self.acceleration), (drive, self.effort))
        return jnp.concatenate([jnp.abs(x) / jnp.asarray(limit)[None] - 1 for x, limit in parts], axis=1)


@dataclass(frozen=True)
class Design:
    """A planned motion, with the torques it takes, and how much more it tells than its starts did."""

    recording: Recording
    score: float  # mean logarithm of the information, or of its least
    starts: tuple[float, ...]  # the same of the random motions it began with, made to fit the limits
    used: dict[str, list[float]]  # the largest position, velocity, acceleration and torque, as shares of their limits


def design(
    robot: Robot,
    *,
    learn: Iterable[str] | None = None,
    actuator: str | AbstractActuator = AUTO,
    seconds: float = 10.0,
    bandwidth: float = 1.0,
    rate: float = 250.0,
    criterion: str = "D",
    acceleration: float | None = None,
    noise: float = 0.01,
    seed: int = 0,
) -> Design:
    """A motion of all joints that tells the most about what is learned, by the D or E criterion, from rest to rest.

    Limits are those of the robot's file; `acceleration` is one more, rad/s² or m/s². `noise` is the torque's standard
    deviation as a share of each joint's effort.
    """
    require_single(robot, "excite")
    robot = pulled(robot)
    if criterion not in CRITERIA:
        raise ValueError(f'excite: criterion is "{criterion}"; use {" or ".join(CRITERIA)}')
    _check(seconds=seconds, bandwidth=bandwidth, rate=rate, noise=noise)
    with double_precision():
        limits = bounds(robot, bandwidth, acceleration)
        choice = chosen(robot, None, learn, actuator)
        free = unknowns(robot, choice.learn, choice.actuator, jax.random.key(seed), known=choice.known)
        if not free.size:
            raise ValueError("excite: nothing to learn; name inertia, kinematics, armature or actuator in learn")
        told = information(free, noise * limits.effort, limits.random(seed))
        count = harmonics(seconds, bandwidth)
        coarse = basis(np.linspace(0, seconds, max(_SAMPLES_A_WAVE * count, 64)), seconds, count)
        return _Search(told, limits, coarse, criterion).run(robot, seconds, count, rate, seed)


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 < value < np.inf:
            raise ValueError(f"excite: {name} is {value:g}; give a number above zero")


def bounds(robot: Robot, bandwidth: float, acceleration: float | None) -> Bounds:
    """The limits of a robot's file, and usual ones where it sets none; joints without a motor are refused."""
    limits = [np.asarray(row, float) for row in jax.tree.leaves(robot.limits)]
    lower, upper, velocity, effort = limits
    idle = [name for name, some in zip(robot.joint_names, effort > 0, strict=True) if not some]
    if idle:
        raise ValueError(
            f'excite: joint "{idle[0]}" has no motor (effort 0); plan for robots whose joints are all driven'
        )
    reach = np.where(robot.tree.revolute, np.pi, 0.5)
    ranged = np.isfinite(upper - lower) & (upper > lower)
    lower, upper = np.where(ranged, lower, -reach), np.where(ranged, upper, reach)
    pace = 2 * np.pi * bandwidth
    velocity = np.where(np.isfinite(velocity) & (velocity > 0), velocity, pace * (upper - lower) / 2)
    most = np.full(len(effort), np.inf if acceleration is None else acceleration)
    if not np.all(most > 0):
        raise ValueError(f"excite: acceleration is {acceleration:g}; give a number above zero")
    return Bounds(lower, upper, velocity, np.minimum(most, 10 * pace * velocity), _efforts(robot, effort))


def _efforts(robot: Robot, effort: np.ndarray) -> np.ndarray:
    if np.all(np.isfinite(effort)):
        return effort
    missing = robot.joint_names[int(np.argmax(~np.isfinite(effort)))]
    raise ValueError(f'excite: joint "{missing}" has no effort limit in the robot file; give each joint one')


@dataclass(frozen=True)
class _Search:
    """One search for a motion: weights of the series' shapes in units of the joints' reach."""

    told: Information
    limits: Bounds
    coarse: Basis
    criterion: str

    def run(self, robot: Robot, seconds: float, count: int, rate: float, seed: int) -> Design:
        rng = np.random.default_rng(seed)
        value = jax.jit(jax.value_and_grad(self.cost))
        fitting = [self.fitting(self._random(rng), self.coarse) for _ in range(_STARTS)]
        starts = [x for x in fitting if x is not None]
        if not starts:
            raise ValueError(self._too_weak(robot))
        before = [self.score(x) for x in starts]
        found = [self._optimised(value, x) for x in starts[:2]]
        fine = basis(np.arange(round(seconds * rate) + 1) / rate, round(seconds * rate) / rate, count)
        fitted = [x for x in (self.fitting(x, fine) for x in [*found, *starts]) if x is not None]
        best = max(fitted, key=self.score)
        return Design(self._recording(best, fine, rate, robot), self.score(best), tuple(before), self._used(best, fine))

    def _random(self, rng: np.random.Generator) -> np.ndarray:
        n, k = len(self.limits.reach), self.coarse.size
        return np.concatenate([0.2 * rng.normal(size=(1, n)), rng.normal(size=(k, n)) / k])

    def motion(self, x: Float[Array, "rows n"], shapes: Basis):
        """The motion of a vector of the search: its first row is the centre."""
        reach, middle = jnp.asarray(self.limits.reach), jnp.asarray((self.limits.upper + self.limits.lower) / 2)
        return shapes.motion(middle + reach * x[0], reach[None] * x[1:])

    def cost(self, x: Float[Array, "rows n"], strictness: Float[Array, ""]) -> Float[Array, ""]:
        """What is minimised: information with its sign turned, and the excess over the limits squared."""
        q, qd, qdd = self.motion(x, self.coarse)
        torques = self.told.torques(q, qd, qdd)
        excess = self.limits.excess(q, qd, qdd, torques.drive) + (1 - _MARGIN)
        penalty = jnp.sum(jnp.square(jnp.maximum(excess, 0.0))) / len(q)
        return -self.told.score(torques.slopes, self.criterion) + strictness * penalty

    def score(self, x: np.ndarray) -> float:
        """The criterion of a motion."""
        torques = self.told.torques(*self.motion(jnp.asarray(x), self.coarse))
        return float(self.told.score(torques.slopes, self.criterion))

    def _optimised(self, value: Callable[..., Any], x: np.ndarray) -> np.ndarray:
        shape = x.shape

        def function(flat: np.ndarray, strictness: float) -> tuple[float, np.ndarray]:
            cost, slope = value(jnp.asarray(flat.reshape(shape)), jnp.asarray(strictness))
            return float(cost), np.asarray(slope).ravel()

        flat = x.ravel()
        for strictness in _ROUNDS:
            options = {"maxiter": _ITERATIONS}
            flat = minimize(function, flat, (strictness,), method="L-BFGS-B", jac=True, options=options).x
        return flat.reshape(shape)

    def fitting(self, x: np.ndarray, shapes: Basis) -> np.ndarray | None:
        """The same motion as large as the limits allow, but no larger than it is; None where there is no such."""

        def sized(size: float) -> np.ndarray:  # a small motion also comes back to the middle of the range
            return np.concatenate([min(1.0, size / 0.2) * x[:1], size * x[1:]])

        low, high = 0.0, 1.0
        for size in (1.0, *[None] * 24):
            size = (low + high) / 2 if size is None else size
            fits = bool(np.all(self._excess(sized(size), shapes) <= 0))
            if fits and size == 1.0:
                return x
            low, high = (size, high) if fits else (low, min(high, size))
        return sized(low) if low >= _SMALLEST else None

    def _excess(self, x: np.ndarray, shapes: Basis) -> np.ndarray:
        q, qd, qdd = self.motion(jnp.asarray(x), shapes)
        return np.asarray(self.limits.excess(q, qd, qdd, self.told.torques(q, qd, qdd).drive))

    def _used(self, x: np.ndarray, shapes: Basis) -> dict[str, list[float]]:
        most = 1 + self._excess(x, shapes).max(axis=0)
        names = ("position", "velocity", "acceleration", "torque")
        return dict(zip(names, most.reshape(4, -1).tolist(), strict=True))

    def _recording(self, x: np.ndarray, shapes: Basis, rate: float, robot: Robot) -> Recording:
        q, qd, qdd = (np.asarray(array) for array in self.motion(jnp.asarray(x), shapes))
        drive = np.asarray(self.told.torques(*map(jnp.asarray, (q, qd, qdd))).drive)
        time = np.arange(len(q)) / rate
        return Recording(time=time, q=q, u=drive, qd=qd, qdd=qdd, joint_names=robot.joint_names, name="excitation")

    def _too_weak(self, robot: Robot) -> str:
        q, qd, qdd = self.motion(jnp.zeros((1 + self.coarse.size, robot.num_joints)), self.coarse)
        drive = np.abs(np.asarray(self.told.torques(q, qd, qdd).drive)[0])
        k = int(np.argmax(drive / self.limits.effort))
        return (
            f'excite: no motion within the limits was found; joint "{robot.joint_names[k]}" needs {drive[k]:.3g} to '
            f"hold still in the middle of its range, its effort is {self.limits.effort[k]:.3g}"
        )
