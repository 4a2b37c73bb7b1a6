"""The simulator of benchmarks/outside against formulas, against energy, and against itself in half the step."""

import sys
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.outside import simulate as outside  # noqa: E402
from benchmarks.outside.coverage import LOSSES, case, losses_of  # noqa: E402
from benchmarks.outside.families import FAMILIES, Piece, X  # noqa: E402
from benchmarks.outside.fitting import Number, kind_of, load, truth_like  # noqa: E402
from benchmarks.outside.robots import (  # noqa: E402
    Friction,
    Machine,
    draw,
    nominal,
    pinocchio_model,
    pseudo_inertia,
    without_dry_friction,
)
from benchmarks.outside.stepping import Plant  # noqa: E402
from benchmarks.outside.wrong import setups  # noqa: E402

MASS, STATIC, KINETIC = 2.0, 3.0, 2.0
CONVERGED = 1e-7  # positions after a second, of half the step against the whole
ENERGY = 1e-7  # share of the energy that two seconds of steps of 0.1 ms may change


def _slider(static: float = STATIC, kinetic: float = KINETIC, speed: float = 1e-4) -> Plant:
    """A mass on a rail; friction goes from static to kinetic at once."""
    piece = Piece("prismatic", -1, X, X, 0.1, MASS, 1.0)
    body = pseudo_inertia(MASS, np.zeros(3), 0.01 * np.eye(3))
    friction = Friction(*(np.array([value]) for value in (static, kinetic, speed, 0.0)))
    machine = Machine("slider", (piece,), np.zeros((1, 3)), np.array([X]), body[None], np.zeros(1), friction)
    return Plant(pinocchio_model(machine), friction, 1e-4)


def test_a_mass_stays_where_it_is_below_static_friction_and_leaves_above():
    plant = _slider()
    plant.start(np.zeros(1), np.zeros(1), np.zeros(1))
    plant.advance(np.array([0.999 * STATIC]), 0.5)
    assert plant.q[0] == 0.0 and plant.v[0] == 0.0 and plant.stuck[0]
    plant.advance(np.array([-1.001 * STATIC]), 0.5)
    assert plant.v[0] < 0 and not plant.stuck[0]


def test_a_mass_that_slides_comes_to_rest_where_the_formula_says():
    plant, speed = _slider(static=KINETIC), 1.0
    plant.start(np.zeros(1), np.array([speed]), np.zeros(1))
    plant.advance(np.zeros(1), 1.5)  # it takes v m / f = 1 s
    np.testing.assert_allclose(plant.q[0], MASS * speed**2 / (2 * KINETIC), rtol=1e-9)
    assert plant.stuck[0] and plant.v[0] == 0.0 and plant.events == 1


def test_a_mass_that_turns_back_has_the_other_sign_of_friction_from_then_on():
    plant, force = _slider(static=KINETIC), -5.0
    plant.start(np.zeros(1), np.array([1.0]), np.zeros(1))
    plant.advance(np.array([force]), 1.0)
    braking, leaving = (force - KINETIC) / MASS, (force + KINETIC) / MASS
    turns = -1 / braking
    expected = turns / 2 + leaving * (1 - turns) ** 2 / 2
    np.testing.assert_allclose(plant.q[0], expected, rtol=1e-9)
    assert plant.events == 1


def test_two_joints_that_stand_still_hold_each_other_consistently():
    machine = draw("planar2", 0)
    plant = Plant(pinocchio_model(machine), machine.friction, 1e-4)
    weight = pinocchio.rnea(plant.model, plant.data, np.zeros(2), np.zeros(2), np.zeros(2))
    near = 0.9 * machine.friction.static
    for ways in ((1, 1), (1, -1), (-1, 1)):
        plant.start(np.zeros(2), np.zeros(2), weight + near * np.array(ways))
        assert plant.stuck.all()
    plant.start(np.zeros(2), np.zeros(2), weight + np.array([0.0, 3.0]) * machine.friction.static)
    a = plant.advance(plant.tau, 1e-4)
    assert not plant.stuck[1] and a[1] > 0 and plant.way[1] == 1


@pytest.mark.parametrize("family", ["planar3", "tree4", "cartpole"])
def test_without_friction_energy_stays(family):
    machine = draw(family, 1)
    none = Friction(*[np.zeros(machine.count)] * 3, np.zeros(machine.count))
    plant = Plant(pinocchio_model(machine), none, 1e-4)
    plant.start(np.full(machine.count, 0.3), np.full(machine.count, 0.5), np.zeros(machine.count))
    before, motion = _energy(plant)
    plant.advance(np.zeros(machine.count), 1.0)
    assert abs(_energy(plant)[0] - before) < ENERGY * (abs(before) + motion)


def _energy(plant: Plant) -> tuple[float, float]:
    upper = np.triu(pinocchio.crba(plant.model, plant.data, plant.q))
    motion = 0.5 * plant.v @ (upper + np.triu(upper, 1).T) @ plant.v
    return motion + pinocchio.computePotentialEnergy(plant.model, plant.data, plant.q), motion


@pytest.mark.parametrize("smooth", [True, False])
def test_half_the_step_gives_the_same_positions(smooth):
    machine = without_dry_friction(draw("rpr", 0)) if smooth else draw("rpr", 0)
    ends = []
    for step in (1e-4, 5e-5):
        plant = Plant(pinocchio_model(machine), machine.friction, step)
        plant.start(np.zeros(3), np.zeros(3), np.zeros(3))
        for k in range(250):
            plant.advance(np.array([3.0, 6.0, 1.5]) * np.sin(0.1 * k + np.arange(3)), 0.004)
        ends.append(plant.q.copy())
    # Joints let go at the beginning of a step, so that dry friction is followed to first order there.
    np.testing.assert_allclose(*ends, rtol=CONVERGED if smooth else 100 * CONVERGED)


@pytest.mark.parametrize("family", FAMILIES)
def test_diffnea_reads_the_machine_that_pinocchio_does(family):
    import diffnea as dn

    machine = nominal(draw(family, 3), 0.2, 0)
    robot, model = load(machine), pinocchio_model(machine)
    q, v, a = np.random.default_rng(0).standard_normal((3, machine.count))
    ours = np.asarray(dn.inverse_dynamics(robot, q, v, a))
    np.testing.assert_allclose(ours, pinocchio.rnea(model, model.createData(), q, v, a), rtol=1e-9, atol=1e-9)
    assert robot.joint_names == machine.joint_names


def test_a_log_is_drawn_by_its_seed_kept_and_bends_where_told(tmp_path, monkeypatch):
    monkeypatch.setattr(outside, "CACHE", tmp_path)
    short = outside.Experiment("planar2", 0, 0, seconds=0.4, noise="none", delay=0.5)
    first, again = outside.simulate(short), outside.simulate(short)
    np.testing.assert_array_equal(first.q, again.q)
    assert len(list(tmp_path.iterdir())) == 1 and first.q.shape == (100, 2)
    soft = outside.simulate(replace(short, flexible=30.0))
    assert soft.q.shape == first.q.shape and not np.allclose(soft.q, first.q, atol=1e-4)


def test_an_open_side_of_an_interval_holds():
    one_sided = Number("static friction(j1)", "static", 1.0, 0.5, np.inf, 7.0)
    assert one_sided.held and not replace(one_sided, true=0.4).held
    assert kind_of("actuator", "Stribeck velocity(j2)") == "Stribeck velocity"
    assert kind_of("actuator", "(viscous friction(j1) − 0.1·Stribeck velocity(j1)) / m(l1)") == "viscous"
    assert kind_of("actuator", "input delay(j1)") == "delay"
    assert kind_of("inertia", "m(l2)") == "inertial"
    assert kind_of("actuator", "Coulomb friction(j1)") == "kinetic"


def test_the_truth_of_a_fit_with_coulomb_friction_is_the_kinetic_one():
    import diffnea as dn

    experiment = outside.Experiment("planar2", 3, 0)
    machine = outside.machine_of(experiment)
    rubbing = dn.actuators.combine(dn.actuators.Viscous.of(np.ones(2)), dn.actuators.Coulomb.of(np.ones(2)))
    truth = truth_like(dn.Model(load(machine), rubbing), experiment)
    fast = truth.actuator.resistance(jnp.zeros(2), jnp.full(2, 50.0))
    np.testing.assert_allclose(np.asarray(fast.dry), machine.friction.kinetic, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(fast.viscous), machine.friction.viscous, rtol=1e-5)


def test_other_seeds_draw_other_machines_for_the_same_mistakes():
    some, others = setups(), setups(300)
    assert len(some) == len(others) and not {*some} & {*others}
    assert {key.split("/")[0] for key in some} == {key.split("/")[0] for key in others}
    assert others["degrees/rpr_300"][0].robot == 300


def test_sets_with_an_unknown_gain_are_not_fitted_to_torques():
    with_gain, without = case(7), case(8)
    assert "gain" in with_gain.actuator and losses_of(with_gain, LOSSES) == ["acceleration", "trajectory"]
    assert losses_of(without, LOSSES) == list(LOSSES)
