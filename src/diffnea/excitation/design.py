"""A motion that tells the most: its series optimised with exact gradients, within the robot's limits."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from diffnea.actuators import AbstractActuator
from diffnea.excitation.choosing import AUTO, chosen
from diffnea.excitation.floating import FreeInformation, free_expectation, free_information
from diffnea.excitation.information import CRITERIA, Information, Torques, information
from diffnea.excitation.riding import BASE, TRUNK_REACH, InTheAir, OnFeet
from diffnea.excitation.series import Basis, basis, harmonics
from diffnea.identify import Foot
from diffnea.identify.determine.combinations import Identifiability
from diffnea.identify.floating.contacts import check_feet
from diffnea.identify.precision import double_precision
from diffnea.identify.problem.unknowns import Unknowns, unknowns
from diffnea.recordings import Recording
from diffnea.robot import Robot, pulled, refuse_loops, require_single

# Samples for each wave of the highest frequency while a motion is sought; the result is checked on a finer grid.
_SAMPLES_A_WAVE = 16
# Limits are approached up to this share, so that what lies between two samples stays within.
_MARGIN = 0.98
_STARTS, _ROUNDS, _ITERATIONS = 4, (1.0, 30.0, 1000.0), 60
# Where nothing is differentiated: steps of a search by trial, and the first of them as a share of the motion.
_TRIALS, _FIRST_STEP = 40, 0.5
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

    def excess(self, q, qd, qdd, drive, goal=None) -> Float[Array, "time four_n"]:
        """How far beyond each limit, as a share of it; negative within. Goals of servos stay in the joints' range."""
        middle = jnp.asarray((self.upper + self.lower) / 2)
        place = q - middle[None]
        place = place if goal is None else jnp.maximum(jnp.abs(place), jnp.abs(goal - middle[None]))
        parts = ((place, self.reach), (qd, self.velocity), (qdd, self.acceleration), (drive, self.effort))
        return jnp.concatenate([jnp.abs(x) / jnp.asarray(limit)[None] - 1 for x, limit in parts], axis=1)


@dataclass(frozen=True)
class Design:
    """A planned motion, with the torques it takes, and how much more it tells than its starts did."""

    recording: Recording
    score: float  # mean logarithm of the information, or of its least
    starts: tuple[float, ...]  # the same of the random motions it began with, made to fit the limits
    used: dict[str, list[float]]  # the largest position, velocity, acceleration and torque, as shares of their limits
    told: Identifiability | None = None  # of a free base: what the motion would determine


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
    feet: Sequence[Foot] = (),
    stance: Sequence[float] = (),
) -> Design:
    """A motion of all joints that tells the most about what is learned, from rest to rest, within the file's limits.

    Args:
        robot: the robot. A free base is in the air, or stands on `feet`.
        learn: as for a fit.
        actuator: as for a fit.
        seconds: how long it lasts.
        bandwidth: its highest frequency, Hz.
        rate: samples a second.
        criterion: "D" makes all intervals small together, "E" the largest one.
        acceleration: one more limit, rad/s² or m/s².
        noise: the torque's standard deviation, as a share of each joint's effort.
        seed: of the motions that the search begins with.
        feet: of a free base that stands.
        stance: where its joints are: as many numbers as joints, or as one leg has, each leg alike.
    """
    if robot.base == "fixed":
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
        count = harmonics(seconds, bandwidth)
        coarse = basis(np.linspace(0, seconds, max(_SAMPLES_A_WAVE * count, 64)), seconds, count)
        told, span = _told(robot, free, limits, noise, seed, _standing(robot, feet, stance), bandwidth)
        return _Search(told, limits, coarse, criterion, span).run(robot, seconds, count, rate, seed)


def _told(
    robot: Robot, free: Unknowns, limits: Bounds, noise: float, seed: int, riding: OnFeet | None, bandwidth: float
) -> tuple[Information, Bounds]:
    """What motions tell, and the span of the coordinates that are planned: joints, or a trunk on its feet."""
    if robot.base == "fixed":
        return information(free, noise * limits.effort, limits.random(seed)), limits
    if riding is None:
        return free_information(free, InTheAir(robot), limits.effort, noise, limits.random(seed)), limits
    reach = np.concatenate([TRUNK_REACH, limits.reach[riding.others]])
    middle = np.concatenate([np.zeros(BASE), riding.stance[riding.others]])
    fast = 2 * np.pi * bandwidth * reach
    span = Bounds(middle - reach, middle + reach, fast, 10 * fast, np.ones(len(reach)))
    return free_information(free, riding, limits.effort, noise, span.random(seed)), span


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not 0 < value < np.inf:
            raise ValueError(f"excite: {name} is {value:g}; give a number above zero")


def _standing(robot: Robot, feet: Sequence[Foot], stance: Sequence[float]) -> OnFeet | None:
    if not feet:
        return None
    check_feet(robot, {foot.link: foot for foot in feet})
    n = robot.num_joints
    if not len(stance) or n % len(stance) or not np.isfinite(stance).all():
        raise ValueError(
            f"excite: on its feet a robot needs a stance, {n} angles or a part that repeats; it has {len(stance)}"
        )
    return OnFeet.of(robot, feet, np.tile(np.asarray(stance, float), n // len(stance)))


def bounds(robot: Robot, bandwidth: float, acceleration: float | None) -> Bounds:
    """The limits of a robot's file, and usual ones where it sets none; joints without a motor are refused."""
    check_joints(robot)
    lower, upper, velocity, effort = _with_followers(robot)
    idle = [name for name, some in zip(robot.joint_names, effort > 0, strict=True) if not some]
    if idle:
        raise ValueError(
            f'excite: joint "{idle[0]}" has no motor (effort 0); plan for robots whose joints are all driven'
        )
    reach = np.where(robot.turning, np.pi, 0.5)
    ranged = np.isfinite(upper - lower) & (upper > lower)
    lower, upper = np.where(ranged, lower, -reach), np.where(ranged, upper, reach)
    pace = 2 * np.pi * bandwidth
    velocity = np.where(np.isfinite(velocity) & (velocity > 0), velocity, pace * (upper - lower) / 2)
    most = np.full(len(effort), np.inf if acceleration is None else acceleration)
    if not np.all(most > 0):
        raise ValueError(f"excite: acceleration is {acceleration:g}; give a number above zero")
    return Bounds(lower, upper, velocity, np.minimum(most, 10 * pace * velocity), _efforts(robot, effort))


def _with_followers(robot: Robot) -> tuple[np.ndarray, ...]:
    """Ranges, speeds and efforts of the joints, within which those that follow in a straight line keep theirs too."""
    lower, upper, velocity, effort = (np.array(row, float) for row in jax.tree.leaves(robot.joint_limits))
    tied, places = robot.couplings, {link: k for k, link in enumerate(robot.joint_links.tolist())}
    if tied is None:
        return lower, upper, velocity, effort
    for follower, leader, row in zip(tied.followers, tied.leaders, np.asarray(tied.coefficients, float), strict=True):
        k, (start, slope, *curve) = places[leader], np.append(row, 0.0).tolist()
        if slope == 0 or any(curve):
            continue
        ends = [float(each[follower]) for each in (robot.limits.lower, robot.limits.upper)]
        low, high = sorted((end - start) / slope for end in ends)
        if ends[0] < ends[1]:
            lower[k], upper[k] = max(lower[k], low), min(upper[k], high)
        if robot.limits.velocity[follower] > 0:
            velocity[k] = min(velocity[k], float(robot.limits.velocity[follower]) / abs(slope))
    return lower, upper, velocity, effort


def check_joints(robot: Robot) -> None:
    """Refuse, in a line, what has nothing that could be planned for."""
    if not robot.num_joints and robot.base == "floating":
        raise ValueError(
            f'excite: "{robot.name}" has no joints to plan for: fly hovers, climbs and descents, quick tilts both ways '
            "about each axis and fast straight lines, half a minute of each, and log rotor commands beside the pose"
        )
    refuse_loops(robot, "excite")
    several = [name for name, kind in zip(robot.tree.joint_names, robot.tree.kinds, strict=True) if kind == "ball"]
    if several:
        raise ValueError(f'excite: joint "{several[0]}" is a ball; lock it')


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
    span: Bounds | None = None  # of the coordinates that are planned, where they are not the joints

    @property
    def planned(self) -> Bounds:
        """The span of the coordinates that are planned."""
        return self.limits if self.span is None else self.span

    def run(self, robot: Robot, seconds: float, count: int, rate: float, seed: int) -> Design:
        rng = np.random.default_rng(seed)
        fitting = [self.fitting(self._random(rng), self.coarse) for _ in range(_STARTS)]
        starts = [x for x in fitting if x is not None]
        if not starts:
            raise ValueError(self._too_weak(robot))
        before = [self.score(x) for x in starts]
        if self.told.smooth:
            found = [self._optimised(jax.jit(jax.value_and_grad(self.cost)), x) for x in starts[:2]]
        else:
            found = [self._climbed(max(starts, key=self.score), rng)]
        fine = basis(np.arange(round(seconds * rate) + 1) / rate, round(seconds * rate) / rate, count)
        fitted = [x for x in (self.fitting(x, fine) for x in [*found, *starts]) if x is not None]
        best = max(fitted, key=self.score)
        known = None
        if isinstance(self.told, FreeInformation):
            motion = tuple(np.asarray(each) for each in self.motion(jnp.asarray(best), fine))
            known = free_expectation(self.told, motion, 1 / rate, seed)
        recording, used = self._recording(best, fine, rate, robot), self._used(best, fine)
        return Design(recording, self.score(best), tuple(before), used, known)

    def _random(self, rng: np.random.Generator) -> np.ndarray:
        n, k = len(self.planned.reach), self.coarse.size
        return np.concatenate([0.2 * rng.normal(size=(1, n)), rng.normal(size=(k, n)) / k])

    def motion(self, x: Float[Array, "rows n"], shapes: Basis):
        """The motion of a vector of the search: its first row is the centre."""
        reach, middle = jnp.asarray(self.planned.reach), jnp.asarray((self.planned.upper + self.planned.lower) / 2)
        return shapes.motion(middle + reach * x[0], reach[None] * x[1:])

    def cost(self, x: Float[Array, "rows n"], strictness: Float[Array, ""]) -> Float[Array, ""]:
        """What is minimised: information with its sign turned, and the excess over the limits squared."""
        motion = self.motion(x, self.coarse)
        torques = self.told.torques(*motion)
        excess = self.excess(motion, torques) + (1 - _MARGIN)
        penalty = jnp.sum(jnp.square(jnp.maximum(excess, 0.0))) / len(excess)
        return -self.told.score(torques.slopes, self.criterion) + strictness * penalty

    def excess(self, motion: tuple[Array, Array, Array], torques: Torques) -> Float[Array, "time k"]:
        """How far beyond each limit, as a share of it; those of the joints first."""
        joints = motion if torques.joints is None else torques.joints
        own = self.limits.excess(*joints, torques.drive, torques.goals)
        return own if torques.beyond is None else jnp.concatenate([own, torques.beyond], axis=1)

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

    def _climbed(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A walk uphill by random steps, longer after a success and shorter after a failure (Rechenberg's rule)."""
        best, size = self.score(x), _FIRST_STEP
        for _ in range(_TRIALS):
            other = self.fitting(x + size * rng.normal(size=x.shape) * np.std(x[1:]), self.coarse)
            score = -np.inf if other is None else self.score(other)
            if other is not None and score > best:
                x, best, size = other, score, 1.5 * size
            else:
                size *= 0.9
        return x

    def fitting(self, x: np.ndarray, shapes: Basis) -> np.ndarray | None:
        """The same motion as large as the limits allow, but no larger than it is; None where there is no such."""

        def sized(size: float) -> np.ndarray:  # a small motion also comes back to the middle of the range
            return np.concatenate([min(1.0, size / 0.2) * x[:1], size * x[1:]])

        low, high = 0.0, 1.0
        for size in (1.0, *[None] * (24 if self.told.smooth else 7)):
            size = (low + high) / 2 if size is None else size
            fits = bool(np.all(self._excess(sized(size), shapes) <= 0))
            if fits and size == 1.0:
                return x
            low, high = (size, high) if fits else (low, min(high, size))
        return sized(low) if low >= _SMALLEST else None

    def _excess(self, x: np.ndarray, shapes: Basis) -> np.ndarray:
        motion = self.motion(jnp.asarray(x), shapes)
        return np.asarray(self.excess(motion, self.told.torques(*motion)))

    def _used(self, x: np.ndarray, shapes: Basis) -> dict[str, list[float]]:
        most = 1 + self._excess(x, shapes).max(axis=0)
        names = ("position", "velocity", "acceleration", "torque")
        return dict(zip(names, most[: 4 * len(self.limits.reach)].reshape(4, -1).tolist(), strict=True))

    def _recording(self, x: np.ndarray, shapes: Basis, rate: float, robot: Robot) -> Recording:
        motion = self.motion(jnp.asarray(x), shapes)
        torques = self.told.torques(*motion)
        q, qd, qdd = (np.asarray(each) for each in (motion if torques.joints is None else torques.joints))
        sent = np.asarray(torques.drive if torques.goals is None else torques.goals)
        time, kind = np.arange(len(q)) / rate, "command" if torques.goals is None else "goal"
        told = {"joint_names": robot.joint_names, "name": "excitation", "input_kind": kind}
        return Recording(time=time, q=q, u=sent, qd=qd, qdd=qdd, **told)

    def _too_weak(self, robot: Robot) -> str:
        motion = self.motion(jnp.zeros((1 + self.coarse.size, len(self.planned.reach))), self.coarse)
        drive = np.abs(np.asarray(self.told.torques(*motion).drive)[0])
        k = int(np.argmax(drive / self.limits.effort))
        return (
            f'excite: no motion within the limits was found; joint "{robot.joint_names[k]}" needs {drive[k]:.3g} to '
            f"hold still in the middle of its range, its effort is {self.limits.effort[k]:.3g}"
        )
