"""Files on disk: written beside their place and moved there whole, and values that JSON has.

A draft is called `.<name>.<32 hex digits>.draft`, so that those a killed program left behind can be told from all else.
"""

import math
import os
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{32}\.draft")


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
