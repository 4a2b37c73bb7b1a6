"""Motions planned for robots with a free base: in the air momentum stays zero, on feet these stay where they are."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from test_floating_fit import hopper

import diffnea as dn
from diffnea.cli import main
from diffnea.excitation import design
from diffnea.excitation.riding import InTheAir, OnFeet, weightless

LEG = """<body name="{n}_hip" pos="{x} {y} 0" euler="0 0 {turn}"><joint name="{n}_hip" axis="1 0 0"/>
<inertial pos="0 0 0" mass="0.3" diaginertia="1e-3 1e-3 1e-3"/>
<body name="{n}_thigh" pos="0 0.05 0"><joint name="{n}_thigh" axis="0 1 0"/>
<inertial pos="0 0 -0.1" mass="0.5" diaginertia="2e-3 2e-3 1e-3"/>
<body name="{n}_calf" pos="0 0 -0.2"><joint name="{n}_calf" axis="0 1 0"/>
<inertial pos="0 0 -0.1" mass="0.2" diaginertia="1e-3 1e-3 1e-4"/></body></body></body>"""
TRIPOD = """<mujoco model="tripod"><worldbody><body name="trunk" pos="0 0 1"><freejoint/>
<inertial pos="0.01 0 0" mass="4" diaginertia="0.05 0.06 0.07"/>{legs}</body></worldbody></mujoco>"""
STANCE = np.tile([0.0, 0.8, -1.6], 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two legs with motors that have limits."""
    file = tmp_path_factory.mktemp("excite") / "hopper.xml"
    file.write_text(hopper().replace("<motor ", '<motor ctrllimited="true" ctrlrange="-20 20" '))
    return file


@pytest.fixture(scope="module")
def tripod(tmp_path_factory):
    file = tmp_path_factory.mktemp("tripod") / "tripod.xml"
    angles = 2 * np.pi * np.arange(3) / 3
    legs = "".join(
        LEG.format(n=n, x=0.2 * np.cos(a), y=0.2 * np.sin(a), turn=np.degrees(a))
        for n, a in zip("abc", angles, strict=True)
    )
    file.write_text(TRIPOD.format(legs=legs))
    return dn.load_robot(file)


@pytest.fixture(scope="module")
def planned(path):
    robot = dn.load_robot(path)
    return robot, design(robot, seconds=4.0, bandwidth=1.0, rate=50.0)


def test_a_plan_in_the_air_needs_no_wrench_and_keeps_the_limits(planned):
    robot, found = planned
    plan = found.recording
    ridden = InTheAir(robot)(*map(jnp.asarray, (plan.q, plan.qd, plan.qdd)))
    rubs = np.asarray(robot.damping)[robot.joint_links] * plan.qd
    torque = np.column_stack([np.zeros((len(plan), 6)), plan.u - rubs])
    qdd = np.asarray(dn.forward_dynamics(weightless(robot), ridden.q, ridden.qd, torque))
    np.testing.assert_allclose(qdd, ridden.qdd, atol=1e-8 * np.abs(qdd).max())
    assert np.abs(plan.u).max() <= 20 * (1 + 1e-9) and np.abs(plan.qd[[0, -1]]).max() < 1e-10


def test_a_plan_in_the_air_tells_more_than_random_motions_and_all_there_is(planned):
    found = planned[1]
    assert found.score > max(found.starts) + 1.0
    assert found.told.rank == found.told.structural_rank > 30
    known = {each.formula: each for each in found.told.combinations}
    assert 0 < known["mass of all links"].std < 0.1 * known["mass of all links"].value


@pytest.mark.slow
def test_feet_stay_where_they_stand(tripod):
    feet = [dn.Foot(f"{n}_calf", (0.0, 0.0, -0.2)) for n in "abc"]
    riding = OnFeet.of(tripod, feet, STANCE)
    np.testing.assert_allclose(riding.up, [0, 0, 1], atol=1e-9)
    rng = np.random.default_rng(0)
    y, yd, ydd = (size * rng.uniform(-1, 1, (5, 6)) for size in (0.03, 0.3, 2.0))
    ridden = riding(*map(jnp.asarray, (y, yd, ydd)))
    places = np.asarray(riding.places(ridden.q[:, 7:]))
    first = np.asarray(riding.places(jnp.asarray(STANCE)[None]))[0]
    turned = np.asarray(
        dn.forward_kinematics(tripod, np.column_stack([y[:, :3], _quaternions(y[:, 3:]), STANCE + 0 * y[:, [0] * 9]]))
    )
    there = np.einsum("tij,tfj->tfi", turned[:, 0, :3, :3], places) + y[:, None, :3]
    np.testing.assert_allclose(there, np.broadcast_to(first, there.shape), atol=1e-9)
    back = np.einsum("tji,tj->ti", turned[:, 0, :3, :3], yd[:, :3])
    speed = np.einsum("tcv,tv->tc", ridden.reach, np.column_stack([back, np.asarray(ridden.qd)[:, 3:]]))
    assert np.abs(speed).max() < 1e-5
    at_rest = riding(*(jnp.zeros((1, 6)),) * 3)
    np.testing.assert_allclose(at_rest.qdd[0, :3], [0, 0, 9.81], atol=1e-6)


def _quaternions(turns):
    size = np.linalg.norm(turns, axis=1, keepdims=True)
    return np.column_stack([np.cos(size / 2), np.sin(size / 2) * turns / size])


def test_stances_that_do_not_stand_are_refused(tripod):
    feet = [dn.Foot(f"{n}_calf", (0.0, 0.0, -0.2)) for n in "abc"]
    for some, stance, said in (
        (feet[:2], STANCE, "name three feet or more"),
        ([dn.Foot("trunk"), *feet[1:]], STANCE, "3 feet hang on 6 joints"),
        (feet, 0 * STANCE, "a leg needs three that move its foot every way"),
        ([*feet, dn.Foot("c_thigh", (0.0, 0.0, -0.2))], STANCE, "4 feet hang on 9 joints"),
    ):
        with pytest.raises(ValueError, match=said):
            OnFeet.of(tripod, some, stance)


def test_the_command_plans_for_a_free_base(path, planned, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("diffnea.cli.commands.excite.design", lambda *_, **__: planned[1])  # which has tests of its own
    out = tmp_path / "motion.csv"
    assert main(["excite", str(path), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rank"] == told["structural_rank"] and told["joints"] == ["l_hip", "l_knee", "r_hip", "r_knee"]
    assert len(dn.load_recording(out).q) == 201


DRONE = """<mujoco model="drone"><worldbody><body name="d"><freejoint/><inertial pos="0 0 0" mass="1"
diaginertia="1 1 1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--feet", "l=l_shank:0,0,-0.2"], "needs a stance, 4 angles"),
        (["--feet", "l=l_shank:0,0,-0.2", "--stance", "0,a"], '--stance has "0,a"'),
        (["--feet", "l=toe", "--stance", "0"], 'is on link "toe"'),
        (["--feet", "l=l_shank", "r=r_shank", "--stance", "0,0"], "name three feet or more"),
        (["--recordings", "x.csv"], "planned without recordings"),
        (["--base", "fixed", "--feet", "l=l_shank"], "feet are for a robot with a free base"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_a_line(path, more, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").touch()
    assert main(["excite", str(path), *more]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in error


def test_a_drone_is_told_what_to_fly(tmp_path, capsys):
    (tmp_path / "drone.xml").write_text(DRONE)
    assert main(["excite", str(tmp_path / "drone.xml")]) == 1
    assert 'excite: "drone" has no joints to plan for: fly hovers, climbs' in capsys.readouterr().err
