"""One cell: data, fit, judgement. A pure function of the cell; what goes wrong becomes a record that says so."""

import time
import traceback
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from threadpoolctl import threadpool_limits

from diffnea import actuators, systems
from diffnea.actuators import AbstractActuator, Gain, Motor
from diffnea.benchmark import datasets
from diffnea.benchmark.datasets import Data
from diffnea.benchmark.grid import Cell
from diffnea.benchmark.judging import judge, sheet_errors
from diffnea.benchmark.records import Record
from diffnea.identify import fit
from diffnea.identify.options import JudgeOptions, Options
from diffnea.models import FeedForward, Model, unlimited
from diffnea.recordings import Recording, samples_of

LEARNED = {"DiffNEA": ("inertia",), "no-Kin": ("inertia", "kinematics"), "NEA": ("inertia",)}
# Machines that a data sheet describes, and not exactly.
UNKNOWN = ("real", "stand-in")
STARTS, QUICK_STARTS = 8, 4
# Networks: Levenberg-Marquardt stops early, since what it gains later is noise, and fewer starts serve.
NETWORK, QUICK_NETWORK = {"starts": 4, "steps": 10}, {"starts": 2, "steps": 10}
# Of ADAM: as in the paper, and in a quick run.
STEPS, QUICK_STEPS = 10_000, 2_000
# A record has no place for what might be wrong with recordings, so nothing is looked for.
WITHOUT_HINTS = Options(judge=JudgeOptions(hint_below=0.0))
# A plain network is trained by ADAM in either way of training, with fewer steps, since it has many more numbers.
PLAIN_STEPS, QUICK_PLAIN_STEPS = 5_000, 1_500


def run(cell: Cell) -> Record:
    """A cell's record, made here and now; an exception becomes one with its error.

    Args:
        cell: which.
    """
    try:
        # Several BLAS threads round otherwise than one, and wait for other workers' threads.
        with threadpool_limits(1, "blas"), jax.enable_x64(True):
            return _run(cell)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = " ".join(str(error).split())
        return Record(cell, error=f"{type(error).__name__}: {line} ({where.name}, line {where.lineno})")


def _run(cell: Cell) -> Record:
    system = getattr(systems, cell.system)()
    data = datasets.load(cell.system, cell.dataset, cell.seed, cell.quick)
    with _stopwatch() as watch:
        found = _fit(cell, data)
    numbers, arrays = judge(found.model, data, system, cell.quick)
    if cell.dataset in UNKNOWN:
        numbers["sheet"] = sheet_errors(cell.system, cell.dataset, cell.seed, cell.quick)
    numbers["fit"] = {
        "seconds": watch["seconds"],
        "compile_seconds": min(watch["compiling"], watch["seconds"]),
        "loss": float(found.loss),
        "converged": found.status == "converged",
        "verdict": str(found.verdict),
        "method": found.config["method"],
    }
    return Record(cell, numbers, arrays)


def _fit(cell: Cell, data: Data) -> Any:
    entry = cell.entry
    options: dict[str, Any] = {"seed": cell.seed, "test": data.check, "options": WITHOUT_HINTS}
    options["starts"] = QUICK_STARTS if cell.quick else STARTS
    steps: dict[str, Any] = {"steps": QUICK_STEPS if cell.quick else STEPS}
    if entry.family == "FF-NN":
        options |= {"method": "adam", "starts": 1, "steps": QUICK_PLAIN_STEPS if cell.quick else PLAIN_STEPS}
        return fit(_network(cell, data), data.train, **options)
    if entry.family == "NEA" and data.motor is not None:
        return _linear_with_voltages(data, data.motor, options)
    actuator, learned = _actuator(cell, data)
    method = "linear" if entry.family == "NEA" else "adam" if cell.training == "adam" else "auto"
    options |= {"start": entry.start, "method": method} | (steps if method == "adam" else {})
    if method == "auto":
        options["loss"] = "acceleration"  # the paper's; roll-outs only where they are meant to be
    if method == "auto" and entry.actuator.startswith("nn-"):
        options |= QUICK_NETWORK if cell.quick else NETWORK
    given = data.thinned
    if method == "auto" and follows_trajectories(cell) and isinstance(data.train, list):
        options["loss"], given = "trajectory", data.train  # samples without order have no trajectories
    return fit(data.prior, given, learn=(*LEARNED[entry.family], *learned), actuator=actuator, **options)


def follows_trajectories(cell: Cell) -> bool:
    """Whether a cell's fit goes on with roll-outs of its recordings.

    No model is exact on a real machine, and where none is, accelerations and roll-outs ask for different numbers.
    Networks are left out, for the time they take, and so are models without friction, which gain nothing, unless
    roll-outs are asked for by name.
    """
    few = cell.entry.actuator in ("viscous", "stribeck")
    usual = cell.training == "auto" and cell.dataset in UNKNOWN and few and not cell.quick
    return cell.training == "trajectory" or usual


def _linear_with_voltages(data: Data, motor: Motor, options: dict[str, Any]) -> Any:
    """Linear regression wants torques: the data sheet's torque for a volt; back-EMF becomes viscous friction."""
    per_volt = np.asarray(motor.torque_per_volt)

    def torques(recordings: Any) -> list[Recording]:
        return [recording.replace(u=recording.u * per_volt) for recording in recordings]

    options = options | {"test": torques(data.check), "method": "linear", "actuator": "viscous"}
    found = fit(data.prior, torques(data.thinned), learn=("inertia", "actuator"), **options)
    gain = Gain.of(per_volt, driven=(True, False))
    assert isinstance(found.model, Model)
    return replace(found, model=Model(found.robot, actuators.combine(gain, found.model.actuator)))


def _actuator(cell: Cell, data: Data) -> tuple[str | AbstractActuator, tuple[str, ...]]:
    """The actuator, and whether it is learned.

    Where inputs are voltages, models with friction learn a motor. Those without take the data sheet's torque for a
    volt, unlearned: a motor's back-EMF is friction, and a free gain would hide what friction does to masses.
    """
    name = cell.entry.actuator
    if data.motor is None:
        return name, () if name == "ideal" else ("actuator",)
    if name == "ideal":
        return Gain.of(np.asarray(data.motor.torque_per_volt), driven=(True, False)), ()
    if cell.entry.start == "random":
        return f"motor+{name}", ("actuator",)
    friction = actuators.for_robot(name, data.prior, key=jax.random.key(cell.seed))
    return actuators.combine(data.motor, friction), ("actuator",)


def _network(cell: Cell, data: Data) -> FeedForward:
    samples = data.train if not isinstance(data.train, list) else samples_of(data.train)
    arrays = (samples.q, samples.qd, samples.u, samples.qdd)
    return FeedForward.for_samples(*arrays, key=jax.random.key(cell.seed), wraps=unlimited(data.prior))


@contextmanager
def _stopwatch():
    """Seconds that pass, and how many of them JAX spends on making programs."""
    spent = {"seconds": 0.0, "compiling": 0.0}

    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event.startswith("/jax/core/compile"):
            spent["compiling"] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    try:
        yield spent
    finally:
        spent["seconds"] = time.perf_counter() - start
        jax.monitoring.unregister_event_duration_listener(listen)
