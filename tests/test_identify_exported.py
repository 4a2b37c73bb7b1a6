"""What a robot file holds of a model, and what the fit says that it lacks."""

import jax
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import Gain, Motor, Stribeck, combine, for_robot
from diffnea.identify.io.robot_export import BRISTLES, exported
from diffnea.identify.judge.held_out import HeldOut
from diffnea.identify.problem.measurements.tracks import Track

ROBOT = dn.systems.cartpole().robot
SPEEDS = np.random.default_rng(0).normal(size=(400, 2)) * [0.5, 4.0]


def kept():
    track = Track("a", 0.01, 0 * SPEEDS, SPEEDS, SPEEDS, SPEEDS, SPEEDS)
    ones = np.ones(2)
    return HeldOut(dn.Model(ROBOT), (track,), ones, -ones, ones, np.abs(SPEEDS).max(0))


def test_friction_in_a_line_is_written_as_it_is():
    flat = Stribeck.of(np.array([0.3, 0.01]), np.array([0.3, 0.01]), np.array([0.2, 0.004]))
    found = exported(dn.Model(ROBOT, flat), kept())
    np.testing.assert_allclose(found.robot.friction, [0.3, 0.01], rtol=1e-12)
    np.testing.assert_allclose(found.robot.damping, [0.2, 0.004], rtol=1e-12)
    assert found.lacking == ()


BENT = Stribeck.of(np.array([0.6, 0.01]), np.array([0.3, 0.01]), np.array([0.2, 0.004]), np.array([4.0, 1.0]))


def test_a_bent_curve_is_met_best_at_the_speeds_that_were_measured_and_said():
    found = exported(dn.Model(ROBOT, BENT), kept())
    speed = np.abs(SPEEDS[:, 0])
    truth = 0.3 + 0.3 * np.exp(-4 * speed**2) + 0.2 * speed
    ours, theirs = found.robot.friction[0] + found.robot.damping[0] * speed, 0.3 + 0.2 * speed
    assert np.mean((ours - truth) ** 2) < 0.5 * np.mean((theirs - truth) ** 2)
    assert len(found.lacking) == 1
    assert found.lacking[0].startswith("how friction changes with speed (cart), in the URDF: it has the nearest")


def test_only_a_bent_friction_becomes_a_curve_and_what_adds_to_it_moves_it():
    drive = Motor.of(np.array([0.04, 0.04]), np.array([8.0, 8.0]), np.array([2.0, 2.0]))
    found = exported(dn.Model(ROBOT, combine(BENT, drive)), kept())
    assert found.curves is not None and list(found.curves) == ["cart"]
    np.testing.assert_allclose([found.curves["cart"].static, found.curves["cart"].speed], [0.6, 0.5], rtol=1e-12)
    np.testing.assert_allclose(found.curved.friction, [0.3, 0.01], rtol=1e-9)
    np.testing.assert_allclose(found.curved.damping, [0.2, 0.004] + np.asarray(drive.back_emf), rtol=1e-9)
    mass = np.linalg.inv(np.asarray(dn.mass_matrix(ROBOT, np.zeros(2))))
    np.testing.assert_allclose(found.curves["cart"].stiffness * mass[0, 0], 1 / BRISTLES**2, rtol=1e-9)


@pytest.mark.parametrize("other", ["grease", "nn-friction", "none"])
def test_what_is_no_stribeck_curve_keeps_the_line_in_both_files(other):
    bent = BENT if other == "none" else combine(BENT, for_robot(other, ROBOT, key=jax.random.key(0)))
    found = exported(dn.Model(ROBOT, bent), kept(), curves=other != "none")
    assert found.curves == {} and found.curved is found.robot
    assert ": they have the nearest straight line" in found.lacking[0]


@pytest.mark.parametrize(
    ("name", "words"), [("stribeck+delay", "delay of"), ("viscous+offset", "at rest"), ("coupling", "several joints")]
)
def test_what_has_no_place_is_said(name, words):
    found = exported(dn.Model(ROBOT, for_robot(name, ROBOT, key=jax.random.key(0))), kept())
    assert any(words in sentence for sentence in found.lacking)


def test_gains_and_motors_become_gears_and_damping():
    motor = Motor.of(np.array([0.04, 0.04]), np.array([8.0, 8.0]), np.array([2.0, 2.0]), driven=(True, False))
    found = exported(dn.Model(ROBOT, combine(motor, Gain.of(np.array([3.0, 1.0])))), None)
    np.testing.assert_allclose(found.robot.gear, [3 * 2 * 0.04 / 8, 0.0], rtol=1e-9)
    np.testing.assert_allclose(found.robot.damping, np.asarray(motor.back_emf), rtol=1e-9)
    plain = exported(dn.Model(ROBOT), kept())
    assert plain.robot is ROBOT and plain.lacking == () and plain.curves is None
