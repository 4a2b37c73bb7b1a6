"""Roll-outs beside MuJoCo's: 1 000 steps from 256 states of the Furuta pendulum with Stribeck friction.

    python benchmarks/rollout.py [--rounds 15]

First the time of a first call in a fresh process without any cache, then both in turn on one core: medians and their
ratio. MuJoCo's `rollout` has the same robot with `frictionloss` and damping, its RK4 integrator as ours has four
stages, and in a second line its default (Euler, implicit in damping), which takes one.
"""

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tyro

STEPS, STATES, DT = 1000, 256, 1 / 250
COLD = "--cold"


@dataclass(frozen=True)
class Options:
    """How long to measure."""

    rounds: int = 15


def ours():
    """A call that rolls out, ready to be timed; made anew in each process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffnea as dn
    from diffnea.actuators import Stribeck
    from diffnea.simulate import rollout

    robot = dn.systems.furuta().robot
    friction = Stribeck.of(np.array([9e-4, 5e-5]), np.array([6e-4, 3e-5]), np.array([3e-4, 1e-5]), 4.0)
    model, (q, qd), u = dn.Model(robot, friction), starts(), np.zeros((STEPS, 2))
    return lambda integrator="auto": jax.block_until_ready(rollout(model, q, qd, u, DT, integrator=integrator).q)


def starts() -> tuple[np.ndarray, np.ndarray]:
    """Random states at the usual speeds."""
    rng = np.random.default_rng(0)
    return rng.uniform(-3, 3, (STATES, 2)), rng.uniform(-1, 1, (STATES, 2)) * [15.0, 25.0]


def theirs(integrator: str):
    """The same in MuJoCo, one thread."""
    import mujoco
    from mujoco import rollout

    import diffnea as dn

    robot = replace(
        dn.systems.furuta().robot, damping=np.array([3e-4, 1e-5]), friction=np.array([6e-4, 3e-5]), gear=np.ones(2)
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "furuta.xml"
        dn.save_robot(robot, path, fresh=True)
        spec = mujoco.MjSpec.from_file(str(path))
    spec.option.timestep = DT
    if integrator == "rk4":
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model = spec.compile()
    states = np.concatenate([np.zeros((STATES, 1)), *starts()], axis=1)
    data, controls = mujoco.MjData(model), np.zeros((STATES, STEPS, model.nu))
    return lambda: rollout.rollout(model, data, states, controls)


def cold() -> float:
    """Seconds from the robot to the result in a process that has only imported the package."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "DIFFNEA_CACHE": folder}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        command = [sys.executable, __file__, COLD]
        return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def timed(call, *arguments) -> float:
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def main(options: Options) -> None:
    print(f"first call, nothing cached: {cold():.2f} s")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    run = ours()
    calls = {
        "diffnea auto": run,
        "diffnea rk4": lambda: run("rk4"),
        "MuJoCo RK4": theirs("rk4"),
        "MuJoCo default": theirs("default"),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(options.rounds):
        for name, call in calls.items():
            times[name].append(timed(call))
    best = statistics.median(times["diffnea auto"])
    for name, found in times.items():
        median = statistics.median(found)
        rate, ratio = STEPS * STATES / median / 1e6, median / best
        print(
            f"{name:15s} {rate:8.3f} million steps/s   {ratio:7.1f} × the time of diffnea auto, best {min(found):.4f} s"
        )


if __name__ == "__main__":
    if COLD in sys.argv:
        import diffnea

        del diffnea
        print(timed(lambda: ours()()))
    else:
        main(tyro.cli(Options))
