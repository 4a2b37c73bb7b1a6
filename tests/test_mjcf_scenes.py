"""Scenes: files that include a robot, written with the robot changed."""

from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import pytest
from robots import relative
from test_mjcf import PENDULUM, put
from test_urdf import assert_same_robot

import diffnea as dn
from diffnea.cli.commands.convert import Convert
from diffnea.identify.io.store import load_fit

mj: Any = mujoco  # its parts have no types
AROUND = (
    '<worldbody><light pos="0 0 3"/><camera name="eye" pos="1 1 1"/><geom name="floor" type="plane" size="1 1 .1"/>'
    '</worldbody><keyframe><key name="home" qpos="0.3"/></keyframe>'
)
SCENE = f'<mujoco model="scene"><include file="pendulum.xml"/>{AROUND}</mujoco>'


@pytest.fixture
def scene(tmp_path):
    """A robot's file in a scene of its own, and a folder beside them."""
    put(tmp_path, PENDULUM, "pendulum.xml")
    (tmp_path / "out").mkdir()
    return put(tmp_path, SCENE, "scene.xml")


def heavier(robot, factor=2.0):
    return replace(robot, inertia=dn.Inertia.from_parameters(factor * robot.inertia.parameters))


def texts(folder) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_changed_robot_is_written_beside_its_scene_which_includes_it_as_before(scene, tmp_path):
    robot, out = dn.load_robot(scene), tmp_path / "out"
    done = dn.save_robot(heavier(robot), out / "scene.xml")
    assert done == (out / "scene.xml", out / "pendulum.xml")
    assert (out / "scene.xml").read_text() == SCENE
    assert texts(tmp_path) == {"scene.xml": SCENE, "pendulum.xml": PENDULUM}  # nothing of the user's changes
    assert_same_robot(dn.load_robot(out / "scene.xml"), heavier(robot))
    before, after = (mj.MjModel.from_xml_path(str(path)) for path in (scene, out / "scene.xml"))
    for count in ("nbody", "ngeom", "nlight", "ncam", "nkey", "njnt"):
        assert getattr(before, count) == getattr(after, count)
    assert relative(after.body_mass[1:], 2 * before.body_mass[1:]) < 1e-12


def test_an_unchanged_robot_stays_where_it_is(scene, tmp_path):
    out = tmp_path / "out"
    dn.save_robot(dn.load_robot(scene), out / "same.xml")
    assert texts(out) == {"same.xml": SCENE.replace("pendulum.xml", "../pendulum.xml")}


def test_no_file_of_the_users_own_is_overwritten(scene, tmp_path):
    """Names that are taken are left; a file called after the scene goes with it when the scene is written again."""
    robot = dn.load_robot(scene)
    dn.save_robot(heavier(robot), scene)
    assert (tmp_path / "pendulum.xml").read_text() == PENDULUM
    assert scene.read_text() == SCENE.replace("pendulum.xml", "scene_pendulum.xml")
    out = tmp_path / "out"
    for name in ("pendulum.xml", "new_pendulum.xml"):
        put(out, "mine", name)
    for factor in (2.0, 3.0):
        dn.save_robot(heavier(robot, factor), out / "new.xml")
        assert_same_robot(dn.load_robot(out / "new.xml"), heavier(robot, factor))
        found = texts(out)
        assert set(found) == {"pendulum.xml", "new_pendulum.xml", "new_2_pendulum.xml", "new.xml"}
        assert found["pendulum.xml"] == found["new_pendulum.xml"] == "mine"


def test_what_includes_a_changed_file_is_written_too(tmp_path):
    """Scene, robot, hand: each includes the next, by names good from the scene's folder; two files are called alike."""
    hand = """<mujocoinclude><body name="{}" pos="0 0 .1"><joint name="{}"/>
      <inertial mass="1" pos="0 0 .1" diaginertia=".01 .01 .01"/></body></mujocoinclude>"""
    put(tmp_path, hand.format("left", "l"), "left/hand.xml")
    put(tmp_path, hand.format("right", "r"), "right/hand.xml")
    both = '<include file="left/hand.xml"/><include file="right/hand.xml"/>'
    put(tmp_path, PENDULUM.replace("<geom", both + "<geom"), "robot/pendulum.xml")
    scene = put(tmp_path, SCENE.replace("pendulum.xml", "robot/pendulum.xml"), "scene.xml")
    robot, out = dn.load_robot(scene), tmp_path / "out"
    out.mkdir()
    changed = replace(robot, damping=robot.damping.at[1:].set(0.5))
    dn.save_robot(changed, out / "scene.xml")
    found = texts(out)
    assert set(found) == {"scene.xml", "pendulum.xml", "hand.xml", "scene_hand.xml"}
    assert found["scene.xml"] == SCENE and found["pendulum.xml"].count("hand.xml") == 2
    assert_same_robot(dn.load_robot(out / "scene.xml"), changed)
    assert mj.MjModel.from_xml_path(str(out / "scene.xml")).dof_damping[1:].tolist() == [0.5, 0.5]


def test_a_robot_outside_the_scenes_folder_is_copied_beside_it(tmp_path):
    put(tmp_path, PENDULUM, "pendulum.xml")
    scene = put(tmp_path, SCENE.replace("pendulum.xml", "../pendulum.xml"), "scenes/scene.xml")
    (tmp_path / "out").mkdir()
    dn.save_robot(heavier(dn.load_robot(scene)), tmp_path / "out/scene.xml")
    assert texts(tmp_path / "out").keys() == {"scene.xml", "pendulum.xml"}
    assert texts(tmp_path) == {"pendulum.xml": PENDULUM}


def test_a_scene_whose_robot_cannot_be_written_leaves_nothing(scene, tmp_path):
    out, robot = tmp_path / "out", dn.load_robot(scene)
    (out / "scene.xml").mkdir()  # no file can be put in its place
    with pytest.raises(OSError, match="scene.xml"):
        dn.save_robot(heavier(robot), out / "scene.xml")
    assert texts(out) == {}


def test_convert_names_all_that_it_wrote(scene, tmp_path):
    assets = '<compiler meshdir="shapes"/><asset><texture type="2d" file="a.png"/></asset><worldbody>'
    put(tmp_path, PENDULUM.replace("<worldbody>", assets), "pendulum.xml")
    command = Convert(str(scene), str(tmp_path / "out/scene.xml"))
    result = command.run()
    assert [file.rpartition("/")[2] for file in result["files"]] == ["scene.xml", "pendulum.xml"]
    assert "beside it" in command.summary(result) and "out/pendulum.xml" in command.summary(result)


def test_a_fit_of_a_scene_writes_both_files_and_a_second_one_replaces_them(scene, tmp_path):
    robot, out = dn.load_robot(scene), tmp_path / "fit"
    truth, time = heavier(robot), np.arange(1000) / 250
    run = dn.rollout(dn.Model(truth), np.array([0.3]), np.zeros(1), 40 * np.sin(2 * time)[:, None], dt=1 / 250)
    data = dn.Recording(time=time, q=np.asarray(run.q), u=40 * np.sin(2 * time)[:, None], joint_names=robot.joint_names)
    fit = dn.fit(robot, data, actuator="ideal", learn="inertia")
    for _ in range(2):
        assert {"identified.xml", "pendulum.xml"} <= set(fit.save(out).files)
        assert '<include file="pendulum.xml"/>' in (out / "identified.xml").read_text()
        assert {path.name for path in out.glob("*.xml")} == {"identified.xml", "pendulum.xml"}
    assert_same_robot(dn.load_robot(out / "identified.xml"), load_fit(out).robot)
