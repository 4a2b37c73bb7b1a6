"""The energy guarantee of roll-outs: never a rise without input, exact rest, the accuracy of Runge-Kutta's method."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot

import diffnea as dn
from diffnea import actuators, systems
from diffnea.actuators import Stribeck, Viscous
from diffnea.models import Model
from diffnea.simulate import rollout

DT = 1 / 250
RISE = 1e-9  # of the energy's range, in one step
SIZES = {
    "cartpole": ([0.8, 3e-3], [0.5, 2e-3], [4.5, 1e-3], 100.0),
    "furuta": ([9e-4, 5e-5], [6e-4, 3e-5], [3e-4, 1e-5], 4.0),
}


def stribeck(system: str, factor: float = 1.0) -> Stribeck:
    """Friction as the two machines have it, times a factor."""
    static, kinetic, viscous, shape = SIZES[system]
    return Stribeck.of(*(factor * np.array(part) for part in (static, kinetic, viscous)), shape)


def starts(system: systems.System, count: int, speed: float = 2.0):
    """Random states, up to `speed` times the usual velocities."""
    rng, limits = np.random.default_rng(0), system.limits
    upper, fastest = np.asarray(limits.upper), np.asarray(limits.velocity)
    return rng.uniform(-upper, upper, (count, 2)), rng.uniform(-speed * fastest, speed * fastest, (count, 2))


def rises(model: Model, run) -> np.ndarray:
    """The largest rise of energy in a step, as a share of the energy's range."""
    energy = np.asarray(model.energy(run.q, run.qd))
    return np.diff(energy).max(-1) / np.ptp(energy, axis=-1)


@pytest.mark.parametrize("name", ["cartpole", "furuta"])
@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0, 100.0])
def test_energy_never_rises_by_itself(name, factor):
    system = getattr(systems, name)()
    model = Model(system.robot, stribeck(name, factor))
    run = rollout(model, *starts(system, 16), None, DT, steps=2500)
    assert run.diverged_at is None
    assert np.all(rises(model, run) < RISE)


@pytest.mark.parametrize("factor", [None, 1.0])
def test_steps_far_too_long_lose_energy_and_never_gain_it(factor):
    system = systems.furuta()
    model = Model(system.robot, factor and stribeck("furuta", factor))
    for dt in (0.02, 0.06, 0.2):
        run = rollout(model, *starts(system, 16), None, dt, steps=2500)
        energy = np.asarray(model.energy(run.q, run.qd))
        swing = np.ptp(np.asarray(dn.energy(system.robot, run.q, run.qd).kinetic), axis=-1)
        assert np.all(np.diff(energy).max(-1) < RISE * swing)


@pytest.mark.parametrize("factor", [10.0, 100.0])
def test_joints_come_to_rest_where_friction_can_hold_them(factor):
    system = systems.cartpole()
    model = Model(system.robot, stribeck("cartpole", factor))
    run = rollout(model, *starts(system, 16), None, DT, steps=2500)
    assert np.all(run.qd[:, -1] == 0)
    assert np.all(np.abs(dn.gravity_torque(system.robot, run.q[:, -1])) <= model.actuator.static[None])
    assert np.all(run.q[:, -1] == run.q[:, -100])


@pytest.mark.parametrize("name", ["motor+stribeck+offset", "nn-friction", "viscous+offset"])
def test_energy_never_rises_with_what_actuators_store(name):
    """On a small random tree with both kinds of joint; what the actuators store is part of the model's energy."""
    tree = dn.Tree((-1, 0), ("prismatic", "revolute"), ("a", "b"), ("c", "d"))
    robot = random_robot(tree, 4)
    model = Model(robot, actuators.make(name, 2, key=jax.random.key(3)))
    assert model.energy_class == "bounded"
    rng = np.random.default_rng(1)
    run = rollout(model, rng.normal(size=(16, 2)), 3 * rng.normal(size=(16, 2)), None, DT, steps=750)
    assert np.all(rises(model, run) < RISE)


@pytest.mark.parametrize("name", ["cartpole", "furuta"])
def test_frictionless_drift_over_a_minute(name):
    system = getattr(systems, name)()
    model = Model(system.robot)
    run = rollout(model, *starts(system, 8, speed=0.5), None, DT, steps=15_000)
    energy = np.asarray(model.energy(run.q, run.qd))
    swing = np.ptp(np.asarray(dn.energy(system.robot, run.q, run.qd).kinetic), axis=-1)
    assert np.all(np.abs(energy - energy[:, :1]).max(-1) / swing < RISE)


def test_a_pendulum_that_stops_at_each_turn_keeps_its_energy():
    """One joint: at a turning point there is no velocity left to scale."""
    robot = random_robot(dn.Tree((-1,), ("revolute",), ("a",), ("b",)), 3)
    model = Model(robot)
    run = rollout(model, np.linspace(-2, 2, 9)[:, None], np.zeros((9, 1)), None, DT, steps=5000)
    energy = np.asarray(model.energy(run.q, run.qd))
    assert np.all(np.abs(energy - energy[:, :1]) < RISE * np.ptp(energy[:, 0]))


def test_energy_changes_by_the_work_of_the_command():
    """Constant torque in a step does the work `u · Δq`, without friction to the last digit."""
    system = systems.furuta()
    model = Model(system.robot)
    u = 0.01 * np.random.default_rng(2).normal(size=(200, 2))
    run = rollout(model, *starts(system, 4, speed=0.5), u, DT)
    energy = np.asarray(model.energy(run.q, run.qd))
    work = np.sum(u[None, :-1] * np.diff(np.asarray(run.q), axis=1), -1)
    assert np.allclose(np.diff(energy), work, atol=1e-12 * np.ptp(energy))


# A block on a rail, which has a solution in closed form ------------------------------------------------------------


@pytest.fixture(scope="module")
def block():
    robot = random_robot(dn.Tree((-1,), ("prismatic",), ("a",), ("b",)), 1)
    return replace(robot, gravity=jnp.zeros(3), armature=jnp.zeros(1))


def test_a_block_slides_as_far_as_friction_lets_it(block):
    mass, friction = float(block.inertia.mass[0]), 2.0
    model = Model(block, Stribeck.of(friction, friction, 0.0, num_joints=1))
    speed = np.array([[0.1], [1.0], [-2.5]])
    run = rollout(model, np.zeros(1), speed, None, DT, steps=2000)
    way = np.sign(speed) * speed**2 * mass / (2 * friction)
    assert np.all(run.qd[:, -1] == 0)
    assert np.allclose(run.q[:, -1], way, rtol=1e-5)  # viscous friction of "none" is 1e-6


@pytest.mark.parametrize(("push", "moves"), [(1.99, False), (-1.99, False), (2.01, True)])
def test_a_block_moves_when_the_push_exceeds_friction(block, push, moves):
    model = Model(block, Stribeck.of(2.0, 2.0, 0.0, num_joints=1))
    run = rollout(model, np.zeros(1), np.zeros(1), np.full((100, 1), push), DT)
    if moves:
        way = 0.01 / float(block.inertia.mass[0]) * (99 * DT) ** 2 / 2
        assert np.allclose(run.q[-1], way, rtol=1e-4)
    else:
        assert np.all(run.q == 0) and np.all(run.qd == 0)


def test_stiff_viscous_friction_decays(block):
    """dt·λ from 0.1 to 1000: velocities fall towards zero and never change sign."""
    mass = float(block.inertia.mass[0])
    for rate in (0.1, 1.0, 2.5, 10.0, 1000.0):
        model = Model(block, Viscous.of(rate * mass / DT, 1))
        speed = np.asarray(rollout(model, np.zeros(1), np.ones(1), None, DT, steps=20).qd)
        assert np.all(speed >= 0) and np.all(np.diff(speed[:, 0]) <= 0)
        if rate <= 1:
            assert np.allclose(speed[1], np.exp(-rate), atol=0.01 * rate**5)


# Accuracy ----------------------------------------------------------------------------------------------------------


def errors(model, start, integrator, reference, finer=1):
    run = rollout(model, *start, None, DT / finer, integrator=integrator, steps=150 * finer + 1)
    return np.abs(np.asarray(run.qd)[:, ::finer] - reference).max((1, 2))


def fine(model, start, times=100):
    return np.asarray(rollout(model, *start, None, DT / times, steps=150 * times + 1).qd)[:, ::times]


@pytest.mark.parametrize("actuator", [pytest.param(None, marks=pytest.mark.slow), "viscous"])
def test_smooth_motion_is_as_accurate_as_with_runge_kutta(actuator):
    system = systems.furuta()
    model = Model(system.robot, actuator and Viscous.of(np.array([3e-4, 1e-5])))
    start = starts(system, 16, speed=0.5)
    reference = fine(model, start)
    ours, theirs = (errors(model, start, name, reference) for name in ("auto", "rk4"))
    assert np.median(ours / theirs) < 1.2 and np.max(ours) < 2 * np.max(theirs)
    order = np.log2(ours / errors(model, start, "auto", reference, finer=2))
    assert 3.5 < np.median(order) < 5.5


@pytest.mark.slow
def test_sticking_is_more_accurate_than_with_runge_kutta():
    system = systems.cartpole()
    model = Model(system.robot, stribeck("cartpole", 3.0))
    start = starts(system, 16, speed=0.5)
    reference = fine(model, start)
    assert np.any(reference[:, -1, 0] == 0)
    ours, theirs = (errors(model, start, name, reference) for name in ("auto", "rk4"))
    assert np.median(ours / theirs) < 0.1


# The whole table ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cartpole", "furuta", "panda", "tree"])
def test_two_thousand_roll_outs(name, tmp_path):
    """The table of docs/energy.md, by the script that prints it."""
    script, out = Path(__file__).parents[1] / "benchmarks" / "energy.py", tmp_path / "rows.json"
    subprocess.run([sys.executable, script, "--machines", name, "--out", out], check=True, capture_output=True)
    rows = json.loads(out.read_text())
    kept = [row for row in rows if row["integrator"] == "auto"]
    assert sum(row["roll_outs"] for row in kept) == 512
    assert all(row["violations"] == 0 and row["worst"] < RISE for row in kept)
    assert all(row["unsettled"] == 0 and row["diverged"] == 0 for row in kept)
    assert any(row["violations"] > 0 for row in rows), "Runge-Kutta's method must break what the script looks for"
