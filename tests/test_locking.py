"""Joints held still: the robot that is left, beside Pinocchio's, and files that keep them."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from robots import relative

import diffnea as dn
from diffnea.cli.main import main

HAND = """<robot name="hand">
  <link name="base"/>
  {links}
  {joints}
</robot>
"""
KINDS = {"shoulder": "revolute", "slide": "prismatic", "elbow": "continuous", "finger": "prismatic"}
PARENTS = ("base", "shoulder_link", "slide_link", "elbow_link")
RANGES = {"shoulder": (-1, 2), "slide": (0.1, 0.4), "finger": (0, 0.04)}


def written(folder, name="hand.urdf", extra=""):
    links = [
        f'<link name="{n}_link"><inertial><origin xyz="0.1 0.02 -0.2"/><mass value="{m}"/>'
        f'<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.025"/></inertial></link>'
        for n, m in zip(KINDS, (2.0, 1.0, 0.7, 0.1), strict=True)
    ]
    joints = []
    for k, (n, parent) in enumerate(zip(KINDS, PARENTS, strict=True)):
        lower, upper = RANGES.get(n, (-3, 3))
        joints.append(
            f'<joint name="{n}" type="{KINDS[n]}"><parent link="{parent}"/><child link="{n}_link"/>'
            f'<origin xyz="0.1 {k} 0.2" rpy="0.3 {k} -1"/><axis xyz="0.6 0 0.8"/>'
            f'<limit lower="{lower}" upper="{upper}" effort="9" velocity="9"/>{extra if n == "finger" else ""}</joint>'
        )
    path = folder / name
    path.write_text(HAND.format(links="\n  ".join(links), joints="\n  ".join(joints)))
    return path


@pytest.mark.parametrize("form", ["urdf", "xml"])
@pytest.mark.parametrize("lock", [{"slide": 0.3}, {"shoulder": 0.7, "finger": None}, ["elbow", "slide"]])
def test_what_is_left_moves_as_pinocchio_s_reduced_model(tmp_path, form, lock):
    path = written(tmp_path)
    if form == "xml":
        dn.save_robot(dn.load_robot(path), tmp_path / "hand.xml")
        path = tmp_path / "hand.xml"
    robot = dn.load_robot(path, lock=lock)
    assert robot.joint_names == tuple(name for name in KINDS if name not in lock)
    whole = pinocchio.buildModelFromUrdf(str(tmp_path / "hand.urdf"))
    neutral = pinocchio.neutral(whole)  # a continuous joint has a cosine and a sine there
    at = {"slide": 0.1, "finger": 0.0, "elbow": 0.0} | (lock if isinstance(lock, dict) else {})
    for name in lock:
        if name != "elbow":
            neutral[whole.joints[whole.getJointId(name)].idx_q] = at[name] or 0.0
    model = pinocchio.buildReducedModel(whole, [whole.getJointId(name) for name in lock], neutral)
    q, qd, qdd = np.random.default_rng(0).uniform(-0.5, 0.5, (3, robot.num_joints))
    theirs = []
    for value, joint in zip(q, list(model.joints)[1:], strict=True):
        theirs += [np.cos(value), np.sin(value)] if joint.nq == 2 else [value]
    wanted = pinocchio.rnea(model, model.createData(), np.array(theirs), qd, qdd)
    assert relative(dn.inverse_dynamics(robot, q, qd, qdd), wanted) < 1e-10


@pytest.mark.parametrize("form", ["urdf", "xml"])
def test_files_written_from_it_have_the_locked_joints_as_before(tmp_path, form):
    path = written(tmp_path)
    robot = dn.load_robot(path, lock={"slide": 0.3, "finger": 0.01})
    damped = replace(robot, damping=robot.damping.at[1].set(0.25), inertia=replace(robot.inertia, mass=3 + robot.gear))
    out = tmp_path / f"out.{form}"
    dn.save_robot(damped, out)
    whole = dn.load_robot(out)
    assert whole.joint_names == tuple(KINDS)
    np.testing.assert_allclose(whole.limits.lower, dn.load_robot(path).limits.lower)
    again = dn.load_robot(out, lock={"slide": 0.3, "finger": 0.01})
    np.testing.assert_allclose(again.damping, damped.damping)
    np.testing.assert_allclose(again.inertia.parameters, damped.inertia.parameters, atol=1e-12)
    if form == "urdf":
        dn.save_robot(robot, out)
        assert out.read_bytes() == path.read_bytes()
        dn.save_robot(robot, out, fresh=True)
        assert dn.load_robot(out).joint_names == robot.joint_names


def test_locked_joints_that_mimic_are_not_spoken_of(tmp_path, recwarn):
    path = written(tmp_path, extra='<mimic joint="slide"/>')
    dn.load_robot(path, lock=["finger"])
    assert not recwarn.list


@pytest.mark.parametrize(
    ("lock", "line"),
    [
        (["fnger"], r'hand.urdf: no joint "fnger" to lock \(did you mean "finger"\?\); it has shoulder, slide, '),
        ({"finger": 1.0}, 'joint "finger" is locked at 1; it goes from 0 to 0.04'),
        (list(KINDS), "all its joints are locked"),
    ],
)
def test_what_cannot_be_locked_is_refused(tmp_path, lock, line):
    with pytest.raises(dn.RobotFileError, match=line):
        dn.load_robot(written(tmp_path), lock=lock)


def test_a_log_that_lacks_joints_says_how_to_lock_them_and_then_fits(tmp_path, capsys):
    path = written(tmp_path)
    robot = dn.load_robot(path, lock=["slide", "finger"])
    time = 0.01 * np.arange(300)
    q = np.column_stack([0.4 + 0.5 * np.sin(3 * time), np.sin(2 * time) + 0.3 * np.sin(7 * time)])
    qd, qdd = (np.gradient(q, time, axis=0), np.gradient(np.gradient(q, time, axis=0), time, axis=0))
    u = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd))
    rows = ["time,q.shoulder,q.elbow,u.shoulder,u.elbow"]
    rows += [",".join(map(repr, map(float, row))) for row in np.column_stack([time, q, u])]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    given = ["fit", str(path), str(tmp_path / "log.csv"), "--method", "lm", "--out", str(tmp_path / "out")]
    assert main(given) == 1
    assert "hold what was not recorded still: lock slide finger\n" in capsys.readouterr().err
    assert main([*given, "--lock", "slide", "finger=x"]) == 1
    assert '"x" is not a number' in capsys.readouterr().err
    assert main([*given, "--lock", "slide", "finger", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"][0] == "held still: slide at 0.1, finger at 0"
    assert dn.load_robot(tmp_path / "out" / "identified.urdf").joint_names == tuple(KINDS)
    fit = dn.load_fit(tmp_path / "out")
    assert fit.robot.source is not None and fit.robot.source.locked == (("slide", 0.1), ("finger", 0.0))
    dn.save_robot(fit.robot, tmp_path / "again.urdf")
    assert jnp.shape(fit.robot.inertia.mass) == (2,)
