"""Log files: every format read to the same recording, and column maps."""

import gzip
import math
import sys

import numpy as np
import pytest
from recording_files import (
    NAMES,
    QD,
    TIME,
    WRITERS,
    Q,
    U,
    matches,
    two_joints,
    write_csv,
    write_lerobot,
    write_mat_73,
    write_mcap,
    write_parquet,
)
from scipy.io import savemat

from diffnea.cli.inputs import read_robot
from diffnea.recordings import Recording, RecordingError, load_recording, load_recordings, save_recording
from diffnea.recordings.readers import mat5


@pytest.fixture(scope="module")
def robot():
    return two_joints()


@pytest.fixture(params=WRITERS)
def log(request, tmp_path):
    path = tmp_path / request.param
    WRITERS[request.param](path)
    return path


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
    monkeypatch.setattr("diffnea.recordings.readers.csv_file.BLOCK_ROWS", 7)
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
    assert first.joint_names == NAMES and "action" in first.notes[0] and first.input_kind == "goal"
    one = load_recording(tmp_path / "set", columns={"episode": 1})
    np.testing.assert_array_equal(one.q, second.q)
    with pytest.raises(RecordingError, match="holds 2 recordings; use load_recordings"):
        load_recording(tmp_path / "set")
    with pytest.raises(RecordingError, match="has no episode 7; it has 2, from 0 to 1"):
        load_recording(tmp_path / "set", columns={"episode": 7})


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


def test_a_joint_beyond_the_numbered_columns_is_not_taken_to_stand_still(tmp_path):
    np.savez(tmp_path / "two.npz", time=0.01 * np.arange(20), q=np.ones((20, 2)))
    robot = read_robot("staubli_tx40")
    with pytest.raises(RecordingError, match='no column "q.joint_3".* lock joint_3 joint_4 joint_5 joint_6$'):
        load_recording(tmp_path / "two.npz", robot, {"joints": {robot.joint_names[0]: {"q": "q[1]"}}})


def test_comments_before_the_header_are_no_header_unless_only_numbers_follow(tmp_path):
    path, rows = tmp_path / "run.csv", "".join(f"{k / 10},{k},{k * k}\n" for k in range(20))
    for head in ("# by a logger, on a Tuesday\n\ntime,q.a,u.a\n", "# by a logger\n# time,q.a,u.a\n", "#time,q.a,u.a\n"):
        path.write_text(head + rows)
        found = load_recording(path)
        assert found.joint_names == ("a",) and len(found) == 20
        np.testing.assert_array_equal(found.q[:, 0], np.arange(20))


def test_mat_files_are_read_as_scipy_reads_them(tmp_path):
    """Our own reader of version 5 beside scipy's: every kind of number, text, cells and structs, packed or not."""
    kinds = {
        f"of_{kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in "f4 f8 i1 u1 i2 u2 i4 u4 i8 u8 ?".split()
    }
    content = {
        **kinds,
        "word": "für",
        "struct": {"q": np.eye(3), "inner": {"n": 2.5}},
        "cell": np.array(["a", "bc"], object),
    }
    for packed in (False, True):
        savemat(tmp_path / "run.mat", content, do_compression=packed)
        found = mat5.read((tmp_path / "run.mat").read_bytes())
        for name, value in kinds.items():
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
        assert found["word"] == "für" and found["cell"] == ["a", "bc"]
        np.testing.assert_array_equal(found["struct"]["q"], np.eye(3))
        assert found["struct"]["inner"]["n"] == 2.5
