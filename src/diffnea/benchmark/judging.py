"""How a model is judged: accelerations, roll-outs of recorded motion, energy without input, physical numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import batches, systems
from diffnea.actuators import Viscous, combine
from diffnea.benchmark.datasets import Data, Held, load
from diffnea.benchmark.numbers import INTEGRATORS, RANGES, EnergyNumbers, Observable, RolloutNumbers
from diffnea.benchmark.real import motors
from diffnea.identify.judge import windows as identify_windows
from diffnea.identify.judge.windows import HORIZONS, Prediction, Windows
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import AbstractModel, Model
from diffnea.recordings import Samples
from diffnea.robot import Robot
from diffnea.simulate import rollout
from diffnea.systems import System

WINDOWS, QUICK_WINDOWS, MANY = 48, 24, 10_000
SHOWN = 2  # windows kept for the figure
STRIDE = 0.1  # seconds between the starts of windows, before some are chosen
# A roll-out this many times faster than any window begins has left the world. Without input there is nothing measured
# that a motion could be compared with.
RUNAWAY = 100.0
# Energy that rises by this share of what it takes to swing the pole up has been made from nothing.
GAIN = 0.01
# A change of energy below this share of it may be rounding, after thousands of steps.
ROUNDING = 1e-9
EVERY = 5  # samples between those kept of energies


def windows(data: Data, quick: bool) -> Windows:
    """As many windows of the longest horizon, evenly over the recordings that were never fitted."""
    tracks = [_track(held) for held in data.test]
    spread = np.concatenate([held.q for held in data.test]).std(0)
    every = identify_windows.windows(tracks, spread, HORIZONS[-1], STRIDE, most=MANY)
    assert every is not None
    count = QUICK_WINDOWS if quick else WINDOWS
    return every.take(np.linspace(0, len(every.q0) - 1, count).round().astype(int))


def _track(held: Held) -> Track:
    """A recording as the verdict of a fit sees it: states without noise to roll out from, beside what was read."""
    run = held.recording
    q, qd, qdd, u, read = (np.asarray(array, float) for array in (held.q, run.qd, run.qdd, run.u, run.q))
    return Track(run.name or "", run.dt, q, qd, qdd, u, read)


def nmse(model: AbstractModel, samples: Samples) -> dict[str, float]:
    """Squared error of accelerations by their variance, mean and joint by joint."""
    wrong = np.asarray(model(samples.q, samples.qd, samples.u)) - samples.qdd
    each = np.mean(wrong**2, 0) / np.var(samples.qdd, 0)
    names = samples.joint_names or tuple(map(str, range(len(each))))
    return {"mean": float(np.mean(each))} | dict(zip(names, map(float, each), strict=True))


@dataclass(frozen=True)
class Motion:
    """Roll-outs of all windows, under recorded input (`driven`) or without: states, and which ones diverged."""

    q: Float[np.ndarray, "window time n"]
    qd: Float[np.ndarray, "window time n"]
    diverged: np.ndarray


def roll(model: AbstractModel, cut: Windows, integrator: Any) -> dict[str, Motion]:
    """What a model makes of the windows: `driven` by their inputs, free from `inside` and from `doubled` velocities."""
    nothing = np.zeros_like(cut.u)
    starts = np.concatenate([cut.q0] * 3), np.concatenate([cut.qd0, cut.qd0, 2 * cut.qd0])
    run = rollout(model, *starts, np.concatenate([cut.u, nothing, nothing]), cut.dt, integrator)
    q, qd = np.asarray(run.q), np.asarray(run.qd)
    away = (np.abs(qd).max(1) > RUNAWAY * np.max(np.abs(cut.qd0))).any(-1)
    if run.diverged_at is not None:
        away |= np.isfinite(np.asarray(run.diverged_at))
    count = len(cut.q0)
    parts = [slice(k * count, (k + 1) * count) for k in range(3)]
    return {name: Motion(q[part], qd[part], away[part]) for name, part in zip(("driven", *RANGES), parts, strict=True)}


def rollout_numbers(motion: Motion, cut: Windows) -> RolloutNumbers:
    """Errors by horizon, times of valid prediction and lost windows, as the verdict of a fit has them; divergence."""
    run = Prediction(motion.q, ~motion.diverged, cut)
    return {
        "horizons": {str(seconds): float(np.median(run.errors(seconds))) for seconds in HORIZONS},
        "valid_time_10": float(run.valid(0.1).mean()),
        "valid_time_40": float(run.valid(0.4).mean()),
        "lost": float(run.lost().mean()),
        "diverged": float(motion.diverged.mean()),
    }


def energies(model: AbstractModel, truth: Robot | None, motion: Motion) -> dict[str, np.ndarray]:
    """Energy since the start, `own` and `true` where there is one, as shares of what it takes to swing the pole up."""
    found = {}
    if isinstance(model, Model):
        found["own"] = _since_start(model, motion)
    if truth is not None:
        found["true"] = _since_start(Model(truth), motion)
    return found


def _since_start(model: Model, motion: Motion) -> np.ndarray:
    q, qd = motion.q[:, ::EVERY], motion.qd[:, ::EVERY]
    energy = np.asarray(model.energy(q, qd))
    poses = np.zeros((2, q.shape[-1]))
    poses[1, 1] = np.pi
    hanging, upright = np.asarray(model.energy(poses, np.zeros_like(poses)))
    # A fit may run away to masses so large that the rounding of their energy would pass for a gain.
    rounding = ROUNDING * np.abs(energy).max(axis=1, keepdims=True, initial=0.0)
    return (energy - energy[:, :1]) / np.maximum(abs(float(upright - hanging)), np.maximum(rounding, 1e-12))


def energy_numbers(found: dict[str, np.ndarray], motion: Motion) -> EnergyNumbers:
    """The shares of roll-outs that make energy from nothing."""

    def gain(name: str) -> float | None:
        return None if name not in found else float(np.mean((found[name].max(-1) > GAIN) | motion.diverged))

    return {"own_gain": gain("own"), "true_gain": gain("true"), "diverged": float(motion.diverged.mean())}


def observables(model: AbstractModel, data: Data, system: System) -> list[Observable]:
    """Entries of the mass matrix with the pole hanging and level, the pull of gravity, and viscous friction."""
    if not isinstance(model, Model):
        return []
    share = _drive_share(model, data)
    values = {name: value / share for name, value in _seen(model.robot).items()}
    nominal = _seen(system.robot)
    truth = dict.fromkeys(values) if data.truth is None else _seen(data.truth)
    unit = "kg" if system.name == "cartpole" else "kg·m²"
    units = dict.fromkeys(values, unit) | {"mass matrix 2,2": "kg·m²", "gravity": "N·m"}
    if system.name == "cartpole":
        units["mass matrix 1,2"] = "kg·m"
    rows: list[Observable] = [
        {"name": name, "unit": units[name], "value": value, "truth": truth[name], "nominal": nominal[name]}
        for name, value in values.items()
    ]
    return rows + _friction(model, data, system, share)


def _drive_share(model: Model, data: Data) -> float:
    """The learned torque for a volt by that of the data sheet.

    Voltages and motion tell only ratios to it: a stronger motor with heavier links moves alike.
    """
    learned = motors(model.actuator)
    if not learned or data.motor is None:
        return 1.0
    return float(learned[0].torque_per_volt[0] / data.motor.torque_per_volt[0])


def _seen(robot: Robot) -> dict[str, float]:
    hanging, level = np.zeros(2), np.array([0.0, np.pi / 2])
    M, aside = (np.asarray(batches.mass_matrix(robot, q)) for q in (hanging, level))
    pull = np.asarray(batches.gravity_torque(robot, level))
    names = ("mass matrix 1,1", "mass matrix 1,2", "mass matrix 2,2", "mass matrix 1,1 level", "gravity")
    return dict(zip(names, map(float, (M[0, 0], M[0, 1], M[1, 1], aside[0, 0], abs(pull[1]))), strict=True))


def _friction(model: Model, data: Data, system: System, share: float) -> list[Observable]:
    """What resists at a moderate speed, divided by that speed."""
    speed = 0.3 * jnp.asarray(system.limits.velocity)
    lost = model.actuator.resistance(jnp.zeros_like(speed), speed)
    values = np.asarray(lost.dry / speed + lost.viscous) / share
    rows: list[Observable] = []
    for k, value in enumerate(values):
        unit = "N·s/m" if system.name == "cartpole" and k == 0 else "N·m·s/rad"
        truth = None if data.friction is None else float(data.friction[k])
        sheet = float(system.robot.damping[k])
        rows.append(
            {"name": f"friction {k + 1}", "unit": unit, "value": float(value), "truth": truth, "nominal": sheet}
        )
    return rows


def sheet(data: Data, system: System) -> Model:
    """The system by its data sheet: nothing learned."""
    friction = Viscous.of(np.asarray(system.robot.damping))
    return Model(system.robot, friction if data.motor is None else combine(data.motor, friction))


@lru_cache(maxsize=64)
def sheet_errors(system: str, dataset: str, seed: int, quick: bool) -> dict[str, float | None]:
    """Roll-out errors of the data sheet by horizon, to measure a fit against."""
    data, machine = load(system, dataset, seed, quick), getattr(systems, system)()
    cut = windows(data, quick)
    return rollout_numbers(roll(sheet(data, machine), cut, "auto")["driven"], cut)["horizons"]


def judge(
    model: AbstractModel, data: Data, system: System, quick: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All numbers of a fitted model but those of the fit, and the arrays for the figures."""
    cut = windows(data, quick)
    numbers: dict[str, Any] = {"title": data.title, "energy_class": model.energy_class}
    numbers |= {"nmse": nmse(model, data.samples), "rollout": {}, "energy": {span: {} for span in RANGES}}
    arrays = {"time": cut.time, "measured_q": cut.measured[:SHOWN], "energy_time": cut.time[::EVERY]}
    for integrator in INTEGRATORS:
        moved = roll(model, cut, integrator)
        numbers["rollout"][integrator] = rollout_numbers(moved["driven"], cut)
        arrays[f"{integrator}_q"] = moved["driven"].q[:SHOWN]
        for span in RANGES:
            found = energies(model, data.truth, moved[span])
            numbers["energy"][span][integrator] = energy_numbers(found, moved[span])
            if (trace := _trace(model, found)) is not None:
                arrays[f"energy_{span}_{integrator}"] = trace[:SHOWN]
    numbers["observables"] = observables(model, data, system)
    return numbers, {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def _trace(model: AbstractModel, found: dict[str, np.ndarray]) -> np.ndarray | None:
    order: Sequence[str] = ("true", "own") if model.energy_class == "unbounded" else ("own", "true")
    return next((found[name] for name in order if name in found), None)
