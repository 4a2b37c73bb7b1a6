"""Evidence: noise and trust in the file are found, one link may leave it, and parts are chosen that are there."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea import systems
from diffnea.cli.inputs import read_robot
from diffnea.identify.problem.measurements.noise import correlation_time
from diffnea.identify.solve.regression.bounded import bounded_minimum
from diffnea.robot import pulled
from diffnea.spatial import Inertia

NOISE = 2e-3


def samples(robot, viscous=0.0, coulomb=0.0, armature=0.0, seed=0, count=1500):
    """States at random, with the torques that they take and some noise."""
    rng = np.random.default_rng(seed)
    q, qd, qdd = rng.uniform(-3, 3, (count, 2)), 4 * rng.normal(size=(count, 2)), 20 * rng.normal(size=(count, 2))
    tau = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd))
    u = tau + viscous * qd + coulomb * np.sign(qd) + armature * qdd
    return dn.Samples(q=q, qd=qd, qdd=qdd, u=u + NOISE * np.abs(tau).mean(0) * rng.normal(size=u.shape))


def scaled(robot, factors):
    by = np.asarray(factors)[:, None]
    return replace(robot, inertia=Inertia.from_parameters(jnp.asarray(np.asarray(robot.inertia.parameters) * by)))


@pytest.fixture(scope="module")
def robot():
    return systems.furuta().robot


def test_a_right_file_is_trusted(robot):
    fit = dn.fit(robot, samples(robot), actuator="ideal", loss="torque")
    trust = next(note for note in fit.notes if note.code == "file-trust")
    assert trust.values["most"] < 6  # per cent
    np.testing.assert_allclose(fit.robot.inertia.mass, robot.inertia.mass, rtol=0.01)
    assert fit.status == "converged"


def test_one_link_leaves_a_file_that_is_right_otherwise(robot):
    truth = scaled(robot, (1.0, 1.8))
    fit = dn.fit(robot, samples(truth), actuator="ideal", loss="torque")
    pose = np.array([0.3, 1.2])
    felt = [np.asarray(dn.mass_matrix(each, pose)) for each in (fit.robot, truth)]
    np.testing.assert_allclose(felt[0], felt[1], rtol=0.02)
    assert fit.verdict == "accepted"


def test_coefficients_are_found_from_far_away(robot):
    """A rotor and friction that are hundreds of times where they start."""
    size = float(np.asarray(dn.mass_matrix(robot, np.zeros(2)))[0, 0])
    data = samples(robot, viscous=5 * size, coulomb=20 * size, armature=3 * size)
    fit = dn.fit(robot, data, actuator="viscous+coulomb", learn=("inertia", "armature"), loss="torque")
    np.testing.assert_allclose(fit.model.actuator.parts[0].viscous, 5 * size, rtol=0.05)
    np.testing.assert_allclose(fit.model.actuator.parts[1].coulomb, 20 * size, rtol=0.05)
    felt = [np.asarray(dn.mass_matrix(each, np.zeros(2))).diagonal() for each in (fit.robot, robot)]
    np.testing.assert_allclose(felt[0], felt[1] + 3 * size, rtol=0.05)


def test_parts_that_are_there_are_chosen_and_no_others(robot):
    size = float(np.asarray(dn.mass_matrix(robot, np.zeros(2)))[0, 0])
    fit = dn.fit(robot, samples(robot, viscous=size, coulomb=5 * size))
    assert fit.config["actuator"] == "viscous+coulomb"
    assert fit.config["loss"] == "torque"
    assert {note.subject for note in fit.notes if note.code == "chosen-part"} == {"viscous", "coulomb"}
    assert dn.fit(robot, samples(robot)).config["actuator"] == "ideal"


def test_constants_that_other_joints_have_not_are_not_made_up():
    """A joint that turns one way only: its constant torque is not told from its dry friction, and others have none."""
    with jax.enable_x64(True):
        arm = pulled(read_robot("staubli_tx40"))
        rng, count, dry = np.random.default_rng(0), 600, np.asarray(arm.friction)
        q, qd, qdd = (size * rng.normal(size=(count, 6)) for size in (1.0, 2.0, 10.0))
        qd[:, 3] = np.abs(qd[:, 3]) + 0.1
        tau = np.asarray(dn.inverse_dynamics(arm, q, qd, qdd)) + qdd * np.asarray(arm.armature) + dry * np.sign(qd)
        u = tau + NOISE * np.abs(tau).mean(0) * rng.normal(size=tau.shape)
        doubted = replace(arm, friction=jnp.asarray(dry / 2))
        fit = dn.fit(
            doubted, dn.Samples(q=q, qd=qd, qdd=qdd, u=u), actuator="coulomb+constant", loss="torque", method="lm"
        )
    found = {type(part).__name__: part for part in fit.model.actuator.parts}
    assert abs(float(found["Offset"].constant[3])) < 0.05 * dry[3]
    np.testing.assert_allclose(found["Coulomb"].coulomb[3], dry[3], rtol=0.05)


def test_commands_in_another_unit_get_a_gain(robot):
    data = samples(robot)
    volts = dn.Samples(q=data.q, qd=data.qd, qdd=data.qdd, u=40 * np.asarray(data.u))
    fit = dn.fit(robot, volts)
    assert "gain" in fit.config["actuator"].split("+")
    assert any(note.code == "chosen-gain" for note in fit.notes)


def test_a_robot_without_masses_is_fitted_from_bars(robot):
    empty = replace(robot, inertia=Inertia.from_parameters(jnp.zeros((2, 10))))
    fit = dn.fit(empty, samples(robot, count=3000))
    assert fit.verdict == "accepted"
    assert any(note.code == "no-masses" for note in fit.notes)
    states = (np.full((3, 2), 0.3), np.ones((3, 2)), np.ones((3, 2)))
    both = [np.asarray(dn.inverse_dynamics(each, *states)) for each in (fit.robot, robot)]
    np.testing.assert_allclose(both[0], both[1], rtol=0.05, atol=0.02 * np.abs(both[1]).max())


def test_a_correlation_time_is_that_of_the_noise():
    rng = np.random.default_rng(0)
    white = rng.normal(size=20_000)
    slow = np.zeros_like(white)
    for k in range(1, len(white)):
        slow[k] = 0.8 * slow[k - 1] + white[k]
    assert correlation_time([white]) == pytest.approx(1.0, abs=0.1)
    assert correlation_time([slow[:10_000], slow[10_000:]]) == pytest.approx((1 + 0.8) / (1 - 0.8), rel=0.15)


def test_bounds_hold_where_the_free_minimum_is_beyond():
    matrix, gradient = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([-1.0, 1.0])
    np.testing.assert_allclose(bounded_minimum(matrix, gradient, np.full(2, -np.inf)), [1.0, -1.0])
    np.testing.assert_allclose(bounded_minimum(matrix, gradient, np.array([-np.inf, 0.0])), [0.5, 0.0], atol=1e-12)
