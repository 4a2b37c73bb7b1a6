"""Names for the package's own functions, under which a later process finds their kernels without tracing them again.

A name holds where the function is defined, what it is specialised for, the structure and shapes of what it takes, and a
fingerprint of the package's text and of the libraries that shape its code: if any of it changes, so does the name.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import equinox
import jax
import jaxlib
import numpy as np

from diffnea.kernels import code_cache

PACKAGE = Path(__file__).parent.parent
LIBRARIES = (jax, jaxlib, np, equinox)

Shapes = tuple[tuple[tuple[int, ...], str], ...]


def name_of(function: Callable[..., Any], *known: bytes) -> str | None:
    """Of a function at the top of one of this package's files, specialised for what is known; None for any other."""
    module, within = getattr(function, "__module__", ""), getattr(function, "__qualname__", "<locals>")
    if not module.startswith("diffnea.") or "<locals>" in within:
        return None
    return f"{module}.{within} {hashlib.sha256(b'|'.join(known)).hexdigest()}"


def full_name(name: str, structure: Any, shapes: Shapes) -> str | None:
    """The name for given arguments; None where their structure has no text that another process would write, too."""
    text = str(structure)
    if " at 0x" in text:
        return None
    return hashlib.sha256("\n".join([name, text, repr(shapes), _fingerprint()]).encode()).hexdigest()


def _fingerprint() -> str:
    """Of the package's text; looked at anew each time, since a file may have been edited and loaded again."""
    files = sorted(PACKAGE.rglob("*.py"))
    return _digest(tuple((str(path), path.stat().st_mtime_ns) for path in files))


@cache
def _digest(files: tuple[tuple[str, int], ...]) -> str:
    versions = [f"{library.__name__} {library.__version__}" for library in LIBRARIES]
    digest = hashlib.sha256(" ".join(versions).encode())
    for path, _ in files:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def results_of(name: str) -> tuple[jax.ShapeDtypeStruct, ...] | None:
    """What the function of a full name gives, as another process noted."""
    found = code_cache.read(f"results\n{name}")
    if found is None:
        return None
    return tuple(jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype)) for shape, dtype in json.loads(found))


def note_results(name: str, results: Sequence[jax.ShapeDtypeStruct]) -> None:
    """For later processes."""
    code_cache.write(f"results\n{name}", json.dumps([(r.shape, str(r.dtype)) for r in results]).encode())
