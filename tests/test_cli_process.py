"""How a command ends: one line and an exit code, whatever was raised."""

import errno

import pytest

from diffnea.cli.process import Terminated, guarded
from diffnea.errors import DiffneaError


def raising(error):
    def run() -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DiffneaError("arm.urdf: has\n  no link"), 1, "diffnea: arm.urdf: has no link\n"),
        (FileNotFoundError(errno.ENOENT, "No such file", "arm.urdf"), 1, "diffnea: arm.urdf: no such file\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "diffnea: no space left on device (standard output)\n"),
        (TypeError("unhashable\x1b[2J"), 70, "diffnea: TypeError: unhashable [2J; this is a fault of diffnea; --debug"),
        (RecursionError(), 70, "diffnea: RecursionError: RecursionError; this is a fault of diffnea; --debug"),
        (MemoryError(), 70, "diffnea: MemoryError: out of memory; this is"),
        (KeyboardInterrupt(), 130, ""),
        (Terminated(), 143, ""),
    ],
)
def test_whatever_is_raised_ends_in_a_line_and_a_code(capsys, monkeypatch, error, code, said):
    monkeypatch.setattr("diffnea.cli.process.signal.signal", lambda *_: None)  # keep pytest's Ctrl-C
    assert guarded(raising(error), debug=False) == code
    err = capsys.readouterr().err
    assert err.startswith(said) and err.count("\n") == (1 if said else 0)


def test_debug_shows_where_it_came_from(capsys):
    assert guarded(raising(TypeError("no")), debug=True) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err and "in run" in err and err.splitlines()[-1].startswith("diffnea: TypeError: no;")


def test_the_code_of_a_run_is_handed_on():
    assert guarded(lambda: 3, debug=False) == 3
