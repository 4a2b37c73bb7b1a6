"""Forward dynamics, parameter gradients and whole roll-outs on one GPU, float32.

    python benchmarks/gpu.py [folder with panda.urdf and talos_reduced.urdf] [--samples N] [--note MACHINE]

A call runs kernels on several sets of samples, so that nothing stays in the cache and JAX's own time for a call is
shared by many; calls are queued; the median over repeats counts. Results are compared with the CPU's in float64.
Roll-outs are 65 536 of 1 000 RK4 steps in one launch: once under constant torques with the last state kept, once with a
torque a step read and every state kept.
"""

import argparse
import json
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contestants import acceleration, runge_kutta, whole
from history import note
from robots import FURUTA

import diffnea as dn
from diffnea import batching

SETS, CALLS, REPEATS = 6, 20, 7
CHECKED = 4096
ROLLED, STEPS, CHECKED_STEPS = 65_536, 1_000, 20  # undamped arms are chaotic: late states drift apart
ROLL_TARGETS = {"furuta": 2.5e-3, "panda": 16e-3}
TARGETS = {"panda forward": 13.0, "panda gradient": 4.0, "talos forward": 2.0, "talos gradient": 1.0}


def robot(folder: Path, name: str) -> dn.Robot:
    """A robot of example-robot-data; the Panda with its fingers held, so that it has seven joints."""
    found = next(iter(sorted(folder.rglob(f"{name}.urdf"))), None)
    if found is None:
        sys.exit(f"{folder}: no {name}.urdf in it; give the folder of example-robot-data's robots")
    text = re.sub(r'(name="panda_finger_joint\d" type=)"prismatic"', r'\1"fixed"', found.read_text())
    path = Path(jax.config.jax_compilation_cache_dir or "/tmp") / f"diffnea_{name}.urdf"
    path.write_text(re.sub(r"<mimic[^>]*/>", "", text))
    return dn.load_robot(path, allow_unphysical=True)


def samples(count: int, n: int, seed: int, dtype: Any) -> list[np.ndarray]:
    """q, q̇, τ and weights of the accelerations."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, n)).astype(dtype) for _ in range(4)]


def forward(robot: dn.Robot, q, qd, tau, _weights):
    return dn.forward_dynamics(robot, q, qd, tau)


def gradient(robot: dn.Robot, q, qd, tau, weights):
    """Of a weighted sum of accelerations, in all inertial parameters."""

    def total(inertia):
        return jnp.sum(weights * dn.forward_dynamics(replace(robot, inertia=inertia), q, qd, tau))

    return jax.grad(total)(robot.inertia)


def rate(function: Callable, robot: dn.Robot, sets: Sequence[Sequence[Any]]) -> tuple[float, float]:
    """Evaluations a second, and seconds to trace and compile."""
    start = time.perf_counter()
    # The robot's geometry is known when this is traced, as it is in a call from outside: its zeros cost nothing.
    run = jax.jit(lambda sets: [function(robot, *arrays) for arrays in sets]).lower(sets).compile()
    compiled = time.perf_counter() - start
    jax.block_until_ready([run(sets) for _ in range(2)])
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(CALLS):
            results = run(sets)
        jax.block_until_ready(results)
        times.append(time.perf_counter() - start)
        del results
    return CALLS * len(sets) * len(sets[0][0]) / float(np.median(times)), compiled


def difference(function: Callable, robot: dn.Robot, gpu, cpu) -> float:
    """Of float32 on the GPU from float64 on the CPU, relative, in the norm."""

    def on(device, dtype):
        cast = jax.tree.map(lambda x: jax.device_put(np.asarray(x, dtype), device), robot)
        arrays = [jax.device_put(x.astype(dtype), device) for x in samples(CHECKED, robot.num_joints, 99, np.float64)]
        with jax.default_device(device):
            return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(function(cast, *arrays))]).astype(float)

    found, expected = on(gpu, np.float32), on(cpu, np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def last(robot: dn.Robot, state, torque, _torques):
    """The state after a roll-out under a constant torque."""

    def step(state, _):
        return runge_kutta(lambda x: jnp.stack([x[1], acceleration(robot, x[0], x[1], torque)]), state), None

    return jax.lax.scan(step, state, length=len(_torques))[0]


def every(robot: dn.Robot, state, _torque, torques):
    """All states of a roll-out under a torque a step."""
    return whole(robot, state, torques)


def rolled(function: Callable, robot: dn.Robot, device, count: int, steps: int, dtype: Any) -> tuple[Callable, list]:
    """Roll-outs ready to run on a device, and what they start from."""
    n, rng = robot.num_joints, np.random.default_rng(0)
    state, torque = rng.uniform(-1, 1, (count, 2, n)).astype(dtype), rng.uniform(-1, 1, (count, n)).astype(dtype)
    robot = jax.tree.map(lambda x: jax.device_put(np.asarray(x, dtype), device), robot)
    kernel = batching.kernel_for(function, batching.whole_numbers(robot))
    arrays = [jax.device_put(array, device) for array in (state, torque)]
    arrays.append(jax.jit(lambda torque: jnp.repeat(torque[:, None], steps, 1))(arrays[1]))
    return jax.jit(lambda *arrays: jax.vmap(kernel, (None, 0, 0, 0))(robot, *arrays)), arrays


def roll(name: str, what: str, function: Callable, robot: dn.Robot, gpu, cpu) -> dict[str, Any]:
    """Seconds of whole roll-outs."""
    run, arrays = rolled(function, robot, gpu, ROLLED, STEPS, np.float32)
    start = time.perf_counter()
    run = run.lower(*arrays).compile()
    compiled = time.perf_counter() - start
    jax.block_until_ready(run(*arrays))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(run(*arrays))
        times.append(time.perf_counter() - start)
    places = ((gpu, np.float32), (cpu, np.float64))
    short = [rolled(function, robot, device, CHECKED, CHECKED_STEPS, dtype) for device, dtype in places]
    found, expected = (np.asarray(function(*arrays), float) for function, arrays in short)
    apart = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    target = ROLL_TARGETS[name] if what == "last" else None
    return {
        "case": f"{name} {what}",
        "seconds": float(np.median(times)),
        "target": target,
        "compile_s": compiled,
        "rel": apart,
    }


def roll_outs(folder: Path, gpu, cpu) -> list[dict[str, Any]]:
    """Of the Furuta pendulum and the Panda."""
    path = Path(tempfile.mkdtemp()) / "furuta.urdf"
    path.write_text(FURUTA)
    robots = {"furuta": dn.load_robot(path), "panda": robot(folder, "panda")}
    rows = []
    for name, one in robots.items():
        for what, function in (("last", last), ("every", every)):
            row = roll(name, what, function, one, gpu, cpu)
            rows.append(row)
            aim = f"≤ {1e3 * row['target']:g}" if row["target"] else "–"
            print(
                f"{row['case']:16} {1e3 * row['seconds']:7.2f} ms ({aim})  compiled in {row['compile_s']:5.2f} s  "
                f"apart {row['rel']:.1e}",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="?", type=Path, default=Path(sys.prefix))
    parser.add_argument("--samples", type=int, default=2**20)
    parser.add_argument("--only", choices=("rollouts", "evaluations"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--note", metavar="MACHINE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    gpu, cpu = jax.devices("cuda")[0], jax.devices("cpu")[0]
    print(f"{gpu.device_kind}, JAX {jax.__version__}, {options.samples} samples, float32; backends {dn.backends()}")
    rows = [] if options.only == "evaluations" else roll_outs(options.robots, gpu, cpu)
    for name, file in () if options.only == "rollouts" else (("panda", "panda"), ("talos", "talos_reduced")):
        loaded = jax.tree.map(lambda x: jax.device_put(np.asarray(x, np.float32), gpu), robot(options.robots, file))
        for what, function in (("forward", forward), ("gradient", gradient)):
            shape, keys = (options.samples, loaded.num_joints), jax.random.split(jax.random.key(0), SETS)
            sets = [list(jax.random.normal(key, (4, *shape), np.float32)) for key in keys]
            speed, compiled = rate(function, loaded, sets)
            apart = difference(function, loaded, gpu, cpu)
            del sets
            target = TARGETS.get(f"{name} {what}")
            row = {"case": f"{name} {what}", "per_second": speed, "target": target, "compile_s": compiled, "rel": apart}
            rows.append(row)
            aim = f"≥ {target:g}" if target else "–"
            if options.note:
                note(options.note, f"{row['case']} {options.samples}, thousand million/s", speed / 1e9)
                note(options.note, f"{row['case']} {options.samples}, trace and compile s", compiled)
            print(
                f"{row['case']:16} {speed / 1e9:7.2f} ({aim})  compiled in {compiled:5.2f} s  apart {apart:.1e}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
