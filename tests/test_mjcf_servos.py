"""Servos of MJCF files: read as MuJoCo has them, written so that MuJoCo moves as we do."""

import os
import re
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest

import diffnea as dn
from diffnea import formats
from diffnea.formats import RobotFileError, Servo, save_robot

ARM = """<mujoco model="arm">
  <compiler angle="radian" inertiafromgeom="false"/>
  <option timestep="0.0005" integrator="implicitfast"/>
  <worldbody>
    <body name="upper"><joint name="shoulder" axis="0 1 0" damping="0.1" armature="0.02" frictionloss="0.05"/>
      <inertial mass="0.5" pos="0 0 0.1" diaginertia="0.002 0.002 0.0005"/>
      <body name="lower" pos="0 0 0.2"><joint name="elbow" axis="0 1 0" range="-2 2" armature="0.01" damping="0.05"/>
        <inertial mass="0.3" pos="0.05 0 0.08" diaginertia="0.001 0.001 0.0003"/>
        <body name="tip" pos="0 0 0.15"><joint name="jaw" type="slide" axis="1 0 0" armature="0.1"/>
          <inertial mass="0.1" pos="0 0 0.02" diaginertia="0.0001 0.0001 0.0001"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    {actuators}
  </actuator>
</mujoco>
"""
SERVOS = """<!-- as the vendor has it -->
    <position name="a" joint="shoulder" kp="20" kv="1.5" forcerange="-3 3" ctrlrange="-1 1"/>
    <general name="b" joint="elbow" gear="2" gainprm="5" biasprm="0.5 -4 -0.3" biastype="affine"/>
    <velocity name="c" joint="jaw" kv="7"/>"""
DATA = Path(os.environ.get("DIFFNEA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def write(path, actuators=SERVOS):
    path.write_text(ARM.format(actuators=actuators))
    return path


def load(path, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left out
        return dn.load_robot(path, **more)


def servo_torque(servo, u, q, qd):
    if servo.kind == "velocity":
        return np.clip(servo.damping * (servo.scale * u - qd), -servo.limit, servo.limit)
    goal = np.clip(servo.scale * u + servo.offset, servo.lower, servo.upper)
    return np.clip(servo.stiffness * (goal - q) - servo.damping * qd, -servo.limit, servo.limit)


# Read -------------------------------------------------------------------------------------------------------------


def test_servos_are_read_as_mujoco_has_them(tmp_path):
    path = write(tmp_path / "arm.xml")
    found = formats.servos(load(path))
    assert [found[name].kind for name in ("shoulder", "elbow", "jaw")] == ["position", "position", "velocity"]
    model = mujoco.MjModel.from_xml_path(str(path))
    data, random = mujoco.MjData(model), np.random.default_rng(0)
    for _ in range(20):
        data.qpos[:], data.qvel[:], data.ctrl[:] = random.normal(size=(3, 3))
        mujoco.mj_forward(model, data)
        states = zip(found.items(), data.ctrl, data.qpos, data.qvel, strict=True)
        ours = [servo_torque(servo, u, q, qd) for (_, servo), u, q, qd in states]
        np.testing.assert_allclose(ours, data.qfrc_actuator, rtol=1e-9, atol=1e-12)


def test_joints_with_servos_count_as_driven_beside_motors(tmp_path):
    mixed = SERVOS.replace('<velocity name="c" joint="jaw" kv="7"/>', '<motor joint="jaw" gear="2" ctrlrange="-3 3"/>')
    robot = load(write(tmp_path / "mixed.xml", mixed))
    np.testing.assert_array_equal(np.asarray(robot.gear), [1.0, 1.0, 2.0])
    save_robot(robot, tmp_path / "servo.xml", servos={"jaw": Servo(10.0, 1.0)})  # the motor's limit stays the joint's
    back = dn.load_robot(tmp_path / "servo.xml")
    np.testing.assert_array_equal(np.asarray(back.limits.effort), [np.inf, np.inf, 6.0])


@pytest.mark.parametrize(
    ("actuator", "kind"),
    [
        ('<intvelocity joint="elbow" kp="3" actrange="-1 1"/>', "intvelocity"),
        ('<position joint="elbow" kp="3" timeconst="0.1"/>', "position"),
        ('<general joint="elbow" gainprm="3" biasprm="0 3 0" biastype="affine"/>', None),  # pushes away
        ('<position joint="elbow" kp="3"/><position joint="elbow" kp="2"/>', None),
        ('<damper joint="elbow" kv="1" ctrlrange="0 1"/>', None),
    ],
)
def test_what_is_no_plain_servo_of_one_joint_is_left_out_and_said(tmp_path, actuator, kind):
    path = write(tmp_path / "arm.xml", actuator)
    if kind is None:
        with pytest.warns(UserWarning, match="only motors and servos on joints are part of a robot; left out"):
            assert formats.servos(dn.load_robot(path)) == {}
    else:
        servo = formats.servos(load(path))["elbow"]
        assert servo.kind == kind and servo.stiffness == 3.0 and servo.lag == (0.1 if kind == "position" else 0.0)


def test_a_model_starts_at_the_servo_of_its_file(tmp_path):
    position = SERVOS.partition("<velocity")[0]
    robot = load(write(tmp_path / "arm.xml", position), lock=["jaw"])
    actuator = dn.actuators.for_robot("servo+viscous+coulomb", robot)
    loop = actuator.loop
    assert loop is not None and loop.limit is None  # the elbow's file has none
    np.testing.assert_allclose(np.asarray(loop.stiffness), [20.0, 16.0], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(loop.damping), [1.5, 1.2], rtol=1e-6)
    first = dn.actuators.for_robot("servo", load(write(tmp_path / "one.xml", SERVOS.splitlines()[1])))
    np.testing.assert_array_equal(np.asarray(first.loop.stiffness) > 0, [True, False, False])


# Written ----------------------------------------------------------------------------------------------------------


NEW = {"shoulder": Servo(31.0, 2.0, limit=2.5), "elbow": Servo(11.0, 0.4, lower=-2.0, upper=2.0, delay=0.012)}


@pytest.mark.parametrize("fresh", [False, True])
def test_servos_that_are_written_are_read_back(tmp_path, fresh):
    robot = load(write(tmp_path / "arm.xml"))
    save_robot(robot, tmp_path / "new.xml", servos=NEW, curves={}, fresh=fresh)
    back = formats.servos(dn.load_robot(tmp_path / "new.xml"))
    for name, servo in NEW.items():
        assert back[name] == servo
    if not fresh:  # in the place of the old ones: keyframes go by their order
        model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
        assert [model.actuator(i).name for i in range(model.nu)] == ["a", "b", "c"]
        assert "<!-- as the vendor has it -->" in (tmp_path / "new.xml").read_text()


def test_servos_take_the_place_of_motors_and_stay_in_files_that_are_edited(tmp_path):
    motors = '<motor name="m" joint="shoulder"/><motor joint="elbow"/><motor joint="jaw"/>'
    robot = load(write(tmp_path / "arm.xml", motors))
    save_robot(robot, tmp_path / "new.xml", servos=NEW)
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new.xml"))
    assert model.nu == 3 and model.actuator("m").gainprm[0] == 31.0
    again = dn.load_robot(tmp_path / "new.xml")
    save_robot(again, tmp_path / "same.xml")
    assert (tmp_path / "same.xml").read_bytes() == (tmp_path / "new.xml").read_bytes()
    save_robot(again, tmp_path / "fresh.xml", fresh=True)
    assert formats.servos(dn.load_robot(tmp_path / "fresh.xml"))["shoulder"] == NEW["shoulder"]
    with pytest.raises(RobotFileError, match="URDF has no place for servos"):
        save_robot(robot, tmp_path / "new.urdf", servos=NEW)


def test_mujoco_moves_the_written_arm_as_our_roll_out_does(tmp_path):
    """The outside witness: a servo arm with friction and delay, written and run by MuJoCo under the same goals."""
    from diffnea.identify.io.robot_export import exported

    path = write(tmp_path / "arm.xml", '<motor joint="shoulder"/><motor joint="elbow"/>')
    path.write_text(re.sub(r'<body name="tip".*?</body>', "", path.read_text(), flags=re.DOTALL))
    robot = load(path)
    gains, damping, limit = np.array([60.0, 40.0]), np.array([3.0, 2.0]), np.array([8.0, 5.0])
    servo = dn.actuators.combine(dn.actuators.Servo.of(gains, damping, steps=8), dn.actuators.Limit.of(limit))
    rubbing = dn.actuators.Viscous.of(np.array([0.1, 0.05])), dn.actuators.Coulomb.of(np.array([0.2, 0.1]))
    actuator = dn.actuators.combine(servo, *rubbing)
    model = dn.Model(robot, actuator)
    dt, count = 0.02, 150
    time = dt * np.arange(count)
    goals = np.column_stack([0.8 * np.sin(2 * time), 0.5 * np.cos(3 * time)])
    run = dn.rollout(model, goals[0], np.zeros(2), goals, dt=dt)
    whole = exported(model)
    save_robot(whole.curved, tmp_path / "out.xml", servos=whole.servos, curves=whole.curves)
    simulated = mujoco.MjModel.from_xml_path(str(tmp_path / "out.xml"))
    data = mujoco.MjData(simulated)
    data.qpos[:2], states = goals[0], []
    for goal in goals:
        states.append(data.qpos[:2].copy())
        data.ctrl[:2] = goal
        for _ in range(round(dt / simulated.opt.timestep)):
            mujoco.mj_step(simulated, data)
    tracking = np.sqrt(np.mean((goals - np.asarray(run.q)) ** 2))
    apart = np.sqrt(np.mean((np.array(states) - np.asarray(run.q)) ** 2))
    assert apart < 0.05 * tracking and tracking > 0.02


# Told to others ----------------------------------------------------------------------------------------------------


def test_other_programs_are_told_the_same_servo(tmp_path):
    import ast
    import json

    from diffnea.identify.io.robot_export import exported
    from diffnea.identify.io.servo_configs import servo_configs

    robot = load(write(tmp_path / "arm.xml", '<motor joint="shoulder"/><motor joint="elbow"/>'), lock=["jaw"])
    servo = dn.actuators.Servo.of(np.array([60.0, 40.0]), np.array([3.0, 2.0]))
    servo = dn.actuators.combine(servo, dn.actuators.Limit.of(np.array([8.0, 5.0])))
    rubbing = dn.actuators.Stribeck.of(*(np.array(row) for row in ([0.3, 0.2], [0.2, 0.1], [0.1, 0.05], [100.0, 25.0])))
    load_friction = dn.actuators.Load.of(np.array([0.15, 0.1]), np.array([0.05, 0.1]))
    model = dn.Model(robot, dn.actuators.combine(servo, rubbing, load_friction))
    whole = exported(model)
    assert whole.servos is not None and any("grows with load" in each for each in whole.lacking)
    texts = servo_configs(model, whole.robot, whole.servos)
    calls = {}
    for name in ("servo_mjlab.py", "servo_isaaclab.py"):
        nodes = [node for node in ast.walk(ast.parse(texts[name])) if isinstance(node, ast.Call) and node.keywords]
        calls[name] = [{word.arg: word.value for word in node.keywords} for node in nodes]
    for name, rows in calls.items():
        stiffness = [ast.literal_eval(row["stiffness"]) for row in rows]
        assert stiffness == pytest.approx([60.0, 40.0], rel=1e-4), name
        assert [ast.literal_eval(row["effort_limit"]) for row in rows] == pytest.approx([8.0, 5.0], rel=1e-4)
    isaac = [ast.literal_eval(row["viscous_friction"]) for row in calls["servo_isaaclab.py"]]
    mjlab = [ast.literal_eval(row["damping"]) for row in calls["servo_mjlab.py"]]
    assert mjlab == pytest.approx(np.array([3.0, 2.0]) + isaac, rel=1e-4)  # mjlab has one place for both
    bam = json.loads(texts["servo_bam.json"])["elbow"]
    assert bam["model"] == "m5" and bam["load_friction_motor"] == pytest.approx(0.1)
    assert bam["dtheta_stribeck"] == pytest.approx(0.2) and bam["friction_stribeck"] == pytest.approx(0.1)
    assert "kt and R" in bam["lacking"]
