"""Robots with a free base beside Pinocchio: forward dynamics, the gradient in all inertial parameters, first calls.

    python benchmarks/free_base.py [--robots go2.urdf g1_29dof_rev_1_0.urdf talos_reduced.urdf] [--samples 256]

One core, one process, turn by turn, medians of CPU time. The robots are those of `example-robot-data`; Pinocchio's
`abaInParallel` has them as `JointModelFreeFlyer`. The first call is timed with an empty cache of kernels.
"""

import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tyro

ROBOTS = ("go2.urdf", "g1_29dof_rev_1_0.urdf", "talos_reduced.urdf")
TURN = 0.02  # seconds; a shorter call is repeated within its turn


@dataclass(frozen=True)
class Options:
    """What to measure."""

    robots: tuple[str, ...] = ROBOTS
    samples: int = 256
    rounds: int = 15


def main(options: Options) -> None:
    """Print a table."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with TemporaryDirectory() as folder:
        os.environ["DIFFNEA_CACHE"] = folder
        os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
        print("| robot | q̇ | × Pinocchio | gradient, forwards | first forward, gradient (CPU s) |")
        print("|---|---|---|---|---|")
        for name in options.robots:
            print(measure(name, options), flush=True)


def measure(name: str, options: Options) -> str:
    """One row of the table."""
    import jax
    import jax.numpy as jnp
    import pinocchio

    import diffnea as dn
    from diffnea import manifold

    jax.config.update("jax_enable_x64", True)
    path = next(Path(str(file.locate())) for file in files("example-robot-data") or () if file.name == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = dn.load_robot(path, base="floating")
    model = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    rng, n = np.random.default_rng(0), robot.num_velocities
    steps, qd, tau = rng.normal(size=(3, options.samples, n))
    q = np.asarray(jax.vmap(lambda step: manifold.displace(robot, manifold.neutral(robot), step))(jnp.asarray(steps)))
    theirs = [np.asfortranarray(x.T) for x in (*dn.to_pinocchio(robot, q, qd, model=model),)]
    theirs.append(np.asfortranarray(dn.to_pinocchio(robot, q, tau, model=model)[1].T))
    out, pool = np.zeros_like(theirs[1]), pinocchio.ModelPool(model, 1)
    q, qd, tau = map(jnp.asarray, (q, qd, tau))

    def forward():
        return dn.forward_dynamics(robot, q, qd, tau).block_until_ready()

    @jax.jit
    def slope(inertia):
        moved = dn.Robot(**{**vars(robot), "inertia": inertia})
        return jnp.sum(dn.forward_dynamics(moved, q, qd, tau) ** 2)

    gradient = jax.jit(jax.grad(slope))
    works = {
        "forward": forward,
        "gradient": lambda: jax.block_until_ready(gradient(robot.inertia)),
        "pinocchio": lambda: pinocchio.abaInParallel(1, pool, *theirs, out),
    }
    first = {key: _seconds(work, 1) for key, work in works.items()}
    wrong = np.abs(dn.from_pinocchio(robot, theirs[0].T, out.T, model=model)[1] - forward()).max() / np.abs(out).max()
    assert wrong < 1e-9, wrong
    counts = {key: max(1, round(TURN / max(_seconds(work, 3), 1e-6))) for key, work in works.items()}
    turns: dict[str, list[float]] = {key: [] for key in works}
    for _ in range(options.rounds):
        for key, work in works.items():
            turns[key].append(_seconds(work, counts[key]))
    found = {key: statistics.median(values) for key, values in turns.items()}
    faster, gradients = found["pinocchio"] / found["forward"], found["gradient"] / found["forward"]
    return f"| {name} | {n} | {faster:.0f} | {gradients:.2f} | {first['forward']:.1f}, {first['gradient']:.1f} |"


def _seconds(work: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - began) / times


if __name__ == "__main__":
    main(tyro.cli(Options))
