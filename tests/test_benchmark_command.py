"""`diffnea benchmark` and `diffnea report`: what they print, write and return."""

import json
from functools import partial

import pytest
from benchmark_records import write_benchmark
from test_benchmark import failing_work, work

from diffnea import benchmark
from diffnea.benchmark import engine
from diffnea.benchmark.workers.lock import locked
from diffnea.cli import main

SMALL = ["--systems", "furuta", "--datasets", "uniform", "simulated", "--models", "nea", "ff-nn", "--workers", "1"]


@pytest.fixture
def made_up_work(monkeypatch):
    def use(function):
        monkeypatch.setattr(benchmark, "run", partial(engine.run, work=function))

    return use


def test_a_benchmark_leaves_its_folder_and_says_so(tmp_path, capsys, made_up_work):
    made_up_work(work)
    assert main(["benchmark", *SMALL, "--out", str(tmp_path / "runs"), "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert (result["cells"], result["ran"], result["failed"], printed.err) == (4, 4, [], "")
    for name in ("benchmark.json", "results.csv", "report.html", "cells/furuta/uniform/nea/0/record.json"):
        assert (tmp_path / "runs" / name).is_file()
    assert main(["benchmark", *SMALL, "--out", str(tmp_path / "runs")]) == 0
    assert "4 cells, 0 of them run" in capsys.readouterr().out


def test_failed_cells_are_told_by_the_exit_code(tmp_path, capsys, made_up_work):
    made_up_work(failing_work)
    assert main(["benchmark", *SMALL, "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "failed: furuta/uniform/nea/0: ValueError: no" in printed.out
    assert "4/4, 2 failed" in printed.err and "Traceback" not in printed.err


def test_a_folder_in_use_is_refused_in_a_line(tmp_path, capsys, made_up_work):
    made_up_work(work)
    with locked(tmp_path):
        assert main(["benchmark", *SMALL, "--out", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith(f"diffnea: {tmp_path}: another benchmark writes here since ")


def test_a_stand_in_has_its_own_name_on_disk(tmp_path, capsys, monkeypatch, made_up_work):
    monkeypatch.setenv("DIFFNEA_DATA", str(tmp_path))
    made_up_work(work)
    assert main(["benchmark", "--models", "nea", "--datasets", "real", "--out", str(tmp_path / "runs")]) == 0
    assert [path.name for path in (tmp_path / "runs/cells/furuta").iterdir()] == ["stand-in"]
    assert "stand-in" in (tmp_path / "runs/results.csv").read_text()


def test_the_same_results_but_for_times(tmp_path, capsys, made_up_work):
    made_up_work(work)
    for name in ("a", "b"):
        assert main(["benchmark", *SMALL, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a/results.csv").read_text() == (tmp_path / "b/results.csv").read_text()


def test_a_report_is_written_from_what_is_there(tmp_path, capsys):
    write_benchmark(tmp_path, models=("nea",), systems=("cartpole",))
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.html'}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["benchmark", "--models", "neo"],
            1,
            'diffnea: benchmark: model "neo" is not known (did you mean "nea"?); use ',
        ),
        (["benchmark", "--seeds", "0"], 1, "diffnea: benchmark: 0 seeds; give 1 or more"),
        (["benchmark", "--workers", "0"], 1, "diffnea: benchmark: 0 workers; give 1 or more"),
        (["report", "absent"], 1, "diffnea: absent: there is no such folder; give that of a fit or a benchmark"),
    ],
)
def test_wrong_input_is_one_line(arguments, code, line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(line) and printed.err.count("\n") == 1
