"""Hostile recordings: CSV, NPZ, Parquet, MAT, ROS 2 bags and LeRobot folders."""

import gzip
import io
import json
import os
import sqlite3
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import recording_files as good
from hostile import Case, bytes_of, damaged, damaged_by

HEAD = "time,q.arm,q.elbow\n"


def cases() -> list[Case]:
    """All of them."""
    parts = (_irregular, _csv, _gzip, _npz, _mat5, _parquet, _sqlite, _mcap, _lerobot, _json, _torch, _cut, _damaged)
    return [case for part in parts for case in part()]


def _case(name: str, content: bytes | str, says: str | None) -> Case:
    return Case(name, "recording", bytes_of(content), says)


def _made(name: str, write, says: str | None) -> Case:
    return Case(name, "recording", write, says)


def _irregular():
    """Pipes and devices under the ending of each format."""
    for ending in ("csv", "csv.gz", "npz", "mat", "parquet", "mcap", "db3", "json", "json.gz", "pt"):
        yield _made(f"fifo.{ending}", os.mkfifo, "is a pipe; give a regular file")
        yield _made(f"zero.{ending}", lambda path: path.symlink_to("/dev/zero"), "is a device; give a regular file")
    yield _made("folder.csv", Path.mkdir, "is a folder, but no")
    yield _made("full.csv", lambda path: path.symlink_to("/dev/full"), "is a device")


def _csv():
    rows = "".join(f"{k / 100},{k},{k}\n" for k in range(20))
    yield _case("header.csv", HEAD, "has a header and no rows")
    yield _case("numbers.csv", rows, "starts with numbers")
    yield _case("binary.csv", os.urandom(0) + bytes(range(256)) * 20, "UTF-8|binary")
    yield _case("wide.csv", ",".join(f"c{k}" for k in range(200_000)) + "\n1\n", "no column")
    yield _case("line.csv", "x" * (20 << 20), "has a line of more than 16 MiB")
    yield _case(
        "row.csv", HEAD + "1" * (40 << 20), "cannot be read as CSV|not finite|row of 1|not a number|out of range"
    )
    yield _case("uneven.csv", HEAD + rows + "1,2\n", "has a row of 2 values under a header of 3")
    yield _case("words.csv", HEAD + rows + "1,two,3\n", "is not a number")
    yield _case("huge.csv", HEAD + rows.replace(",5,5", ",1e999,5"), "not finite|not a number")
    yield _case("nan.csv", HEAD + rows.replace(",5,5", ",nan,5"), "q is not finite in row")
    yield _case("back.csv", HEAD + rows + rows, "time goes backwards")
    yield _case("still.csv", HEAD + "0,1,2\n" * 30, "time stands still")
    yield _case("escape.csv", "time,\x1b[2Jq\n1,2\n", "no column")
    yield _case("bell.csv", HEAD + rows.replace("7,7", "\x07\x1b]0;x\x07,7"), "is not a number")
    yield _case("same.csv", "time,q.arm,q.arm\n" + rows, "no column")
    yield _case("quote.csv", HEAD + '"' * 1001 + rows, "")
    yield _case("comment.csv", "# written by a robot\n# on a Tuesday, at noon\n" + HEAD + rows, None)
    yield _case("comments only.csv", "# a\n" * 100_000, "")
    yield _case(
        "decimal comma.csv", HEAD.replace(",", ";") + rows.replace(",", ";").replace(".", ","), "is not a number"
    )
    yield _case("latin.csv", HEAD.replace("arm", "für").encode("latin-1"), "is not UTF-8")
    yield _case("utf-16.csv", (HEAD + rows).encode("utf-16"), "UTF-8")
    yield _case("returns.csv", (HEAD + rows).replace("\n", "\r"), "")


def _gzip():
    packed = gzip.compress((HEAD + "".join(f"{k / 100},{k * 0.37},{k}\n" for k in range(5000))).encode())
    for place in (10, 60, len(packed) // 2, len(packed) - 12):
        flipped = packed[:place] + bytes([packed[place] ^ 0x55]) + packed[place + 1 :]
        yield _case(f"flipped {place}.csv.gz", flipped, "")
    yield _case("cut.csv.gz", packed[: len(packed) // 2], "is cut off|cannot be")
    yield _case("plain.csv.gz", HEAD, "cannot be unpacked")
    yield _case("twice.csv.gz", gzip.compress(packed), "UTF-8|binary")
    yield _made("bomb.csv.gz", _gzip_bomb, "expands to more than 200 times its size")
    yield _made(
        "line bomb.csv.gz", lambda path: path.write_bytes(gzip.compress(b"x" * (100 << 20), 9)) and None, "16 MiB"
    )


def _gzip_bomb(path: Path) -> None:
    """Rows that are all the same: 100 MB in 0.1 MB."""
    with gzip.open(path, "wb", 9) as stream:
        stream.write(HEAD.encode())
        for _ in range(100):
            stream.write(b"0,0,0\n" * 170_000)


def _npz():
    def stored(**arrays):
        data = io.BytesIO()
        np.savez(data, **arrays)
        return data.getvalue()

    time, q, u = good.TIME, good.Q, good.U
    yield _case("text.npz", "hello", "is no NPZ file")
    yield _case("zip.npz", _zip({"notes.txt": b"hello"}), "is no array")
    yield _case("nothing.npz", _zip({}), "no column")
    yield _case("other.npz", _zip({"time.npy": _npy(time), "q.npy": b"not an array"}), "'q' is no array")
    yield _case("version.npz", _zip({"q.npy": b"\x93NUMPY\x09\x09" + bytes(50)}), "of format 9.9")
    for shape in ("(100000000000,)", "(-5,)", "(2, 1000000000, 1000000000)", "(1e9,)", "'abc'", "(" * 5000):
        yield _case(f"shape {shape[:20]}.npz", _zip({"q.npy": _header(shape)}), "cannot be read as NPZ")
    yield _case("objects.npz", _zip({"q.npy": _header("(1,)", "|O")}), "Python objects")
    yield _case("code.npz", _zip({"q.npy": _header("__import__('os').abort()")}), "cannot be read as NPZ")
    yield _case("kinds.npz", stored(time=time.astype("datetime64[s]"), q=q), "no column")
    yield _case("complex.npz", stored(time=time, q=q + 1j), "no column")
    yield _case("words.npz", stored(time=time, q=np.array(["a"] * 50)), "no column")
    yield _case("empty.npz", stored(time=time[:0], q=q[:0], u=u[:0]), "")
    yield _case("joints.npz", stored(time=time, q=q, joint_names=np.array(["arm", "arm"])), "two joints are named")
    yield _case(
        "three.npz", stored(time=time, q=q, joint_names=np.array(["a", "b", "c"])), "2 columns for 3 joint_names"
    )
    cube = stored(time=time, q=np.repeat(q[:, :, None], 3, axis=2), joint_names=np.array(["a", "b"]))
    yield _case("cube.npz", cube, r"q has shape \(50, 2, 3\); give \(samples, joints\)")
    yield _case("numbers.npz", stored(time=time, q=q, joint_names=np.array([1, 2])), None)
    yield _case("lengths.npz", stored(time=time[:7], q=q), "")
    yield _case("overflow.npz", stored(time=time, q=np.full((50, 2), 1e308) * [[1, -1]]), None)
    yield _case("names.npz", _zip({"a\nb.npy": _npy(time), "../q.npy": _npy(q)}), "no column")
    bomb = _zip({"time.npy": _npy(np.zeros(20_000_000)), "q.npy": _npy(np.zeros(20_000_000))})
    yield _case("bomb.npz", bomb, "expands to more than 200 times")
    yield _case("directory.npz", _zip({"q.npy": _npy(q)})[:-22] + b"PK\5\6" + b"\xff" * 18, "cannot be read as NPZ")


def _zip(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def _npy(array: np.ndarray) -> bytes:
    data = io.BytesIO()
    np.save(data, array)
    return data.getvalue()


def _header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


def _mat5():
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"

    def element(kind: int, content: bytes, size: int | None = None) -> bytes:
        claimed = len(content) if size is None else size
        return struct.pack("<II", kind, claimed) + content + bytes(-len(content) % 8)

    def array(kind: int, shape: tuple[int, ...], *parts: bytes, name: bytes = b"q") -> bytes:
        dims = struct.pack(f"<{len(shape)}i", *shape)
        return element(
            14, element(6, struct.pack("<II", kind, 0)) + element(5, dims) + element(1, name) + b"".join(parts)
        )

    yield _case("text.mat", "hello, world", "is no MAT file")
    yield _case("header.mat", head, "no column")
    yield _case("claims.mat", head + element(14, b"", 1 << 31), "ends too early")
    yield _case("negative.mat", head + array(6, (-1, 5), element(9, bytes(40))), "claims the size")
    yield _case("large.mat", head + array(6, (2**31 - 1, 2**31 - 1), element(9, bytes(40))), "claims the size")
    yield _case("cells.mat", head + array(1, (2**31 - 1, 1)), "claims the size")
    yield _case("few.mat", head + array(6, (3, 3), element(9, bytes(40))), "5 numbers for 9")
    yield _case("kind.mat", head + array(6, (5, 1), element(99, bytes(40))), "unknown kind")
    yield _case("class.mat", head + array(77, (5, 1), element(9, bytes(40))), "no column")
    nested = array(6, (1, 1), element(9, bytes(8)))
    for _ in range(40):
        nested = array(1, (1, 1), nested)
    yield _case("nested.mat", head + nested, "structs within each other")
    yield _case("fields.mat", head + array(2, (1, 1), element(5, struct.pack("<i", -5)), element(1, b"abc")), "")
    yield _case("zlib.mat", head + element(15, b"not zlib"), "cannot be read as MAT")
    yield _case("bomb.mat", head + element(15, zlib.compress(bytes(200 << 20), 9)), "expands to more than")
    for seed in range(15):
        yield _made(f"damaged {seed}.mat", damaged_by(good.write_mat, seed), None)


def _parquet():
    def table(**columns):
        return lambda path: pq.write_table(pa.table(columns), path)

    def bomb(path: Path) -> None:
        zeros = pa.array(np.zeros(5_000_000))
        pq.write_table(pa.table({"time": zeros, "q.arm": zeros, "q.elbow": zeros}), path, compression="zstd")

    time, arm = pa.array(good.TIME), pa.array(good.Q[:, 0])
    yield _made("text.parquet", bytes_of("hello"), "cannot be read as Parquet")
    yield _made("magic.parquet", bytes_of(b"PAR1" + bytes(8) + b"PAR1"), "cannot be read as Parquet")
    yield _made("length.parquet", bytes_of(b"PAR1" + bytes(50) + b"\xff\xff\xff\x7fPAR1"), "cannot be read as Parquet")
    yield _made("words.parquet", table(time=time, **{"q.arm": pa.array(["a"] * 50)}), "no column")
    yield _made("nulls.parquet", table(time=time, **{"q.arm": pa.array([None] * 50, "f8")}), "not finite")
    ragged = pa.array([[1.0] * (k % 3) for k in range(50)])
    yield _made("ragged.parquet", table(time=time, q=ragged), "")
    yield _made("none.parquet", table(time=time[:0], **{"q.arm": arm[:0]}), "has no samples")
    yield _made("bomb.parquet", bomb, "expands to more than|stands still")
    for seed in range(8):
        yield _made(f"damaged {seed}.parquet", damaged_by(good.write_parquet, seed), None)


def _sqlite():
    def database(script: str, *rows):
        def write(path: Path) -> None:
            with sqlite3.connect(path) as content:
                content.executescript(script)
                for row in rows:
                    content.execute("INSERT INTO messages (topic_id, timestamp, data) VALUES (1, ?, ?)", row)
            content.close()

        return write

    topics = (
        "CREATE TABLE topics(id INTEGER PRIMARY KEY, name, type, serialization_format);"
        "INSERT INTO topics VALUES (1, '/j', 'sensor_msgs/msg/JointState', 'cdr');"
    )
    schema = topics + "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data);"
    forever = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
    for name, row in {
        "text": (1, "hello"), "null": (1, None), "number": (1, 5), "real": (1, 1.5), "time": ("noon", b"\0\1\0\0"),
        "short": (1, b"\0\1\0\0"), "empty": (1, b""), "kind": (1, b"\0\x63\0\0" + bytes(40)),
        "names": (1, b"\0\1\0\0" + bytes(8) + b"\1\0\0\0\0\0\0\0" + b"\xff\xff\xff\xff"),
    }.items():  # fmt: skip
        yield _made(f"{name}.db3", database(schema, row), "")
    yield _made("no tables.db3", database("CREATE TABLE a(b);"), "cannot be read as a ROS 2 bag")
    yield _made("no messages.db3", database(schema), "no joint states")
    yield _made("columns.db3", database("CREATE TABLE topics(name);"), "cannot be read as a ROS 2 bag")
    view = f"CREATE VIEW topics AS {forever} 'a' AS name, 'b' AS type, 'cdr' AS serialization_format FROM n;"
    yield _made("forever.db3", database(view), "has a view in the place of a table")
    view = f"CREATE VIEW messages AS {forever} 1 AS id, 1 AS topic_id, 1 AS timestamp, zeroblob(9) AS data FROM n;"
    yield _made("forever again.db3", database(topics + view), "has a view in the place of a table")
    odd = "INSERT INTO topics VALUES (2, x'ff00', 5, 'cdr'); INSERT INTO topics VALUES (3, NULL, NULL, 'cdr');"
    yield _made("odd topics.db3", database(schema + odd), "no joint states")
    yield _case("plain text.db3", "hello", "cannot be read as a ROS 2 bag")
    twice = good.state(0, ("arm", "arm"))
    yield _made("twice.db3", database(schema, (1, _cdr(twice)), (2, _cdr(twice))), "two joints are named")


def _cdr(state: dict) -> bytes:
    """A JointState in little-endian CDR."""
    data = bytearray(struct.pack("<II", 1, 2) + struct.pack("<I", 1) + b"\0")

    def align(size: int) -> None:
        data.extend(bytes(-len(data) % size))

    align(4)
    data.extend(struct.pack("<I", len(state["name"])))
    for name in state["name"]:
        align(4)
        data.extend(struct.pack("<I", len(name) + 1) + name.encode() + b"\0")
    for key in ("position", "velocity", "effort"):
        align(4)
        data.extend(struct.pack("<I", len(state[key])))
        align(8)
        data.extend(struct.pack(f"<{len(state[key])}d", *state[key]))
    return b"\0\1\0\0" + bytes(data)


def _mcap():
    magic = b"\x89MCAP0\r\n"
    yield _case("text.mcap", "hello", "cannot be read as MCAP")
    yield _case("magic.mcap", magic, "")
    yield _case("length.mcap", magic + b"\x01" + struct.pack("<Q", 1 << 60) + bytes(40), "")
    yield _case("nothing.mcap", magic + magic, "")
    for seed in range(10):
        yield _made(f"damaged {seed}.mcap", damaged_by(good.write_mcap, seed), None)


def _lerobot():
    def folder(change):
        def write(path: Path) -> None:
            good.write_lerobot(path, 3)
            place = path / "meta" / "info.json"
            content = change(json.loads(place.read_text()))
            place.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

        return write

    def shape(value):
        def change(info):
            info["features"]["observation.state"]["shape"] = value
            return info

        return change

    for name, value in {
        "large": [10**12], "product": [10**4, 10**4], "negative": [-5], "words": ["a"], "deep": [[2]],
        "half": [2.5], "infinite": [1e400],
    }.items():  # fmt: skip
        yield _made(f"shape {name}", folder(shape(value)), "has shape|a feature has")
    for name, value in {"list": [], "none": None, "number": 5, "words": "hello"}.items():
        yield _made(f"info {name}", folder(lambda _, value=value: value), "meta/info.json holds a")
        yield _made(f"features {name}", folder(lambda _, value=value: {"features": {"action": value}}), "")
        yield _made(f"names {name}", folder(lambda _, value=value: {"names": value}), "")
    yield _made("nested info", folder(lambda _: b"[" * 100_000), "meta/info.json cannot be read")
    yield _made("cut info", folder(lambda _: b'{"features": '), "meta/info.json cannot be read")
    yield _made("latin info", folder(lambda _: b'{"a": "\xff"}'), "meta/info.json cannot be read")
    yield _made("pipe in data", _pipe_in_data, "is a pipe")
    yield _made("no data", _no_data, "has no episode under data/")
    yield _made("empty bag", lambda path: (path.mkdir(), (path / "metadata.yaml").touch()) and None, "a bag without")


def _json():
    """Logs of BAM, and SAGE's folders."""
    for name, content in {
        "text": "hello", "list": "[]", "number": "5", "no entries": "{}", "entries": '{"entries": 5}',
        "words": '{"entries": ["a"]}', "nothing": '{"entries": []}', "deep": "[" * 200_000, "digits": "9" * 10_000,
        "nulls": '{"entries": [{"timestamp": null}]}', "nan": '{"entries": [{"timestamp": NaN, "position": 1}]}',
        "huge": '{"entries": [{"timestamp": 1' + "0" * 400 + "}]}", "latin": b'{"entries": "\xff"}',
    }.items():  # fmt: skip
        yield _case(f"{name}.json", content, "")
    packed = gzip.compress(b'{"entries": []}' + bytes(range(256)))
    yield _case("flipped.json.gz", packed[:30] + b"\0\0\0" + packed[33:], "")
    yield _case("bomb.json.gz", gzip.compress(b"[" + b"0," * 5_000_000, 1), "")
    for name, content in {
        "empty": "",
        "head": "type,timestamp\n",
        "words": "type,timestamp,positions\na,b,c\n",
    }.items():

        def folder(path: Path, content=content) -> None:
            path.mkdir()
            for file in ("control.csv", "state_motor.csv"):
                (path / file).write_text(content)

        yield _made(f"sage {name}", folder, "")


def _torch():
    """PyTorch's archives."""
    yield _case("text.pt", "hello", "")
    yield _case("zip.pt", _zip({"a": b"b"}), "has no plain dictionary")
    for name, code in {
        "call": b"cposix\nsystem\n(S'true'\ntR.", "empty": b"", "stop": b".", "number": b"I5\n.",
        "loop": b"}q\x00h\x00" * 9, "memo": b"h\x05.", "marks": b"(((((.", "dict": b"\x80\x02}.",
    }.items():  # fmt: skip
        yield _case(f"{name}.pt", _zip({"archive/data.pkl": code}), "")


def _pipe_in_data(path: Path) -> None:
    good.write_lerobot(path, 3)
    os.mkfifo(path / "data/chunk-000/file-001.parquet")


def _no_data(path: Path) -> None:
    good.write_lerobot(path, 3)
    (path / "data/chunk-000/file-000.parquet").unlink()


def _cut():
    for name in ("run.npz", "run.parquet", "run.mat", "new.mat", "run.mcap"):
        for share in (0.0, 0.03, 0.3, 0.7, 0.99):

            def cut(path: Path, name=name, share=share) -> None:
                good.WRITERS[name](path)
                path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])

            yield _made(f"{share} of {name}", cut, "")


def _damaged():
    for seed in range(10):
        yield _made(f"damaged {seed}.npz", damaged_by(good.write_npz, seed), None)
        yield _made(f"damaged {seed}.csv", damaged_by(good.write_csv, seed), None)
        yield _made(f"damaged bag {seed}.db3", _bag(seed), None)


def _bag(seed: int):
    def write(path: Path) -> None:
        folder = path.with_name("bag")
        good.write_bag(folder)
        path.write_bytes(damaged((folder / "bag.db3").read_bytes(), seed))

    return write
