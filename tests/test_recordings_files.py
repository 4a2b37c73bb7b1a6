"""Log files: every format read to the same recording, column maps, and bad files refused in one line."""

import gzip
import io
import json
import math
import pickle
import sqlite3
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mcap_ros2.writer import Writer as McapWriter
from robots import random_robot, random_tree
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore
from scipy.io import savemat

from diffnea.recordings import Recording, RecordingError, load_recording, load_recordings, save_recording

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


@pytest.fixture(scope="module")
def robot():
    """A robot of two joints whose names come in the other order than in the logs."""
    tree = random_tree(1, 2)
    return random_robot(type(tree)(tree.parents, tree.kinds, ("elbow", "arm"), tree.link_names), 1)


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


def write_bag(folder, plugin=StoragePlugin.SQLITE3):
    """By rosbags, whose encoder is not ours."""
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


@pytest.fixture(params=WRITERS)
def log(request, tmp_path):
    path = tmp_path / request.param
    WRITERS[request.param](path)
    return path


def matches(recording, names=NAMES, tolerance=0.0):
    order = [NAMES.index(name) for name in names]
    assert recording.joint_names == tuple(names)
    np.testing.assert_allclose(recording.time - recording.time[0], TIME, rtol=0, atol=1e-9)
    for key, truth in (("q", Q), ("qd", QD), ("u", U)):
        np.testing.assert_allclose(getattr(recording, key), truth[:, order], rtol=0, atol=tolerance)
    assert recording.driven == (True, True)


def test_every_format_gives_the_same_recording(log):
    matches(load_recording(log))
    matches(load_recording(str(log)))


def test_joints_come_in_the_order_of_the_robot(log, robot):
    matches(load_recording(log, robot), robot.joint_names)


def test_csv_variants(tmp_path):
    path = tmp_path / "run.csv"
    write_csv(path)
    text = path.read_text()
    for name, variant in {
        "gzip.csv.gz": gzip.compress(text.encode()),
        "semicolon.csv": text.replace(",", ";").encode(),
        "tab.csv": text.replace(",", "\t").encode(),
        "spaces.csv": text.replace(",", ", ").encode(),
        "windows.csv": b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        "quoted.csv": text.replace("q.arm", '"q.arm"').encode(),
        "blank.csv": b"\n\n" + text.encode() + b"\n\n",
        "hash.csv": b"# " + text.encode(),
        "CAPITALS.CSV": text.encode(),
    }.items():
        (tmp_path / name).write_bytes(variant)
        matches(load_recording(tmp_path / name))


def test_without_pyarrow_numpy_reads_the_same_and_parquet_says_what_to_install(tmp_path, monkeypatch):
    write_csv(tmp_path / "run.csv")
    write_parquet(tmp_path / "run.parquet")
    write_mcap(tmp_path / "run.mcap")
    write_mat_73(tmp_path / "run.mat")
    lines = (tmp_path / "run.csv").read_text().splitlines()
    (tmp_path / "gap.csv").write_text("\n".join([*lines[:4], lines[4].rpartition(",")[0] + ",", *lines[5:]]))
    for module in ("pyarrow", "pyarrow.parquet", "mcap.reader", "h5py"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("diffnea.recordings.csv_file.BLOCK_ROWS", 7)
    matches(load_recording(tmp_path / "run.csv"))
    with pytest.raises(RecordingError, match="u is not finite in row 3"):
        load_recording(tmp_path / "gap.csv")
    for ending, package in (("parquet", "pyarrow"), ("mcap", "mcap"), ("mat", "h5py")):
        with pytest.raises(
            RecordingError, match=rf"run.{ending}: reading .{ending} needs {package}; pip install 'diffnea\[formats\]'"
        ):
            load_recording(tmp_path / f"run.{ending}")


def test_passive_joints_and_missing_velocities(tmp_path, robot):
    path = tmp_path / "run.csv"
    path.write_text("time,q.arm,q.elbow,qd.arm,u.arm,u.wrist\n0,1,2,3,4,5\n0.1,1,2,3,0,5\n")
    found = load_recording(path, robot)
    assert found.driven == (False, True) and found.qd is None
    np.testing.assert_array_equal(found.u, [[0, 4], [0, 0]])
    assert "columns not used: qd.arm" not in found.notes[0] and "u.wrist" in found.notes[0]


@pytest.mark.parametrize("ending", ["csv", "npz"])
def test_what_is_saved_is_read_back(tmp_path, ending):
    recording = Recording(time=TIME + 5, q=Q, u=U * [1, 0], qd=QD, qdd=-Q, joint_names=NAMES)
    save_recording(recording, tmp_path / f"run.{ending}")
    back = load_recording(tmp_path / f"run.{ending}")
    for key in ("time", "q", "qd", "qdd", "u"):
        np.testing.assert_array_equal(getattr(back, key), getattr(recording, key))
    assert back.joint_names == NAMES
    with pytest.raises(RecordingError, match='ends in ".xls"; use .csv or .npz'):
        save_recording(recording, tmp_path / "run.xls")


def test_arrays_without_names_are_taken_in_order(tmp_path, robot):
    np.savez(tmp_path / "run.npz", time=TIME, q=Q, u=U)
    found = load_recording(tmp_path / "run.npz", robot)
    np.testing.assert_array_equal(found.q, Q)
    assert load_recording(tmp_path / "run.npz").joint_names == ("joint0", "joint1")
    np.savez(tmp_path / "one.npz", time=TIME, q=Q[:, 0], u=U[:, 0])
    np.testing.assert_array_equal(load_recording(tmp_path / "one.npz").q, Q[:, :1])


def test_nested_mat_files_offer_their_fields(tmp_path):
    cells = np.empty(2, object)
    cells[:] = [Q[:, 0], Q[:, 1]]
    savemat(tmp_path / "run.mat", {"log": {"t": TIME, "motor": {"angle": Q.T}}, "cells": cells, "note": "hello"})
    mapping = {"time": "log.t", "joints": {"arm": {"q": "log.motor.angle[0]"}, "elbow": {"q": "cells.1"}}}
    np.testing.assert_array_equal(load_recording(tmp_path / "run.mat", columns=mapping).q, Q)


# Column maps ------------------------------------------------------------------------------------------------------


def test_a_column_map_changes_names_units_signs_and_ratios(tmp_path, robot):
    path, toml = tmp_path / "motors.csv", tmp_path / "map.toml"
    degrees = 180 / math.pi
    arm, elbow = -50 * degrees * (Q[:, 0] - 0.1), 30 * degrees * Q[:, 1]
    table = np.column_stack([1e3 * TIME, arm, elbow, U[:, 0] * -1e3 / 50, QD[:, 1] * 30 / math.pi])
    np.savetxt(path, table, fmt="%.17g", delimiter=",", header="t_ms,m1,m2,tau1,rpm2", comments="")
    toml.write_text(
        """
        time = { column = "t_ms", unit = "ms" }
        units = { q = "deg", u = "mNm" }
        [joints.arm]
        q = "m1"
        u = "tau1"
        gear = 50
        sign = -1
        offset = 0.1
        [joints.elbow]
        q = { column = "m2", gear = 30 }
        qd = { column = "rpm2", unit = "rpm" }
        """
    )
    found = load_recording(path, robot, toml)
    np.testing.assert_allclose(found.time, TIME, atol=1e-15)
    np.testing.assert_allclose(found.q, Q[:, ::-1], atol=1e-14)
    np.testing.assert_allclose(found.u[:, 1], U[:, 0], atol=1e-14)
    assert found.driven == (False, True) and found.qd is None  # only one joint has a velocity
    both = {
        "time": {"column": "t_ms", "unit": "ms"},
        "joints": {"elbow": {"q": [{"column": "m1", "scale": 2.0}, "m2"]}},
    }
    np.testing.assert_allclose(load_recording(path, columns=both).q[:, 0], 2 * arm + elbow, rtol=1e-12)
    assert load_recording(path, columns={"rate": 250, "joints": {"a": {"q": "m1"}}}).rate == pytest.approx(250)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"speed": 3}, 'column map: "speed" is not known; use time, rate,'),
        ({"joints": {"arm": {"p": "x"}}}, 'joints.arm: "p" is not known; use q, qd'),
        ({"joints": {"arm": {"q": "q.arn"}}}, r'no column "q.arn" \(did you mean "q.arm"\?\)'),
        ({"joints": {"arm": {"q": {"column": "q.arm", "unit": "grad"}}}}, "unit is 'grad'; use rad, deg"),
        ({"joints": {"arm": {"q": {"column": "q.arm", "sign": 2}}}}, "sign is 2"),
        ({"joints": {"arm": {"q": {"column": "q.arm", "gear": "x"}}}}, "gear is 'x'; give a number"),
        ({"joints": {"arm": {"q": 3}}}, "joints.arm.q is 3; give a column's name"),
        ({"joints": {"arm": 3}}, "joints.arm is 3; give a table"),
        ({"joints": ["arm"]}, "give a table"),
        ({"joints": {"harm": {"q": "q.arm"}}}, r'names a joint "harm"; the robot has elbow, arm \(did you mean "arm"'),
        ({"time": "tme"}, 'time: no column "tme"'),
        ({"rate": "fast"}, "rate is 'fast'; give a number"),
        ({"units": {"q": "furlong"}, "joints": {"arm": {"q": "q.arm"}}}, "unit is 'furlong'"),
    ],
)
def test_wrong_maps_are_refused(tmp_path, robot, mapping, message):
    write_csv(tmp_path / "run.csv")
    with pytest.raises(RecordingError, match=message):
        load_recording(tmp_path / "run.csv", robot, mapping)


def test_maps_that_cannot_be_read(tmp_path):
    write_csv(tmp_path / "run.csv")
    (tmp_path / "map.toml").write_text("joints = [")
    for name in ("map.toml", "absent.toml"):
        with pytest.raises(RecordingError, match=f"{name}: no column map can be read"):
            load_recording(tmp_path / "run.csv", columns=tmp_path / name)


# Bags and data sets -----------------------------------------------------------------------------------------------


def test_commands_on_a_topic_of_their_own_are_held(tmp_path, robot):
    write_mcap(tmp_path / "run.mcap", command=True)
    found = load_recording(tmp_path / "run.mcap", columns={"command_topic": "/command"})
    np.testing.assert_array_equal(found.u, np.column_stack([np.arange(5, 50), -np.arange(5, 50)]))
    np.testing.assert_array_equal(found.q, Q[5:])
    assert "5 samples before its first are left out" in found.notes[1]


def test_messages_without_a_stamp_take_the_time_they_were_logged(tmp_path):
    write_mcap(tmp_path / "run.mcap", stamp=False)
    matches(load_recording(tmp_path / "run.mcap"))


def test_bags_without_what_is_asked_for_say_so(tmp_path, robot):
    write_mcap(tmp_path / "run.mcap")
    for mapping, message in [
        ({"topic": "/else"}, 'topic "/else" has no joint states; use /joint_states'),
        ({"command_topic": "/else"}, 'command_topic "/else" is not there'),
        ({"joints": {"thumb": {}}}, "no message names all of thumb; found /joint_states: arm, elbow"),
    ]:
        with pytest.raises(RecordingError, match=message):
            load_recording(tmp_path / "run.mcap", columns=mapping)
    finger = load_recording(tmp_path / "run.mcap", columns={"joints": {"finger": {}}})
    assert finger.joint_names == ("finger",) and finger.qd is None and finger.driven == (False,)


@pytest.mark.parametrize("version", [2, 3])
def test_lerobot_folders_hold_a_recording_an_episode(tmp_path, version):
    write_lerobot(tmp_path / "set", version)
    first, second = load_recordings(tmp_path / "set")
    assert (len(first), len(second), first.name, second.name) == (20, 30, "set, episode 0", "set, episode 1")
    np.testing.assert_allclose(second.q, Q[20:], atol=1e-6)
    np.testing.assert_allclose(first.u, U[:20], atol=1e-6)
    assert first.joint_names == NAMES and "action" in first.notes[0]
    one = load_recording(tmp_path / "set", columns={"episode": 1})
    np.testing.assert_array_equal(one.q, second.q)
    with pytest.raises(RecordingError, match="holds 2 recordings; use load_recordings"):
        load_recording(tmp_path / "set")
    with pytest.raises(RecordingError, match="has no episode 7; it has 2, from 0 to 1"):
        load_recording(tmp_path / "set", columns={"episode": 7})


# Bad files --------------------------------------------------------------------------------------------------------


def mangle(text, row, column, value):
    lines = [line.split(",") for line in text.splitlines()]
    lines[row][column] = value
    return "\n".join(",".join(line) for line in lines)


def bad_csvs():
    buffer = io.StringIO()
    np.savetxt(buffer, np.column_stack([TIME, Q]), fmt="%.17g", delimiter=",", header="time,q.arm,q.elbow", comments="")
    text = buffer.getvalue()
    yield b"", "is empty"
    yield b"\n\n", "is empty"
    yield b"time,q.arm,q.elbow\n", "has a header and no rows"
    yield text.replace("q.elbow", "elbow").encode(), r'no column "q.elbow"'
    yield text.replace("time", "t").encode(), 'no column "time"'
    yield b"a,b\n1,2\n", r'no column "q.elbow"'
    yield text.partition("\n")[2].encode(), "starts with numbers; give a header"
    yield mangle(text, 5, 1, "abc").encode(), '"abc" in column "q.arm" is not a number'
    yield mangle(text, 5, 1, "").encode(), r"q is not finite in row 4 .* repair = true"
    yield mangle(text, 5, 2, "nan").encode(), "q is not finite in row 4"
    yield mangle(text, 5, 2, "inf").encode(), "q is not finite in row 4"
    yield mangle(text, 5, 0, "0.0001").encode(), "time goes backwards in row 4"
    yield mangle(text, 5, 0, f"{TIME[3]:.17g}").encode(), "time stands still in row 4"
    yield (text + "1,2\n").encode(), "has a row of 2 values under a header of 3"
    yield text.encode("utf-16"), "UTF-8"
    yield b"time,q.arm,q.elbow\xff\n1,2,3\n", "is not UTF-8"
    yield (",".join(f"c{k}" for k in range(100_000)) + "\n").encode(), r"\(100000 in all\)"


@pytest.mark.parametrize(("content", "message"), list(bad_csvs()), ids=range(17))
def test_bad_csv_files_are_refused_in_one_line(tmp_path, robot, content, message):
    path = tmp_path / "run.csv"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=message) as caught:
        load_recording(path, robot)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_repair_drops_what_is_no_number_or_out_of_order_and_says_how_many(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("time,q.a\n0,1\n1,nan\n2,3\n1.5,9\n2,9\n3,4\n,5\n4,5\n")
    found = load_recording(path, columns={"repair": True})
    np.testing.assert_array_equal(found.time, [0, 2, 3, 4])
    assert found.notes[-1] == "2 rows that are no numbers and 2 out of order left out"


class Bomb:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_pickles_are_refused_and_never_run(tmp_path):
    mark = tmp_path / "executed"
    np.savez(tmp_path / "object.npz", time=TIME, q=np.array([Bomb(mark)], object))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Bomb(mark)))
    for name in ("object.npz", "raw.npz"):
        with pytest.raises(RecordingError, match=f"{name}: holds Python objects, which are never loaded"):
            load_recording(tmp_path / name)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["run.npz", "run.parquet", "run.mat", "new.mat", "run.mcap", "run.csv.gz"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.98])
def test_files_that_are_cut_off_are_refused(tmp_path, name, share):
    path = tmp_path / name
    if name == "run.csv.gz":
        path.write_bytes(gzip.compress(np.random.default_rng(0).bytes(10_000).hex().encode()))
    else:
        WRITERS[name](path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


# Without MAT version 5: scipy's reader ends the process on some wrong bytes, and nothing can be done from outside.
@pytest.mark.parametrize("name", ["run.npz", "run.parquet", "new.mat", "run.mcap", "bag/bag.db3"])
def test_files_with_wrong_bytes_give_one_line_or_the_right_numbers(tmp_path, name):
    folder = tmp_path / "bag" if "/" in name else tmp_path
    WRITERS["bag" if "/" in name else name](folder if "/" in name else folder / name)
    path = tmp_path / name
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(25):
        broken = bytearray(good)
        for place in rng.integers(0, len(good), 8):
            broken[place] = rng.integers(256)
        path.write_bytes(broken)
        try:
            load_recording(path)
        except RecordingError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)


def test_other_things_that_are_no_recordings(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "log.txt").write_text("hello")
    (tmp_path / "text.mcap").write_text("hello")
    np.save(tmp_path / "array.npy", Q)
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    np.savez(tmp_path / "short.npz", time=TIME, q=Q[:7])
    np.savez(tmp_path / "flat.npz", time=TIME, u=U)
    np.savez(tmp_path / "names.npz", time=TIME, q=Q, joint_names=np.array(["a"]))
    np.savez(tmp_path / "deep.npz", time=TIME, q=np.zeros((COUNT, 2, 2)))
    sqlite3.connect(tmp_path / "empty.db3").close()
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text("rosbag2_bagfile_information:")
    for name, message in {
        "absent.csv": "there is no such file",
        "folder": "is a folder, but no ROS 2 bag",
        "log.txt": 'ends in ".txt"; use .csv, .csv.gz, .npz',
        "text.mcap": "cannot be read as MCAP",
        "array.npz": "is a single array",
        "short.npz": "columns have different lengths",
        "flat.npz": 'no column "q.<joint>"',
        "names.npz": "q has 2 columns for 1 joint_names",
        "deep.npz": 'no column "q.<joint>"',
        "empty.db3": "is empty",
        "bag": "is a bag without .db3 or .mcap files",
    }.items():
        with pytest.raises(RecordingError, match=f"{name}: {message}"):
            load_recording(tmp_path / name)


def test_a_million_rows_load_in_seconds(tmp_path):
    import time

    rows = "\n".join(f"{k / 1000:.3f},0.123456789,{k % 977 / 977:.9f},-1.5" for k in range(1000))
    body = "\n".join(["time,q.a,q.b,u.a", *[rows] * 1000])
    (tmp_path / "run.csv").write_text(body)
    start = time.process_time()
    found = load_recording(
        tmp_path / "run.csv", columns={"rate": 1000.0, "joints": {"a": {"q": "q.a"}, "b": {"q": "q.b"}}}
    )
    assert len(found) == 1_000_000 and time.process_time() - start < 5
