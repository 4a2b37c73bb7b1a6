"""Forward dynamics and parameter gradients on one GPU: thousand million evaluations a second, float32.

    python benchmarks/gpu.py [folder with panda.urdf and talos_reduced.urdf] [--samples N] [--json FILE]

A call runs kernels on several sets of samples, so that nothing stays in the cache and JAX's own time for a call is
shared by many; calls are queued; the median over repeats counts. Results are compared with the CPU's in float64.
"""

import argparse
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import diffnea as dn

SETS, CALLS, REPEATS = 6, 20, 7
CHECKED = 4096
TARGETS = {"panda forward": 13.0, "panda gradient": 4.0, "talos forward": 2.0}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="?", type=Path, default=Path(sys.prefix))
    parser.add_argument("--samples", type=int, default=2**20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    gpu, cpu = jax.devices("cuda")[0], jax.devices("cpu")[0]
    print(f"{gpu.device_kind}, JAX {jax.__version__}, {options.samples} samples, float32; backends {dn.backends()}")
    rows = []
    for name, file in (("panda", "panda"), ("talos", "talos_reduced")):
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
            print(
                f"{row['case']:16} {speed / 1e9:7.2f} ({aim})  compiled in {compiled:5.2f} s  apart {apart:.1e}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
