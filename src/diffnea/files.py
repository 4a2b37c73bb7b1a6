"""Files on disk: only regular ones are read, new ones are written aside and moved into place, values that JSON has.

A draft is called `.<name>.<32 hex digits>.draft`, so that those a killed program left behind can be told from all else.
"""

import errno
import fcntl
import math
import os
import re
import stat
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

Json = dict[str, Any]  # an object of a JSON file

_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{32}\.draft")


# A program that writes a stream of one byte packs it a thousandfold; logs pack five- to fiftyfold.
EXPANSION, ALWAYS_EXPANDED = 200, 1 << 26
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}


def opened(path: Path) -> IO[bytes]:
    """A regular file, to be read; OSError of pipes and devices, which may never end, before a byte of them is read."""
    _refuse_irregular(path, os.stat(path).st_mode)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_irregular(path, os.fstat(handle).st_mode)  # it may be another by now
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _refuse_irregular(path: Path, mode: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, "is a folder; give a file", str(path))
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"is {_KINDS.get(kind, 'no file')}; give a regular file", str(path))


def read(path: Path, most: int) -> bytes:
    """A regular file as a whole; OSError where it has more than `most` bytes."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {most >> 20} MiB, the most that is read of such a file", str(path))
    return data


@contextmanager
def alone(folder: Path, shared: bool = False) -> Iterator[None]:
    """Wait until no other process writes into a folder; those that only read share it. It leaves no file.

    Where a disk has no such locks, as some of a network, it is as without.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check_expansion(expanded: int, packed: int) -> None:
    """ValueError where packed data grow beyond all that logs do."""
    if expanded > max(ALWAYS_EXPANDED, EXPANSION * packed):
        raise ValueError(f"expands to more than {EXPANSION} times its size")


def npz_arrays(stream: IO[bytes]) -> dict[str, np.ndarray]:
    """All arrays of an NPZ file; ValueError of pickles, of members that are no arrays, and of more than it holds."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        check_expansion(sum(each.file_size for each in members), sum(each.compress_size for each in members))
        return {each.filename.removesuffix(".npy"): _npz_array(archive, each) for each in members}


def _npz_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    name = member.filename.removesuffix(".npy")
    with archive.open(member) as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise ValueError(f"its member {name!r} is no array")
        version = tuple(stream.read(2))
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(
                f"its member {name!r} is an array of format {'.'.join(map(str, version))}; up to 3.0 is read"
            )
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = header(stream)
        if kind.hasobject:
            raise ValueError(f"its member {name!r} holds Python objects (a pickle)")
        if math.prod(shape) * kind.itemsize > member.file_size:
            raise ValueError(f"its member {name!r} ends before its {math.prod(shape)} values")
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def draft_of(path: Path) -> Path:
    """Where a file or folder is written before it is moved to `path`; another place each time."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.draft")


def drafted(path: Path) -> str | None:
    """The name of what `path` is a draft of; None where it is none."""
    found = _DRAFT.fullmatch(path.name)
    return found and found[1]


def write(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a new file, and wait until it is on the disk; `mode`: its permissions before the user's mask."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Put a whole file in the place of another, in a folder that is made: whoever reads sees the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_of(path)
    try:
        write(draft, data, mode)
        draft.replace(path)
    except OSError as error:
        error.filename = str(path)  # a full disk names no file, and a draft is not the user's
        raise
    finally:
        draft.unlink(missing_ok=True)


def finite(value: Any) -> Any:
    """The same as plain JSON values: numpy numbers become Python's, what is not finite becomes None."""
    return _plain(value, lambda number: None)


def named(value: Any) -> Any:
    """The same as plain JSON values, with nothing lost: what is not finite goes by its name, as "inf"."""
    return _plain(value, str)


def unnamed(value: Any) -> Any:
    """What `named` was given, of dictionaries, lists and numbers."""
    if isinstance(value, dict):
        return {key: unnamed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [unnamed(part) for part in value]
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value


def _plain(value: Any, other: Callable[[float], Any]) -> Any:
    """`other`: what becomes of a number that is not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part, other) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, other) for part in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else other(float(value))
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{type(value).__name__} is not a JSON value")
