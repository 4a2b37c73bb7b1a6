"""URDF: what is read, what is refused and how, and that writing touches nothing else."""

import difflib
import warnings
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from robots import random_robot, random_state, random_tree, relative
from test_dynamics import LAW

import diffnea as dn

ARM = """<?xml version="1.0"?>
<!-- an arm; mind the spacing -->
<robot name="arm"  xmlns:xacro="http://www.ros.org/wiki/xacro">
  <material name="grey"><color rgba="1 1 1 1"/></material>
  <link name="base"/>
  <link name="upper">
    <visual><geometry><mesh filename="package://not/there.stl"/></geometry></visual>
    <inertial>
      <origin xyz="0.1 0 0.2" rpy="0.3 -0.4 0.5"/>
      <mass   value = '2.5' />  <!-- weighed -->
      <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.025"/>
    </inertial>
    <unknown thing="1"/>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/> <child link="upper"/>
    <origin xyz="0 0 0.5" rpy="0 0 1.2"/>
    <axis xyz="0 1 1"/>
    <limit lower="-1" upper="2" effort="30" velocity="4"/>
    <dynamics damping="0.1" friction="0.2"/>
  </joint>
  <link name="bracket">
    <inertial><origin xyz="0 0 0.05"/><mass value="0.4"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial>
  </link>
  <joint name="glue" type="fixed">
    <parent link="upper"/><child link="bracket"/><origin xyz="0.3 0 0" rpy="0 1.5707963267948966 0"/>
  </joint>
  <link name="slider">
    <inertial><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
  </link>
  <joint name="slide" type="prismatic">
    <parent link="bracket"/><child link="slider"/>
    <origin xyz="0 0.1 0"/>
    <axis xyz="0 0 -2"/>
    <limit effort="5" velocity="1" lower="0" upper="0.4"/>
  </joint>
  <link name="sensor"/>
  <joint name="wheel" type="continuous"><parent link="slider"/><child link="sensor"/></joint>
  <gazebo reference="upper"><mu1>0.2</mu1></gazebo>
</robot>
"""
MASSLESS = "(?s).*no mass moves with .wheel."


@pytest.fixture
def arm_file(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return path


@pytest.fixture
def arm(arm_file):
    with pytest.warns(UserWarning, match=MASSLESS):
        return dn.load_robot(arm_file)


def test_what_a_file_says_is_what_the_robot_is(arm):
    assert arm.name == "arm"
    assert arm.joint_names == ("shoulder", "slide", "wheel")
    assert arm.link_names == ("upper", "slider", "sensor")
    assert arm.tree.parents == (-1, 0, 1)
    assert arm.tree.kinds == ("revolute", "prismatic", "continuous")
    np.testing.assert_allclose(arm.axis, [[0, 0.5**0.5, 0.5**0.5], [0, 0, -1], [1, 0, 0]])
    np.testing.assert_allclose(arm.inertia.mass, [2.9, 1.0, 0.0])
    np.testing.assert_allclose(arm.damping, [0.1, 0, 0])
    np.testing.assert_allclose(arm.friction, [0.2, 0, 0])
    np.testing.assert_allclose(arm.limits.lower, [-1, 0, -np.inf])
    np.testing.assert_allclose(arm.limits.upper, [2, 0.4, np.inf])
    np.testing.assert_allclose(arm.limits.effort, [30, 5, np.inf])
    np.testing.assert_allclose(arm.placement.translation[1], [0.3 + 0.0, 0.1, 0.0], atol=1e-15)
    np.testing.assert_allclose(arm.gravity, [0, 0, -9.81])


def test_pinocchio_reads_the_same_robot(arm, arm_file):
    model = pinocchio.buildModelFromUrdf(str(arm_file))
    data = model.createData()
    q, qd, qdd = random_state(3, 0)
    full = np.array([q[0], q[1], np.cos(q[2]), np.sin(q[2])])
    assert relative(dn.inverse_dynamics(arm, q, qd, qdd), pinocchio.rnea(model, data, full, qd, qdd)) < LAW


def test_joints_keep_the_order_of_the_file_but_parents_come_first(tmp_path):
    joints = [("b", "two", "three"), ("c", "one", "four"), ("a", "one", "two")]
    text = "<robot name='r'>" + "".join(f'<link name="{n}"/>' for n in ("one", "two", "three", "four"))
    text += "".join(
        f'<joint name="{n}" type="revolute"><parent link="{p}"/><child link="{c}"/></joint>' for n, p, c in joints
    )
    (tmp_path / "r.urdf").write_text(text + "</robot>")
    with pytest.warns(UserWarning, match="no mass moves"):
        robot = dn.load_robot(tmp_path / "r.urdf")
    assert robot.joint_names == ("c", "a", "b")
    assert robot.tree.parents == (-1, -1, 1)


# Refusals --------------------------------------------------------------------------------------------------------

INERTIA = '<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.025"/>'
BAD = [
    ('type="prismatic"', 'type="floating"', r'joint "slide" is free, but "bracket" moves; it must stand on the ground'),
    ('type="revolute"', 'type="planar"', r'is "planar"; use revolute, continuous, prismatic, floating or fixed'),
    ('type="revolute"', "", r'joint "shoulder" \(line 15\) has no type'),
    ('<child link="slider"/>', '<child link="upper"/>', '"upper" is the child of joints "shoulder" and "slide"'),
    ('<parent link="base"/>', '<parent link="slider"/>', "2 links have no parent|loop"),
    ('<link name="base"/>', '<link name="base"/><link name="stray"/>', r'2 links have no parent \("base", "stray"\)'),
    ('<link name="base"/>', '<link name="upper"/>', 'two links are named "upper"'),
    ('name="slide"', 'name="shoulder"', 'two joints are named "shoulder"'),
    ('<parent link="base"/>', '<parent link="bace"/>', r'its parent "bace" is not a link.*did you mean "base"'),
    ('<parent link="base"/>', "", r'joint "shoulder" \(line 15\) has no parent; give <parent link'),
    ('xyz="0 1 1"', 'xyz="0 0 0"', r'joint "shoulder" \(line 15\): its axis is 0 0 0; give a direction'),
    ('xyz="0 1 1"', 'xyz="0 1"', r'<axis xyz="0 1">; 3 numbers must stand there'),
    ("value = '2.5'", "value = '2,5'", r'link "upper" \(line 6\): <mass value="2,5">; a number must stand there'),
    ("value = '2.5'", "value = 'nan'", r'<mass value="nan">; a number'),
    ("value = '2.5'", "value = '1e999'", r'<mass value="1e999"> is too large'),
    ("value = '2.5'", "value = '1_0'", r'<mass value="1_0">; a number'),
    ("value = '2.5'", "value = '-2.5'", r'link "upper": its mass is -2.5; a mass is at least 0'),
    (INERTIA, INERTIA.replace("0.03", "-0.03"), r"its inertia has the eigenvalue -0.03\d* .*at least 0"),
    (INERTIA, INERTIA.replace("0.03", "0.09"), r"break the triangle inequality: 0.0900\d* > 0.019\d* \+ 0.025"),
    (INERTIA, "", r'link "upper" \(line 6\): its <inertial> has no <inertia>'),
    ('damping="0.1"', 'damping="-0.1"', r'joint "shoulder" \(line 15\): its damping is -0.1; at least 0'),
    ('xyz="0 0 0.5"', 'xyz="0 0 ${height}"', r'line 17: "0 0 \$\{height\}" is xacro; expand it first'),
    ('<link name="base"/>', '<xacro:include filename="x"/><link name="base"/>', r"<xacro:include> is xacro"),
    ('<?xml version="1.0"?>', '<!DOCTYPE r [<!ENTITY a "b">]>', "line 1: has a document type; remove it"),
    ("</robot>", "", r"line \d+: is not well-formed XML"),
    ('<joint name="glue"', "<joint", "line 26: a <joint> has no name"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_bad_files_are_refused_in_one_line_that_names_file_and_element(old, new, message, tmp_path):
    assert ARM.count(old) >= 1
    path = tmp_path / "bad.urdf"
    path.write_text(ARM.replace(old, new, 1))
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


TOLERATED = [
    ('lower="-1"', 'lower="3"', 'a lower limit above the upper is read as none: joint "shoulder"'),
    ('<link name="base"/>', '<link name="base"><visual><geometry><mesh filename="${x}"/></geometry></visual></link>',
     r'xacro is left over in elements that are not read: "\$\{x\}" \(line 5\)'),
    ('<link name="base"/>', '<xacro:property name="x" value="1"/><link name="base"/>', "<xacro:property> .line 5."),
    ('<?xml version="1.0"?>', '\n<?xml version="1.0"?>', "blanks before <.xml are passed over"),
    ('<link name="base"/>', f'<link name="base"><inertial><mass value="-1"/>{INERTIA}</inertial></link>',
     'no body has the inertia of link "base", but it does not move'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "note"), TOLERATED, ids=[note[:40] for *_, note in TOLERATED])
def test_what_does_no_harm_is_taken_with_a_word(old, new, note, tmp_path):
    assert ARM.count(old) >= 1
    path, plain = tmp_path / "odd.urdf", tmp_path / "plain.urdf"
    path.write_text(ARM.replace(old, new, 1))
    plain.write_text(ARM)
    with pytest.warns(UserWarning, match=note) as caught:
        robot = dn.load_robot(path, lock=["wheel"])
    assert len(caught) == 1
    wanted = dn.load_robot(plain, lock=["wheel"])
    assert np.array_equal(robot.inertia.parameters, wanted.inertia.parameters)
    crossed = "lower" in old
    assert np.isinf(robot.limits.lower[0]) == crossed and np.isinf(robot.limits.upper[0]) == crossed
    dn.save_robot(replace(robot, damping=robot.damping + 1), tmp_path / "out.urdf")  # positions in the text are right
    with pytest.warns(UserWarning, match=note):
        back = dn.load_robot(tmp_path / "out.urdf", lock=["wheel"])
    assert np.allclose(back.damping, robot.damping + 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not well-formed"), (b"\x00\x01", "not well-formed"), (b"<sdf/>", "use URDF .<robot>. or MJCF"),
     (b"<robot/>", "has no link"), (b'<?xml version="1.0" encoding="klingon"?><a/>', '"klingon", which is unknown')],
)  # fmt: skip
def test_what_is_no_robot_file_is_refused(content, message, tmp_path):
    path = tmp_path / "x.urdf"
    path.write_bytes(content)
    with pytest.raises(dn.RobotFileError, match=message):
        dn.load_robot(path)
    for kind in (FileNotFoundError, dn.RobotFileError):
        with pytest.raises(kind, match=r"absent\.urdf: no such file or directory"):
            dn.load_robot(tmp_path / "absent.urdf")


def test_entities_are_never_expanded_and_no_other_file_is_opened(tmp_path):
    (tmp_path / "secret").write_text("42")
    path = tmp_path / "x.urdf"
    declared = f'<!DOCTYPE r [<!ENTITY s SYSTEM "{tmp_path / "secret"}">]>'
    path.write_text(f'{declared}<robot name="&s;"><link name="a"/></robot>')
    with pytest.raises(dn.RobotFileError, match="document type"):
        dn.load_robot(path)


def test_vendors_impossible_inertias_load_when_asked(tmp_path):
    path = tmp_path / "bad.urdf"
    path.write_text(ARM.replace("value = '2.5'", "value = '-2.5'"))
    with pytest.warns(UserWarning, match=MASSLESS):
        robot = dn.load_robot(path, allow_unphysical=True)
    assert float(robot.inertia.mass[0]) == pytest.approx(-2.1)
    with pytest.raises(dn.RobotFileError, match='link "upper": its mass is -2.1'):
        dn.save_robot(robot, tmp_path / "out.urdf")
    assert not (tmp_path / "out.urdf").exists()
    dn.save_robot(robot, tmp_path / "out.urdf", allow_unphysical=True)
    assert (tmp_path / "out.urdf").read_bytes() == path.read_bytes()


def test_mimic_joints_are_independent_if_asked_for_and_said_to_be(tmp_path):
    path = tmp_path / "mimic.urdf"
    path.write_text(ARM.replace('<axis xyz="0 0 -2"/>', '<axis xyz="0 0 -2"/><mimic joint="shoulder"/>'))
    with pytest.warns(UserWarning, match=MASSLESS), pytest.warns(UserWarning, match='independent: "slide"'):
        assert dn.load_robot(path, couplings=False).num_joints == 3


# Writing ---------------------------------------------------------------------------------------------------------


def _load(path):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MASSLESS)
        return dn.load_robot(path)


def _changed_lines(before: str, after: str) -> list[str]:
    return [line[1:].strip() for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] == "+"]


def assert_same_robot(found, wanted, bound=LAW):
    assert found.tree == wanted.tree
    for name in ("axis", "armature", "damping", "friction", "gear", "gravity"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=bound, atol=bound)
    np.testing.assert_allclose(found.placement.rotation, wanted.placement.rotation, atol=bound)
    np.testing.assert_allclose(found.placement.translation, wanted.placement.translation, atol=bound)
    np.testing.assert_allclose(found.inertia.parameters, wanted.inertia.parameters, rtol=bound, atol=bound)
    np.testing.assert_allclose(found.limits.lower, wanted.limits.lower, rtol=bound)
    np.testing.assert_allclose(found.limits.upper, wanted.limits.upper, rtol=bound)
    np.testing.assert_allclose(found.limits.effort, wanted.limits.effort, rtol=bound)


def test_an_unchanged_robot_writes_the_same_bytes(arm, tmp_path):
    dn.save_robot(arm, tmp_path / "out.urdf")
    assert (tmp_path / "out.urdf").read_text() == ARM


def test_line_ends_and_encodings_survive(tmp_path):
    text = (
        ARM.replace("\n", "\r\n")
        .replace('version="1.0"', 'version="1.0" encoding="latin-1"')
        .replace("weighed", "gewogen, für")
    )
    (tmp_path / "arm.urdf").write_bytes(text.encode("latin-1"))
    robot = _load(tmp_path / "arm.urdf")
    dn.save_robot(replace(robot, damping=robot.damping.at[1].set(0.7)), tmp_path / "out.urdf")
    written = (tmp_path / "out.urdf").read_bytes().decode("latin-1")
    assert [line for line in written.split("\r\n") if "\n" in line] == []
    assert _changed_lines(text, written) == ['<dynamics damping="0.7"/>']


def test_only_the_changed_numbers_change(arm, tmp_path):
    changed = replace(
        arm,
        damping=arm.damping.at[0].set(0.75),
        placement=dn.Transform(arm.placement.rotation, arm.placement.translation.at[0, 2].set(0.625)),
    )
    dn.save_robot(changed, tmp_path / "out.urdf")
    written = (tmp_path / "out.urdf").read_text()
    assert _changed_lines(ARM, written) == [
        '<origin xyz="0 0 0.625" rpy="0 0 1.2"/>',
        '<dynamics damping="0.75" friction="0.2"/>',
    ]
    assert_same_robot(_load(tmp_path / "out.urdf"), changed)


def test_identified_inertia_goes_to_the_moving_link_and_what_is_glued_on_keeps_its_own(arm, tmp_path):
    heavier = arm.inertia.parameters.at[0].multiply(1.5)
    changed = replace(arm, inertia=dn.Inertia.from_parameters(heavier))
    dn.save_robot(changed, tmp_path / "out.urdf")
    written = (tmp_path / "out.urdf").read_text()
    assert '<mass value="0.4"/>' in written and "<!-- weighed -->" in written and 'rpy="0.3 -0.4 0.5"' in written
    assert len(_changed_lines(ARM, written)) == 3
    assert_same_robot(_load(tmp_path / "out.urdf"), changed)


def test_an_inertia_less_than_what_is_glued_on_is_still_written_as_a_possible_robot(arm, tmp_path):
    lighter = arm.inertia.parameters.at[0].multiply(0.1)
    changed = replace(arm, inertia=dn.Inertia.from_parameters(lighter))
    dn.save_robot(changed, tmp_path / "out.urdf")
    assert_same_robot(_load(tmp_path / "out.urdf"), changed)


def test_numbers_urdf_has_no_place_for_survive_and_others_still_read_the_file(arm, tmp_path):
    out = tmp_path / "out.urdf"
    changed = replace(arm, armature=arm.armature.at[2].set(0.05), gravity=jnp.asarray([0.0, 0.0, -1.62]))
    dn.save_robot(changed, out)
    assert_same_robot(dn.load_robot(out), changed)
    assert pinocchio.buildModelFromUrdf(str(out)).nv == 3
    again = replace(dn.load_robot(out), gear=jnp.asarray([2.0, 1.0, 3.0]))
    dn.save_robot(again, out)
    assert_same_robot(dn.load_robot(out), again)
    assert out.read_text().count("<diffnea") == 1


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_a_robot_from_nowhere_reads_back_the_same(tmp_path_factory, seed):
    robot = random_robot(random_tree(seed), seed)
    path = tmp_path_factory.mktemp("fresh") / "robot.urdf"
    dn.save_robot(robot, path)
    back = dn.load_robot(path)
    assert_same_robot(back, robot)
    np.testing.assert_allclose(back.limits.velocity, robot.limits.velocity)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_any_change_to_a_robot_from_a_file_reads_back(tmp_path_factory, seed):
    path = tmp_path_factory.mktemp("edit") / "arm.urdf"
    path.write_text(ARM)
    robot = _load(path)
    other = random_robot(robot.tree, seed)
    changed = replace(other, name=robot.name, source=robot.source, frame_offset=robot.frame_offset)
    dn.save_robot(changed, path)
    assert_same_robot(dn.load_robot(path), changed)


def test_pinocchio_reads_a_fresh_file_as_the_same_robot(tmp_path):
    robot = random_robot(random_tree(5, 6), 5)
    robot = replace(robot, gravity=jnp.asarray([0.0, 0.0, -9.81]), armature=jnp.zeros(6))
    dn.save_robot(robot, tmp_path / "robot.urdf")
    model = pinocchio.buildModelFromUrdf(str(tmp_path / "robot.urdf"))
    order = [model.joints[model.getJointId(name)].idx_v for name in robot.joint_names]
    q, qd, qdd = random_state(6, 1)
    full_q, full_qd, full_qdd = pinocchio.neutral(model), np.zeros(6), np.zeros(6)
    for i, name in enumerate(robot.joint_names):
        joint = model.joints[model.getJointId(name)]
        full_q[joint.idx_q : joint.idx_q + joint.nq] = q[i] if joint.nq == 1 else (np.cos(q[i]), np.sin(q[i]))
    full_qd[order], full_qdd[order] = qd, qdd
    tau = pinocchio.rnea(model, model.createData(), full_q, full_qd, full_qdd)[order]
    assert relative(dn.inverse_dynamics(robot, q, qd, qdd), tau) < LAW


def test_single_precision_robots_write_the_same_bytes_when_unchanged(arm, tmp_path):
    from diffnea.robot import astype

    dn.save_robot(astype(arm, jnp.float32), tmp_path / "out.urdf")
    assert (tmp_path / "out.urdf").read_text() == ARM


def test_writing_refuses_what_it_cannot_do_and_leaves_no_trace(arm, tmp_path):
    with pytest.raises(dn.RobotFileError, match=r'ends in ".stl"; use .urdf, or .xml'):
        dn.save_robot(arm, tmp_path / "arm.stl")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        dn.save_robot(arm, tmp_path / "nowhere" / "arm.urdf")
    renamed = replace(arm, tree=replace(arm.tree, joint_names=("x", "y", "z")))
    with pytest.raises(dn.RobotFileError, match="no longer those of its file; save with fresh=True"):
        dn.save_robot(renamed, tmp_path / "out.urdf")
    assert [path.name for path in tmp_path.iterdir()] == ["arm.urdf"]
    dn.save_robot(renamed, tmp_path / "out.urdf", fresh=True)
    assert _load_any(tmp_path / "out.urdf").joint_names == ("x", "y", "z")


def _load_any(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dn.load_robot(path)
