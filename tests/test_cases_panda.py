"""A Panda logged as an arm's owner would: its file stays where it is right, and a payload is found to grams."""

import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.cli import inputs

CASE = Path(__file__).parents[2] / "shared" / "cases" / "panda"
FINGERS = ["panda_finger_joint1", "panda_finger_joint2"]
DAMPING, DRY = np.array([1.5, 1.5, 1.2, 1.2, 0.6, 0.6, 0.5]), np.array([1.5, 1.8, 1.2, 1.3, 0.7, 0.6, 0.4])
ROTORS = [0.6, 0.6, 0.5, 0.5, 0.2, 0.2, 0.15]
pytestmark = pytest.mark.skipif(not CASE.is_dir(), reason="the cases are not beside the checkout")


@pytest.fixture(scope="module")
def robot():
    return inputs.read_robot(str(CASE / "panda.urdf"), lock=FINGERS)


def recordings(robot, run):
    return inputs.read_recordings([str(CASE / run)], robot, None, True)


@pytest.fixture(scope="module")
def base(robot):
    """The file's own robot, with friction and rotors that the file does not have; everything left to evidence."""
    return dn.fit(robot, recordings(robot, "run0_mcap"))


def test_friction_and_rotors_are_chosen(base):
    assert base.config["actuator"] == "viscous+coulomb"
    assert base.config["loss"] == "torque"
    assert "armature" in base.config["learn"]
    assert base.verdict == "accepted"


def test_masses_that_the_file_has_right_stay(base, robot):
    np.testing.assert_allclose(base.robot.inertia.mass, robot.inertia.mass, rtol=0.02)
    centres = [
        np.asarray(each.inertia.first_moment) / np.asarray(each.inertia.mass)[:, None] for each in (base.robot, robot)
    ]
    np.testing.assert_allclose(*centres, atol=5e-3)
    np.testing.assert_allclose(base.robot.armature, ROTORS, rtol=0.02)


def test_intervals_hold_what_is_true(base, robot):
    """Measured torques were read at an unknown instant within a sample, and friction turns over before joints do."""
    with jax.enable_x64(True):
        rubbing = dn.actuators.combine(dn.actuators.Viscous.of(DAMPING), dn.actuators.Coulomb.of(DRY))
        truth = dn.Model(replace(robot, armature=jnp.asarray(ROTORS)), rubbing)
        true = np.array([each.of(truth) for each in base.identifiable])
    lower, upper = (np.array([getattr(each, side) for each in base.identifiable]) for side in ("lower", "upper"))
    missed = [each.formula for each, out in zip(base.identifiable, (true < lower) | (true > upper), strict=True) if out]
    assert len(true) > 60 and not missed, missed  # they are not independent; five missed before, all of them inertias
    felt = [each for each in base.identifiable if each.formula.startswith("inertia felt")]
    assert len(felt) == 7 and all(each.upper - each.lower < 0.05 * each.value for each in felt)


def test_fixed_and_locked_links_keep_every_byte(base, tmp_path):
    base.save(tmp_path)
    before, after = (path.read_text() for path in (CASE / "panda.urdf", tmp_path / "identified.urdf"))
    for link in ("panda_hand", "panda_leftfinger", "panda_rightfinger"):
        own = [re.search(rf'<link name="{link}">.*?</link>', text, re.S) for text in (before, after)]
        assert own[0] and own[1] and own[0].group() == own[1].group()


def test_the_payload_is_found_in_the_frame_of_the_hand(base, robot):
    fit = dn.fit(base, recordings(robot, "run1_mcap"), learn=("payload",))
    assert fit.payload.frame == "panda_hand"
    assert float(fit.payload.mass) == pytest.approx(1.2, abs=0.01)
    assert fit.payload.mass.lower < 1.2 < fit.payload.mass.upper
    np.testing.assert_allclose(fit.payload.com, [0.02, 0.0, 0.12], atol=2e-3)
    np.testing.assert_allclose(np.asarray(fit.payload.inertia)[[0, 2, 5]], [0.003, 0.003, 0.002], atol=5e-4)
    assert fit.verdict == "accepted"
    assert float(fit.robot.inertia.mass[-1] - base.robot.inertia.mass[-1]) == pytest.approx(1.2, abs=0.01)


@pytest.mark.slow
def test_a_link_that_carries_more_than_its_file_says_leaves_it_alone(robot):
    fit = dn.fit(
        robot, recordings(robot, "run1_mcap"), learn=("inertia", "armature"), actuator="stribeck", loss="torque"
    )
    added = np.asarray(fit.robot.inertia.mass - robot.inertia.mass)
    assert added[-1] == pytest.approx(1.2, abs=0.05)
    np.testing.assert_allclose(fit.robot.inertia.mass[:-1], robot.inertia.mass[:-1], rtol=0.02)
    assert not any(note.code == "unknown-never-moved" for note in fit.unknown)
