"""Gradients of roll-outs against the roll-outs themselves, in turns in one process; float64.

    python benchmarks/gradients.py [--robots furuta panda] [--what u inertia all] [--integrators rk4 auto]
                                   [--samples 256] [--steps 200] [--rounds 15] [--note MACHINE] [--gpu]

Seconds are those that the process had a core for; with `--gpu`, where all is in float32, those of the clock. The bound
is by operations: those of both passes of a gradient over those of the roll-out. With `--note` each figure is a line of
`benchmarks/history.csv`.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from history import note
from robots import source

import diffnea as dn

# Gradient over forward, by integrator: by operations, as it was when a gradient ran as a scan of kernels, and the goal.
BOUND = "2.8–3.3"
BEFORE = {"rk4": "4–8 (Furuta 5–11)", "auto": "3.6–4.6"}
GOALS = {"rk4": 3.0, "auto": 3.5}


clock = time.process_time  # or that of the wall, for GPUs


def cpu(run: Callable[[], Any]) -> float:
    """Seconds on the core."""
    start = clock()
    jax.block_until_ready(run())
    return clock() - start


def load(name: str) -> dn.Robot:
    """A robot of the benchmarks, without friction of its file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.urdf"
        path.write_text(source(name))
        robot = dn.load_robot(path)
    still = np.zeros(robot.num_joints)
    return replace(robot, damping=still, friction=still)


def tasks(robot: dn.Robot, what: str, integrator: str, samples: int, steps: int) -> tuple[Any, Callable, Callable]:
    """What the gradient is taken in, the roll-out and the gradient, both compiled."""
    rng, n = np.random.default_rng(0), robot.num_joints
    actuator = dn.actuators.Stribeck.of(0.1, 0.08, 0.05, num_joints=n) if integrator == "auto" else None
    model = dn.Model(robot, actuator)
    start, commands = rng.uniform(-0.5, 0.5, (2, samples, n)), jnp.asarray(rng.uniform(-0.1, 0.1, (samples, steps, n)))
    weights = jnp.asarray(rng.normal(size=(2, samples, steps, n)))
    given = {"u": commands, "inertia": robot.inertia, "all": model}[what]

    def roll(given):
        if what == "u":
            return dn.rollout(model, *start, given, 2e-3, integrator)
        changed = given if what == "all" else dn.Model(replace(robot, inertia=given), actuator)
        return dn.rollout(changed, *start, commands, 2e-3, integrator)

    def loss(given):
        run = roll(given)
        return jnp.sum(weights[0] * run.q**2) + jnp.sum(weights[1] * run.qd**2)

    return given, jax.jit(lambda given: (lambda run: (run.q, run.qd))(roll(given))), jax.jit(jax.grad(loss))


def measure(name: str, what: str, integrator: str, samples: int, steps: int, rounds: int) -> dict[str, Any]:
    """First calls, and medians of calls in turn."""
    given, forward, gradient = tasks(load(name), what, integrator, samples, steps)
    first = [cpu(lambda f=f: f(given)) for f in (forward, gradient)]
    turns = [[cpu(lambda f=f: f(given)) for f in (forward, gradient)] for _ in range(rounds)]
    seconds = [statistics.median(turn[k] for turn in turns) for k in (0, 1)]
    return {
        "row": f"gradient/forward {name} {what} {integrator} {samples}x{steps}",
        "ratio": round(seconds[1] / seconds[0], 2),
        "bound": BOUND,
        "before": BEFORE[integrator],
        "goal": GOALS[integrator],
        "forward_ms": round(1e3 * seconds[0], 2),
        "gradient_ms": round(1e3 * seconds[1], 2),
        "million_steps_per_s": [round(samples * steps / one / 1e6, 2) for one in seconds],
        "first_s": [round(one, 2) for one in first],
    }


def main() -> None:
    global clock
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["furuta", "panda"])
    parser.add_argument("--what", nargs="+", default=["u", "inertia"], choices=["u", "inertia", "all"])
    parser.add_argument("--integrators", nargs="+", default=["rk4", "auto"], choices=["rk4", "auto"])
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--note", metavar="MACHINE")
    parser.add_argument("--gpu", action="store_true")
    options = parser.parse_args()
    clock = time.perf_counter if options.gpu else time.process_time
    jax.config.update("jax_enable_x64", not options.gpu)
    for name in options.robots:
        for integrator in options.integrators:
            for what in options.what:
                found = measure(name, what, integrator, options.samples, options.steps, options.rounds)
                print(found, flush=True)
                if options.note:
                    note(options.note, found["row"], found["ratio"])
                    note(options.note, f"first {found['row']} s", found["first_s"][1])
                    note(options.note, f"{found['row']} million steps/s", found["million_steps_per_s"][1])


if __name__ == "__main__":
    main()
