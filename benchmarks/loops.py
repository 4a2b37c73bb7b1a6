"""Whole roll-outs as one kernel against MuJoCo's C `rollout`: RK4, every state kept, one core, float64.

    python benchmarks/loops.py [--robots furuta panda] [--samples 256] [--steps 1000] [--rounds 15] [--json FILE]

Both take turns in one process; medians count. Where others share the machine, the time a process has had a core for
(`cpu`) is what to compare: a turn takes so long that it is interrupted.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import numpy as np
from contestants import Diffnea, Inputs
from dynamics import COMPARED_STEPS, disagreement
from peers import Mujoco
from robots import write_files

TARGETS = {"furuta": 150, "panda": 60}


def clocks(run: Callable) -> tuple[float, float]:
    """Seconds on the wall and on the core."""
    wall, core = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - core


def contest(robot: str, samples: int, steps: int, rounds: int) -> dict:
    """Both in turn."""
    with TemporaryDirectory() as folder:
        files = write_files(robot, folder)
        inputs = Inputs(*np.random.default_rng(0).uniform(-1, 1, (3, samples, len(files.joints))))
        theirs = Mujoco(files, 1).rollout(inputs, steps)
        ours = Diffnea(files, 1).rollout(inputs, steps)
    first = clocks(ours.run)
    found, wanted = ours.read(ours.run()), theirs.read(theirs.run())
    turns = [(clocks(ours.run), clocks(theirs.run)) for _ in range(rounds)]
    wall, core = (
        [samples * steps / statistics.median(turn[who][clock] for turn in turns) for who in (0, 1)] for clock in (0, 1)
    )
    return {
        "robot": robot,
        "error": disagreement(found[:, :COMPARED_STEPS], wanted[:, :COMPARED_STEPS]),
        "first_call_s": {"wall": first[0], "cpu": first[1]},
        "steps_per_second": {"wall": wall, "cpu": core},
        "times": {"wall": wall[0] / wall[1], "cpu": core[0] / core[1]},
        "target": TARGETS.get(robot),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", nargs="+", default=["furuta", "panda"])
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # before JAX counts the cores
    rows = []
    print(f"JAX {jax.__version__}, {options.samples} samples, {options.steps} steps, one core, float64")
    for robot in options.robots:
        row = contest(robot, options.samples, options.steps, options.rounds)
        rows.append(row)
        for clock in ("wall", "cpu"):
            ours, theirs = row["steps_per_second"][clock]
            print(
                f"{robot:8} {clock:4}  diffnea {ours / 1e6:6.2f} M steps/s  MuJoCo {theirs / 1e6:6.3f}  "
                f"{row['times'][clock]:6.1f} times (≥ {row['target']})  first call {row['first_call_s'][clock]:.2f} s  "
                f"apart {row['error']:.0e}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
