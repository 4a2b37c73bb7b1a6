"""Files that are no recordings, or broken ones: refused in one line, nothing run, nothing wrong taken for right."""

import gzip
import io
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from recording_files import COUNT, TIME, WRITERS, Q, U, two_joints

from diffnea.recordings import RecordingError, load_recording


@pytest.fixture(scope="module")
def robot():
    return two_joints()


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


@pytest.mark.parametrize("name", ["run.npz", "run.parquet", "run.mat", "new.mat", "run.mcap", "bag/bag.db3"])
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
