"""Slips on a command line: words and files that are not known are told at once, with what may have been meant."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import tyro
from tyro.conf import FlagCreatePairsOff, PositionalMetavarFromFieldName

from diffnea.actuators.names import NAMES
from diffnea.benchmark.grid import cells
from diffnea.cli import main
from diffnea.cli.arguments import ACTUATORS, LEARN
from diffnea.cli.registry import COMMANDS, arguments_class
from diffnea.cli.typed_names import data_names, refuse_slips, robot_names
from diffnea.identify.problem.unknowns import LEARN as PARTS
from diffnea.recordings import public


def given(line: str) -> tuple[str, Any]:
    """A command and its arguments, as a shell hands them over."""
    command, *words = shlex.split(line)[1:]
    config = (FlagCreatePairsOff, PositionalMetavarFromFieldName)
    return command, tyro.cli(arguments_class(command), args=words, config=config)


def test_the_words_are_those_of_the_library():
    assert set(ACTUATORS) == set(NAMES) and set(PARTS) < set(LEARN)
    assert set(data_names()) == set(public.names())
    assert {"cartpole", "furuta", "staubli_tx40"} <= set(robot_names())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("diffnea simulate carpole", 'carpole: no such file (did you mean "cartpole"?); give a URDF or MJCF file'),
        ("diffnea fit cartpole x.csv --test y.csv", "x.csv: there is no such file; give the path of a recording"),
        ("diffnea fit cartpole quanser_qub:train", '(did you mean "quanser_qube"?)'),
        (
            "diffnea fit cartpole quanser_qube --actuator motor+stribek",
            'unknown part "stribek" (did you mean "stribeck"?)',
        ),
        ("diffnea excite cartpole --learn frictoin", 'excite: learn has "frictoin" (did you mean "friction"?)'),
        ("diffnea benchmark --systems cart-pole", 'system "cart-pole" is not known (did you mean "cartpole"?)'),
        ("diffnea check cartpole quanser_qube --columns map.toml", "map.toml: no such file or directory"),
    ],
)
def test_a_slip_is_told_in_a_line_with_what_was_meant(line, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as told:
        refuse_slips(*given(line))
    assert said in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_every_help_are_taken(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for example in arguments_class(command).examples:
        for word in shlex.split(example)[1:]:
            if word.endswith((".urdf", ".xml", ".csv", ".mcap", "/")):  # what a reader has
                Path(word).mkdir(exist_ok=True) if word.endswith("/") else Path(word).touch()
            if "*" in word:  # a shell names the folders there
                Path(word).mkdir(parents=True)
        name, found = given(example)
        refuse_slips(name, found)


def test_models_of_the_paper_are_known_in_its_own_letters():
    assert [cell.model for cell in cells(models=("NEA", "FF-NN", "DiffNEA-Viscous"), systems=("furuta",))[::3]] == [
        "nea",
        "ff-nn",
        "diffnea-viscous",
    ]


def test_a_robot_that_comes_with_the_package_is_converted_by_its_name(tmp_path, capsys):
    assert main(["convert", "furuta", str(tmp_path / "furuta.xml")]) == 0
    assert '"furuta" with 2 joints, from furuta' in capsys.readouterr().out
