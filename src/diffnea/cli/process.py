"""How a command ends, whatever comes: one line and an exit code, for wrong input, faults, signals and closed pipes."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from diffnea.text import one_line

WRONG_INPUT, FAULT, INTERRUPTED, PIPE_CLOSED, TERMINATED = 1, 70, 130, 141, 143
_FAULT = "this is a fault of diffnea; --debug shows where it came from"


class Terminated(BaseException):
    """The process was asked to end."""


def guarded(run: Callable[[], int], debug: bool) -> int:
    """The exit code of `run`; what it raises is one line on stderr, with a traceback before it where `debug`."""
    _print_anything()
    try:
        with _terminated():
            code = run()
            sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        return _quietly(INTERRUPTED)
    except Terminated:
        return _quietly(TERMINATED)
    except BrokenPipeError:  # whoever read has enough, as `head` does
        _drop_output()
        return PIPE_CLOSED
    except Exception as error:
        if debug:
            traceback.print_exc()
        ours = isinstance(error, (ValueError, OSError))
        _complain(in_a_line(error) if ours else f"{type(error).__name__}: {in_a_line(error)}; {_FAULT}")
        return WRONG_INPUT if ours else FAULT


def in_a_line(error: BaseException) -> str:
    """What an error says, and of which file."""
    if isinstance(error, OSError) and error.filename is not None:
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
        return f"{one_line(name)}: {one_line(error.strerror or 'cannot be used').lower()}"
    if isinstance(error, OSError) and error.strerror:
        return f"{one_line(error.strerror).lower()} (standard output)"
    if isinstance(error, MemoryError):
        return "out of memory"
    return one_line(str(error), 1000) or type(error).__name__


def _complain(line: str) -> None:
    with suppress(OSError, ValueError):  # stderr may be closed or full as well
        print(f"diffnea: {line}", file=sys.stderr, flush=True)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    _drop_output()


def _print_anything() -> None:
    """Let a terminal without a letter for ² show a question mark, where Python would end."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # a stream of a test, or a closed one
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]


def _drop_output() -> None:
    """What is still to be printed goes nowhere, so that Python's end does not complain of it again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _quietly(code: int) -> int:
    """From here on a second Ctrl-C changes nothing: the process is about to end."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    return code


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM as an exception, so that what holds a lock or a draft lets go of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
