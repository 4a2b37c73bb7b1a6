"""The data sets: uniform samples, simulated swing-ups, real recordings, and the stand-in for them."""

from dataclasses import dataclass, replace
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import systems
from diffnea.actuators import Motor
from diffnea.benchmark import episodes, plant, real
from diffnea.models import Model
from diffnea.recordings import Recording, Samples, samples_of, smooth
from diffnea.robot import Robot
from diffnea.systems import System

TRAIN, TEST = 6, 4  # recordings
QUICK_TRAIN, QUICK_TEST = 2, 2
THIN = 4  # accelerations come out of a smoother some samples wide: those between say nothing new
# Of each simulated recording, so that all data sets and seeds have arrays of one size, and share their programs.
LENGTH = 575 * THIN
APART = 1000  # between the seeds of what is fitted and what is not
ASIDE = 1.5  # rad: a pole that hardly swings never gets the stand-in's driven joint past its static friction
PRIOR_ERROR = 0.2  # of masses and sizes in a data sheet


@dataclass(frozen=True)
class Held:
    """A recording that is never fitted: what was measured, with derivatives, and the positions without noise."""

    recording: Recording
    q: np.ndarray


@dataclass(frozen=True)
class Data:
    """What a model is fitted on, what it is judged on, and the truth where it is known."""

    train: Samples | list[Recording]  # every sample, for networks
    check: Samples | list[Recording]  # not fitted, of the same kind, for the fit's own verdict
    samples: Samples  # not fitted, whose accelerations are to be predicted
    test: tuple[Held, ...]  # not fitted, to be rolled out
    prior: Robot  # where fits with prior start
    motor: Motor | None  # of the data sheet, where inputs are voltages
    truth: Robot | None
    friction: Float[Array, "2"] | None  # the true viscous friction
    title: str  # "uniform", "simulated", "real" or "stand-in"

    @property
    def thinned(self) -> Samples | list[Recording]:
        """What a model with few numbers is fitted on."""
        return _thinned(self.train) if isinstance(self.train, Samples) else [run[::THIN] for run in self.train]


def _thinned(samples: Samples) -> Samples:
    arrays = (samples.q[::THIN], samples.qd[::THIN], samples.qdd[::THIN], samples.u[::THIN])
    return Samples(*arrays, joint_names=samples.joint_names, driven=samples.driven)


def resolve(system: str, dataset: str) -> str:
    """The data set itself, or the stand-in where there are no real recordings.

    Args:
        system: one of `SYSTEMS`.
        dataset: one of `DATASETS`.
    """
    return "stand-in" if dataset == "real" and not real.present(system) else dataset


@lru_cache(maxsize=64)  # all of some seeds: cells that share programs follow each other, not those that share data
def load(system: str, dataset: str, seed: int, quick: bool) -> Data:
    """A data set; the same arguments give the same numbers."""
    makers = {"uniform": _uniform, "simulated": _simulated, "stand-in": _stand_in, "real": _real}
    return makers[dataset](getattr(systems, system)(), seed, quick)


def _uniform(system: System, seed: int, quick: bool) -> Data:
    """States and torques over the whole range, with the exact accelerations of the system without friction."""
    truth, free = Model(system.robot), _frictionless(system)
    machine = episodes.ideal(system.robot, jnp.zeros_like(system.robot.damping))
    runs = episodes.record(free, machine, seed + APART, _count(quick), noisy=False)[-_tests(quick) :]
    test = [run.replace(qdd=np.asarray(truth(run.q, np.asarray(run.qd), run.u))) for run in runs]
    kept_back = _thinned(_drawn(system, truth, seed + APART, _tests(quick)))
    return Data(
        train=_drawn(system, truth, seed, _count(quick) - _tests(quick)),
        check=kept_back,
        samples=kept_back,
        test=tuple(Held(run, run.q) for run in test),
        prior=prior(system.robot, seed),
        motor=None,
        truth=system.robot,
        friction=jnp.zeros(2),
        title="uniform",
    )


def _drawn(system: System, truth: Model, seed: int, recordings: int) -> Samples:
    """As many samples as so many recordings give."""
    rng = np.random.default_rng([seed, 1])
    count, limits = recordings * LENGTH, system.limits
    q = rng.uniform(limits.lower, limits.upper, (count, 2))
    qd = rng.uniform(-limits.velocity, limits.velocity, (count, 2))
    u = rng.uniform(-limits.effort, limits.effort, (count, 2))
    driven = tuple(bool(d) for d in system.driven)
    return Samples(q, qd, np.asarray(truth(q, qd, u)), u, joint_names=system.robot.joint_names, driven=driven)


def _frictionless(system: System) -> System:
    """With a controller that expects no friction, and lets go only briefly, since nothing slows the joint then."""
    controller = system.swing_up
    free = replace(controller.robot, damping=jnp.zeros_like(controller.robot.damping))
    return replace(system, swing_up=replace(controller, robot=free, falling=controller.falling / 4))


def _simulated(system: System, seed: int, quick: bool) -> Data:
    """Swing-ups of the system with viscous friction, and a little noise on states and inputs."""
    machine = episodes.ideal(system.robot, system.robot.damping)
    runs = episodes.record(system, machine, seed, _count(quick), noisy=True)
    return _recorded(runs, quick, prior(system.robot, seed), system.robot, system.robot.damping, "simulated")


def _stand_in(system: System, seed: int, quick: bool) -> Data:
    """Swing-ups of a plant with effects that no model has, in place of real recordings where none can be had."""
    numbers = plant.stand_in(system)
    machine = episodes.Machine(numbers, plant.start, plant.step)
    runs = episodes.record(system, machine, seed, _count(quick), noisy=True, aside=ASIDE)
    step = np.asarray(system.sensors.encoder_step)
    runs = [run.replace(q=np.round(run.q / step) * step) for run in runs]
    return _recorded(runs, quick, system.robot, numbers.robot, None, "stand-in")


def _real(system: System, seed: int, quick: bool) -> Data:
    """Real recordings; whole groups are kept back, since recordings of one group are near-repeats."""
    train, test = real.recordings(system.name, system.robot.joint_names)
    if quick:
        train, test = train[::3], test[::3]
    found = _recorded([*train, *test], quick, system.robot, None, None, "real", len(test))
    return replace(found, motor=real.motor(system.name))


def _recorded(
    runs: list[Recording],
    quick: bool,
    sheet: Robot,
    truth: Robot | None,
    friction: Float[Array, "2"] | None,
    title: str,
    tests: int | None = None,
) -> Data:
    """The last recordings are kept back."""
    smoothed = [_smoothed(run) for run in runs]
    cut = len(runs) - (_tests(quick) if tests is None else tests)
    train, check = ([held.recording.replace(q=held.q) for held in part] for part in (smoothed[:cut], smoothed[cut:]))
    samples = samples_of([run[::THIN] for run in check])
    return Data(train, check, samples, tuple(smoothed[cut:]), sheet, None, truth, friction, title)


def _smoothed(run: Recording) -> Held:
    found = smooth(run.replace(qd=None, qdd=None))
    extra = max(0, len(found.q) - LENGTH)
    kept = slice(extra // 2, extra // 2 + LENGTH)
    return Held(found.recording[kept], found.q[kept])


def _tests(quick: bool) -> int:
    return QUICK_TEST if quick else TEST


def _count(quick: bool) -> int:
    return _tests(quick) + (QUICK_TRAIN if quick else TRAIN)


def prior(robot: Robot, seed: int) -> Robot:
    """A robot as a data sheet might have it: masses and lengths of each link some 20 % off."""
    rng = np.random.default_rng([seed, 2])
    mass, size = (jnp.asarray(np.exp(rng.normal(0, PRIOR_ERROR, robot.num_joints))) for _ in range(2))
    return replace(robot, inertia=plant.scaled(robot.inertia, mass, size))
