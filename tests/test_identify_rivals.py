"""Rivals: a fit is not accepted where a mistake undone, joints elsewhere or a spring surely explain the data better."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import for_robot
from diffnea.identify.judge.rivals import rivals
from diffnea.identify.problem.measurements.tracks import split
from tests.test_identify_hints import heavier, motion, robot

DT, COUNT, EDGE = 0.004, 5000, 100
READ = 2e-5  # rad, what an encoder's noise is
SPRING, ROTOR = 60.0, 0.05  # N·m/rad, kg·m²
FRICTION = np.array([2.0, 1.5, 0.8])


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return robot(tmp_path_factory.mktemp("rivals"))


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def rubbed(machine, q, qd, u, steep=200.0, at_end=1.0):
    """The log of these motions and torques, with friction, positions read with noise; friction of the last joint goes
    to a multiple."""
    rng = np.random.default_rng(1)
    course = 1 + (at_end - 1) * np.outer(np.linspace(0, 1, len(q)), [0, 0, 1])
    u = u + course * FRICTION * (np.tanh(steep * qd) + 0.3 * qd)
    inner = slice(EDGE, -EDGE)
    read = q + READ * rng.standard_normal(q.shape)
    return dn.Recording(time=DT * np.arange(len(q))[inner], q=read[inner], u=u[inner], joint_names=machine.joint_names)


def rigid(machine, **friction):
    log = motion(machine, COUNT, DT, friction=(0.0, 0.0, 0.0))
    return rubbed(machine, log["q"], log["qd"], log["u"], **friction)


def bent(machine, spring=SPRING):
    """The last motor turns a rotor, and the link behind a spring."""
    log = motion(machine, COUNT, DT, friction=(0.0, 0.0, 0.0))
    torque = np.asarray(dn.inverse_dynamics(machine, log["q"], log["qd"], log["qdd"]))
    ahead = torque[:, 2] / spring
    first = np.gradient(ahead, DT)
    rates = ahead, first, np.gradient(first, DT)
    q, qd, qdd = (log[key] + np.outer(rate, [0, 0, 1]) for key, rate in zip(("q", "qd", "qdd"), rates, strict=True))
    return rubbed(machine, q, qd, torque + np.outer(ROTOR * qdd[:, 2], [0, 0, 1]))


def longer(machine, factor):
    return replace(machine, placement=replace(machine.placement, translation=machine.placement.translation * factor))


def told(file, recording):
    parts = split(recording, None, file.joint_names, file.num_joints, 0)
    return rivals(file, dn.Model(file, for_robot("ideal", file)), parts)


def test_a_right_file_has_no_rival(arm):
    assert told(arm, rigid(heavier(arm))) == ()


def test_a_file_whose_masses_are_far_off_has_no_rival(arm):
    assert told(arm, rigid(heavier(arm, 0.6))) == ()


def test_an_axis_of_the_wrong_sense_is_a_mistake(tmp_path, arm):
    (found,) = told(robot(tmp_path, j3="0 -1 0"), rigid(heavier(arm)))
    assert (found.code, found.subject) == ("hint-axis-turned", "j3")


def test_links_of_another_length_are_told_with_what_to_learn(arm):
    (found,) = told(longer(arm, 0.85), rigid(heavier(arm)))
    assert found.code == "hint-placement" and "kinematics" in str(found)
    before, after = (float(str(found.values[key])) for key in ("before", "after"))
    assert after < 0.5 * before


def test_a_joint_that_bends_is_told_with_its_spring(arm):
    (found,) = told(arm, bent(heavier(arm)))
    assert (found.code, found.subject) == ("hint-bending", "j3")
    assert found.values["spring"] == pytest.approx(SPRING, rel=0.3)


def test_friction_that_falls_in_the_course_of_a_recording_is_told_with_its_size(arm):
    (found,) = told(arm, rigid(heavier(arm), at_end=0.25))
    assert (found.code, found.subject) == ("hint-friction-drift", "j3")
    before, after = (float(str(found.values[key])) for key in ("before", "after"))
    assert after < 0.1 * before and before > 0.1 * FRICTION[2]


def test_friction_that_changes_by_a_tenth_is_no_reason_to_refuse(arm):
    assert told(arm, rigid(heavier(arm), at_end=0.9)) == ()


def test_motors_that_turn_with_two_joints_have_ways_of_their_own(arm):
    """The fitted model needs them, and the file's regression compares other motors."""
    coupling = dn.actuators.Coupling.of(0.5, 0.1, [(0.0, 1.0, 1.0)])
    model = dn.Model(arm, dn.actuators.combine(for_robot("ideal", arm), coupling))
    parts = split(rigid(heavier(arm)), None, arm.joint_names, arm.num_joints, 0)
    turns = np.concatenate([np.eye(arm.num_joints), [(0.0, 1.0, 1.0)]])
    fitted = tuple(replace(track, way=np.sign(track.qd @ turns.T)) for track in parts.fitted)
    assert rivals(arm, model, replace(parts, fitted=fitted)) == ()


def test_a_stiff_joint_is_not_said_to_bend(arm):
    assert told(arm, bent(heavier(arm), spring=1e5)) == ()


def test_friction_of_another_shape_is_no_spring(arm):
    """It goes from one direction to the other over some speed, where the columns have a jump."""
    assert told(arm, rigid(heavier(arm), steep=20.0)) == ()
    log = motion(heavier(arm))  # with exact derivatives: rows near reversals stay
    assert told(arm, dn.Recording(**log, joint_names=arm.joint_names)) == ()
