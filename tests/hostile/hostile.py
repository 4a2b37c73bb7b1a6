"""One table of hostile files: each is written by code, and has to be refused in one line, quickly and in little memory.

A case is refused, or (`says` is None) refused or read as what it says: never a crash, a hang or a foreign exception.
"""

import resource
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SECONDS, MEMORY = 5.0, 1 << 30
WALL = 60  # where other programs take the processor, a hang is told by the clock on the wall


@dataclass(frozen=True)
class Case:
    """A file by name and how it is written, what reads it, and what the refusal says (a regular expression)."""

    name: str
    reads: str  # robot, recording or fit
    write: Callable[[Path], None]
    says: str | None = None

    def __str__(self) -> str:
        return f"{self.reads}: {self.name}"


def bytes_of(content: bytes | str) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data) and None


@contextmanager
def bounded():
    """Fail where the processor time or the memory is above the bound; a hang is ended."""

    def hung(*_):
        raise AssertionError(f"did not end within {WALL} s")

    previous = signal.signal(signal.SIGALRM, hung)
    signal.alarm(WALL)
    before, begin = _reset_peak(), time.process_time()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert time.process_time() - begin < SECONDS, f"took {time.process_time() - begin:.1f} s of processor time"
    assert _peak() - before < MEMORY, f"took {(_peak() - before) >> 20} MiB"


def _reset_peak() -> int:
    """Start to count the peak of memory anew, where the system can; the memory used now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def damaged(data: bytes, seed: int, changes: int = 8) -> bytes:
    """The same with some bytes changed."""
    rng, broken = np.random.default_rng(seed), bytearray(data)
    for place in rng.integers(0, len(data), changes):
        broken[place] = rng.integers(256)
    return bytes(broken)


def damaged_by(write: Callable[[Path], None], seed: int) -> Callable[[Path], None]:
    """What a writer writes, with some bytes changed."""

    def damage(path: Path) -> None:
        write(path)
        path.write_bytes(damaged(path.read_bytes(), seed))

    return damage
