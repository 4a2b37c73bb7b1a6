"""A free base in ROS 2 bags that rosbags, whose encoder is not ours, has written: poses, odometry, inertial sensors."""

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

import diffnea as dn
from diffnea.recordings.ros import cdr

STORE = get_typestore(Stores.ROS2_HUMBLE)
BEGIN = 1_700_000_000 * 10**9
HOPPER = """<mujoco><worldbody><body name="trunk"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<body name="leg"><joint name="hip" axis="0 1 0"/><inertial pos="0 0 -0.1" mass="1" diaginertia="1 1 1"/></body></body>
</worldbody></mujoco>"""


def kind(name, /, **fields):
    return STORE.types[name](**fields)


def header(at):
    stamp = kind("builtin_interfaces/msg/Time", sec=at // 10**9, nanosec=at % 10**9)
    return kind("std_msgs/msg/Header", stamp=stamp, frame_id="world")


def vector(values, name="Vector3"):
    return kind(f"geometry_msgs/msg/{name}", **dict(zip("xyz", map(float, values), strict=True)))


def turned(t):
    """w x y z of a base that turns about a tilted axis, with its sign changing as trackers let it."""
    axis = np.array([0.6, 0.0, 0.8])
    return np.append(np.cos(t), np.sin(t) * axis) * (1 if int(t * 10) % 2 else -1)


def pose(t):
    w, x, y, z = map(float, turned(t))
    turn = kind("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w)
    return kind("geometry_msgs/msg/Pose", position=vector([t, 2 * t, 0.3], "Point"), orientation=turn)


def joints(t, at):
    row = np.array([np.sin(t)])
    return kind(cdr.JOINT_STATE, header=header(at), name=["hip"], position=row, velocity=row, effort=5 * row)


def stamped(t, at):
    return kind(cdr.POSE, header=header(at), pose=pose(t))


def odometry(t, at):
    still = kind("geometry_msgs/msg/Twist", linear=vector([1, 0, 0]), angular=vector([0, 0, 0]))
    place = kind("geometry_msgs/msg/PoseWithCovariance", pose=pose(t), covariance=np.zeros(36))
    moves = kind("geometry_msgs/msg/TwistWithCovariance", twist=still, covariance=np.zeros(36))
    return kind(cdr.ODOMETRY, header=header(at), child_frame_id="trunk", pose=place, twist=moves)


def imu(t, at):
    none = np.zeros(9)
    return kind(
        cdr.IMU,
        header=header(at),
        orientation=kind("geometry_msgs/msg/Quaternion", x=0.0, y=0.0, z=0.0, w=1.0),
        orientation_covariance=none,
        angular_velocity=vector([t, 0, -t]),
        angular_velocity_covariance=none,
        linear_acceleration=vector([0, t, 9.81]),
        linear_acceleration_covariance=none,
    )


MAKERS = {cdr.JOINT_STATE: joints, cdr.POSE: stamped, cdr.ODOMETRY: odometry, cdr.IMU: imu}


def write(folder, streams, plugin=StoragePlugin.SQLITE3):
    """`streams`: topic → (type, rate in Hz, first and last second)."""
    with BagWriter(folder, version=9, storage_plugin=plugin) as writer:
        for topic, (name, rate, first, last) in streams.items():
            connection = writer.add_connection(topic, name, typestore=STORE)
            for t in np.arange(first, last, 1 / rate):
                at = BEGIN + round(t * 1e9)
                writer.write(connection, at, STORE.serialize_cdr(MAKERS[name](float(t), at), name))
    return folder


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    path = tmp_path_factory.mktemp("hopper") / "hopper.xml"
    path.write_text(HOPPER)
    return dn.load_robot(path)


ALL = {"/joint_states": (cdr.JOINT_STATE, 200, 0.0, 2.0), "/odom": (cdr.ODOMETRY, 50, 0.1, 2.5)}
ALL |= {"/imu": (cdr.IMU, 400, 0.0, 1.5)}


@pytest.mark.parametrize("plugin", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
def test_odometry_and_a_sensor_come_with_the_joints_at_the_slowest_rate(tmp_path, robot, plugin):
    found = dn.load_recording(write(tmp_path / "bag", ALL, plugin), robot)
    t = 0.1 + found.time
    np.testing.assert_allclose(np.diff(found.time), 0.02, atol=1e-9)
    assert t[-1] == pytest.approx(1.48)
    np.testing.assert_allclose(found.q[:, 0], np.sin(t), atol=1e-5)
    np.testing.assert_allclose(found.u[:, 0], 5 * np.sin(t), atol=5e-5)
    base = found.base
    np.testing.assert_allclose(base.position, np.column_stack([t, 2 * t, np.full_like(t, 0.3)]), atol=1e-9)
    same = np.abs(np.sum(base.quaternion * [turned(x) for x in t], axis=1))
    np.testing.assert_allclose(same, 1.0, atol=1e-9)
    assert np.all(np.sum(base.quaternion[1:] * base.quaternion[:-1], axis=1) > 0)
    np.testing.assert_allclose(base.accelerometer, np.column_stack([0 * t, t, 0 * t + 9.81]), atol=1e-9)
    np.testing.assert_allclose(base.gyroscope, np.column_stack([t, 0 * t, -t]), atol=1e-9)
    c, s, axis = np.cos(2 * t[:, None]), np.sin(2 * t[:, None]), np.array([0.6, 0.0, 0.8])
    forward = np.array([1.0, 0.0, 0.0])
    expected = c * forward + s * np.cross(axis, forward) + (1 - c) * 0.6 * axis  # the child frame's x in the world
    np.testing.assert_allclose(base.velocity, expected, atol=1e-9)
    assert any("on the stamps of /odom" in note for note in found.notes)


def test_a_pose_between_samples_is_a_turn(tmp_path, robot):
    streams = {"/joint_states": (cdr.JOINT_STATE, 100, 0.0, 1.0), "/mocap": (cdr.POSE, 240, 0.0, 1.0)}
    base = dn.load_recording(write(tmp_path / "bag", streams), robot).base
    np.testing.assert_allclose(np.linalg.norm(base.quaternion, axis=1), 1.0, atol=1e-12)
    assert base.velocity is None and base.accelerometer is None


def test_a_robot_that_is_fixed_takes_joints_alone_unless_a_topic_is_named(tmp_path):
    bag = write(tmp_path / "bag", ALL)
    alone = dn.load_recording(bag)
    assert alone.base is None and len(alone) == 400
    named = dn.load_recording(bag, columns={"base": {"imu_topic": "/imu"}})
    assert named.base.has_imu and not named.base.has_pose and len(named) == 300


def test_bases_of_bags_that_are_not_clear_are_refused_in_a_line(tmp_path, robot):
    twice = ALL | {"/mocap": (cdr.POSE, 100, 0.0, 1.0)}
    with pytest.raises(dn.RecordingError, match="several topics for the base, /odom, /mocap; say base.pose_topic"):
        dn.load_recording(write(tmp_path / "twice", twice), robot)
    found = dn.load_recording(tmp_path / "twice", robot, columns={"base": {"pose_topic": "/mocap"}})
    assert found.base.velocity is None and len(found) == 100
    with pytest.raises(dn.RecordingError, match='base.imu_topic "/odom" is nav_msgs/msg/Odometry; use /imu'):
        dn.load_recording(tmp_path / "twice", columns={"base": {"imu_topic": "/odom"}})
    apart = ALL | {"/imu": (cdr.IMU, 100, 10.0, 11.0)}
    with pytest.raises(dn.RecordingError, match="are from different times"):
        dn.load_recording(write(tmp_path / "apart", apart), robot)
    once = ALL | {"/imu": (cdr.IMU, 100, 1.0, 1.001)}
    with pytest.raises(dn.RecordingError, match="/imu has 1 messages; a base needs two"):
        dn.load_recording(write(tmp_path / "once", once), robot)
    with pytest.raises(dn.RecordingError, match="message Imu that ends too early"):
        cdr.of_base(bytes(STORE.serialize_cdr(imu(0.0, BEGIN), cdr.IMU))[:100], cdr.IMU)
