"""The benchmark's grid, its records on disk, and the engine that runs cells: nothing is lost, nothing is mistaken."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmark_records import made_up, write_benchmark

from diffnea import benchmark, files, report
from diffnea.benchmark import MODELS, Cell, Record, RecordError, cells, groups, records
from diffnea.benchmark.workers import local, lock

HERE = Path(__file__).parent


# Work for the engine: quick, and bad on request. ---------------------------------------------------------------------


def work(cell):
    """A record that depends on the cell alone, after a little time."""
    time.sleep(0.02)
    number = [ord(letter) for letter in cell.title]
    return replace(made_up(cell, np.random.default_rng(number)), versions={"diffnea": "0"})


def failing_work(cell):
    if cell.model == "nea":
        return Record(cell, error="ValueError: no")
    return work(cell)


def deadly_work(cell):
    if cell.model == "nea":
        os.kill(os.getpid(), signal.SIGKILL)
    return work(cell)


FEW = ("nea", "ff-nn", "diffnea-viscous")


def _snapshot(runs):
    return {path.relative_to(runs): path.read_bytes() for path in sorted((runs / "cells").rglob("*")) if path.is_file()}


# The grid ----------------------------------------------------------------------------------------------------------


def test_there_are_26_models_and_156_cells():
    assert len(MODELS) == 26 and len(cells()) == 156 and len(set(cells(seeds=5))) == 780
    families = [entry.family for entry in MODELS.values()]
    assert [families.count(name) for name in ("DiffNEA", "no-Kin", "NEA", "FF-NN")] == [12, 12, 1, 1]
    for family in ("DiffNEA", "no-Kin"):
        rows = {(e.actuator, e.start) for e in MODELS.values() if e.family == family}
        assert len(rows) == 12 and {start for _, start in rows} == {"random", "nominal"}


def test_groups_keep_together_what_shares_compilations():
    chosen = cells(seeds=2, trainings=("auto", "adam"))
    found = groups(chosen)
    assert sorted(map(str, sum(found, []))) == sorted(map(str, chosen))
    for group in found:
        kinds = {(cell.system, cell.entry.family, cell.entry.actuator, cell.training) for cell in group}
        assert len(kinds) == 1 and len(group) == (6 if group[0].model in ("nea", "ff-nn") else 12)
    networks = ["nn" in group[0].model for group in found]
    assert networks == sorted(networks, reverse=True)  # what takes longest comes first
    assert {group[0].entry.actuator for group in found[-4:]} == {"ideal"}


def test_a_worker_goes_on_with_models_that_it_can_roll_out():
    waiting = deque(groups(cells(models=("diffnea-nn-friction", "diffnea-nn-torque", "nokin-nn-torque"))))
    last = waiting.popleft()[0]
    assert last.model == "diffnea-nn-friction" and local._akin(waiting.copy(), last)[0].model == "diffnea-nn-torque"
    first = waiting.popleft()[0]
    akin = local._akin(waiting, first)[0]
    assert (akin.system, akin.model) == (first.system, "nokin-nn-torque") and len(waiting) == 3


def test_workers_begin_with_different_systems_and_stay_with_them():
    """The data of a system, and what it is compared with, are made by one worker."""
    waiting = deque(groups(cells(models=("diffnea-ideal", "diffnea-viscous"))))
    first = local._elsewhere(waiting, set())[0]
    second = local._elsewhere(waiting, {first.system})[0]
    assert (first.system, second.system) == ("cartpole", "furuta") and len(waiting) == 2
    assert local._akin(waiting, second)[0].system == "furuta"
    assert local._elsewhere(waiting, {"cartpole", "furuta"})[0].system == "cartpole" and not waiting


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"systems": ("robot",)}, 'system "robot" is not known; use cartpole, furuta'),
        ({"datasets": ("all",)}, 'data set "all" is not known'),
        ({"models": ("nea", "neo")}, 'model "neo" is not known'),
        ({"trainings": ("sgd",)}, 'training "sgd" is not known; use auto, adam, trajectory'),
        ({"seeds": 0}, "0 seeds; give 1 or more"),
        ({"models": ()}, "no model"),
    ],
)
def test_unknown_names_are_refused(wrong, line):
    with pytest.raises(ValueError, match=line):
        cells(**wrong)


# Records -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def record():
    return made_up(Cell("cartpole", "simulated", "nokin-stribeck", 3), np.random.default_rng(0))


def test_what_is_written_is_read(tmp_path, record):
    records.write(tmp_path, record)
    assert (tmp_path / "cells/cartpole/simulated/nokin-stribeck/3/record.json").exists()
    back = records.read(tmp_path, record.cell)
    assert back is not None and (back.cell, back.error, back.versions) == (record.cell, None, record.versions)
    assert back.numbers == files.finite(record.numbers)
    for name, array in record.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array)
    assert records.read(tmp_path, replace(record.cell, seed=4)) is None
    assert not list(tmp_path.rglob(".*"))


def test_arrays_are_unpacked_when_they_are_asked_for(tmp_path, record, monkeypatch):
    """Of ten thousand records a report draws a few."""
    records.write(tmp_path, record)
    opened = []
    load = np.load
    monkeypatch.setattr(np, "load", lambda *given, **more: opened.append(1) or load(*given, **more))
    (back,) = records.read_all(tmp_path)
    assert records.missing(tmp_path, [record.cell]) == [] and not opened
    assert len(back.arrays) == len(record.arrays) and set(back.arrays) == set(record.arrays) and len(opened) == 1


@pytest.mark.slow
def test_ten_thousand_cells_resume_and_report_in_seconds(tmp_path):
    """Processor time, of one core."""
    chosen = {"datasets": ("uniform", "simulated", "stand-in"), "seeds": 65}
    write_benchmark(tmp_path, **chosen)
    began = time.process_time()
    assert len(cells(**chosen)) == 10140 and records.missing(tmp_path, cells(**chosen)) == []
    resumed = time.process_time()
    assert report.benchmark(tmp_path).stat().st_size < 10e6
    assert resumed - began < 15 and time.process_time() - resumed < 40


def test_json_is_strict(tmp_path, record):
    numbers = {"a": np.float64("nan"), "b": [np.inf, np.float32(1.5), np.int64(2)], "c": np.bool_(True)}
    records.write(tmp_path, replace(record, numbers=numbers))
    text = (records.folder(tmp_path, record.cell) / "record.json").read_text()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert found["numbers"] == {"a": None, "b": [None, 1.5, 2], "c": True}
    with pytest.raises(TypeError, match="ndarray is not a JSON value"):
        records.write(tmp_path, replace(record, numbers={"a": np.zeros(2)}))


def _edit(place):
    path = place / "record.json"
    path.write_text(path.read_text().replace("accepted", "rejected"))


def _move_numbers(place):
    content = json.loads((place / "record.json").read_text())
    content["versions"]["jax"] = "9.9"
    (place / "record.json").write_text(json.dumps(content))


def _truncate(name):
    return lambda place: (place / name).write_bytes((place / name).read_bytes()[:-20])


def _other_arrays(place):
    np.savez(place / "arrays.npz", time=np.zeros(3))


def _foreign(place):
    (place / "record.json").write_text('{"hello": 1}')


def _newer(place):
    path = place / "record.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (_edit, "was changed after it was written"),
        (_move_numbers, "was changed after it was written"),
        (_truncate("record.json"), "is damaged"),
        (_truncate("arrays.npz"), "was changed after it was written"),
        (_other_arrays, "was changed after it was written"),
        (lambda place: (place / "arrays.npz").unlink(), "is damaged .No such file"),
        (_foreign, "is damaged"),
        (_newer, "format 2; this version reads 1"),
    ],
)
def test_a_record_that_was_touched_is_named(tmp_path, record, harm, line):
    records.write(tmp_path, record)
    harm(records.folder(tmp_path, record.cell))
    for read in (lambda: records.read(tmp_path, record.cell), lambda: records.missing(tmp_path, [record.cell])):
        with pytest.raises(RecordError, match=f"nokin-stribeck/3: .*{line}"):
            read()


def test_records_of_another_configuration_are_named(tmp_path, record):
    records.write(tmp_path, record)
    with pytest.raises(RecordError, match="made with quick False, not True; use another --out"):
        benchmark.run([replace(record.cell, quick=True)], tmp_path, work=work)
    place = records.folder(tmp_path, record.cell)
    place.rename(place.with_name("7"))
    with pytest.raises(RecordError, match="holds the record of another cell"):
        records.read_all(tmp_path)


# The engine --------------------------------------------------------------------------------------------------------


def test_only_what_is_missing_runs(tmp_path):
    chosen = cells(models=FEW, systems=("furuta",))
    first = benchmark.run(chosen[:4], tmp_path, workers=1, work=work)
    before = _snapshot(tmp_path)
    second = benchmark.run(chosen, tmp_path, workers=1, work=work)
    third = benchmark.run(chosen, tmp_path, workers=1, work=lambda cell: pytest.fail("nothing is missing"))
    assert (first.ran, second.ran, third.ran) == (4, 5, 0) and third.cells == 9
    assert before.items() <= _snapshot(tmp_path).items()
    described = json.loads((tmp_path / "benchmark.json").read_text())
    assert described["cells"]["model"] == list(FEW) and described["versions"] == records.versions()


def test_workers_and_one_process_leave_the_same_records(tmp_path):
    chosen = cells(models=FEW)
    benchmark.run(chosen, tmp_path / "one", workers=1, work=work)
    benchmark.run(chosen, tmp_path / "two", workers=2, work=work)
    assert _snapshot(tmp_path / "one") == _snapshot(tmp_path / "two")


def test_a_failing_cell_is_a_record_and_the_run_goes_on(tmp_path):
    chosen = cells(models=FEW, systems=("cartpole",))
    summary = benchmark.run(chosen, tmp_path, workers=1, work=failing_work)
    assert [failed.cell.model for failed in summary.failures] == ["nea"] * 3 and summary.ran == 9
    again = benchmark.run(chosen, tmp_path, workers=1, work=work)
    assert again.ran == 0 and len(again.failures) == 3
    retried = benchmark.run(chosen, tmp_path, workers=1, work=work, retry=True)
    assert retried.ran == 3 and not retried.failures


def test_a_worker_that_dies_costs_only_its_cell(tmp_path):
    chosen = cells(models=FEW, systems=("cartpole",), datasets=("uniform", "simulated"))
    summary = benchmark.run(chosen, tmp_path, workers=2, work=deadly_work)
    assert {failed.cell.model for failed in summary.failures} == {"nea"} and len(summary.failures) == 2
    assert "the worker process died (exit code -9), 2 times" in str(summary.failures[0].error)
    assert len(records.read_all(tmp_path)) == 6


PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from test_benchmark import work, FEW
from diffnea import benchmark, files
if __name__ == "__main__":
    benchmark.run(benchmark.cells(models=FEW, seeds=4), {runs!r}, workers=2, work=work)
"""


def _start(tmp_path, runs, errors=subprocess.DEVNULL):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(here=str(HERE), runs=str(runs)))
    return subprocess.Popen([sys.executable, program], start_new_session=True, stderr=errors)


def _wait_for_records(process, runs, count):
    while len(list(runs.glob("cells/*/*/*/[!.]*"))) < count and process.poll() is None:
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_at_any_moment_and_started_again_it_ends_the_same(tmp_path):
    undisturbed, disturbed = tmp_path / "a", tmp_path / "b"
    assert _start(tmp_path, undisturbed).wait(120) == 0
    for count in sorted(np.random.default_rng(0).integers(1, 72, 20)):
        process = _start(tmp_path, disturbed)
        _wait_for_records(process, disturbed, count)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        records.read_all(disturbed)  # none is half-written
    assert _start(tmp_path, disturbed).wait(120) == 0
    assert _snapshot(undisturbed) == _snapshot(disturbed) and len(_snapshot(disturbed)) == 144
    assert not list(disturbed.rglob(".*"))


@pytest.mark.slow
def test_an_interrupt_ends_it_with_whole_records(tmp_path):
    process = _start(tmp_path, tmp_path / "runs", subprocess.PIPE)
    _wait_for_records(process, tmp_path / "runs", 3)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0 and said.count(b"Traceback") == 1  # the parent's own
    assert 3 <= len(records.read_all(tmp_path / "runs")) < 72


def test_drafts_of_a_killed_run_are_swept(tmp_path, record):
    records.write(tmp_path, record)
    draft = files.draft_of(records.folder(tmp_path, record.cell))
    draft.mkdir()
    (draft / "arrays.npz").write_bytes(b"half")
    file = files.draft_of(tmp_path / records.DESCRIPTION)
    file.write_bytes(b"half")
    assert len(records.read_all(tmp_path)) == 1
    benchmark.run([record.cell], tmp_path, workers=1, work=work)
    assert not draft.exists() and not file.exists()


def test_hidden_files_of_the_user_stay(tmp_path, record):
    """Also those that look a little like ours: `--out .` is a folder like any other."""
    mine = [".gitlab-ci.yml", ".env.local", ".my.draft", f".notes.{'0' * 32}.draft", ".benchmark.json.bak"]
    place = records.folder(tmp_path, record.cell).parent
    place.mkdir(parents=True)
    for path in [*(tmp_path / name for name in mine), place / ".gitkeep", place / ".3.deadbeef"]:
        path.write_text("mine")
    benchmark.run([record.cell], tmp_path, workers=1, work=work)
    assert sorted(path.name for path in tmp_path.glob(".*")) == sorted(mine)
    assert (place / ".gitkeep").read_text() == (place / ".3.deadbeef").read_text() == "mine"


def _lock_of(runs, **changes):
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "since": "2026-01-02T03:04:05+00:00", "token": "a"}
    runs.mkdir(exist_ok=True)
    (runs / lock.NAME).write_text(json.dumps({**owner, **changes}))


def test_a_second_run_in_the_same_folder_is_refused(tmp_path, record):
    def nested(cell):
        with pytest.raises(
            lock.LockError, match=rf"another benchmark writes here since 20.* .process {os.getpid()} on"
        ):
            benchmark.run([cell], tmp_path, workers=1, work=work)
        return work(cell)

    benchmark.run([record.cell], tmp_path, workers=1, work=nested)
    assert not (tmp_path / lock.NAME).exists()
    benchmark.run([record.cell], tmp_path, workers=1, work=work)


def test_only_the_lock_of_a_dead_process_is_taken_over(tmp_path, record):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    _lock_of(tmp_path, pid=gone.pid)
    assert benchmark.run([record.cell], tmp_path, workers=1, work=work).ran == 1
    for other in ({"pid": os.getppid()}, {"pid": gone.pid, "host": "elsewhere"}, {"pid": "?"}):
        _lock_of(tmp_path, **other)
        with pytest.raises(lock.LockError, match=f"or delete {tmp_path / lock.NAME} if it is no more"):
            benchmark.run([record.cell], tmp_path, workers=1, work=work)
    (tmp_path / lock.NAME).write_text("")  # the process that makes it has not yet written who it is
    with pytest.raises(lock.LockError, match="another benchmark writes here"):
        benchmark.run([record.cell], tmp_path, workers=1, work=work)


def test_a_run_that_fails_gives_its_lock_back_and_no_one_elses(tmp_path, record):
    def fails(cell):
        raise OSError("no")

    def robbed(cell):
        _lock_of(tmp_path, host="elsewhere")
        return work(cell)

    with pytest.raises(OSError, match="no"):
        benchmark.run([record.cell], tmp_path, workers=1, work=fails)
    benchmark.run([record.cell], tmp_path, workers=1, work=robbed)
    assert "elsewhere" in (tmp_path / lock.NAME).read_text()


def test_wrong_arguments_are_one_line(tmp_path):
    with pytest.raises(ValueError, match='engine "slurm" is not known; use local or ray'):
        benchmark.run([], tmp_path, engine="slurm")
    with pytest.raises(ValueError, match="0 workers; give 1 or more"):
        benchmark.run([], tmp_path, workers=0)


def test_progress_says_how_far_it_is(tmp_path, capsys):
    from diffnea.benchmark.workers.progress import shown

    chosen = cells(models=("nea",), systems=("furuta",), datasets=("uniform", "simulated"))
    benchmark.run(chosen, tmp_path, workers=1, work=failing_work, progress=shown)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("1/2, 1 failed, ") and lines[1].startswith("2/2, 2 failed, 0 s left")
