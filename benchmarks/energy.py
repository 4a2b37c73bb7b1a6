"""The energy of roll-outs without input: how often it rises, and whether machines come to rest.

    python benchmarks/energy.py [--count 128] [--machines cartpole panda] [--pictures docs/images]

For each machine and each size of friction, `count` roll-outs of 10 s at 250 Hz start at random states with up to twice
the usual velocities. What is not at rest then is followed until it is. The table is that of docs/energy.md.
"""

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from robots import source

import diffnea as dn
from diffnea.actuators import Stribeck
from diffnea.models import Model
from diffnea.simulate import rollout

DT, STEPS = 1 / 250, 2500
FACTORS = (0.1, 1.0, 10.0, 100.0)
RISE = 1e-9  # of the energy's range, in a step: what counts as a violation
LONGEST = 100  # times 10 s, until a machine must be at rest


@dataclass(frozen=True)
class Machine:
    """A robot, its usual friction and speeds."""

    robot: dn.Robot
    static: np.ndarray
    viscous: np.ndarray
    shape: float
    speed: np.ndarray
    reach: np.ndarray

    def model(self, factor: float) -> Model:
        """With its friction times a factor; what slides rubs two thirds as much as what rests."""
        static, viscous = factor * self.static, factor * self.viscous
        return Model(self.robot, Stribeck.of(static, static * 2 / 3, viscous, self.shape))

    def starts(self, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Random states with up to twice the usual velocities."""
        rng, n = np.random.default_rng(seed), len(self.speed)
        return rng.uniform(-self.reach, self.reach, (count, n)), rng.uniform(-2, 2, (count, n)) * self.speed


@dataclass(frozen=True)
class Row:
    """What came of the roll-outs of one machine with one size of friction."""

    machine: str
    factor: float
    integrator: str
    roll_outs: int
    violations: float  # share of steps
    worst: float  # rise in a step, as a share of the energy's range
    diverged: int
    resting: int  # after 10 s
    unsettled: int  # after as long as it takes


def panda() -> dn.Robot:
    """The arm of example-robot-data, its fingers fixed."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a finger that mimics the other
        path = Path(folder) / "panda.urdf"
        path.write_text(source("panda"))
        return dn.load_robot(path)


def tree(count: int = 12, seed: int = 5) -> dn.Robot:
    """A branching tree on a cart that slides horizontally: the other joints turn, so that no link can fall for ever."""
    rng = np.random.default_rng(seed)
    parents = tuple(int(rng.integers(max(-1, i - 3), i)) if i > 1 else i - 1 for i in range(count))
    kinds = ("prismatic", *("continuous" for _ in range(count - 1)))
    names = tuple(f"l{i}" for i in range(count))
    axis = rng.normal(size=(count, 3))
    axis[0] = [1.0, 0.0, 0.0]
    mass, centre = rng.uniform(0.2, 2.0, count), rng.normal(scale=0.15, size=(count, 3))
    points = rng.normal(scale=0.1, size=(count, 5, 3))
    second = np.einsum("npi,npj->nij", points, points) + np.einsum("ni,nj->nij", centre, centre)
    rotational = mass[:, None, None] * (np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second)
    inertia = dn.Inertia(mass, mass[:, None] * centre, rotational[:, [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]])
    none, wide = np.zeros(count), np.full(count, np.inf)
    return dn.Robot(
        tree=dn.Tree(parents, kinds, names, names),
        placement=dn.Transform(np.tile(np.eye(3), (count, 1, 1)), rng.normal(scale=0.25, size=(count, 3))),
        axis=axis / np.linalg.norm(axis, axis=1, keepdims=True),
        inertia=inertia,
        armature=np.full(count, 0.01),
        damping=none,
        friction=none,
        gear=none,
        limits=dn.Limits(-wide, wide, wide, wide),
        frame_offset=np.zeros((count, 3)),
        gravity=np.array([0.0, 0.0, -9.81]),
    )


@lru_cache
def machine(name: str) -> Machine:
    """One of the four by name."""
    turn = np.pi
    if name == "cartpole":
        robot, reach = dn.systems.cartpole().robot, np.array([0.35, turn])
        return _machine(robot, [0.8, 3e-3], [4.5, 1e-3], 400.0, [1.5, 15.0], reach)
    if name == "furuta":
        return _machine(dn.systems.furuta().robot, [9e-4, 5e-5], [3e-4, 1e-5], 4.0, [15.0, 25.0], np.array([2.0, turn]))
    if name == "panda":
        static, viscous = [0.6, 0.6, 0.5, 0.5, 0.3, 0.3, 0.2], [0.5, 0.5, 0.4, 0.4, 0.2, 0.2, 0.1]
        return _machine(panda(), static, viscous, 100.0, [2.175] * 4 + [2.61] * 3, np.full(7, 2.8))
    return _machine(tree(), [2.0] + [0.5] * 11, [2.0] + [0.3] * 11, 100.0, [1.0] + [3.0] * 11, np.full(12, turn))


def _machine(robot, static, viscous, shape, speed, reach) -> Machine:
    none = jnp.zeros(robot.num_joints)
    robot = replace(robot, damping=none, friction=none)
    return Machine(robot, np.array(static), np.array(viscous), shape, np.array(speed), reach)


MACHINES = ("cartpole", "furuta", "panda", "tree")


def at_rest(model: Model, q, qd) -> np.ndarray:
    """Which states are exactly at rest, with static friction enough to hold them."""
    pull = np.abs(np.asarray(dn.gravity_torque(model.robot, q)))
    return np.all((np.asarray(qd) == 0) & (pull <= np.asarray(model.actuator.static) * (1 + RISE)), axis=-1)


def follow(model: Model, q, qd) -> int:
    """How many do not come to rest in the longest time."""
    for _ in range(LONGEST):
        if np.all(at_rest(model, q, qd)):
            return 0
        run = rollout(model, q, qd, None, DT, steps=STEPS + 1)
        q, qd = run.q[:, -1], run.qd[:, -1]
    return int(np.sum(~at_rest(model, q, qd)))


def table(name: str, count: int, integrators: tuple[str, ...] = ("auto", "rk4")) -> Iterator[Row]:
    """A machine's rows; the energy's range is that of the roll-out that keeps the guarantee, for both integrators."""
    for factor in FACTORS:
        model = machine(name).model(factor)
        start, span = machine(name).starts(count), None
        for integrator in integrators:
            run = rollout(model, *start, None, DT, integrator=integrator, steps=STEPS + 1)
            energy = np.asarray(model.energy(run.q, run.qd))
            span = np.ptp(energy, axis=1, keepdims=True) if span is None else span
            rise = np.diff(energy, axis=1) / span
            lost = 0 if run.diverged_at is None else int(np.sum(np.isfinite(run.diverged_at)))
            rest = int(np.sum(at_rest(model, run.q[:, -1], run.qd[:, -1])))
            unsettled = follow(model, run.q[:, -1], run.qd[:, -1]) if integrator == "auto" else count - rest
            yield Row(
                name, factor, integrator, count, float(np.mean(rise > RISE)), float(rise.max()), lost, rest, unsettled
            )


@dataclass(frozen=True)
class Options:
    """What to compute."""

    count: int = 128
    """Roll-outs for each machine and size of friction."""
    machines: tuple[str, ...] = MACHINES
    pictures: Path | None = None
    """A folder for the pictures of docs/energy.md."""
    out: Path | None = None
    """A JSON file for the rows."""


def main(options: Options) -> None:
    print("| machine | friction | | steps that rise | worst rise | diverged | at rest after 10 s | never at rest |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for name in options.machines:
        for row in table(name, options.count):
            rows.append(asdict(row))
            share, never = f"{100 * row.violations:.2g} %", row.unsettled if row.integrator == "auto" else "–"
            cells = (row.machine, f"× {row.factor:g}", row.integrator, share, f"{max(row.worst, 0):.0e}", row.diverged)
            print("|", " | ".join(map(str, (*cells, f"{row.resting} of {row.roll_outs}", never))), "|", flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    if options.pictures:
        from pictures import draw

        draw(options.pictures)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    main(tyro.cli(Options))
