"""The command line: what it prints, where, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import diffnea as dn
from diffnea.cli import main
from diffnea.cli.registry import COMMANDS

CARTPOLE = Path(__file__).parent.parent / "examples" / "cartpole.urdf"


def test_convert_goes_to_mjcf_and_back(tmp_path, capsys):
    there, back = tmp_path / "cartpole.xml", tmp_path / "back.urdf"
    assert main(["convert", str(CARTPOLE), str(there)]) == 0
    assert capsys.readouterr().out == f'{there}: "cartpole" with 2 joints, from {CARTPOLE}\n'
    assert main(["convert", str(there), str(back), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["joints"] == ["slide", "hinge"]
    q, qd, tau = [0.1, 0.2], [0.3, 0.4], [0.5, 0.6]
    robots = [dn.load_robot(path) for path in (CARTPOLE, there, back)]
    first, *others = [dn.forward_dynamics(robot, *map(np.array, (q, qd, tau))).tolist() for robot in robots]
    for other in others:
        assert other == pytest.approx(first, rel=1e-10)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ([], 2, f"diffnea: no command given; use {', '.join(COMMANDS)} (diffnea --help)\n"),
        (["dance"], 2, f'diffnea: "dance" is not a command; use {", ".join(COMMANDS)} (diffnea --help)\n'),
        (["convert", "absent.urdf", "x.xml"], 1, "diffnea: absent.urdf: no such file or directory\n"),
        (["convert", str(CARTPOLE), "x.stl"], 1, 'diffnea: x.stl: ends in ".stl"; use .urdf, or .xml for MJCF\n'),
        (["convert", str(CARTPOLE.parent), "x.xml"], 1, f"diffnea: {CARTPOLE.parent}: is a folder; give a file\n"),
    ],
)
def test_wrong_input_is_one_line_on_stderr(arguments, code, line, capsys):
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", line)


def test_wrong_usage_and_help(capsys):
    assert main(["convert", str(CARTPOLE)]) == 2
    assert main(["convert", "--help"]) == 0
    assert "--allow-unphysical" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "convert" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("diffnea 0.")


def test_debug_shows_the_traceback(capsys):
    assert main(["convert", "absent.urdf", "x.xml", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_notes_go_to_stderr_and_the_result_to_stdout(tmp_path, capsys):
    path = tmp_path / "late.urdf"
    path.write_text("\n" + CARTPOLE.read_text())
    assert main(["convert", str(path), str(tmp_path / "out.urdf")]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"diffnea: note: {path}: blanks before <?xml are passed over\n"


def test_the_installed_command_runs():
    program = Path(sys.executable).parent / "diffnea"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("diffnea 0.")
