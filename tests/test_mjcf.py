"""MJCF: what is read, and what is refused and how; MuJoCo is the witness."""

import warnings

import mujoco
import numpy as np
import pytest
from robots import relative
from test_dynamics import LAW

import diffnea as dn
from diffnea.formats import mjcf

# Three joints in one body, anchors off its origin, references, classes, angles in degrees, frames, an include.
MACHINE = """<?xml version="1.0"?>
<!-- a machine; mind the spacing -->
<mujoco   model="machine">
  <compiler angle="degree" eulerseq="XYZ"/>
  <option gravity="0.5 -1 -9"  timestep='0.002' />   <!-- tilted -->
  <default>
    <joint armature="0.02" damping="0.1"/>
    <default class="heavy">
      <joint frictionloss="0.3" range="-90 45" axis="0 1 0.5"/>
      <motor gear="5"/>
    </default>
  </default>
  <worldbody>
    <light pos="0 0 3"/>
    <body name="cart" pos="0 0 0.5" euler="10 0 20">
      <joint name="x" type="slide" axis="1 0 0" pos="0.1 0 0" range="-1 2" ref="0.3"/>
      <joint name="yaw" pos="0.1 0.2 0" ref="30"/>
      <joint name="pitch"   class="heavy" pos="0 0 -0.1"/>   <!-- three joints, one body -->
      <inertial pos="0.1 0 0.2" mass='2.5' diaginertia="0.02 0.03 0.025" euler="20 30 40"/>
      <geom type="box" size=".1 .1 .1"/>
      <frame pos="0 0.3 0" euler="0 90 0">
        <body name="arm" pos="0.4 0 0">
          <frame pos="0 0.1 0" axisangle="0 0 1 30">
            <joint name="elbow" class="heavy" pos="0 0 0.05" damping="0.25"/>
          </frame>
          <geom type="capsule" size=".05" fromto="0 0 0 .3 .1 0"/>
          <body name="tool" pos="0.3 0 0" quat="1 1 0 0"><geom size="0.06" pos="0 0 .1"/></body>
          <include file="parts/hand.xml"/>
        </body>
      </frame>
    </body>
  </worldbody>
  <actuator>
    <motor joint="x" gear="20" ctrlrange="-2 2"/>
    <motor joint="elbow" class="heavy"/>
    <general joint="elbow" gainprm="2" gear="1.5"/>
  </actuator>
</mujoco>
"""
HAND = """<mujocoinclude>
  <!-- the hand -->
  <body name="hand" pos="0.2 0 0.1" zaxis="1 1 0">
    <joint name="wrist" axis="1 0 0" actuatorfrcrange="-3 3"/>
    <inertial pos="0 0 0.1" mass="0.7" fullinertia="0.01 0.02 0.015 0.001 -0.002 0.003"/>
  </body>
</mujocoinclude>
"""
PENDULUM = """<mujoco>
  <worldbody>
    <body name="pole"><joint name="hinge" axis="0 1 0"/><geom size="0.1" pos="0 0 -1"/></body>
  </worldbody>
</mujoco>
"""


def put(folder, text, name="robot.xml"):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode())
    return folder / name


@pytest.fixture
def machine_file(tmp_path):
    put(tmp_path, HAND, "parts/hand.xml")
    return put(tmp_path, MACHINE, "machine.xml")


@pytest.fixture
def machine(machine_file):
    return dn.load_robot(machine_file)


def in_mujoco(path):
    """The model without contacts, limits and dry friction."""
    model = mujoco.MjSpec.from_file(str(path)).compile()
    model.opt.disableflags = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    return model


def errors_against(model, robot, u=None):
    """How far accelerations, mass matrix and poses are from MuJoCo's; damping goes in as torque."""
    q, qd, tau = np.random.default_rng(0).normal(size=(3, model.nv))
    data = mujoco.MjData(model)
    data.qpos, data.qvel, data.qfrc_applied = q, qd, tau
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    poses = np.asarray(dn.forward_kinematics(robot, q))
    bodies = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) for name in robot.link_names]
    rows = [i for i, body in enumerate(bodies) if body >= 0]
    return {
        "qacc": relative(dn.forward_dynamics(robot, q, qd, tau + data.qfrc_passive), data.qacc),
        "M": relative(dn.mass_matrix(robot, q), M),
        "xpos": relative(poses[rows, :3, 3], data.xpos[[bodies[i] for i in rows]]),
        "xmat": relative(poses[rows, :3, :3].reshape(-1, 9), data.xmat[[bodies[i] for i in rows]]),
    }


# What a file says ------------------------------------------------------------------------------------------------


def test_what_a_file_says_is_what_the_robot_is(machine):
    assert machine.name == "machine"
    assert machine.joint_names == ("x", "yaw", "pitch", "elbow", "wrist")
    assert machine.link_names == ("cart/x", "cart/yaw", "cart", "arm", "hand")
    assert machine.tree.kinds == ("prismatic", "continuous", "revolute", "revolute", "continuous")
    assert machine.tree.parents == (-1, 0, 1, 2, 3)
    np.testing.assert_allclose(machine.inertia.mass[np.array([0, 1, 2, 4])], [0, 0, 2.5, 0.7])
    np.testing.assert_allclose(machine.armature, 0.02)
    np.testing.assert_allclose(machine.damping, [0.1, 0.1, 0.1, 0.25, 0.1])
    np.testing.assert_allclose(machine.friction, [0, 0, 0.3, 0.3, 0])
    np.testing.assert_allclose(machine.gear, [20, 0, 0, 8, 0])
    np.testing.assert_allclose(machine.limits.lower, [-1, -np.inf, -np.pi / 2, -np.pi / 2, -np.inf])
    np.testing.assert_allclose(machine.limits.upper, [2, np.inf, np.pi / 4, np.pi / 4, np.inf])
    np.testing.assert_allclose(machine.limits.effort, [40, np.inf, np.inf, np.inf, 3])
    np.testing.assert_allclose(machine.gravity, [0.5, -1, -9])


def test_joints_anchors_references_classes_frames_and_includes_move_as_in_mujoco(machine, machine_file):
    errors = errors_against(in_mujoco(machine_file), machine)
    assert all(error < LAW for error in errors.values()), errors


def test_the_text_counts_not_what_is_on_disk_by_now(machine_file):
    newer = MACHINE.replace("mass='2.5'", "mass='3.5'").encode()
    (cart,) = [link for link in mjcf.read(newer, str(machine_file)).links if link.name == "cart"]
    assert cart.inertia[3, 3] == 3.5


def test_a_file_without_motors_is_driven_by_torque_and_one_with_motors_only_where_they_are(tmp_path):
    assert dn.load_robot(put(tmp_path, PENDULUM)).gear.tolist() == [1.0]
    two = PENDULUM.replace("</body>", "</body><body><joint name='free wheel'/><geom size='1'/></body>")
    driven = two.replace("</worldbody>", "</worldbody><actuator><motor joint='hinge' gear='7'/></actuator>")
    assert dn.load_robot(put(tmp_path, driven)).gear.tolist() == [7.0, 0.0]


def test_what_has_no_name_gets_one_that_is_not_taken(tmp_path):
    body = "<body><joint/><joint type='slide'/><geom size='1'/><body><geom size='1'/></body></body>"
    text = PENDULUM.replace("</worldbody>", f"{body}</worldbody>").replace('"hinge"', '"body_2_joint"')
    robot = dn.load_robot(put(tmp_path, text))
    assert robot.joint_names == ("body_2_joint", "body_2_joint_2", "body_2_joint_3")
    assert robot.link_names == ("pole", "body_2/body_2_joint_2", "body_2")


def test_gravity_that_is_switched_off_is_none(tmp_path):
    text = PENDULUM.replace("<worldbody>", '<option><flag gravity="disable"/></option><worldbody>')
    assert dn.load_robot(put(tmp_path, text)).gravity.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.skipif(mujoco.__version__.startswith("3."), reason="actuators had neither")
def test_armature_and_damping_of_a_motor_reach_the_joint_by_the_gear_squared(tmp_path):
    motor = '<actuator><motor joint="hinge" gear="3" armature="0.5" damping="0.25"/></actuator>'
    path = put(tmp_path, PENDULUM.replace("</worldbody>", "</worldbody>" + motor))
    robot = dn.load_robot(path)
    assert (float(robot.armature[0]), float(robot.damping[0])) == (4.5, 2.25)
    errors = errors_against(in_mujoco(path), robot)
    assert all(error < LAW for error in errors.values()), errors


# Files that are not there ----------------------------------------------------------------------------------------

MESH = (
    '<asset><texture type="2d" name="t" file="no.png"/><material name="m" texture="t"/><mesh name="s" file="no.stl"/>'
)
SHAPED = PENDULUM.replace("<worldbody>", MESH + "</asset><worldbody>")
SHAPE = '<geom name="shape" type="mesh" mesh="s" material="m"/>'
INERTIAL = '<inertial pos="0 0 -1" mass="2" diaginertia="0.1 0.1 0.1"/>'


@pytest.mark.parametrize(
    ("geom", "mass"),
    [
        (INERTIAL + SHAPE, 2.0),
        ('<geom size="0.1" mass="3"/>' + SHAPE.replace("/>", ' mass="0"/>'), 3.0),
        ('<geom size="0.1" mass="3"/><site name="s" pos="0 0 1"/>', 3.0),
    ],
)
def test_meshes_and_textures_that_give_no_inertia_need_not_be_there(geom, mass, tmp_path):
    pair = '</worldbody><contact><pair geom1="shape" geom2="ground"/></contact>' if "shape" in geom else "</worldbody>"
    text = SHAPED.replace('<geom size="0.1" pos="0 0 -1"/>', geom).replace("</worldbody>", pair)
    ground = '<geom name="ground" type="plane" size="1 1 1"/><body name="shelf"><geom type="mesh" mesh="s"/></body>'
    robot = dn.load_robot(put(tmp_path, text.replace("<worldbody>", "<worldbody>" + ground)))
    assert robot.inertia.mass.tolist() == [mass]


def test_a_mesh_that_an_inertia_comes_from_must_be_there(tmp_path):
    path = put(tmp_path, SHAPED.replace('<geom size="0.1" pos="0 0 -1"/>', SHAPE))
    with pytest.raises(dn.RobotFileError, match=r'no.stl.*; body "pole" takes its inertia from meshes: add the file'):
        dn.load_robot(path)


def test_a_mesh_is_found_from_the_files_folder(tmp_path):
    corners = "0 0 0  1 0 0  0 1 0  0 0 1".split("  ")
    faces = ["1 3 2", "1 2 4", "2 3 4", "3 1 4"]
    put(tmp_path, "".join(f"v {c}\n" for c in corners) + "".join(f"f {f}\n" for f in faces), "shapes/no.obj")
    text = SHAPED.replace('<geom size="0.1" pos="0 0 -1"/>', SHAPE).replace("no.stl", "shapes/no.obj")
    robot = dn.load_robot(put(tmp_path, text))
    np.testing.assert_allclose(robot.inertia.mass, [1000 / 6])


# Refusals and notes ----------------------------------------------------------------------------------------------


def inside(text):
    return PENDULUM.replace("<geom", text + "<geom")


def beside(text):
    return PENDULUM.replace("</worldbody>", "</worldbody>" + text)


TWIN = "<body name='twin'><joint name='second'/><geom size='1'/></body></worldbody>"
REFUSED = [
    (PENDULUM.replace('axis="0 1 0"', 'axis="0 0 0"'), 'element "hinge", line 3: axis too small'),
    (PENDULUM.replace('pos="0 0 -1"', 'pos="0 nan -1"'), 'line 3: <geom pos="0 nan -1">; use finite numbers'),
    (PENDULUM.replace('size="0.1"', 'size="0.1" mass="inf"'), 'body "pole": .* not finite'),
    (PENDULUM.replace('axis="0 1 0"', 'axes="0 1 0"'), "element \"joint\", line 3: Schema violation.*'axes'"),
    (PENDULUM.replace('axis="0 1 0"', 'axis="0 one 0"'), "element \"joint\", line 3: .*'axis'"),
    (inside('<body name="pole"/>'), "repeated name 'pole'"),
    (inside('<include file="absent.xml"/>'), 'element "include", line 3: Error opening file .*absent.xml'),
    (
        PENDULUM.replace('<geom size="0.1" pos="0 0 -1"/>', ""),
        'element "pole", line 3: mass and inertia of moving bodies',
    ),
    ('<!DOCTYPE m [<!ENTITY a "b">]>' + PENDULUM, "has a document type"),
    (PENDULUM.replace("</mujoco>", ""), "not well-formed"),
    ("<mujocoinclude/>", "its root element is <mujocoinclude>; an MJCF file has <mujoco>"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_files_are_refused_in_one_line_that_names_file_and_element(text, message, tmp_path):
    path = put(tmp_path, text)
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_deformable_bodies_are_refused(tmp_path):
    flex = '<flexcomp name="cloth" type="grid" count="3 3 1" spacing=".1 .1 .1" dim="2" mass="1" radius=".01"/>'
    with pytest.raises(dn.RobotFileError, match='flex "cloth" is deformable'):
        dn.load_robot(put(tmp_path, PENDULUM.replace("</worldbody>", flex + "</worldbody>")))


TENDON = '<tendon><fixed name="rope"{}><joint joint="hinge" coef="1"/></fixed></tendon>'
NOTED = [
    (PENDULUM.replace('axis="0 1 0"', 'type="free" stiffness="2"'), "springs of free joints are left out"),
    (beside('<actuator><damper name="brake" joint="hinge" ctrlrange="0 1"/></actuator>'), 'left out: actuator "brake"'),
    (beside('<actuator><motor name="slow" joint="hinge" dyntype="filter"/></actuator>').replace("motor", "general"),
     'left out: actuator "slow"'),
    (PENDULUM.replace("</worldbody>", TWIN + '<equality><joint joint1="second" polycoef="1 0 0 0 0"/></equality>'),
     'these move independently: joint "second"'),
    (beside(TENDON.format(' damping="3"')), 'damping, friction and armature of tendons are left out: "rope"'),
    (beside('<option viscosity="0.1"/>'), "forces of air or water"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "note"), NOTED, ids=[note[:30] for _, note in NOTED])
def test_what_is_no_part_of_a_rigid_robot_is_said_to_be_left_out(text, note, tmp_path):
    path = put(tmp_path, text)
    with pytest.warns(UserWarning, match=note) as caught:
        robot = dn.load_robot(path)
    assert len(caught) == 1 and str(caught[0].message).startswith(f"{path}: ")
    assert set(robot.gear.tolist()) <= {1.0} or "free" in text


def test_what_exerts_no_force_is_passed_over_in_silence(tmp_path):
    loose = TENDON.format("") + '<equality><weld body1="pole" active="false"/></equality>'
    sensors = '<sensor><jointpos joint="hinge"/></sensor><keyframe><key qpos="1"/></keyframe>'
    assert dn.load_robot(put(tmp_path, beside(loose + sensors))).num_joints == 1


@pytest.mark.parametrize(
    ("inertial", "mass"),
    [
        ('<inertial pos="0 0 1" mass="1" diaginertia="0.1 0.1 0.5"/>', 1.0),
        ('<inertial pos="0 0 1" mass="1" fullinertia="0.1 0.1 0.1 0.2 0 0"/>', 1.0),
        ('<inertial pos="0 0 1" mass="-1" diaginertia="0.1 0.1 0.1" euler="30 0 0"/>', -1.0),
    ],
)
def test_impossible_inertias_load_as_written_when_asked(inertial, mass, tmp_path):
    path = put(tmp_path, PENDULUM.replace('<geom size="0.1" pos="0 0 -1"/>', inertial))
    with pytest.raises(dn.RobotFileError, match="allow_unphysical loads it all the same"):
        dn.load_robot(path)
    robot = dn.load_robot(path, allow_unphysical=True)
    assert robot.inertia.mass.tolist() == [mass]
    np.testing.assert_allclose(robot.inertia.first_moment, [[0, 0, mass]])
    if "diag" in inertial:
        np.testing.assert_allclose(robot.inertia.rotational[0, 0], 0.1 + mass)


def test_nothing_is_printed_and_no_log_is_left(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    put(tmp_path, PENDULUM.replace("<worldbody>", '<compiler settotalmass="4"/><worldbody>'))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dn.load_robot("robot.xml").inertia.mass.tolist() == [4.0]
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == ["robot.xml"]
