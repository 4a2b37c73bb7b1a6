"""Scenes: files that include a robot, written with the robot changed."""

from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
from test_mjcf import PENDULUM, put

import diffnea as dn

mj: Any = mujoco  # its parts have no types


def test_a_scene_keeps_all_it_has_around_a_changed_robot(tmp_path):
    """The robot's text takes the place of its include; floor, light, camera and pose stand around it as before."""
    put(tmp_path, PENDULUM, "pendulum.xml")
    around = (
        '<worldbody><light pos="0 0 3"/><camera name="eye" pos="1 1 1"/><geom name="floor" type="plane" size="1 1 .1"/>'
        '</worldbody><keyframe><key name="home" qpos="0.3"/></keyframe>'
    )
    scene = put(tmp_path, f'<mujoco model="scene"><include file="pendulum.xml"/>{around}</mujoco>', "scene.xml")
    robot = dn.load_robot(scene)
    (tmp_path / "out").mkdir()
    dn.save_robot(robot, tmp_path / "out/same.xml")
    assert '<include file="../pendulum.xml"/>' in (tmp_path / "out/same.xml").read_text()
    dn.save_robot(replace(robot, inertia=robot.inertia + robot.inertia), tmp_path / "out/changed.xml")
    text = (tmp_path / "out/changed.xml").read_text()
    assert around in text
    before, after = (mj.MjModel.from_xml_path(str(path)) for path in (scene, tmp_path / "out/changed.xml"))
    for count in ("nbody", "ngeom", "nlight", "ncam", "nkey", "njnt"):
        assert getattr(before, count) == getattr(after, count)
    np.testing.assert_allclose(after.body_mass[1:], 2 * before.body_mass[1:])
