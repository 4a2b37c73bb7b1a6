"""The lock of a benchmark's folder: one run writes there at a time, and it says who it is."""

import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from diffnea.errors import DiffneaError

NAME = "benchmark.lock"


class LockError(DiffneaError):
    """A folder that another run writes to: one line with who it is, since when, and what to do."""


@contextmanager
def locked(runs: Path) -> Iterator[None]:
    """Keep other runs out of the folder, which is made; a lock whose process died on this machine is taken over."""
    path = runs / NAME
    owner = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "token": uuid.uuid4().hex,  # tells this run from any other
    }
    runs.mkdir(parents=True, exist_ok=True)
    if not _create(path, owner):
        _drop_dead(path)
        if not _create(path, owner):
            raise LockError(_refusal(path, _read(path)))
    try:
        yield
    finally:
        if _read(path) == owner:  # a user may have deleted it, and another run may be at work
            path.unlink()


def _create(path: Path, owner: dict[str, Any]) -> bool:
    """Make the lock; False where there is one."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(owner) + "\n")
    return True


def _read(path: Path) -> dict[str, Any]:
    """Who holds the lock; empty where that cannot be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _drop_dead(path: Path) -> None:
    """Remove a lock whose process is no more. It is moved aside first: only one of several runs gets it."""
    holder = _read(path)
    if not _is_dead(holder):
        return
    aside = path.with_name(f".{NAME}.{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        path.rename(aside)
        if _read(aside) == holder:
            aside.unlink()
        else:  # in the meantime another run took it over
            aside.rename(path)


def _is_dead(holder: dict[str, Any]) -> bool:
    """Whether its process is known to be no more; of other machines nothing is known."""
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # another user's, or no process id at all
        return False
    return False


def _refusal(path: Path, holder: dict[str, Any]) -> str:
    pid, host, since = (holder.get(key, "?") for key in ("pid", "host", "since"))
    return (
        f"{path.parent}: another benchmark writes here since {since} (process {pid} on {host}); "
        f"wait for it, use another --out, or delete {path} if it is no more"
    )
