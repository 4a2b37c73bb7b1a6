"""Compiled code on disk, by content and by name: an entry is used only if it is whole, ours, and made for exactly this.

The directory is `$DIFFNEA_CACHE`, or `diffnea` in the user's cache directory; `DIFFNEA_CACHE=off` keeps nothing. An
entry is a checksum, the full key, and the code. Nothing here fails: where the disk does not serve, code is compiled.

The package's own functions have names under which a later process finds their kernels without tracing them again. A
name holds where the function is defined, what it is specialised for, the structure and shapes of what it takes, and a
fingerprint of the package's text and of the libraries that shape its code: if any of it changes, so does the name.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import equinox
import jax
import jaxlib
import numpy as np

from diffnea import files

MAGIC = b"diffnea kernel code 1\n"
MOST_ENTRIES = 4096
PACKAGE = Path(__file__).parent.parent.parent
LIBRARIES = (jax, jaxlib, np, equinox)

Shapes = tuple[tuple[tuple[int, ...], str], ...]


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
        with files.opened(path) as file:
            if not _private(os.fstat(file.fileno())):
                return None
            entry = file.read()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # a cache that cannot be written serves as well
        os.utime(path)
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


# Names ---------------------------------------------------------------------------------------------------------------


def name_of(function: Callable[..., Any], *known: bytes) -> str | None:
    """Of a function at the top of one of this package's files, specialised for what is known; None for any other."""
    module, within = getattr(function, "__module__", ""), getattr(function, "__qualname__", "<locals>")
    if not module.startswith("diffnea.") or "<locals>" in within:
        return None
    return f"{module}.{within} {hashlib.sha256(b'|'.join(known)).hexdigest()}"


def full_name(name: str, structure: Any, shapes: Shapes) -> str | None:
    """The name for given arguments; None where their structure has no text that another process would write, too."""
    text = str(structure)
    if " at 0x" in text or not ours(structure):
        return None
    return hashlib.sha256("\n".join([name, text, repr(shapes), _fingerprint()]).encode()).hexdigest()


def ours(structure: Any) -> bool:
    """Whether all classes in a pytree are in the fingerprint: the text of others may change under the same name."""
    found = structure.node_data()
    if found is not None and found[0].__module__.split(".")[0] not in ("builtins", "diffnea", "equinox"):
        return False
    return all(map(ours, structure.children()))


def _fingerprint() -> str:
    """Of the package's text; looked at anew each time, since a file may have been edited and loaded again."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return _digest(tuple((str(path), path.stat().st_mtime_ns) for path in paths))


@cache
def _digest(paths: tuple[tuple[str, int], ...]) -> str:
    versions = [f"{library.__name__} {library.__version__}" for library in LIBRARIES]
    digest = hashlib.sha256(" ".join(versions).encode())
    for path, _ in paths:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


Arrays = tuple[jax.ShapeDtypeStruct, ...]


def results_of(name: str) -> tuple[Arrays, bool, bool] | None:
    """What the function of a full name gives, as another process noted; is it one array by itself, has it loops?"""
    found = noted(f"results\n{name}")
    try:
        arrays, alone, loops = found
        return arrays_from(arrays), bool(alone), bool(loops)
    except (TypeError, ValueError):  # nothing, or none of ours
        return None


def note_results(name: str, results: Arrays, alone: bool, loops: bool) -> None:
    """For later processes."""
    note(f"results\n{name}", [arrays_as_text(results), alone, loops])


def arrays_from(text: Any) -> Arrays:
    """What `arrays_as_text` wrote."""
    return tuple(jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype)) for shape, dtype in text)


def arrays_as_text(arrays: Arrays) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types, for a note."""
    return [(array.shape, str(array.dtype)) for array in arrays]


def noted(key: str) -> Any:
    """What a process has noted; None if there is nothing that can be read."""
    found = read(key)
    try:
        return None if found is None else json.loads(found)
    except (ValueError, RecursionError):
        return None


def note(key: str, content: Any) -> None:
    """For later processes: anything that JSON holds."""
    write(key, json.dumps(content).encode())
