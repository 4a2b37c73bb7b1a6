"""How accurate the default integrator is beside classical Runge-Kutta, and how far each drifts without friction.

    python benchmarks/integrators.py [--starts 64] [--seconds 60]

Accuracy: the largest velocity error in one second, as a share of the usual velocity, against the same integrator with a
hundredth of the step; the median over the starts. Drift: the largest change of energy without friction, as a share of
the range of the kinetic energy. The tables are those of docs/energy.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
import tyro
from energy import DT, Machine, machine

import diffnea as dn
from diffnea.actuators import Viscous
from diffnea.models import Model

REFINEMENT = 100
KINDS = ("auto", "rk4")


@dataclass(frozen=True)
class Arguments:
    """What to run."""

    starts: int = 64
    seconds: float = 60.0
    machines: tuple[str, ...] = ("cartpole", "furuta")


def models(thing: Machine) -> Iterator[tuple[str, Model]]:
    """From none to strong friction."""
    yield "no friction", Model(thing.robot)
    yield "viscous", Model(thing.robot, Viscous.of(thing.viscous))
    for factor in (0.1, 1.0, 10.0):
        yield f"Stribeck × {factor:g}", thing.model(factor)


def velocities(model: Model, start, rate: int, kind: str) -> np.ndarray:
    """At 250 Hz for one second, integrated at `rate` times that."""
    run = dn.rollout(model, *start, None, DT / rate, integrator=kind, steps=250 * rate + 1)
    return np.asarray(run.qd)[:, ::rate]


def accuracy(thing: Machine, count: int) -> Iterator[str]:
    """A row a model."""
    q, qd = thing.starts(count, seed=1)
    start = (q, qd / 4)  # up to half the usual velocities
    for label, model in models(thing):
        truth = velocities(model, start, REFINEMENT, "auto")
        cells = []
        for rate in (1, 2):
            for kind in KINDS:
                error = np.abs(velocities(model, start, rate, kind) - truth) / thing.speed
                cells.append(f"{np.median(error.max((1, 2))):.1e}")
        yield f"| {label} | {' | '.join(cells)} |"


def drift(thing: Machine, count: int, seconds: float) -> Iterator[str]:
    """A line an integrator."""
    model = Model(thing.robot)
    q, qd = thing.starts(count, seed=2)
    for kind in KINDS:
        run = dn.rollout(model, q, qd / 4, None, DT, integrator=kind, steps=round(seconds / DT))
        energy = np.asarray(model.energy(run.q, run.qd))
        kinetic = np.asarray(dn.energy(model.robot, run.q, run.qd).kinetic)
        worst = np.abs(energy - energy[:, :1]).max(1) / np.ptp(kinetic, axis=1)
        yield f"{kind}: drift of {worst.max():.1e} of the kinetic energy's range in {seconds:g} s, {count} starts"


def main(arguments: Arguments) -> None:
    """Print the tables."""
    jax.config.update("jax_enable_x64", True)
    for name in arguments.machines:
        thing = machine(name)
        print(f"\n{name}\n| | auto, 250 Hz | rk4, 250 Hz | auto, 500 Hz | rk4, 500 Hz |\n|---|---|---|---|---|")
        for row in accuracy(thing, arguments.starts):
            print(row, flush=True)
        for line in drift(thing, arguments.starts // 2, arguments.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
