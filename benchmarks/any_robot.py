"""Any robot at the price of a tidy one: a robot as argument of `jit`, its gradients, calls by hand, and first calls.

    python benchmarks/any_robot.py [--robots panda talos] [--first-calls] [--note MACHINE]

Variants of one robot take turns in one process, pinned to a core; CPU seconds, medians of many turns. Each row is
printed with what it was before canonical frames and what it is to reach; with `--note` it goes to `history.csv`.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from history import note
from robots import source

import diffnea as dn

ROUNDS, TURN = 31, 2e-2  # seconds of CPU a turn
# By row: before, goal.
ROWS = {
    "argument / closed, 4096": ("2.5-5.5", "1.15 (Talos 1.2)"),
    "argument, nothing guessed / closed, 4096": ("2.5-5.5", "1.6 by operations"),
    "gradient in all leaves / closed forward, 4096": ("11-18", "5"),
    "call by hand / closed, 256": ("1.2-3.9", "1.2"),
    "first call of a closed robot, s": ("11 with 45 joints, 37 with 61", "3 and 4"),
    "first call of the gradient in inertia, s": ("17 and 50", "5 and 7"),
}


@dataclass(frozen=True)
class Options:
    """What to measure."""

    robots: tuple[str, ...] = ("panda", "talos")
    """Names as in benchmarks/robots.py, or robot files."""
    first_calls: bool = False
    """Only first calls: `--robots panda talos talos_fingers romeo` shows how they grow with joints."""
    note: str | None = None
    """The machine, as `benchmarks/history.csv` is to name it; rows are appended there."""


def load(name: str, folder: str) -> dn.Robot:
    """A robot without its file's text, which would be hashed with every call of a `jit` that takes it."""
    path = Path(name)
    if not path.exists():
        path = Path(folder) / f"{name}.urdf"
        path.write_text(source(name))
    return replace(dn.load_robot(path), source=None)


def turns(variants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median CPU seconds a call of each, in turns."""
    counts = {}
    for name, call in variants.items():
        jax.block_until_ready(call())
        began = time.process_time()
        jax.block_until_ready(call())
        counts[name] = max(1, int(TURN / (time.process_time() - began + 1e-9)))
    taken: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, call in variants.items():
            began = time.process_time()
            for _ in range(counts[name]):
                jax.block_until_ready(call())
            taken[name].append((time.process_time() - began) / counts[name])
    return {name: statistics.median(each) for name, each in taken.items()}


def first(call: Callable[[], Any]) -> float:
    """CPU seconds of a first call."""
    began = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - began


def general(robot: dn.Robot) -> Callable[..., Any]:
    """Forward dynamics of a robot that is an argument, compiled while the last robot of its tree was a crooked one."""
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(robot.num_joints, 3, 3)))[0]
    turned *= np.linalg.det(turned)[:, None, None]
    shifted = robot.placement.translation + 0.1
    crooked = replace(robot, placement=dn.Transform(jnp.asarray(turned), shifted), gravity=robot.gravity + 1.0)
    state = jnp.zeros(robot.num_joints)
    dn.forward_dynamics(crooked, state, state, state)
    compiled = jax.jit(lambda *given: dn.forward_dynamics(*given))  # `jit` of one function is one
    compiled(robot, *(jnp.zeros((4096, robot.num_joints)),) * 3)
    return compiled


def measure(robot: dn.Robot, first_calls: bool) -> dict[str, float]:
    """The rows of a robot."""
    large = [jnp.asarray(x) for x in np.random.default_rng(1).uniform(-1, 1, (3, 4096, robot.num_joints))]
    small = [x[:256] for x in large]
    closed = jax.jit(lambda *state: dn.forward_dynamics(robot, *state))
    rows = {"first call of a closed robot, s": first(lambda: closed(*large))}

    def squares(inertia, *state):
        return jnp.sum(dn.forward_dynamics(replace(robot, inertia=inertia), *state) ** 2)

    in_inertia = jax.jit(jax.grad(squares))
    rows["first call of the gradient in inertia, s"] = first(lambda: in_inertia(robot.inertia, *large))
    if first_calls:
        return rows
    argument = jax.jit(dn.forward_dynamics)
    argument(robot, *large)
    gradient = jax.jit(jax.grad(lambda robot, *state: jnp.sum(dn.forward_dynamics(robot, *state) ** 2)))
    gradient(robot, *large)
    crooked = general(robot)
    found = turns(
        {
            "closed": lambda: closed(*large),
            "argument / closed, 4096": lambda: argument(robot, *large),
            "argument, nothing guessed / closed, 4096": lambda: crooked(robot, *large),
            "gradient in all leaves / closed forward, 4096": lambda: gradient(robot, *large),
        }
    )
    rows |= {name: seconds / found["closed"] for name, seconds in found.items() if name != "closed"}
    found = turns({"closed": lambda: closed(*small), "by hand": lambda: dn.forward_dynamics(robot, *small)})
    return rows | {"call by hand / closed, 256": found["by hand"] / found["closed"]}


def main() -> None:
    """Measure, print, and keep."""
    options = tyro.cli(Options)
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with TemporaryDirectory() as folder:
        os.environ["DIFFNEA_CACHE"] = str(Path(folder) / "kernels")  # first calls are cold
        for name in options.robots:
            robot = load(name, folder)
            for row, figure in measure(robot, options.first_calls).items():
                before, goal = ROWS[row]
                label = f"{Path(name).stem} ({robot.num_joints} joints): {row}"
                print(f"{label:75s} {figure:8.2f}   before {before or '-'}, goal {goal}", flush=True)
                if options.note:
                    note(options.note, label, figure)


if __name__ == "__main__":
    main()
