"""Logs of servo robots: LeRobot's data sets, SAGE's motions, PACE's tensors, BAM's JSON, trajectories in bags.

Real ones are looked for in $DIFFNEA_DATA, else in shared/data beside the checkout; tests without them skip.
"""

import gzip
import json
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recording_files import NAMES, TIME, Q, U, write_bag, write_lerobot

from diffnea.recordings import RecordingError, load_recording, load_recordings, save_recording

DATA = Path(os.environ.get("DIFFNEA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def refused(path, message, columns=None):
    with pytest.raises(RecordingError, match=message) as caught:
        load_recordings(path, columns=columns)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value) and len(str(caught.value)) < 400


# LeRobot ----------------------------------------------------------------------------------------------------------


def test_lerobot_units_are_what_the_map_says(tmp_path):
    write_lerobot(tmp_path / "set", 3)
    first = load_recordings(tmp_path / "set", columns={"units": {"q": "deg"}})[0]
    np.testing.assert_allclose(first.q, np.radians(Q[:20]), atol=1e-6)
    np.testing.assert_allclose(first.u, np.radians(U[:20]), atol=1e-6)
    torque = load_recordings(tmp_path / "set", columns={"input": "command"})[0]
    assert torque.input_kind == "command"
    np.testing.assert_allclose(torque.u, U[:20], atol=1e-6)


def test_actions_under_other_names_are_goals_of_the_same_joints(tmp_path):
    write_lerobot(tmp_path / "set", 2)
    info = json.loads((tmp_path / "set/meta/info.json").read_text())
    info["features"]["observation.state"]["names"] = ["main_arm", "main_elbow"]
    info["features"]["action"]["names"] = ["motor_0", "motor_1"]
    (tmp_path / "set/meta/info.json").write_text(json.dumps(info))
    first = load_recordings(tmp_path / "set")[0]
    assert first.joint_names == NAMES and first.driven == (True, True)
    np.testing.assert_allclose(first.u, U[:20], atol=1e-6)


def test_many_episodes_in_one_file_are_read_from_it_once(tmp_path, monkeypatch):
    from diffnea.recordings.readers import lerobot

    write_lerobot(tmp_path / "set", 3)
    rows, count = 6000, 300
    lists = {key: pa.array(list(np.zeros((rows, 2), np.float32))) for key in ("observation.state", "action")}
    times = np.tile(np.arange(rows // count) / 30, count)
    table = pa.table({"timestamp": times, "episode_index": np.repeat(np.arange(count), rows // count), **lists})
    pq.write_table(table, tmp_path / "set/data/chunk-000/file-000.parquet")
    calls, real = [], lerobot.read_columns
    monkeypatch.setattr(lerobot, "read_columns", lambda *given: calls.append(given) or real(*given))
    found = load_recordings(tmp_path / "set")
    assert len(found) == count and {len(each) for each in found} == {rows // count}
    assert len(calls) == 2  # which episodes there are, and their numbers


def wrong_infos():
    feature = {"dtype": "float32", "shape": [2], "names": list(NAMES)}
    yield "{", "meta/info.json cannot be read"
    yield "[" * 100_000, "meta/info.json cannot be read"
    yield "[]", "meta/info.json holds a list"
    yield '{"features": 3}', "features is no table of columns"
    yield '{"features": {"observation.state": [1]}}', "features is no table of columns"
    yield json.dumps({"features": {"observation.state": {**feature, "shape": [10**12]}}}), r"shape \[1000000000000\]"
    yield json.dumps({"features": {"observation.state": {**feature, "shape": [900, 900]}}}), r"shape \[900, 900\]"
    yield json.dumps({"features": {"observation.state": {**feature, "shape": "many"}}}), "shape many; give"
    yield json.dumps({"features": {"action": feature}}), r'no column "q\.<joint>"'
    yield "{" + " " * (1 << 24) + "}", "meta/info.json has 16777218 bytes"


@pytest.mark.parametrize(("content", "message"), list(wrong_infos()), ids=range(10))
def test_a_hostile_info_is_refused_in_one_line(tmp_path, content, message):
    write_lerobot(tmp_path / "set", 3)
    (tmp_path / "set/meta/info.json").write_text(content)
    refused(tmp_path / "set", message)


def test_a_file_that_claims_too_many_rows_is_refused_before_they_are_read(tmp_path, monkeypatch):
    from diffnea.recordings.readers import parquet_files

    write_lerobot(tmp_path / "set", 3)
    monkeypatch.setattr(parquet_files, "MOST_ROWS", 40)
    refused(tmp_path / "set", "file-000.parquet has 50 rows; split it, 40 are read")


# SAGE -------------------------------------------------------------------------------------------------------------


def write_sage(folder, names=NAMES):
    folder.mkdir()
    state, control = ["type,timestamp,positions,velocities,torques"], ["type,timestamp,positions"]
    for k, t in enumerate(TIME):
        stamp = 5.0 + 1e6 * t
        state.append(f'STATE_MOTOR,{stamp},"{Q[k].tolist()}","{(0 * Q[k]).tolist()}","[0.0, 0.0]"')
        if k % 2 == 0:
            control.append(f'CONTROL,{stamp - 3.0},"{U[k].tolist()}"')
    (folder / "state_motor.csv").write_text("\n".join(state))
    (folder / "control.csv").write_text("\n".join(control))
    if names:
        (folder / "joint_list.txt").write_text("\n".join(names))


def test_a_motion_of_sage_is_goals_and_positions_on_their_own_times(tmp_path):
    write_sage(tmp_path / "motion")
    found = load_recording(tmp_path / "motion")
    assert found.input_kind == "goal" and found.joint_names == NAMES
    np.testing.assert_allclose(found.time, TIME + 3e-6, atol=1e-12)
    np.testing.assert_array_equal(found.q, Q)
    np.testing.assert_array_equal(found.u, U[np.arange(len(TIME)) // 2 * 2])
    write_sage(tmp_path / "nameless", ())
    assert load_recording(tmp_path / "nameless").joint_names == ("joint0", "joint1")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("state_motor.csv", "", 'state_motor.csv has no column "timestamp"'),
        ("control.csv", "type,timestamp,positions\n", "control.csv has no rows"),
        ("control.csv", 'type,timestamp,positions\nCONTROL,0,"[1.0]"\n', "control.csv has 1 goals a row for 2 joints"),
        ("control.csv", 'type,timestamp,positions\nCONTROL,0,"[1, 2]"\nC,1,"[1]"\n', r"rows of \[1, 2\] joints"),
        ("control.csv", 'type,timestamp,positions\nCONTROL,0,"__import__(1)"\n', "row 1: no numbers are there"),
        ("control.csv", 'type,timestamp,positions\nCONTROL,0,"[(), 1]"\n', "row 1: no numbers are there"),
        ("joint_list.txt", "arm\narm\n", "joint_list.txt names 2 joints, state_motor.csv has 2"),
    ],
)
def test_a_broken_motion_of_sage_is_refused_in_one_line(tmp_path, file, content, message):
    write_sage(tmp_path / "motion")
    (tmp_path / "motion" / file).write_text(content)
    refused(tmp_path / "motion", message)


# PACE -------------------------------------------------------------------------------------------------------------


def torch_pickle(tensors, storage=b"ctorch\nFloatStorage\n", head=b"", maker=b"ctorch._utils\n_rebuild_tensor_v2\n"):
    """What torch.save writes, by hand: {name: (key, offset, size, stride)}."""

    def whole(*numbers):
        return b"".join(b"J" + struct.pack("<i", number) for number in numbers)

    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    made = b""
    for name, (key, offset, size, stride) in tensors.items():
        reference = b"(" + text("storage") + storage + text(key) + text("cpu") + whole(7) + b"tQ"
        shape = b"".join(b"(" + whole(*row) + b"t" for row in (size, stride))
        made += text(name) + maker + b"(" + reference + whole(offset) + shape + b"\x89"
        made += b"ccollections\nOrderedDict\n)R" + b"tR"
    return b"\x80\x02" + head + b"}(" + made + b"u."


def write_pt(path, pickled, storages):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("chirp/data.pkl", pickled)
        archive.writestr("chirp/byteorder", "little")
        for key, values in storages.items():
            archive.writestr(f"chirp/data/{key}", values)


def test_the_tensors_of_pace_are_read_without_torch(tmp_path):
    count = len(TIME)
    tensors = {"time": ("0", 0, (count,), (1,)), "dof_pos": ("1", 0, (count, 2), (2, 1))}
    tensors["des_dof_pos"] = ("2", 3, (count, 2), (1, count))  # a view: turned over, and not from the start
    turned = np.concatenate([np.zeros(3), U.T.reshape(-1)])
    storages = {"0": TIME, "1": Q, "2": turned}
    write_pt(tmp_path / "run.pt", torch_pickle(tensors), {k: v.astype("<f4").tobytes() for k, v in storages.items()})
    found = load_recording(tmp_path / "run.pt", columns={"names": list(NAMES)})
    assert found.input_kind == "goal" and found.joint_names == NAMES
    np.testing.assert_allclose(found.q, Q, atol=1e-6)
    np.testing.assert_allclose(found.u, U, atol=1e-6)


def bad_tensors():
    numbers = {"0": np.zeros(8, "<f4").tobytes()}
    plain = {"dof_pos": ("0", 0, (4, 2), (2, 1))}
    yield torch_pickle(plain, head=b"cos\nsystem\n(X\x05\x00\x00\x00touchtR0"), numbers, "instruction POP"
    yield torch_pickle({"dof_pos": ("0", 1, (4, 2), (2, 1))}), numbers, "cut off"
    yield torch_pickle({"dof_pos": ("0", 0, (2**30, 2), (0, 0))}), numbers, "cut off"
    yield torch_pickle(plain), {}, 'has no storage "0"'
    yield torch_pickle(plain, storage=b"ctorch\nComplexFloatStorage\n"), numbers, "tensor of ComplexFloatStorage"
    yield torch_pickle(plain, maker=b"cos\nsystem\n"), numbers, "has no tensor dof_pos; found none"
    yield torch_pickle({"time": ("0", 0, (8,), (1,))}), numbers, "has no tensor dof_pos; found time"
    yield b"\x80\x02}(u.", numbers, "has no tensor dof_pos"
    yield b"\x80\x02(I1\nI2\nl.", numbers, "cannot be read as a PyTorch file"
    yield b"", numbers, "cannot be read as a PyTorch file"
    yield b"\x80\x02" + b"(" * (1 << 20), numbers, "no plain dictionary in data.pkl"


@pytest.mark.parametrize(("pickled", "storages", "message"), list(bad_tensors()), ids=range(11))
def test_pickles_that_would_do_something_else_are_refused_and_never_run(
    tmp_path, monkeypatch, pickled, storages, message
):
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    write_pt(tmp_path / "run.pt", pickled, storages)
    refused(tmp_path / "run.pt", message)
    assert not ran


def test_no_more_numbers_are_made_than_there_are_stored(tmp_path, monkeypatch):
    from diffnea.recordings.readers import torch_files

    monkeypatch.setattr(torch_files, "LARGEST", 100)
    many = {f"t{k}": ("0", 0, (8,), (1,)) for k in range(20)}
    write_pt(tmp_path / "run.pt", torch_pickle(many), {"0": np.zeros(8, "<f4").tobytes()})
    refused(tmp_path / "run.pt", "holds more than 100 numbers")
    write_pt(tmp_path / "large.pt", torch_pickle(many), {"0": np.zeros(80, "<f4").tobytes()})
    refused(tmp_path / "large.pt", "unpacks to more than 100 bytes")
    (tmp_path / "old.pt").write_bytes(b"\x80\x02.")
    refused(tmp_path / "old.pt", "is no PyTorch archive")


# BAM --------------------------------------------------------------------------------------------------------------


def bam_log(on=None):
    entries = [
        {"timestamp": t, "position": q, "goal_position": u, "load": 65535 - 99, "input_volts": 7.0}
        for t, q, u in zip(TIME, Q[:, 0], U[:, 0], strict=True)
    ]
    for entry, enabled in zip(entries, on if on is not None else [True] * len(entries), strict=True):
        entry["torque_enable"] = bool(enabled)
    return {"mass": 0.5, "kp": 100, "entries": entries}


def test_a_log_of_bam_has_goals_and_the_gain_of_its_firmware(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(bam_log()))
    found = load_recording(tmp_path / "run.json")
    assert found.input_kind == "goal" and "gain is 100" in found.notes[0]
    np.testing.assert_array_equal(found.u[:, 0], U[:, 0])
    assert np.all(found.gain == 100)
    save_recording(found, tmp_path / "again.csv")
    np.testing.assert_array_equal(load_recording(tmp_path / "again.csv").gain, found.gain)
    (tmp_path / "bare.json").write_text(json.dumps({"entries": bam_log()["entries"]}))
    assert load_recording(tmp_path / "bare.json").gain is None
    volts = load_recording(tmp_path / "run.json", columns={"input": "command"})
    assert volts.input_kind == "command"
    np.testing.assert_allclose(volts.u, -100 / 885 * 7.0)  # the log's load has lost its sign
    on = np.arange(len(TIME)) // 17 != 1
    with gzip.open(tmp_path / "part.json.gz", "wt") as stream:
        json.dump(bam_log(on), stream)
    (found,) = load_recordings(tmp_path / "part.json.gz")
    np.testing.assert_array_equal(found.gain[:, 0], np.where(on, 100.0, 0.0))
    assert "torque is off in 17 of 50 samples" in found.notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1, 2]", 'has no "entries"'),
        ('{"entries": []}', 'has no "entries"'),
        ('{"entries": [1]}', 'has no "entries"'),
        ('{"entries": [{"timestamp": 0, "position": "x"}]}', "entry 0 has position = 'x'"),
        ('{"entries": [{"timestamp": 0, "position": 1}]}', "entry 0 has goal_position = 'None'"),
        (json.dumps(bam_log(np.zeros(len(TIME)))), "torque is off all the time"),
        (json.dumps({**bam_log(), "kp": -1}), "kp is '-1'"),
    ],
)
def test_a_broken_log_of_bam_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "run.json").write_text(content)
    refused(tmp_path / "run.json", message)


# Bags -------------------------------------------------------------------------------------------------------------


def test_trajectories_in_a_bag_are_goals_on_their_way(tmp_path):
    paths = [(0.02, NAMES, [0.0], [[1.0, -1.0]]), (0.1, ("elbow",), [0.02, 0.06], [[1.0], [5.0]])]
    write_bag(tmp_path / "bag", paths=paths)
    found = load_recording(tmp_path / "bag")
    assert found.input_kind == "goal" and found.driven == (True, True)
    first = np.searchsorted(TIME, 0.02)
    assert len(found) == len(TIME) - first and f"{first} samples before its first" in found.notes[1]
    elbow = np.interp(TIME[first:], [0.1, 0.12, 0.16], [-1.0, 1.0, 5.0])
    np.testing.assert_allclose(found.u, np.column_stack([np.ones(len(elbow)), elbow]), atol=1e-6)
    effort = load_recording(tmp_path / "bag", columns={"input": "command"})
    np.testing.assert_array_equal(effort.u, U)


def test_joints_that_no_trajectory_names_are_passive(tmp_path):
    write_bag(tmp_path / "bag", paths=[(0.0, ("elbow", "thumb"), [0.0], [[1.0, 2.0]])])
    found = load_recording(tmp_path / "bag")
    assert found.driven == (False, True)
    write_bag(tmp_path / "short", paths=[(0.0, ("elbow",), [0.0], [[]])])
    refused(tmp_path / "short", "JointTrajectory without a position for each of its 1 joints")


# Real ones --------------------------------------------------------------------------------------------------------


def test_real_motions_of_an_so_101_are_goals_of_its_robot():
    folder = DATA / "so101"
    if not folder.is_dir():
        pytest.skip("no motions of an SO-101 in $DIFFNEA_DATA or shared/data beside the checkout")
    import diffnea as dn

    robot = dn.load_robot(folder / "so101_new_calib.urdf", lock=["gripper"])
    paths = sorted(folder.glob("*.npz"))
    found = [dn.load_recording(path, robot) for path in paths]
    assert {each.input_kind for each in found} == {"goal"} and len(found) == len(paths) > 30
    for path, each in zip(paths, found, strict=True):
        with np.load(path) as arrays:
            np.testing.assert_array_equal(each.q, arrays["q"][len(arrays["q"]) - len(each) :, :5])
            where = np.searchsorted(arrays["goal_time"], each.time, side="right") - 1
            np.testing.assert_array_equal(each.u, arrays["goal"][np.maximum(where, 0), :5])


def test_real_runs_of_a_servo_pendulum_are_goals():
    paths = sorted((DATA / "servo_pendulum_bam").glob("*.json.gz"))
    if not paths:
        pytest.skip("no runs of a servo pendulum in $DIFFNEA_DATA or shared/data beside the checkout")
    for path in paths:
        log = json.loads(gzip.decompress(path.read_bytes()))
        found = load_recording(path)
        assert found.input_kind == "goal" and len(found) == len(log["entries"])
        assert (found.gain > 0).sum() == sum(entry["torque_enable"] for entry in log["entries"])
        assert found.gain.max() == log["kp"]


def test_real_runs_of_a_wam_count_their_goals_from_the_first_pose():
    paths = sorted((DATA / "barrett_wam").glob("*.npz"))
    if not paths:
        pytest.skip("no runs of a WAM in $DIFFNEA_DATA or shared/data beside the checkout")
    found = load_recording(paths[0], columns={"goals_from_start": True})
    assert found.input_kind == "goal" and found.num_joints == 7
    assert np.abs(found.u - found.q).max() < 0.3 < np.abs(load_recording(paths[0]).u - found.q).max()
