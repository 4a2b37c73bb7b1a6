"""Forward dynamics by number of joints: times Pinocchio at 256 samples, and the share of what BLAS reaches at 4 096.

    python benchmarks/joints.py [--robots a1 g1 romeo] [--note MACHINE]    DIFFNEA_CPU=x86-64-v3 limits kernels to AVX2

In turns in one process on one core; CPU seconds, so that it serves on a machine that others use. An operation is a sum
or a product; a product of matrices of side n counts 2 n³.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
import tyro
from contestants import OURS, Files, Inputs
from dynamics import MEMORY, disagreement, operations
from history import note
from peers import Pinocchio
from robots import write_files

# By robot: times Pinocchio before and the goal; the share of BLAS with AVX2 before, and the goal. 70 % is the bound.
GOALS = {"a1": "24 → 25", "g1": "12 → 25", "romeo": "7 → 20 (61 joints)"}
SHARES = {"panda": "34 → 55 %", "talos": "27 → 45 %"}
ROUNDS = 31
SIDE = 1024


@dataclass(frozen=True)
class Options:
    """What to measure."""

    robots: tuple[str, ...] = ("a1", "panda", "g1", "talos", "talos_fingers", "romeo")
    note: str | None = None
    """The machine, as `benchmarks/history.csv` is to name it; rows are appended there."""


def seconds(run: Callable[[], Any], calls: int) -> float:
    """CPU seconds a call, after one that is not counted."""
    run()
    began = time.process_time()
    for _ in range(calls):
        run()
    return (time.process_time() - began) / calls


def inputs(files: Files, samples: int) -> Inputs:
    return Inputs(*np.random.default_rng(0).uniform(-1, 1, (3, samples, len(files.joints))))


def measure(files: Files) -> tuple[float, float, float]:
    """Times Pinocchio, the error against it, and the share of BLAS."""
    small, large = (OURS["diffnea"](files, 1).forward(inputs(files, samples)) for samples in (256, 4096))
    peer = Pinocchio(files, 1).forward(inputs(files, 256))
    error = disagreement(small.read(small.run()), peer.read(peer.run()))
    work, matrix = operations(files) * 4096, np.random.default_rng(0).normal(size=(SIDE, SIDE))
    times, shares = [], []
    for _ in range(ROUNDS):
        times.append((seconds(small.run, 20), seconds(peer.run, 3)))
        shares.append(work / seconds(large.run, 10) / (2 * SIDE**3 / seconds(lambda: matrix @ matrix, 1)))
    ours, theirs = (statistics.median(each) for each in zip(*times, strict=True))
    return theirs / ours, error, statistics.median(shares)


def main() -> None:
    """Measure and print."""
    options = tyro.cli(Options)
    os.environ |= MEMORY
    jax.config.update("jax_enable_x64", True)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for robot in options.robots:
        with TemporaryDirectory() as folder:
            files = write_files(robot, folder)
            ratio, error, share = measure(files)
            label = f"{robot} ({len(files.joints)} joints)"
            goal, goal_of_share = GOALS.get(robot, "–"), SHARES.get(robot, "–")
            print(
                f"{label:28s}{ratio:6.1f} times Pinocchio, 256 ({goal}); {100 * share:3.0f} % of BLAS, 4096 "
                f"({goal_of_share}); error {error:.0e}",
                flush=True,
            )
            if options.note:
                note(options.note, f"{label}: times Pinocchio, 256", ratio)
                note(options.note, f"{label}: share of BLAS, 4096", share)


if __name__ == "__main__":
    main()
