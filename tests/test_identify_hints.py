"""Hints: each mistake in a file or a log is named, with what to type; a right file gets no hint."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.judge.mistakes.hints import hints
from diffnea.identify.judge.mistakes.torque_map import body_changes, file_parameters
from diffnea.identify.problem.measurements.tracks import split

LINK = """<link name="l{k}"><inertial><origin xyz="{x} 0.01 0.02"/><mass value="{m}"/><inertia ixx="{i}" ixy="0.001"
ixz="0" iyy="{j}" iyz="0" izz="{j}"/></inertial></link>"""
JOINT = """<joint name="j{k}" type="{kind}"><parent link="{parent}"/><child link="l{k}"/><origin xyz="{x} 0 0.1"/>
<axis xyz="{axis}"/><limit lower="-3" upper="3" effort="100" velocity="10"/></joint>"""
AXES = {1: "0 0 1", 2: "0 1 0", 3: "0 1 0"}
DELAY = 0.03  # s
NAMED = 0.02  # of what a hint estimates


def robot(tmp_path, **axes):
    """A base that turns, and two links that lift."""
    lines = ['<robot name="arm"><link name="base"/>']
    for k in (1, 2, 3):
        lines.append(LINK.format(k=k, x=0.2, m=4.0 / k, i=0.02 / k, j=0.08 / k))
        axis, parent = axes.get(f"j{k}", AXES[k]), "base" if k == 1 else f"l{k - 1}"
        lines.append(JOINT.format(k=k, kind="revolute", parent=parent, x=0.0 if k == 1 else 0.4, axis=axis))
    (tmp_path / "arm.urdf").write_text("\n".join([*lines, "</robot>"]))
    return dn.load_robot(tmp_path / "arm.urdf")


def motion(machine, count=1500, dt=0.01, friction=(2.0, 1.5, 0.8)):
    """Sums of sines, the torques that they take beside friction, and some noise."""
    rng, time = np.random.default_rng(0), dt * np.arange(count)
    pace = 2 * np.pi * 0.2 * np.arange(1, 6)
    a, b = rng.normal(size=(2, 5, 3)) / np.arange(1, 6)[:, None] / 2
    s, c, w = np.sin(time[:, None] * pace), np.cos(time[:, None] * pace), pace[:, None]
    q, qd, qdd = s @ a + c @ b, c @ (w * a) - s @ (w * b), -s @ (w**2 * a) - c @ (w**2 * b)
    u = np.asarray(dn.inverse_dynamics(machine, q, qd, qdd)) + np.array(friction) * (np.tanh(20 * qd) + 0.3 * qd)
    return {"time": time, "q": q, "qd": qd, "qdd": qdd, "u": u * (1 + 0.002 * rng.normal(size=u.shape))}


def heavier(machine, share=0.15):
    """A machine that its file does not know exactly."""
    factor = 1 + share * jnp.array([1.0, -1.0, 1.0])
    scaled = jax.tree.map(lambda leaf: leaf * factor.reshape(-1, *[1] * (leaf.ndim - 1)), machine.inertia)
    return replace(machine, inertia=scaled)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return robot(tmp_path_factory.mktemp("arm"))


@pytest.fixture(scope="module")
def log(arm):
    return motion(heavier(arm))


def told(file, log):
    data = split(dn.Recording(**log, joint_names=file.joint_names), None, file.joint_names, 3, 0)
    return hints(file, data.fitted)


def changed(log, **arrays):
    return {**log, **arrays}


def test_a_right_file_gets_no_hint(arm, log):
    assert told(arm, log) == ()


def test_an_axis_of_the_wrong_sense_is_named_with_the_edit(tmp_path, log):
    found = told(robot(tmp_path, j3="0 -1 0"), log)
    assert [(each.code, each.subject) for each in found] == [("hint-axis-turned", "j3")]
    assert '<axis xyz="0 1 0"/>' in str(found[0])
    assert found[0].values["after"] < 0.2 * found[0].values["before"]


def test_an_axis_of_another_direction_is_named(tmp_path, log):
    found = told(robot(tmp_path, j3="1 0 0"), log)
    assert [(each.code, each.subject, each.values["axis"]) for each in found] == [("hint-axis", "j3", "0 1 0")]


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("hint-position-sign", lambda x: {key: x[key] * [1, 1, -1] for key in ("q", "qd", "qdd")}),
        ("hint-input-sign", lambda x: {"u": x["u"] * [1, -1, 1]}),
        ("hint-swapped", lambda x: {key: x[key][:, [0, 2, 1]] for key in ("q", "qd", "qdd", "u")}),
        ("hint-inputs-swapped", lambda x: {"u": x["u"][:, [0, 2, 1]]}),
        ("hint-positions-swapped", lambda x: {key: x[key][:, [0, 2, 1]] for key in ("q", "qd", "qdd")}),
        ("hint-degrees", lambda x: {key: np.rad2deg(x[key]) for key in ("q", "qd", "qdd")}),
        ("hint-zero", lambda x: {"q": x["q"] - [0, np.pi / 2, 0]}),
        ("hint-zero", lambda x: {"q": x["q"] + [0, np.pi / 2, -np.pi / 2]}),
        ("hint-clock", lambda x: {"time": 2 * x["time"], "qd": x["qd"] / 2, "qdd": x["qdd"] / 4}),
        ("hint-time-unit", lambda x: {"time": 1e3 * x["time"], "qd": x["qd"] / 1e3, "qdd": x["qdd"] / 1e6}),
        ("hint-scale", lambda x: {"u": 10 * x["u"]}),
        ("hint-input-missing", lambda x: {"u": x["u"] * [1, 1, 0]}),
        ("hint-position-goal", lambda x: {"u": x["q"] + 0.02 * x["qd"]}),
        ("hint-shuffled", lambda x: {"q": np.random.default_rng(0).permutation(x["q"])}),
    ],
)
def test_a_mistake_in_the_log_is_named(arm, log, code, change):
    found = told(arm, changed(log, **change(log)))
    assert [each.code for each in found] == [code], [str(each) for each in found]


def test_a_delay_is_measured(arm, log):
    shift = round(DELAY / 0.01)
    early = np.concatenate([log["u"][shift:], np.repeat(log["u"][-1:], shift, 0)])
    (found,) = told(arm, changed(log, u=early))
    assert found.code == "hint-delay" and "+delay" in str(found)
    assert found.values["milliseconds"] == pytest.approx(1e3 * DELAY, rel=NAMED)


def test_gravity_that_points_elsewhere_is_measured(arm):
    tilted = replace(heavier(arm), gravity=jnp.array([7.85, 0.0, -5.89]))
    (found,) = told(arm, motion(tilted))
    assert found.code == "hint-gravity"
    np.testing.assert_allclose(list(map(float, found.values["gravity"].split())), [7.85, 0, -5.89], atol=0.3)


def test_another_machine_gets_no_hint(tmp_path, arm):
    """Nothing that could be named would explain it."""
    longer = replace(arm, placement=replace(arm.placement, translation=arm.placement.translation * 1.8))
    assert not [each for each in told(arm, motion(longer)) if each.code.startswith("hint-axis")]


def test_friction_that_the_model_lacks_is_named(arm, log):
    data = split(dn.Recording(**log, joint_names=arm.joint_names), None, arm.joint_names, 3, 0)
    (found,) = hints(arm, data.fitted, dn.Model(heavier(arm)))
    assert found.code == "hint-friction" and "--actuator" in str(found)


def test_friction_that_changes_in_the_course_of_a_log_is_named(arm):
    rubs, machine = np.array([2.0, 1.5, 0.8]), heavier(arm)
    whole = motion(machine, friction=(0.0, 0.0, 0.0))
    growing = np.linspace(0.5, 1.5, len(whole["time"]))[:, None] * np.array([1.0, 0.0, 0.0]) + [0.0, 1.0, 1.0]
    u = whole["u"] + growing * rubs * (np.tanh(20 * whole["qd"]) + 0.3 * whole["qd"])
    friction = dn.actuators.combine(dn.actuators.Coulomb.of(rubs), dn.actuators.Viscous.of(0.3 * rubs))
    model = dn.Model(machine, friction)
    steady = whole["u"] + rubs * (np.tanh(20 * whole["qd"]) + 0.3 * whole["qd"])
    for inputs, expected in ((u, ["j1"]), (steady, [])):
        recording = dn.Recording(**changed(whole, u=inputs), joint_names=arm.joint_names)
        found = hints(arm, split(recording, None, arm.joint_names, 3, 0).fitted, model)
        assert [each.subject for each in found if each.code == "hint-friction-drift"] == expected


def test_a_gain_that_was_fitted_to_a_mistake_does_not_hide_it(tmp_path, log):
    wrong = robot(tmp_path, j3="0 -1 0")
    data = split(dn.Recording(**log, joint_names=wrong.joint_names), None, wrong.joint_names, 3, 0)
    fitted = dn.Model(wrong, dn.actuators.Gain.of(jnp.array([0.7, 1.6, 0.2])))
    assert [each.code for each in hints(wrong, data.fitted, fitted)] == ["hint-axis-turned"]


def test_changes_of_a_body_are_those_of_its_pseudo_inertia(arm):
    """Along each column a body stays a body to first order: no eigenvalue of its pseudo-inertia turns negative."""
    phi = file_parameters(arm)
    steps = body_changes(phi)
    for column in range(10):
        for sign in (1, -1):
            moved = phi + 0.3 * sign * steps[:, :, column]
            assert np.all(moved[:, 0] > 0)


def test_a_failed_fit_says_what_would_explain_the_data(tmp_path, log):
    wrong = robot(tmp_path, j3="1 0 0")
    found = dn.fit(
        wrong, dn.Recording(**log, joint_names=wrong.joint_names), actuator="stribeck", loss="torque", starts=2
    )
    assert found.verdict != "accepted" and "hint-axis" in found.verdict.codes, found.verdict.reasons


def test_a_file_without_masses_is_never_compared_with(arm, log):
    empty = replace(arm, inertia=jax.tree.map(jnp.zeros_like, arm.inertia))
    data = dn.Recording(**log, joint_names=arm.joint_names)
    found = dn.fit(empty, data, actuator="stribeck", loss="torque", method="linear")
    assert "start-unknown" in found.verdict.codes and "another-robot" not in found.verdict.codes
    assert found.verdict == "accepted", found.verdict.reasons
