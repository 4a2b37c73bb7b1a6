"""Logs: a machine under a controller, its commands held between ticks, its positions read with noise; kept on disk."""

import hashlib
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pinocchio

from benchmarks.outside.families import Piece
from benchmarks.outside.robots import GRAVITY, Friction, Machine, draw, efforts, pinocchio_model, without_dry_friction
from benchmarks.outside.stepping import Plant

VERSION = 1  # of what a log holds: raise it where the same experiment would come out differently
CACHE = Path(os.environ.get("DIFFNEA_OUTSIDE", Path(__file__).resolve().parents[2] / ".cache" / "outside"))
NOISE = {"none": (0.0, 0.0), "lo": (2e-6, 2e-5), "hi": (5e-4, 1e-3)}  # standard deviations, rad
METRES = 0.3  # of a radian: noise of joints that slide
MEASURED = 0.005  # noise of measured torques, as a share of what usual motion takes
HARMONICS = 6
BASE, SOFT_BASE = 0.15, 0.25  # Hz, of the reference: of arms, and of machines that swing
STIFF, SOFT = 2 * np.pi * 2.5, 2 * np.pi * 0.4  # rad/s, of the controller
SETTLE = 0.5  # s over which the reference grows from rest
BENDING = 0.03  # damping ratio of a joint that bends


@dataclass(frozen=True)
class Experiment:
    """Everything that a log depends on."""

    family: str
    robot: int  # seed of the machine
    run: int  # seed of the motion and of the noise
    friction: str = "dry"  # "dry", "viscous" or "none"
    noise: str = "lo"
    seconds: float = 16.0
    rate: int = 250  # Hz, of the log
    ticks: int = 1  # of the controller a sample
    delay: float = 0.0  # samples by which commands act late
    gain: float = 1.0  # torque a unit of command
    process: float = 0.002  # white noise of the torques, as a share of what usual motion takes
    jitter: float = 0.0  # standard deviation of the time stamps, as a share of a sample
    measured: bool = False  # torques are logged as they act, with noise, in place of commands
    amplitude: float = 1.0  # of the motion
    pace: float = 1.0  # of the motion
    gravity: tuple[float, float, float] = GRAVITY
    flexible: float = 0.0  # N·m/rad of the last joint with a motor; 0: it is rigid
    drift: float = 1.0  # friction at the end as a multiple of that at the beginning
    step: float = 1e-4  # s, of the simulation


@dataclass(frozen=True)
class Log:
    """What was logged, and what was true: one row a sample, one column a joint that has an encoder."""

    time: np.ndarray
    q: np.ndarray
    u: np.ndarray
    goal: np.ndarray
    true_q: np.ndarray
    true_qd: np.ndarray
    true_qdd: np.ndarray  # just after the command has come
    stuck: np.ndarray
    effort: np.ndarray  # (n,): the force that usual motion takes


def machine_of(experiment: Experiment) -> Machine:
    """The machine of an experiment, rigid."""
    machine = replace(draw(experiment.family, experiment.robot), gravity=experiment.gravity)
    if experiment.friction == "viscous":
        return without_dry_friction(machine)
    return replace(machine, friction=_scaled(machine.friction, 0.0)) if experiment.friction == "none" else machine


def simulate(experiment: Experiment) -> Log:
    """The log of an experiment, from disk where it was made before."""
    key = hashlib.sha256(repr((VERSION, sorted(asdict(experiment).items()))).encode()).hexdigest()[:20]
    path = CACHE / f"{experiment.family}_{experiment.robot}_{key}.npz"
    if path.exists():
        with np.load(path) as arrays:
            return Log(**arrays)
    log = _run(experiment)
    CACHE.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}.npz")
    np.savez_compressed(half, **vars(log))
    half.replace(path)
    return log


# The loop --------------------------------------------------------------------------------------------------------


def _run(experiment: Experiment) -> Log:
    machine = machine_of(experiment)
    felt, force = efforts(machine)
    plant, seen = _plant(experiment, machine)
    law = _Law(experiment, machine, felt + machine.armature)
    rng = _rng(experiment, 3)
    ticks = round(experiment.seconds * experiment.rate) * experiment.ticks
    tick = 1 / (experiment.rate * experiment.ticks)
    late, part = divmod(experiment.delay * experiment.ticks, 1.0)
    q0, v0, goal0 = law.start()
    plant.start(_spread(q0, seen, plant), _spread(v0, seen, plant), np.zeros(plant.model.nv))
    sent, rows, friction = [], [], _full(machine.friction, seen, plant)
    for k in range(ticks):
        q, v = plant.q[seen], plant.v[seen]
        goal, u = law(k * tick, q, v)
        sent.append(u)
        shake = experiment.process * force * rng.standard_normal(machine.count) * machine.driven
        pieces = [(k - int(late) - 1, part), (k - int(late), 1.0 - part)]
        if experiment.drift != 1.0:
            plant.rub(_scaled(friction, 1 + (experiment.drift - 1) * k / ticks))
        acceleration, stuck, torque = None, None, None
        for index, share in pieces:
            if share > 0:
                acts = experiment.gain * (sent[index] if index >= 0 else np.zeros_like(u)) + shake
                found = plant.advance(_spread(acts, seen, plant), share * tick)
                if acceleration is None:
                    acceleration, stuck, torque = found[seen], plant.stuck[seen].copy(), acts
        if k % experiment.ticks == 0:
            rows.append((k * tick, q, v, acceleration, u, goal, torque, stuck))
    return _logged(experiment, machine, force, rows)


def _rng(experiment: Experiment, purpose: int) -> np.random.Generator:
    return np.random.default_rng([experiment.run, experiment.robot, purpose, *experiment.family.encode()])


def _logged(experiment: Experiment, machine: Machine, force: np.ndarray, rows: list) -> Log:
    """What encoders and clock make of it."""
    time, q, v, a, u, goal, torque, stuck = (np.array(column) for column in zip(*rows, strict=True))
    rng = _rng(experiment, 4)
    low, high = NOISE[experiment.noise]
    read = q
    if high:
        size = np.exp(rng.uniform(np.log(low), np.log(high))) * np.where(machine.slides, METRES, 1.0)
        if rng.uniform() < 0.5:
            read = q + size * rng.standard_normal(q.shape)
        else:  # an encoder's steps; a third of one is white noise of their own
            step = size * np.sqrt(12)
            read = step * np.round(q / step + rng.standard_normal(q.shape) / 3)
    if experiment.measured:
        u = torque + MEASURED * force * rng.standard_normal(u.shape) * machine.driven
    stamps = time + experiment.jitter / experiment.rate * rng.standard_normal(len(time))
    return Log(stamps, read, u, goal, q, v, a, stuck, force)


class _Law:
    """A reference of sines within reach, and forces that follow it; where a joint swings, hardly more than those."""

    def __init__(self, experiment: Experiment, machine: Machine, felt: np.ndarray):
        rng = _rng(experiment, 5)
        swings = not machine.driven.all()
        self.machine, self.felt = machine, felt
        self.model = pinocchio_model(machine)
        self.data = self.model.createData()
        self.rate = 2 * np.pi * experiment.pace * (SOFT_BASE if swings else BASE) * np.arange(1, HARMONICS + 1)
        shape = rng.standard_normal((2, HARMONICS, machine.count)) / np.sqrt(np.arange(1, HARMONICS + 1))[None, :, None]
        grid = np.linspace(0, 2 * np.pi / self.rate[0], 400)[:, None] * self.rate
        largest = np.abs(np.sin(grid) @ shape[0] + np.cos(grid) @ shape[1]).max(0)
        self.shape = shape * experiment.amplitude * machine.reach / largest
        self.stiff = SOFT if swings else STIFF
        self.swings, self.rng = swings, rng

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At rest near the middle; what swings begins somewhere else."""
        away = np.where(self.machine.driven, 0.0, self.rng.uniform(0.4, 1.2, self.machine.count))
        return away, np.zeros_like(away), np.zeros_like(away)

    def goal(self, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The reference and its two derivatives; it grows from rest."""
        s, c, w = np.sin(self.rate * time), np.cos(self.rate * time), self.rate
        a, b = self.shape
        q, v = s @ a + c @ b, (c * w) @ a - (s * w) @ b
        acc = -(s * w**2) @ a - (c * w**2) @ b
        x = min(time / SETTLE, 1.0)
        g, g1, g2 = x * x * (3 - 2 * x), 6 * x * (1 - x) / SETTLE, (6 - 12 * x) * (x < 1) / SETTLE**2
        return g * q, g * v + g1 * q, g * acc + 2 * g1 * v + g2 * q

    def __call__(self, time: float, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        goal, speed, acceleration = self.goal(time)
        wanted = acceleration + self.stiff**2 * (goal - q) + 2 * self.stiff * (speed - v)
        weight = 0.0 if self.swings else pinocchio.computeGeneralizedGravity(self.model, self.data, goal)
        return goal, np.where(self.machine.driven, self.felt * wanted + weight, 0.0)


# Joints that bend ------------------------------------------------------------------------------------------------


def _plant(experiment: Experiment, machine: Machine) -> tuple[Plant, np.ndarray]:
    """The plant, and which of its joints have encoders."""
    if not experiment.flexible:
        return Plant(pinocchio_model(machine), machine.friction, experiment.step), np.arange(machine.count)
    bends = int(np.flatnonzero(machine.driven)[-1])
    longer = _bending(machine, bends)
    seen = np.delete(np.arange(longer.count), bends + 1)
    springs, dampers = np.zeros((2, longer.count))
    springs[bends + 1] = experiment.flexible
    felt = efforts(machine)[0][bends]
    dampers[bends + 1] = 2 * BENDING * np.sqrt(experiment.flexible * felt)
    return Plant(pinocchio_model(longer), longer.friction, experiment.step, springs, dampers), seen


def _bending(machine: Machine, joint: int) -> Machine:
    """The machine with a rotor of its own before one link: motor and encoder turn the rotor, a spring the link."""
    order = [*range(joint + 1), *range(joint, machine.count)]

    def moved(parent: int) -> int:
        return parent + (parent >= joint)

    pieces: list[Piece] = [machine.pieces[i] for i in order]
    for i, piece in enumerate(pieces):
        parent = joint if i == joint + 1 else moved(piece.parent) if i > joint else piece.parent
        pieces[i] = piece._replace(parent=parent)
    rows = {name: getattr(machine, name)[order] for name in ("origins", "axes", "bodies", "armature")}
    rows["bodies"][joint] = np.diag([1e-5, 1e-5, 1e-5, 0.01])
    rows["origins"][joint + 1] = 0.0
    rows["armature"][joint + 1] = 0.0
    friction = {name: values[order] for name, values in vars(machine.friction).items()}
    for name in ("static", "kinetic", "viscous"):
        friction[name][joint + 1] = 0.0
    return replace(machine, pieces=tuple(pieces), friction=Friction(**friction), **rows)


def _spread(values: np.ndarray, seen: np.ndarray, plant: Plant) -> np.ndarray:
    full = np.zeros(plant.model.nv)
    full[seen] = values
    return full


def _full(friction: Friction, seen: np.ndarray, plant: Plant) -> Friction:
    rows = {name: _spread(values, seen, plant) for name, values in vars(friction).items()}
    return Friction(**{**rows, "speed": np.maximum(rows["speed"], 1e-3)})


def _scaled(friction: Friction, factor: float) -> Friction:
    return replace(
        friction,
        static=factor * friction.static,
        kinetic=factor * friction.kinetic,
        viscous=factor * friction.viscous,
    )
