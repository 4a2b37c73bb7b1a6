"""Compiled code on disk: an entry is used only if it is whole, ours, and made for exactly this.

The directory is `$DIFFNEA_CACHE`, or `diffnea` in the user's cache directory; `DIFFNEA_CACHE=off` keeps nothing. An
entry is a checksum, the full key, and the code. Nothing here fails: where the disk does not serve, code is compiled.
"""

import contextlib
import hashlib
import os
import sys
from pathlib import Path

from diffnea import files

MAGIC = b"diffnea kernel code 1\n"
MOST_ENTRIES = 4096


def directory() -> Path | None:
    """Where entries are kept; None: nowhere."""
    chosen = os.environ.get("DIFFNEA_CACHE")
    if chosen:
        return None if chosen.lower() == "off" else Path(chosen)
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library/Caches/diffnea"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diffnea"
    except RuntimeError:  # a user without a home
        return None


def _path(key: str) -> Path | None:
    folder = directory()
    return None if folder is None else folder / f"{hashlib.sha256(key.encode()).hexdigest()}.kernel"


def _entry(key: str, code: bytes) -> bytes:
    content = len(key.encode()).to_bytes(8, "little") + key.encode() + code
    return MAGIC + hashlib.sha256(content).digest() + content


def read(key: str) -> bytes | None:
    """The code kept under a key, if there is any that can be trusted."""
    path = _path(key)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            if not _private(os.fstat(file.fileno())):
                return None
            entry = file.read()
        os.utime(path)
    except OSError:
        return None
    start = len(_entry(key, b""))
    code = entry[start:]
    return code if entry == _entry(key, code) else None


def _private(status: os.stat_result) -> bool:
    """Could only this user have written it? What is read here is run."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def write(key: str, code: bytes) -> None:
    """Keep code under a key, whole or not at all."""
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(path, _entry(key, code), mode=0o600)
        _drop_oldest(path.parent)


def _drop_oldest(folder: Path) -> None:
    """Keep the directory from growing without bound: entries unused for longest go first."""
    entries = [entry for entry in os.scandir(folder) if (files.drafted(Path(entry)) or entry.name).endswith(".kernel")]
    if len(entries) > MOST_ENTRIES:
        for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime)[: MOST_ENTRIES // 4]:
            os.unlink(entry.path)
