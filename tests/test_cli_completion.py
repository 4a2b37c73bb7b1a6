"""Completion: the scripts for bash, zsh and fish, asked by those shells themselves what may come next."""

import dataclasses
import shutil
import subprocess

import pytest
from test_cli import CARTPOLE

from diffnea.cli import main
from diffnea.cli.completion import SHELLS, options, script
from diffnea.cli.registry import COMMANDS, arguments_class

BASH = """
{script}
COMP_WORDS=({words}); COMP_CWORD={place}; COMPREPLY=()
_diffnea
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def in_bash(line: str) -> set[str]:
    """What bash offers where the line ends."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    program = BASH.format(script=script("bash"), words=quoted, place=len(words) - 1)
    return set(subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split())


def in_fish(line: str) -> set[str]:
    program = f"{script('fish')}\ncomplete -C '{line}'"
    done = subprocess.run(["fish", "-N", "-c", program], capture_output=True, text=True, check=True)
    return {offered.split("\t")[0] for offered in done.stdout.splitlines()}


def in_zsh(line: str) -> set[str]:
    """`compadd` says what it is given."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    head = "compdef() { : }; compadd() { shift; print -l -- $@ }; _files() { print FILES }\n"
    program = f"{head}{script('zsh')}\nwords=({quoted}); CURRENT={len(words)}; _diffnea"
    done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


ASKED = {"bash": in_bash, "fish": in_fish, "zsh": in_zsh}


@pytest.fixture(params=SHELLS)
def offered(request):
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return ASKED[request.param]


def test_commands_options_and_words_are_offered(offered):
    assert set(COMMANDS) <= offered("diffnea ")
    assert {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(arguments_class("fit"))} - {
        "--robot",
        "--recordings",
    } <= offered("diffnea fit --")
    assert {"auto", "adam", "lm", "linear"} <= offered("diffnea fit arm.urdf --method ")
    assert {"inertia", "armature"} <= offered("diffnea fit arm.urdf --learn ")
    assert {"bash", "zsh", "fish"} <= offered("diffnea --print-completion ")


def test_beginnings_are_completed_and_several_words_may_follow():
    assert in_bash("diffnea ch") == {"check"}
    assert in_bash("diffnea fit --me") == {"--method", "--measured"}
    assert in_bash("diffnea fit arm.urdf --learn inertia arm") == {"armature"}
    assert in_bash("diffnea fit arm.urdf --method lm ") == set()  # files, by bash itself
    assert in_bash("diffnea convert ") == set()


def test_every_argument_with_choices_is_known_to_completion():
    for command in COMMANDS:
        found = {each.name: each for each in options(command)}
        assert found["--json"].takes == "nothing" and found["--json"].about == "Print the result as one JSON object"
        assert all(each.about for each in found.values())
    loss = next(each for each in options("fit") if each.name == "--loss")
    assert loss.words == ("auto", "acceleration", "torque", "trajectory") and loss.takes == "one"


def test_another_shell_is_refused_in_one_line(capsys):
    assert main(["--print-completion", "csh"]) == 1
    assert capsys.readouterr().err == "diffnea: --print-completion: csh is given; use bash, zsh, fish\n"
    assert main(["--print-completion", "fish"]) == 0 and "complete -c diffnea" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_are_understood_and_no_python(command, capsys):
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "None" not in said and "default: )" not in said and "False" not in said
    examples = said.split("examples:\n")[1].splitlines()
    assert len(examples) >= 2 and all(line.startswith(f"  diffnea {command}") for line in examples)
    names = {each.name for each in options(command)}
    assert {word for line in examples for word in line.split() if word.startswith("--")} <= names


def test_quiet_is_one_line_and_no_notes(tmp_path, capsys):
    path = tmp_path / "late.urdf"
    path.write_text("\n" + CARTPOLE.read_text())
    assert main(["convert", str(path), str(tmp_path / "out.urdf"), "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and printed.out.count("\n") == 1
    assert main(["data", "--quiet"]) == 0
    assert "quanser_cartpole" in capsys.readouterr().out.split()
