"""MJCF written: into the user's own text, where only the changed numbers change, and as a fresh file."""

import difflib
from dataclasses import replace

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from robots import depth_first, random_robot, random_tree
from scipy.spatial.transform import Rotation
from test_dynamics import LAW
from test_mjcf import HAND, INERTIAL, MACHINE, PENDULUM, beside, errors_against, in_mujoco, put
from test_urdf import assert_same_robot

import diffnea as dn
from diffnea.formats import mjcf
from diffnea.formats.assembly import assemble
from diffnea.formats.description import Description, Joint, Link
from diffnea.formats.inertia import pseudo_inertia


@pytest.fixture
def machine_file(tmp_path):
    put(tmp_path, HAND, "parts/hand.xml")
    return put(tmp_path, MACHINE, "machine.xml")


@pytest.fixture
def machine(machine_file):
    return dn.load_robot(machine_file)


def changed_lines(before: str, after: str) -> list[str]:
    return [line[1:].strip() for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] == "+"]


def saved(robot, path, **options) -> str:
    """The text that the robot is saved as, read back as the same robot."""
    dn.save_robot(robot, path, **options)
    back = dn.load_robot(path)
    assert_same_robot(back, robot)
    np.testing.assert_allclose(back.frame_offset, robot.frame_offset, atol=LAW)
    return path.read_bytes().decode()


def with_inertia(robot, row, factor):
    return replace(robot, inertia=dn.Inertia.from_parameters(robot.inertia.parameters.at[row].multiply(factor)))


# Into the user's text --------------------------------------------------------------------------------------------


def test_an_unchanged_robot_writes_the_same_bytes(machine, machine_file):
    machine_file.unlink()
    dn.save_robot(machine, machine_file)
    assert machine_file.read_text() == MACHINE


def test_only_the_changed_numbers_change(machine, machine_file):
    changed = replace(
        machine,
        damping=machine.damping.at[3].set(0.75),
        friction=machine.friction.at[1].set(0.5),
        armature=machine.armature.at[0].set(0.125),
        gear=machine.gear.at[0].set(25.0),
        limits=replace(machine.limits, upper=machine.limits.upper.at[2].set(np.pi / 3)),
        gravity=jnp.asarray([0.0, 0.0, -1.625]),
    )
    assert changed_lines(MACHINE, saved(changed, machine_file)) == [
        "<option gravity=\"0 0 -1.625\"  timestep='0.002' />   <!-- tilted -->",
        '<joint name="x" type="slide" axis="1 0 0" pos="0.1 0 0" range="-1 2" ref="0.3" armature="0.125"'
        ' actuatorfrcrange="-40 40" actuatorfrclimited="true"/>',
        '<joint name="yaw" pos="0.1 0.2 0" ref="30" frictionloss="0.5" solreffriction="0.0001 1" '
        'solimpfriction="0.9999 0.9999 0.001 0.5 2"/>',
        '<joint name="pitch"   class="heavy" pos="0 0 -0.1" range="-90 59.99999999999999"/>   '
        "<!-- three joints, one body -->",
        '<joint name="elbow" class="heavy" pos="0 0 0.05" damping="0.75"/>',
        '<motor joint="x" gear="25" ctrlrange="-2 2"/>',
    ]


def test_a_heavier_body_keeps_its_axes(machine, machine_file):
    lines = changed_lines(MACHINE, saved(with_inertia(machine, 2, 2.0), machine_file))
    assert len(lines) == 1 and lines[0].startswith("<inertial pos=\"0.1 0 0.2\" mass='5' diaginertia=")
    assert lines[0].endswith('euler="20 30 40"/>')


def test_a_body_of_geoms_gets_an_inertial_and_keeps_them(machine, machine_file):
    lines = changed_lines(MACHINE, saved(with_inertia(machine, 3, 1.5), machine_file))
    assert len(lines) == 1 and lines[0].startswith("<inertial pos=")


def test_a_body_in_a_frame_moves_by_its_own_pose(machine, machine_file):
    moved = machine.placement.translation.at[3].add(jnp.asarray([0.0, 0.25, 0.0]))
    changed = replace(machine, placement=dn.Transform(machine.placement.rotation, moved))
    (line,) = changed_lines(MACHINE, saved(changed, machine_file))
    assert line.startswith('<body name="arm" pos="0.4')


def test_a_changed_included_file_is_written_beside_and_stays_as_it_was(machine, machine_file):
    text = saved(replace(machine, damping=machine.damping.at[4].set(0.5)), machine_file)
    assert text == MACHINE.replace("parts/hand.xml", "hand.xml")
    (line,) = changed_lines(HAND, (machine_file.parent / "hand.xml").read_text())
    assert 'actuatorfrcrange="-3 3" damping="0.5"/>' in line
    assert (machine_file.parent / "parts/hand.xml").read_text() == HAND


def test_an_include_within_an_include_is_still_found(tmp_path):
    put(tmp_path, "<mujocoinclude><geom size='0.1' pos='0 0 -1'/></mujocoinclude>", "sub/shape.xml")
    put(tmp_path, HAND.replace("<inertial", "<include file='shape.xml'/><inertial"), "sub/hand.xml")
    path = put(tmp_path, PENDULUM.replace("<geom", "<include file='sub/hand.xml'/><geom"))
    robot = dn.load_robot(path)
    assert "<include file='hand.xml'/>" in saved(replace(robot, damping=robot.damping.at[1].set(0.5)), path)
    assert "<include file='sub/shape.xml'/>" in (tmp_path / "hand.xml").read_text()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_any_change_to_a_robot_from_a_file_reads_back(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("edit")
    put(folder, HAND, "parts/hand.xml")
    robot = dn.load_robot(put(folder, MACHINE, "machine.xml"))
    other = random_robot(robot.tree, seed)
    # Links within a body have no mass, and joints within one are not turned against one another.
    parameters = other.inertia.parameters.at[:2].set(0.0)
    rotation = other.placement.rotation.at[1].set(robot.placement.rotation[1]).at[2].set(robot.placement.rotation[2])
    changed = replace(
        other,
        name=robot.name,
        source=robot.source,
        frame_offset=robot.frame_offset,
        inertia=dn.Inertia.from_parameters(parameters),
        placement=dn.Transform(rotation, other.placement.translation),
        axis=other.axis.at[1].set(robot.axis[1]),  # its reference turns what comes after about it
        gear=jnp.where(robot.gear != 0, other.gear, 0.0),
    )
    saved(changed, folder / "machine.xml")


OTHERS = f"<body name='b'><joint/><geom size='1'/>\n{INERTIAL}</body><body><joint/><geom size='2'/></body></worldbody>"


@pytest.mark.parametrize(
    ("setting", "settled", "inertials"),
    [
        ('inertiafromgeom="true"', 'inertiafromgeom="auto"', 2),
        ('settotalmass="9"', 'settotalmass="-1"', 3),
        ('inertiafromgeom="true" settotalmass="9"', 'inertiafromgeom="auto" settotalmass="-1"', 3),
    ],
)
def test_settings_that_override_inertias_give_way_and_every_body_stays(setting, settled, inertials, tmp_path):
    text = PENDULUM.replace("<worldbody>", f"<compiler {setting}/>\n  <worldbody>").replace("</worldbody>", OTHERS)
    path = put(tmp_path, text)
    text = saved(with_inertia(dn.load_robot(path), 0, 3.0), path)
    assert f"<compiler {settled}/>" in text
    assert text.count("<inertial") == inertials


def test_bodies_that_the_compiler_would_fuse_keep_their_text(tmp_path):
    fixed = "<body name='lamp'><geom size='0.2'/></body><body name='c'><joint/><geom size='1'/></body></body>"
    path = put(
        tmp_path, PENDULUM.replace("<worldbody>", "<compiler fusestatic='true'/><worldbody>").replace("</body>", fixed)
    )
    saved(with_inertia(dn.load_robot(path), 1, 3.0), path)


def test_limits_may_close_open_and_vanish(machine, machine_file):
    limits = replace(
        machine.limits,
        lower=jnp.asarray([0.5, -1.0, -np.inf, -np.inf, -np.inf]),
        upper=jnp.asarray([0.5, 1.0, np.inf, 1.0, np.inf]),
        effort=jnp.asarray([0.0, 5.0, np.inf, 2.0, np.inf]),
    )
    dn.save_robot(replace(machine, limits=limits), machine_file)
    back = dn.load_robot(machine_file)
    assert back.tree.kinds == ("prismatic", "revolute", "continuous", "revolute", "continuous")
    for name in ("lower", "upper", "effort"):
        np.testing.assert_allclose(getattr(back.limits, name), getattr(limits, name), rtol=LAW)


def test_geoms_may_be_replicated_but_not_bodies(tmp_path):
    path = put(
        tmp_path, PENDULUM.replace("<geom", '<replicate count="2"><geom').replace("/></body>", "/></replicate></body>")
    )
    saved(with_inertia(dn.load_robot(path), 0, 2.0), path)


def test_motors_are_added_where_a_gear_is_learned_and_none_was(tmp_path):
    fitted = '<default><motor ctrlrange="-1 1" gear="9"/></default><worldbody>'
    two = "</body><body name='b'><joint/><geom size='1'/></body>"
    path = put(tmp_path, PENDULUM.replace("<worldbody>", fitted).replace("</body>", two))
    robot = dn.load_robot(path)
    text = saved(replace(robot, gear=jnp.asarray([3.0, 1.0])), path)
    assert '<motor joint="hinge" gear="3"' in text and '<joint name="b_joint"/>' in text


def test_gears_of_several_motors_on_a_joint_grow_alike(machine, machine_file):
    lines = changed_lines(MACHINE, saved(replace(machine, gear=machine.gear.at[3].set(16.0)), machine_file))
    assert lines == [
        '<motor joint="elbow" class="heavy" gear="10"/>',
        '<general joint="elbow" gainprm="2" gear="3"/>',
    ]


@pytest.mark.skipif(mujoco.__version__.startswith("3."), reason="actuators had neither")
def test_what_a_motor_adds_to_a_joint_stays_what_it_was_with_another_gear(tmp_path):
    motor = '<actuator><motor joint="hinge" gear="3" armature="0.5" damping="0.25"/></actuator>'
    path = put(tmp_path, beside(motor).replace('axis="0 1 0"', 'axis="0 1 0" armature="9" damping="9"'))
    saved(replace(dn.load_robot(path), gear=jnp.asarray([4.0])), path)


def test_gravity_is_switched_on_again_or_gets_an_option(tmp_path):
    off = PENDULUM.replace("<worldbody>", '<option><flag gravity="disable"/></option><worldbody>')
    for text in (off, PENDULUM):
        path = put(tmp_path, text)
        saved(replace(dn.load_robot(path), gravity=jnp.asarray([0.0, 0.0, -3.0])), path)


def turned(robot):
    rotation = robot.placement.rotation.at[2].set(robot.placement.rotation[0])
    return replace(robot, placement=dn.Transform(rotation, robot.placement.translation))


def weighed(robot):
    """A mass for a link that has none."""
    return replace(robot, inertia=dn.Inertia.from_parameters(robot.inertia.parameters.at[0].set(BODY)))


BODY = random_robot(random_tree(0, 2), 0).inertia.parameters[0]
UNWRITABLE = [
    (MACHINE, weighed, 'link "cart/x" has no body of its own'),
    (MACHINE, turned, 'joint "pitch" is turned against the other joints of body "cart"'),
    (MACHINE.replace('<frame pos="0 0.3 0"', '<replicate count="1"><frame pos="0 0.3 0"').replace(
        "      </frame>\n    </body>", "      </frame></replicate>\n    </body>"),
     lambda r: with_inertia(r, 2, 2.0), r"<replicate> \(line \d+\) makes or scales bodies"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "change", "message"), UNWRITABLE, ids=[message[:20] for *_, message in UNWRITABLE])
def test_what_the_text_cannot_hold_is_refused_and_can_be_written_afresh(text, change, message, machine_file, tmp_path):
    robot = change(dn.load_robot(put(tmp_path, text, "machine.xml")))
    with pytest.raises(dn.RobotFileError, match=f"{message}.*save with fresh=True"):
        dn.save_robot(robot, machine_file)
    assert machine_file.read_text() == text
    saved(robot, machine_file, fresh=True)


def test_a_file_moved_to_another_folder_still_finds_its_parts(machine_file, tmp_path):
    put(tmp_path, "<mujocoinclude><geom size='0.1'/><include file='parts/hand.xml'/></mujocoinclude>", "more.xml")
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    put(tmp_path, corners, "shapes/wedge.obj")
    assets = '<asset><mesh file="wedge.obj"/></asset><worldbody><geom type="mesh" mesh="wedge"/>'
    text = MACHINE.replace("parts/hand.xml", "more.xml").replace("<worldbody>", assets)
    text = text.replace('angle="degree"', 'angle="degree" meshdir="shapes"')
    machine_file.write_text(text)
    target = tmp_path / "out" / "far" / "machine.xml"
    target.parent.mkdir(parents=True)
    robot = dn.load_robot(machine_file)
    assert dn.save_robot(robot, tmp_path / "copy.xml") == (tmp_path / "copy.xml",)
    assert (tmp_path / "copy.xml").read_text() == text
    assert dn.save_robot(robot, target) == (target,)  # it includes what it did
    assert in_mujoco(target).nmesh == 1
    assert_same_robot(dn.load_robot(target), robot)


# A fresh file ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_a_robot_from_nowhere_reads_back_the_same(tmp_path_factory, seed):
    robot = random_robot(depth_first(random_tree(seed)), seed)
    saved(robot, tmp_path_factory.mktemp("fresh") / "robot.xml")


def test_mujoco_moves_a_fresh_file_as_the_robot_moves(tmp_path):
    robot = random_robot(depth_first(random_tree(5, 6)), 5)
    dn.save_robot(robot, tmp_path / "robot.xml")
    errors = errors_against(in_mujoco(tmp_path / "robot.xml"), robot)
    assert all(error < LAW for error in errors.values()), errors


def test_several_joints_of_a_body_stay_in_one(machine_file):
    machine_file.write_text(MACHINE.replace('ref="30"', ""))
    machine = dn.load_robot(machine_file)
    text = saved(machine, machine_file, fresh=True)
    assert text.count("<body") == 4  # base, cart, arm and hand; the tool is part of the arm
    errors = errors_against(in_mujoco(machine_file), machine)
    assert all(error < LAW for error in errors.values()), errors


BALL = pseudo_inertia(2.0, np.array([0.1, 0.2, 0.3]), np.diag([0.1, 0.2, 0.25]))
TURN = np.diag([1.0, -1.0, -1.0, 1.0])


def chain(*links: Link, **values) -> Description:
    """Links one behind the other, turned half about x, each on a hinge."""
    named = [Link("base"), *links]
    pairs = zip(named[:-1], links, strict=True)
    joints = [
        Joint(f"to {b.name}", "revolute", a.name, b.name, TURN, lower=-1.0, upper=1.0, **values) for a, b in pairs
    ]
    return Description('a "strange" <name>', tuple(named), tuple(joints))


def round_trip(description: Description):
    back, robot = assemble(mjcf.read(mjcf.render(description), "fresh.xml")), assemble(description)
    assert_same_robot(back, robot)
    return back


def test_links_without_mass_names_and_limits_out_of_the_ordinary_survive(tmp_path):
    point = pseudo_inertia(1.0, np.array([0.0, 0.0, 1.0]), np.zeros((3, 3)))
    plate = pseudo_inertia(1.0, np.zeros(3), np.diag([0.1, 0.2, 0.3]))
    odd = Link('<odd> & "quoted"/name', plate)
    description = chain(Link("none"), Link("point", point), odd, Link("ball", BALL))
    first, second, *rest = description.joints
    joints = (replace(first, lower=0.5, upper=0.5, effort=0.0), replace(second, lower=-np.inf), *rest)
    back = round_trip(replace(description, joints=joints))
    assert back.inertia.mass[0] == 0.0
    assert mjcf.read(mjcf.render(description), "fresh.xml").name == 'a "strange" <name>'


def test_flat_bodies_whose_moments_add_up_exactly_are_taken_in_any_direction():
    for rotation in Rotation.random(20, rng=np.random.default_rng(0)).as_matrix():
        round_trip(
            chain(Link("plate", pseudo_inertia(1.0, rotation[0], rotation @ np.diag([0.1, 0.2, 0.3]) @ rotation.T)))
        )


def test_a_link_that_moves_no_mass_needs_armature():
    with pytest.raises(dn.RobotFileError, match='link "none" moves without mass, which MuJoCo refuses; give it a mass'):
        mjcf.render(chain(Link("ball", BALL), Link("none")))
    round_trip(chain(Link("ball", BALL), Link("none"), armature=0.1))


def test_no_gear_and_gear_one_are_told_apart():
    for gear in (0.0, 1.0):
        assert round_trip(chain(Link("ball", BALL), Link("end", BALL), gear=gear)).gear.tolist() == [gear, gear]


def test_inertias_that_mujoco_refuses_are_summed_where_they_are_rigid_and_refused_where_they_are_not():
    flat = pseudo_inertia(0.1, np.zeros(3), np.diag([1e-3, 1e-3, 3e-3]))
    with pytest.raises(
        dn.RobotFileError, match='link "flat": MuJoCo takes no body with mass 0.1 and principal moments'
    ):
        mjcf.render(chain(Link("flat", flat)))
    ball = chain(Link("ball", BALL))
    fixed = (Joint("glue", "fixed", "ball", "flat", TURN), Joint("stand", "fixed", "base", "foot", TURN))
    links = (*ball.links, Link("flat", flat), Link("foot", flat))
    round_trip(replace(ball, links=links, joints=(*ball.joints, *fixed)))


def test_the_ground_keeps_its_name():
    description = chain(Link("world", BALL))
    with pytest.raises(dn.RobotFileError, match='link "world" is not the root'):
        mjcf.render(description)
    rooted = replace(chain(Link("ball", BALL)), links=(Link("world"), Link("ball", BALL)))
    joints = tuple(replace(joint, parent="world") for joint in rooted.joints)
    assert mjcf.render(replace(rooted, joints=joints)).count(b"<body") == 1
