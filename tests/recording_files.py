"""The same recording written in every format that can be read, for the tests of the readers."""

import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mcap_ros2.writer import Writer as McapWriter
from robots import random_robot, random_tree
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore
from scipy.io import savemat

COUNT = 50
TIME = np.arange(COUNT) / 250
Q = np.column_stack([np.sin(3 * TIME), 0.5 * np.cos(2 * TIME)])
QD = np.column_stack([3 * np.cos(3 * TIME), -np.sin(2 * TIME)])
U = np.column_stack([np.sign(np.sin(9 * TIME)), 0.1 * TIME])
NAMES = ("arm", "elbow")
JOINT_STATE = """std_msgs/Header header
string[] name
float64[] position
float64[] velocity
float64[] effort
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
FLOATS = """std_msgs/MultiArrayLayout layout
float64[] data
================================================================================
MSG: std_msgs/MultiArrayLayout
std_msgs/MultiArrayDimension[] dim
uint32 data_offset
================================================================================
MSG: std_msgs/MultiArrayDimension
string label
uint32 size
uint32 stride
"""


# Writers of each format --------------------------------------------------------------------------------------------


def write_csv(path):
    header = "time,q.arm,q.elbow,qd.arm,qd.elbow,u.arm,u.elbow"
    np.savetxt(path, np.column_stack([TIME, Q, QD, U]), fmt="%.17g", delimiter=",", header=header, comments="")


def write_npz(path):
    np.savez(path, time=TIME, q=Q, qd=QD, u=U, joint_names=np.array(NAMES))


def columns():
    named = {
        f"{key}.{name}": values[:, k]
        for key, values in (("q", Q), ("qd", QD), ("u", U))
        for k, name in enumerate(NAMES)
    }
    return {"time": TIME, **named}


def write_parquet(path):
    pq.write_table(pa.table(columns()), path)


def write_mat(path):
    savemat(path, {"time": TIME, "q": Q, "qd": QD.T, "u": U, "joint_names": np.array(NAMES, object)})


def write_mat_73(path):
    """As MATLAB writes it: axes reversed, text as numbers, cells as references, and a block of text in front."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for key, values in (("time", TIME[:, None]), ("q", Q), ("qd", QD), ("u", U)):
            file.create_dataset(key, data=values.T).attrs["MATLAB_class"] = np.bytes_("double")
        references = np.empty((1, 2), h5py.ref_dtype)
        for k, name in enumerate(NAMES):
            text = file.create_dataset(f"#refs#/{k}", data=np.array([[ord(c)] for c in name], np.uint16))
            text.attrs["MATLAB_class"] = np.bytes_("char")
            references[0, k] = text.ref
        file.create_dataset("joint_names", data=references).attrs["MATLAB_class"] = np.bytes_("cell")
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def state(k, names=NAMES, stamp=True, **changes):
    nanoseconds = round(TIME[k] * 1e9) + 1_700_000_000 * 10**9 if stamp else 0
    values = {"position": Q[k].tolist(), "velocity": QD[k].tolist(), "effort": U[k].tolist(), **changes}
    header = {"stamp": {"sec": nanoseconds // 10**9, "nanosec": nanoseconds % 10**9}, "frame_id": "base"}
    return {"header": header, "name": list(names), **values}


def write_mcap(path, command=False, stamp=True):
    """By Foxglove's own writer, with a gripper that reports on the same topic."""
    with path.open("wb") as stream:
        writer = McapWriter(stream)
        kind = writer.register_msgdef("sensor_msgs/msg/JointState", JOINT_STATE)
        floats = writer.register_msgdef("std_msgs/msg/Float64MultiArray", FLOATS)
        for k in range(COUNT):
            logged = round(TIME[k] * 1e9) + 1_700_000_000 * 10**9
            writer.write_message("/joint_states", kind, state(k, stamp=stamp), logged)
            grip = state(k, ("finger",), position=[0.1], velocity=[], effort=[])
            writer.write_message("/joint_states", kind, grip, logged + 1000)
            if command and k >= 5:
                numbers = {
                    "layout": {"dim": [{"label": "j", "size": 2, "stride": 2}], "data_offset": 0},
                    "data": [k, -k],
                }
                writer.write_message("/command", floats, numbers, logged)
        writer.finish()


def write_bag(folder, plugin=StoragePlugin.SQLITE3, paths=()):
    """By rosbags, whose encoder is not ours; `paths`: (time, joints, seconds from then, positions) of trajectories."""
    store = get_typestore(Stores.ROS2_HUMBLE)
    kind = store.types["sensor_msgs/msg/JointState"]
    header, stamp = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    with BagWriter(folder, version=9, storage_plugin=plugin) as writer:
        connection = writer.add_connection("/joint_states", kind.__msgtype__, typestore=store)
        for k in range(COUNT):
            at = round(TIME[k] * 1e9) + 10**18
            top = header(stamp=stamp(sec=at // 10**9, nanosec=at % 10**9), frame_id="odd")
            message = kind(header=top, name=list(NAMES), position=Q[k], velocity=QD[k], effort=U[k])
            writer.write(connection, at, store.serialize_cdr(message, kind.__msgtype__))
        if paths:
            _write_paths(writer, store, paths)


def _write_paths(writer, store, paths):
    kind, point = (store.types[f"trajectory_msgs/msg/JointTrajectory{end}"] for end in ("", "Point"))
    header, stamp = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    lasting, none = store.types["builtin_interfaces/msg/Duration"], np.empty(0)
    connection = writer.add_connection("/arm/goals", kind.__msgtype__, typestore=store)
    for when, joints, after, positions in paths:
        at = round(when * 1e9) + 10**18
        points = [
            point(np.array(row, float), none, none, none, lasting(sec=int(t), nanosec=round(t % 1 * 1e9)))
            for t, row in zip(after, positions, strict=True)
        ]
        top = header(stamp=stamp(sec=at // 10**9, nanosec=at % 10**9), frame_id="")
        message = kind(header=top, joint_names=list(joints), points=points)
        writer.write(connection, at + 10**6, store.serialize_cdr(message, kind.__msgtype__))


def write_lerobot(folder, version):
    """Two episodes of 20 and 30 frames: a file each in version 2, both in one in version 3."""
    names = {"motors": list(NAMES)} if version == 2 else [f"{name}.pos" for name in NAMES]
    feature = {"dtype": "float32", "shape": [2], "names": names}
    info = {
        "codebase_version": f"v{version}.0",
        "fps": 250,
        "features": {"observation.state": feature, "action": feature},
    }
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    (folder / "data" / "chunk-000").mkdir(parents=True)
    episode = np.repeat([0, 1], [20, 30])
    times = np.concatenate([TIME[:20], TIME[:30]])
    lists = {"observation.state": Q.astype(np.float32), "action": U.astype(np.float32)}
    table = pa.table({"timestamp": times, "episode_index": episode, **{k: pa.array(list(v)) for k, v in lists.items()}})
    if version == 3:
        pq.write_table(table, folder / "data/chunk-000/file-000.parquet")
    else:
        for k in (0, 1):
            pq.write_table(table.filter(pa.array(episode == k)), folder / f"data/chunk-000/episode_{k:06d}.parquet")


WRITERS = {
    "run.csv": write_csv,
    "run.npz": write_npz,
    "run.parquet": write_parquet,
    "run.mat": write_mat,
    "new.mat": write_mat_73,
    "run.mcap": write_mcap,
    "bag": write_bag,
    "bag_mcap": lambda path: write_bag(path, StoragePlugin.MCAP),
}


def matches(recording, names=NAMES, tolerance=0.0):
    order = [NAMES.index(name) for name in names]
    assert recording.joint_names == tuple(names)
    np.testing.assert_allclose(recording.time - recording.time[0], TIME, rtol=0, atol=1e-9)
    for key, truth in (("q", Q), ("qd", QD), ("u", U)):
        np.testing.assert_allclose(getattr(recording, key), truth[:, order], rtol=0, atol=tolerance)
    assert recording.driven == (True, True)


def two_joints():
    """A robot of two joints whose names come in the other order than in the logs."""
    tree = random_tree(1, 2)
    return random_robot(type(tree)(tree.parents, tree.kinds, ("elbow", "arm"), tree.link_names), 1)
