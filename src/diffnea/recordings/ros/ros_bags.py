"""ROS 2 bags, MCAP or SQLite, as tables of joint states and of a free base; no ROS installation is needed."""

import sqlite3
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files as regular_files
from diffnea.recordings.columns.table import Table, from_arrays, optional, readable, regular
from diffnea.recordings.recording import RecordingError
from diffnea.recordings.ros import cdr
from diffnea.recordings.ros.bag_bases import Stream, aligned, choose_streams
from diffnea.recordings.ros.bag_commands import Command, choose_command, decode, in_force

# MCAP's records: kind and length; the head of a message: channel, number, time logged, time published.
_RECORD, _HEAD = struct.Struct("<BQ"), struct.Struct("<HIQQ")
_CHANNEL, _MESSAGE = 0x04, 0x05
FIELDS = {"position": "q", "velocity": "qd", "effort": "u"}


class Group:
    """Joint states that name the same joints, as flat buffers: a million messages stay small."""

    def __init__(self, topic: str, names: tuple[str, ...]):
        self.topic, self.names, self.stamps = topic, names, array("q")
        self.values = {field: array("d") for field in FIELDS}
        self.complete = dict.fromkeys(FIELDS, True)

    def add(self, logged: int, message: cdr.JointState) -> None:
        """Keep a message under its own stamp, or the time it was logged where it has none."""
        self.stamps.append(message.stamp or logged)
        for field in FIELDS:
            values = getattr(message, field)
            self.complete[field] &= len(values) == len(self.names)
            if self.complete[field]:
                self.values[field].frombytes(values.astype(np.float64).tobytes())

    def add_like(self, logged: int, known: cdr.Repeated, data: bytes) -> None:
        """The same for a message laid out like one that was decoded."""
        self.stamps.append(known.stamp(data) or logged)
        for field, span in zip(FIELDS, known.spans, strict=True):
            if self.complete[field]:
                self.values[field].frombytes(data[span])

    def arrays(self) -> dict[str, np.ndarray]:
        """What every message has, by the package's names."""
        shape = (len(self.stamps), len(self.names))
        return {FIELDS[f]: np.array(self.values[f]).reshape(shape) for f, full in self.complete.items() if full}


def is_bag(folder: Path) -> bool:
    """Whether a folder is a ROS 2 bag."""
    return (folder / "metadata.yaml").is_file() or any(folder.glob("*.db3")) or any(folder.glob("*.mcap"))


def tables(
    path: Path, column_map: Mapping[str, Any], joints: Sequence[str] | None, floating: bool = False
) -> list[Table]:
    """The one table of a bag: positions, velocities, efforts as `u`, on the stamps of the joint states.

    `floating`: of a robot with a free base, whose pose and sensor are looked for too.
    """
    files = _files(path)
    topics = {topic: kind for file in files for topic, kind in _source(file).topics(file).items()}
    wanted = joints or tuple(column_map.get("joints", ())) or None
    topic = _choose(topics, column_map.get("topic"), cdr.JOINT_STATE)
    command = choose_command(topics, column_map.get("command_topic"), column_map.get("input"))
    streams = choose_streams(topics, column_map, floating)
    groups: dict[tuple[str, tuple[str, ...]], Group] = {}
    known: dict[str, list[tuple[cdr.Repeated, Group]]] = {name: [] for name in topic}
    commands: list[Command] = []
    for name, logged, data in _messages(files, [*topic, *([command] if command else []), *streams]):
        if name in streams:
            streams[name].add(logged, data)
            continue
        if name == command:
            commands += decode(data, topics[name], logged, column_map.get("input"))
            continue
        like = next((pair for pair in known[name] if pair[0].fits(data)), None)
        if like is None:
            message = cdr.joint_state(data)
            group = groups.setdefault((name, message.names), Group(name, message.names))
            group.add(logged, message)
            known[name] = [(cdr.Repeated(message, data), group), *known[name][:7]]
        else:
            like[1].add_like(logged, like[0], data)
    return [_table(_best(list(groups.values()), wanted), commands, command, streams)]


def _choose(topics: Mapping[str, str], asked: str | None, kind: str) -> list[str]:
    """Topics to read: the one asked for, or all of joint states."""
    able = [topic for topic, found in topics.items() if found == kind]
    if asked is not None and asked not in able:
        raise RecordingError(f'topic "{asked}" has no joint states; use {", ".join(able) or "a bag that has some"}')
    if not able:
        seen = ", ".join(f"{topic} ({found})" for topic, found in list(topics.items())[:8]) or "nothing"
        raise RecordingError(f"has no topic of {kind}; found {seen}")
    return [asked] if asked is not None else able


def _best(groups: list[Group], wanted: Sequence[str] | None) -> Group:
    """The topic and joints to use: those that name all joints wanted, and of these the ones with most messages."""
    named = [group for group in groups if group.names]
    if not named:
        raise RecordingError("has no joint states with names; record sensor_msgs/msg/JointState with names")
    able = [group for group in named if wanted is None or set(wanted) <= set(group.names)]
    if not able:
        seen = "; ".join(f"{group.topic}: {', '.join(group.names)}" for group in named[:4])
        raise RecordingError(f"no message names all of {', '.join(wanted or ())}; found {seen}")
    return max(able, key=lambda group: len(group.stamps))


def _table(group: Group, commands: list[Command], command: str | None, streams: Mapping[str, Stream]) -> Table:
    # Messages may be stored out of order; their stamps say when they are from.
    order = np.argsort(np.array(group.stamps), kind="stable")
    stamps = np.array(group.stamps)[order].astype(np.int64)
    arrays = {key: value[order] for key, value in group.arrays().items()}
    notes = [f"joint states of {group.topic}, times from its first"]
    keep, base = np.ones(len(stamps), bool), {}
    if "q" not in arrays:
        raise RecordingError(f"joint states of {group.topic} have no positions; record those")
    if command is not None:
        values, keep = in_force(stamps, commands, group.names, command)
        key = "goal" if commands[0].goal else "u"
        arrays = {name: array for name, array in arrays.items() if name != "u"} | {key: values}
        notes.append(f"u is the last message of {command}; {int((~keep).sum())} samples before its first are left out")
    first = stamps.min()
    arrays, stamps = {key: value[keep] for key, value in arrays.items()}, stamps[keep]
    if streams:
        found = aligned(stamps, arrays, streams)
        first, stamps, arrays, base = found.stamps.min(), found.stamps, found.arrays, found.base
        notes = [f"joint states of {group.topic}, times from the first sample of all", *notes[1:], *found.notes]
    columns = {"time": (stamps - first) * 1e-9, **arrays, **base}
    table = from_arrays(columns, group.names, notes=tuple(notes))
    idle = {f"goal.{name}" for name in group.names if not any(each.commands(name) for each in commands)}
    return replace(table, names=tuple(name for name in table.names if name not in idle))


# Containers -------------------------------------------------------------------------------------------------------


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = [file for file in path.iterdir() if file.suffix in (".db3", ".mcap")]
    if not found:
        raise RecordingError("is a bag without .db3 or .mcap files; decompress it first (ros2 bag convert)")
    return sorted(found, key=lambda file: (len(file.name), file.name))


def _messages(files: Sequence[Path], topics: Sequence[str]) -> Iterator[tuple[str, int, bytes]]:
    for file in files:
        yield from _source(file).messages(file, topics)


class _Mcap:
    """An MCAP file."""

    @staticmethod
    def topics(path: Path) -> dict[str, str]:
        """Topics in CDR, with the names of their types."""
        reader = optional("mcap.reader", path)
        with readable("MCAP", "repair it (mcap recover)"), regular_files.opened(path) as stream:
            summary = reader.make_reader(stream).get_summary()
        if summary is None:
            raise RecordingError("has no summary: it was cut off; repair it (mcap recover)")
        kinds = {key: schema.name for key, schema in summary.schemas.items()}
        channels = [channel for channel in summary.channels.values() if channel.message_encoding == "cdr"]
        return {channel.topic: kinds.get(channel.schema_id, "") for channel in channels}

    @staticmethod
    def messages(path: Path, topics: Sequence[str]) -> Iterator[tuple[str, int, bytes]]:
        """Topic, time and bytes of each message, in the order of the file.

        The library takes the file apart into chunks; messages in them are found here, in half the time.
        """
        reader = optional("mcap.stream_reader", path)
        names: dict[int, str] = {}
        with readable("MCAP", "repair it (mcap recover)"), regular_files.opened(path) as stream:
            for record in reader.StreamReader(stream, emit_chunks=True).records:
                kind = type(record).__name__
                if kind == "Chunk":
                    regular_files.check_expansion(record.uncompressed_size, len(record.data))
                    inside, size = reader.get_chunk_data_stream(record, validate_crc=True)
                    for channel, logged, data in _Mcap._unpack(inside.read(size), names):
                        if names.get(channel) in topics:
                            yield names[channel], logged, data
                elif kind == "Channel":
                    names[record.id] = record.topic
                elif kind == "Message" and names.get(record.channel_id) in topics:
                    yield names[record.channel_id], record.log_time, record.data

    @staticmethod
    def _unpack(data: bytes, names: dict[int, str]) -> Iterator[tuple[int, int, bytes]]:
        """Channel, time and bytes of the messages in a chunk; new channels are added to `names`."""
        place = 0
        while place < len(data):
            opcode, size = _RECORD.unpack_from(data, place)
            place += _RECORD.size
            if opcode == _MESSAGE:
                channel, _, logged, _ = _HEAD.unpack_from(data, place)
                yield channel, logged, data[place + _HEAD.size : place + size]
            elif opcode == _CHANNEL:
                number, _, length = struct.unpack_from("<HHI", data, place)
                names[number] = data[place + 8 : place + 8 + length].decode("utf-8")
            place += size


class _Sqlite:
    """A .db3 file of rosbag2."""

    @staticmethod
    def topics(path: Path) -> dict[str, str]:
        """Topics in CDR, with the names of their types."""
        rows = _Sqlite._query(path, "SELECT name, type, serialization_format FROM topics LIMIT 10000")
        return {str(name): str(kind) for name, kind, encoding in rows if encoding == "cdr"}

    @staticmethod
    def messages(path: Path, topics: Sequence[str]) -> Iterator[tuple[str, int, bytes]]:
        """Topic, time and bytes of each message, in the order of time."""
        places = ", ".join("?" * len(topics))
        query = (
            "SELECT topics.name, messages.timestamp, messages.data FROM messages JOIN topics "
            f"ON messages.topic_id = topics.id WHERE topics.name IN ({places}) ORDER BY messages.timestamp, messages.id"
        )
        for name, logged, data in _Sqlite._query(path, query, topics):
            if not isinstance(logged, int) or not isinstance(data, bytes):
                raise RecordingError(f"{name} has a message whose time or content is a {type(data).__name__}")
            yield name, logged, data

    @staticmethod
    def _query(path: Path, query: str, values: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
        with readable("a ROS 2 bag", "record it again"):
            with closing(sqlite3.connect(f"{regular(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
                database.execute("PRAGMA trusted_schema = OFF")  # the file's own functions are not run
                kinds = database.execute("SELECT type FROM sqlite_master WHERE name IN ('topics', 'messages')")
                if any(kind != "table" for (kind,) in kinds):
                    raise RecordingError("has a view in the place of a table; record it again")
                yield from database.execute(query, tuple(values))


def _source(path: Path) -> type[_Mcap] | type[_Sqlite]:
    return _Mcap if path.suffix == ".mcap" else _Sqlite
