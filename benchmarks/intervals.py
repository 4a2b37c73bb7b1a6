"""How often the 95 % intervals of a fit hold the truth, on simulated experiments with known truth.

    python benchmarks/intervals.py --processes 16                   200 experiments each: 330 s on 16 cores
    python benchmarks/intervals.py --experiments 20 --systems cartpole --noise white

Noise is "white" (positions, velocities and accelerations are given, and white noise of 2 % is on the accelerations) or
"smoothed" (only positions are given, read from encoders with noise of half a step, and differentiated by `dn.fit`).
Every start is 20 % off in all inertial numbers. A case passes if 90 to 98 % of all intervals hold the truth. Fits that
say themselves that they are not to be trusted (verdict other than "accepted") are counted apart.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import files
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import diffnea as dn
from diffnea import actuators
from diffnea.systems import varied

NOISE = ("white", "smoothed")
LEVEL = 0.02  # of white noise, as a share of the accelerations' spread
LENGTH = 3000  # samples
PASSED = 0.90, 0.98
ENCODER = 2 * np.pi / 2**17  # an arm's, at the joint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--noise", nargs="+", choices=NOISE, default=list(NOISE))
    parser.add_argument("--learn", nargs="+", default=["inertia", "actuator"])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes below: each has a core of its own
    results = []
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        for name in given.systems:
            for noise in given.noise:
                one = partial(experiment, name, noise, tuple(given.learn))
                began = time.perf_counter()
                found = list(pool.map(one, range(given.experiments)))
                results.append(case(name, noise, found, time.perf_counter() - began))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2))


class Outcome(NamedTuple):
    """An experiment: of each combination whether its interval holds the truth, and how far off it is in std."""

    accepted: bool
    inertial: int = 0
    held: tuple[tuple[str, bool, float], ...] = ()


def experiment(name: str, noise: str, learn: tuple[str, ...], seed: int) -> Outcome:
    """One experiment, and the fit's intervals beside the truth."""
    jax.config.update("jax_enable_x64", True)
    truth, recording = SYSTEMS[name](seed, noise)
    start = replace(truth.robot, inertia=jax.tree.map(lambda x: 0.8 * x, truth.robot.inertia))
    fit = dn.fit(start, recording, learn=learn, actuator="viscous", method="lm", seed=seed)
    if fit.verdict != "accepted":
        return Outcome(False)
    rows = []
    for each in fit.identifiable:
        true = each.of(truth)
        rows.append((each.formula, bool(each.lower <= true <= each.upper), float((each.value - true) / each.std)))
    return Outcome(True, sum(each.kind == "inertia" for each in fit.identifiable), tuple(rows))


def case(name: str, noise: str, found: list[Outcome], seconds: float) -> dict:
    """All experiments of one system and kind of noise; prints and returns the coverage."""
    accepted = [each for each in found if each.accepted]
    figures = {"system": name, "noise": noise, "experiments": len(found), "refused": len(found) - len(accepted)}
    if not accepted:
        print(f"{name}, {noise}: none of {len(found)} fits was accepted, FAILED")
        return figures
    held: dict[str, list[tuple[bool, float]]] = {}
    for formula, holds, error in (row for each in accepted for row in each.held):
        held.setdefault(formula, []).append((holds, error))
    all_of_them = [holds for rows in held.values() for holds, _ in rows]
    share, counts = float(np.mean(all_of_them)), [each.inertial for each in accepted]
    said = "passed" if PASSED[0] <= share <= PASSED[1] else "FAILED"
    span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    print(f"{name}, {noise}: {share:.1%} of {len(all_of_them)} intervals hold the truth, {said}; ", end="")
    print(f"{span} inertial, {figures['refused']} of {len(found)} fits not accepted, {seconds:.0f} s", flush=True)
    for formula, rows in held.items():
        hits, error = (np.array(column) for column in zip(*rows, strict=True))
        print(f"    {np.mean(hits):6.1%}  error in std: mean {error.mean():+.2f}, spread {error.std():.2f}  {formula}")
    return {**figures, "coverage": share, "inertial": counts}


def _pendulum(make):
    system = make()
    truth = dn.Model(system.robot, actuators.Viscous.of(system.robot.damping))

    def experiment(seed: int, noise: str) -> tuple[dn.Model, dn.Recording]:
        """A swing-up, with its controller drawn anew."""
        rng = np.random.default_rng(seed)
        law = varied(system.swing_up, jax.random.key(seed), 0.1)
        run = dn.rollout(truth, 0.05 * rng.normal(size=2), np.zeros(2), law, dt=system.dt, steps=LENGTH)
        q, qd, u, clock = (np.asarray(x) for x in (run.q, run.qd, run.u, run.time))
        step = np.asarray(system.sensors.encoder_step)
        return truth, _measured(rng, noise, clock, q, qd, np.asarray(truth(q, qd, u)), u, step, truth.robot)

    return experiment


def _arm(seed: int, noise: str) -> tuple[dn.Model, dn.Recording]:
    """Six joints of a UR5 along sums of sines, with the torques that this takes.

    Where accelerations are given, torques are those of the same instant. A command is held until the next sample:
    beside positions it is the torque in the middle of that time.
    """
    truth, rng = _ur5(), np.random.default_rng(seed)
    clock = np.arange(LENGTH) / 250
    shape = rng.normal(size=(2, 5, 6)) / np.arange(1, 6)[:, None]
    q, qd, qdd = _sines(clock, shape)
    then = (q, qd, qdd) if noise == "white" else _sines(clock + 0.5 / 250, shape)
    u = np.asarray(dn.inverse_dynamics(truth.robot, *then)) + np.asarray(truth.actuator.viscous) * then[1]
    return truth, _measured(rng, noise, clock, q, qd, qdd, u, np.full(6, ENCODER), truth.robot)


def _sines(clock: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and accelerations of 0.1 to 0.5 Hz, one period in ten seconds."""
    pace = 2 * np.pi * np.arange(1, 6) * 0.1
    phase, rate = clock[:, None] * pace, pace[:, None]
    s, c = np.sin(phase), np.cos(phase)
    return (
        s @ shape[0] + c @ shape[1],
        c @ (rate * shape[0]) - s @ (rate * shape[1]),
        -s @ (rate**2 * shape[0]) - c @ (rate**2 * shape[1]),
    )


def _ur5() -> dn.Model:
    path = next(Path(str(f.locate())) for f in files("example-robot-data") or () if f.name == "ur5_robot.urdf")
    robot = dn.load_robot(path)
    return dn.Model(robot, actuators.Viscous.of(jnp.array([8.0, 8.0, 5.0, 1.0, 1.0, 0.5])))


def _measured(rng, noise: str, clock, q, qd, qdd, u, step, robot: dn.Robot) -> dn.Recording:
    names = robot.joint_names
    if noise == "white":
        qdd = qdd + LEVEL * qdd.std(axis=0) * rng.normal(size=qdd.shape)
        return dn.Recording(time=clock, q=q, qd=qd, qdd=qdd, u=u, joint_names=names)
    read = np.round((q + step / 2 * rng.normal(size=q.shape)) / step) * step
    return dn.Recording(time=clock, q=read, u=u, joint_names=names)


SYSTEMS = {"cartpole": _pendulum(dn.systems.cartpole), "furuta": _pendulum(dn.systems.furuta), "arm": _arm}

if __name__ == "__main__":
    main()
