"""What is written for NVIDIA's GPUs: CUDA C that computes once what is shared, and that compilers take."""

import shutil
import subprocess

import jax
import numpy as np
import pytest
from kernel_loops import LOOPS
from kernel_programs import all_operations, long_rows, many_sums, small_and_large_angles, swing

from diffnea.kernels.cuda.operations import literal
from diffnea.kernels.cuda.source import source
from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.jax import cuda
from diffnea.kernels.rules import scans
from diffnea.kernels.rules.tracer import trace


def test_source_computes_shared_values_once_and_pairs_of_turns_together():
    text = source(swing(), Layout((True, False), (False, True)), "float32").text
    prologue, body = text.split("const bool mine", 1)
    assert prologue.count("x1[") == 2 and "x1[" not in body
    assert body.count("turn(") == 1 and "sin(" not in body


def test_long_rows_are_read_and_written_in_order_and_angles_turned_in_a_loop():
    text = source(long_rows(), Layout((True, True), (False, True)), "float32").text
    body = text.split("const bool mine", 1)[1]
    assert (
        body.count("turn(") == 2 * 4 and "x0[" not in body and "y0[i" not in body
    )  # four at once, in full blocks and in the last
    assert text.count("write_row(") == 1 + 20
    short = source(swing(), Layout((True, False), (False, True)), "float32").text
    assert "at_row" not in short


def test_angles_side_by_side_are_tested_at_once():
    text = source(small_and_large_angles(), Layout((True,), (False,)), "float32").text
    tests = [line for line in text.splitlines() if line.startswith("if(!((fabs")]
    assert [test.count("fabs") for test in tests] == [3, 1]


def test_loops_find_samples_side_by_side_and_ask_ahead(monkeypatch):
    monkeypatch.setattr(scans, "LONG", 0)
    program, _ = trace(LOOPS["nested"], *(jax.ShapeDtypeStruct(shape, np.float64) for shape in ((3,), (4, 3))))
    layout = cuda.arranged(program, Layout((True, True), (False,) * len(program.outputs)))
    in_loops = [-1 in output for output in program.outputs]
    assert layout.columns == (False, True, *in_loops) and any(in_loops)
    text = source(program, layout, "float32", 32).text
    rows = [line for line in text.splitlines() if "=x1[" in line]
    assert len(rows) == 3 and all(")*samples+i]" in line for line in rows)
    assert text.count("fetch(&x1[") == 3 and "__launch_bounds__(32," in text
    fixed = cuda.arranged(program, Layout((True, False), (False,) * len(program.outputs)))
    assert "fetch(&" not in source(program, fixed, "float32").text  # one row for all samples


def test_one_sample_is_its_own():
    layout = cuda.arranged(swing(), Layout((False, False), (False, False)))
    assert layout.varying == (True, True) and "shared[0]=" not in source(swing(), layout, "float32").text
    assert cuda.arranged(swing(), Layout((True, False), (False, True))).varying == (True, False)


def test_many_sums_are_the_warps():
    written = source(many_sums(), Layout((True, False), (False, True)), "float32")
    assert written.text.count("add_up(sums+") == -(-153 // 8) and "real a0=0;" not in written.text
    places = written.text.split("short places[]={")[1].split("}")[0].split(",")
    assert sorted(map(int, places)) == list(range(153))  # each sum has a place
    assert written.shared_bytes >= 4 * (153 + 7) * 4
    assert "add_up(sums+" not in source(many_sums(100), Layout((True, False), (False, True)), "float32").text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_literals_are_exact(dtype):
    for number in (0.1, -0.1, 1e-40, 1e300, -0.0, 3.0, 1 / 3):
        with np.errstate(over="ignore"):
            expected = np.dtype(dtype).type(number)
        if np.isfinite(expected):
            text = literal(number, dtype).strip("()").removesuffix("f")
            assert np.dtype(dtype).type(text) == expected
            assert text.startswith("-") == bool(np.signbit(expected))
    assert literal(True, dtype) == "true" and "inf_real" in literal(float("-inf"), dtype)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_compile(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(scans, "LONG", 0)
    shapes = [jax.ShapeDtypeStruct(shape, np.float64) for shape in ((3,), (4, 3))]
    for k, function in enumerate(LOOPS.values()):
        program, _ = trace(function, *shapes)
        path = tmp_path / f"{k}.cu"
        layout = Layout((True, k % 2 == 0), (False,) * len(program.outputs), (k % 3 == 0,) * (2 + len(program.outputs)))
        path.write_text(source(program, layout, dtype).text)
        subprocess.run(["nvcc", "-arch=sm_80", "-cubin", "-o", path.with_suffix(".cubin"), path], check=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [(), (True, False, True)])
def test_source_compiles(dtype, columns, tmp_path):
    for k, program in enumerate((all_operations(), swing(), long_rows(), many_sums())):
        summed = (False,) if k == 0 else (False, True)
        path = tmp_path / f"{k}.cu"
        layout = Layout((True, k == 2), summed, (*columns, False)[: 2 + len(summed)] if columns else ())
        path.write_text(source(program, layout, dtype).text)
        subprocess.run(["nvcc", "-arch=sm_80", "-cubin", "-o", path.with_suffix(".cubin"), path], check=True)
