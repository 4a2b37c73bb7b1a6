"""Robot files from one format and folder to another."""

from dataclasses import replace

import numpy as np
import pytest
from robots import random_robot, random_state, relative

import diffnea as dn

MAIN = """<mujoco model="cart">
  <include file="parts/settings.xml"/>
  <worldbody>
    <body name="cart"> <!-- on a rail -->
      <joint name="slide" type="slide" axis="1 0 0" damping="2"/>
      <geom size="0.1" mass="1.5"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_an_mjcf_file_saved_into_another_folder_still_finds_what_it_includes(tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "parts").mkdir(parents=True)
    out.mkdir()
    (source / "cart.xml").write_text(MAIN)
    (source / "parts" / "settings.xml").write_text('<mujocoinclude><option gravity="0 0 -3"/></mujocoinclude>')
    robot = dn.load_robot(source / "cart.xml")
    changed = replace(robot, damping=robot.damping.at[0].set(3.5))
    dn.save_robot(changed, out / "cart.xml")
    back = dn.load_robot(out / "cart.xml")
    assert back.gravity.tolist() == [0, 0, -3]
    assert back.damping.tolist() == [3.5]
    assert "<!-- on a rail -->" in (out / "cart.xml").read_text()


def test_joints_that_mjcf_numbers_otherwise_are_the_same_joints(tmp_path):
    tree = dn.Tree((-1, -1, 0, 1), ("revolute", "prismatic", "revolute", "revolute"), tuple("abcd"), tuple("ABCD"))
    robot = random_robot(tree, 3)
    with pytest.warns(UserWarning, match="q comes back as a, c, b, d"):
        dn.save_robot(robot, tmp_path / "robot.xml")
    back = dn.load_robot(tmp_path / "robot.xml")
    order = [robot.joint_names.index(name) for name in back.joint_names]
    state = random_state(4, 3)
    found = dn.forward_dynamics(back, *state[:, order])
    assert relative(found, np.asarray(dn.forward_dynamics(robot, *state))[order]) < 1e-10


def test_a_urdf_keeps_its_fixed_frames_on_the_way_to_mjcf(tmp_path):
    text = """<robot name="arm"><link name="base"/><link name="arm"><inertial><mass value="1"/>
      <inertia ixx="1" iyy="1" izz="1"/></inertial></link><link name="tool"/>
      <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/></joint>
      <joint name="mount" type="fixed"><parent link="arm"/><child link="tool"/><origin xyz="0 0 1"/></joint></robot>"""
    (tmp_path / "arm.urdf").write_text(text)
    dn.save_robot(dn.load_robot(tmp_path / "arm.urdf"), tmp_path / "arm.xml")
    assert 'name="tool"' in (tmp_path / "arm.xml").read_text()
    assert dn.load_robot(tmp_path / "arm.xml").num_links == 1
