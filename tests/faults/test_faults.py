"""Pipes, signals and disks that fail: each ends in a code and at most one line, and leaves nothing half done."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_benchmark import work

from diffnea import benchmark, files
from diffnea.benchmark import records

COMMAND = "import sys; from diffnea.cli import main; sys.exit(main({arguments!r}))"
ARM = """<robot name="arm"><link name="base"/><link name="upper"><inertial><mass value="2"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>
<joint name="shoulder" type="continuous"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/></joint>
</robot>"""
# A command that holds a folder and a draft until it is ended.
BUSY = """
import sys, time
from pathlib import Path
from diffnea.benchmark.workers.lock import locked
from diffnea.cli.process import guarded

def run():
    with locked(Path({folder!r})):
        print("τ ≥ 2² N·m", flush=True)
        time.sleep(60)
    return 0

sys.exit(guarded(run, debug=False))
"""


def start(program: str, **more) -> subprocess.Popen:
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen([sys.executable, "-c", program], **more)


def run(arguments: list[str], **more) -> tuple[int, bytes]:
    with start(COMMAND.format(arguments=arguments), **more) as process:
        return process.wait(300), process.stderr.read()


def test_a_pipe_that_nobody_reads_ends_it_without_a_word():
    read, write = os.pipe()
    os.close(read)
    code, said = run(["--help"], stdout=write)
    os.close(write)
    assert (code, said) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_is_full_is_one_line():
    with open("/dev/full", "wb") as full:
        code, said = run(["--help"], stdout=full)
    assert code == 1 and said == b"diffnea: no space left on device (standard output)\n"


def test_a_disk_that_is_full_names_the_file_and_leaves_no_draft(tmp_path):
    robot, out = tmp_path / "arm.urdf", tmp_path / "arm.xml"
    bare = {key: value for key, value in os.environ.items() if "CACHE" not in key} | {"DIFFNEA_CACHE": "off"}
    bare["PYTHONDONTWRITEBYTECODE"] = "1"  # which would be cut off, and what imports it next would fail
    robot.write_text(ARM)
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    with start(small + COMMAND.format(arguments=["convert", str(robot), str(out)]), env=bare) as process:
        code, said = process.wait(300), process.stderr.read()
    assert (code, said) == (1, f"diffnea: {out}: file too large\n".encode())
    assert list(tmp_path.iterdir()) == [robot]


@pytest.mark.parametrize(("signals", "code"), [([signal.SIGTERM], 143), ([signal.SIGINT, signal.SIGINT], 130)])
def test_signals_end_it_and_let_go_of_the_folder(tmp_path, signals, code):
    """On a terminal that lacks half of the letters, too."""
    folder = tmp_path / "runs"
    with start(BUSY.format(folder=str(folder)), env={**os.environ, "PYTHONIOENCODING": "latin-1"}) as process:
        assert process.stdout.readline() == "? ? 2² N·m\n".encode("latin-1") and list(folder.iterdir())
        for each in signals:
            process.send_signal(each)
            time.sleep(0.05)
        assert process.wait(60) == code and process.stderr.read() == b""
    assert list(folder.iterdir()) == []


# Gets Ctrl-C when a package begins to be imported.
SOON = """
import os, signal, sys
from diffnea.cli import main

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Impatient())
sys.exit(main(["simulate", "cartpole", "--out", {out!r}]))
"""


@pytest.mark.parametrize("package", ["tyro", "jax"])
def test_ctrl_c_in_the_first_second_ends_it_without_a_word(tmp_path, package):
    with start(SOON.format(package=package, out=str(tmp_path / "swing.csv"))) as process:
        assert process.wait(60) == 130 and process.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


def hungry_work(cell):
    """Asks for more memory than the system gives."""
    if cell.model == "ff-nn":
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (2**33, hard))
        try:
            np.zeros(2**31)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return work(cell)


@pytest.mark.slow
def test_a_worker_without_memory_costs_its_cell_and_can_be_tried_again(tmp_path):
    chosen = benchmark.cells(models=("nea", "ff-nn"), systems=("cartpole",), datasets=("uniform",))
    done = benchmark.run(chosen, tmp_path, workers=2, work=hungry_work)
    assert [failed.cell.model for failed in done.failures] == ["ff-nn"]
    assert "the worker process died" in str(done.failures[0].error)
    again = benchmark.run(chosen, tmp_path, workers=1, work=work, retry=True)
    assert again.ran == 1 and not again.failures and len(records.read_all(tmp_path)) == 2


def test_a_folder_that_is_removed_meanwhile_is_made_again_and_the_rest_can_be_resumed(tmp_path):
    chosen, runs = benchmark.cells(models=("nea", "ff-nn"), seeds=1), tmp_path / "runs"

    def removing(cell):
        if cell == chosen[1]:
            shutil.rmtree(runs)
        return work(cell)

    benchmark.run(chosen, runs, workers=1, work=removing)
    benchmark.run(chosen, runs, workers=1, work=work)
    assert len(records.read_all(runs)) == len(chosen)


def test_a_clock_that_is_set_back_changes_nothing(tmp_path, monkeypatch):
    clock = iter(range(2_000_000_000, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    chosen = benchmark.cells(models=("nea",), seeds=1)
    done = benchmark.run(chosen, tmp_path, workers=1, work=work)
    assert done.ran == len(chosen) and done.seconds >= 0


HOLDS = """
import sys, time
from pathlib import Path
from diffnea import files

with files.alone(Path({folder!r})):
    print("held", flush=True)
    time.sleep({seconds})
"""


def test_two_that_write_one_folder_wait_for_each_other(tmp_path):
    with start(HOLDS.format(folder=str(tmp_path), seconds=1.0)) as process:
        assert process.stdout.readline() == b"held\n"
        begin = time.monotonic()
        with files.alone(tmp_path):
            waited = time.monotonic() - begin
        assert process.wait(60) == 0 and waited > 0.3
    assert list(tmp_path.iterdir()) == []
