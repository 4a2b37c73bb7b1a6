"""Shapes of a robot's file: points in the frames of moving links, of primitives and of meshes that are there."""

import struct

import numpy as np
import pytest

import diffnea as dn
from diffnea.formats import link_shapes
from diffnea.formats.shapes import mesh_points, outermost

ARM = """<robot name="arm"><link name="base"><visual><geometry><sphere radius="0.1"/></geometry></visual></link>
<link name="upper"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
<visual><origin xyz="0 0 0.5"/><geometry><box size="0.2 0.4 1"/></geometry></visual>
<visual><geometry><mesh filename="{mesh}" scale="2 2 2"/></geometry></visual></link>
<link name="tip"><visual><origin rpy="0 1.5707963267948966 0"/><geometry>
<cylinder radius="0.1" length="0.6"/></geometry>
</visual></link>
<joint name="j" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="f" type="fixed"><parent link="upper"/><child link="tip"/><origin xyz="0 0 1"/></joint></robot>"""
MACHINE = """<mujoco><asset><mesh name="there" file="there.obj"/><mesh name="gone" file="gone.obj"/></asset><worldbody>
<body name="a"><joint name="j" axis="0 1 0" pos="0 0 0.1"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<geom type="box" size="0.1 0.2 0.3" pos="1 0 0" group="2"/><geom type="mesh" mesh="gone" group="2"/>
<geom type="mesh" mesh="there" group="2"/><geom type="capsule" size="0.1" fromto="0 0 0 0 0 1" group="1"/>
<geom type="sphere" size="5" group="3"/></body></worldbody></mujoco>"""
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (0, 3)], float)
FACES = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1), (2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4),
         (1, 5, 7), (1, 7, 3)]  # fmt: skip
OBJ = "".join("v {} {} {}\n".format(*p) for p in CORNERS) + "".join(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in FACES)


def test_shapes_of_a_urdf_are_in_the_frames_of_its_moving_links(tmp_path):
    (tmp_path / "part.obj").write_text(OBJ)
    (tmp_path / "arm.urdf").write_text(ARM.format(mesh="part.obj"))
    ball, box, mesh, bar = link_shapes(dn.load_robot(tmp_path / "arm.urdf"))
    assert [each[0] for each in (ball, box, mesh, bar)] == [-1, 0, 0, 0]
    np.testing.assert_allclose(np.linalg.norm(ball[1], axis=1), 0.1)
    np.testing.assert_allclose(box[1].min(0), [-0.1, -0.2, 0.0], atol=1e-12)
    np.testing.assert_allclose(mesh[1].max(0), [2, 2, 6])
    np.testing.assert_allclose(bar[1].max(0), [0.3, 0.1, 1.1], atol=1e-9)  # lies along x, where the tip is


@pytest.mark.parametrize("mesh", ["nowhere.stl", "package://nobody/part.obj", "part.dae", "/dev/zero", ""])
def test_meshes_that_are_not_there_are_left_out(tmp_path, mesh):
    (tmp_path / "part.dae").write_text("<dae/>")
    (tmp_path / "arm.urdf").write_text(ARM.format(mesh=mesh))
    assert len(link_shapes(dn.load_robot(tmp_path / "arm.urdf"))) == 3


def test_shapes_of_an_mjcf_are_those_that_viewers_show(tmp_path):
    (tmp_path / "there.obj").write_text(OBJ)
    (tmp_path / "machine.xml").write_text(MACHINE)
    found = link_shapes(dn.load_robot(tmp_path / "machine.xml"))
    assert [link for link, _ in found] == [0, 0, 0]
    box, mesh, bar = (points for _, points in found)
    np.testing.assert_allclose(box.max(0), [1.1, 0.2, 0.2])  # from the joint, a tenth above the body's frame
    np.testing.assert_allclose(mesh.max(0), [1, 1, 2.9], atol=1e-6)
    assert bar[:, 2].max() == pytest.approx(1.0, abs=0.02)


def test_meshes_are_read_as_they_are_written():
    triangles = CORNERS[np.array(FACES)]
    binary = bytes(80) + struct.pack("<I", 12)
    binary += b"".join(struct.pack("<12fH", 0, 0, 0, *map(float, face.ravel()), 0) for face in triangles)
    lines = "".join("vertex {} {} {}\n".format(*p) for face in triangles for p in face)
    words = f"solid a\nfacet normal 0 0 1\nouter loop\n{lines}endloop\nendfacet\nendsolid"
    for data, ending in ((binary, ".stl"), (words.encode(), ".stl"), (OBJ.encode(), ".obj")):
        points = mesh_points(data, ending)
        assert points is not None
        np.testing.assert_allclose([points.min(0), points.max(0)], [CORNERS.min(0), CORNERS.max(0)])
    assert mesh_points(b"ply", ".ply") is None and mesh_points(b"", ".stl") is None
    assert mesh_points(b"v nan 0 0\n", ".obj") is None
    inside = np.concatenate([CORNERS, 0.1 * CORNERS])
    assert len(outermost(inside)) == 8
