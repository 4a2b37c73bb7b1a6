"""Loops as machine code on the CPU: what they touch, who computes them, and on which machines."""

from functools import cache

import jax
import numpy as np
import pytest
from kernel_loops import LOOPS
from test_kernels_cpu import SUM_TOLERANCE, Guarded, handle, in_threads, on_x86, run
from test_kernels_trace import shape

from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.jax import cpu, ffi_frame
from diffnea.kernels.llvm import machine as llvm_machine
from diffnea.kernels.llvm.module import Vectors, module
from diffnea.kernels.rules import scans
from diffnea.kernels.rules.tracer import trace

BASE = 65  # samples of which all batches are made
NAMES = ("carried and collected", "after a first row", "columns", "nested", "part of an argument")


@cache
def looped(name: str):
    """A program with a loop, arguments for `BASE` samples and what JAX makes of them."""
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(BASE, 3)), rng.normal(size=(BASE, 4, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "LONG", 0)
        program, _ = trace(LOOPS[name], shape(x[0]), shape(a[0]))
    assert any(instruction[0] == "loop" for instruction in program.instructions)
    wanted = jax.tree.leaves(jax.jit(jax.vmap(LOOPS[name]))(x, a))
    return program, [x, a.reshape(BASE, 12)], [np.asarray(leaf).reshape(BASE, -1) for leaf in wanted]


def layout_of(program, columns: bool = False) -> Layout:
    return Layout((True, True), (False,) * len(program.outputs), (columns,) * (2 + len(program.outputs)))


def repeated(array: np.ndarray, samples: int, dtype: str, columns: bool) -> np.ndarray:
    """(1, samples, size), or samples last."""
    rows = array[np.arange(samples) % BASE].astype(dtype)
    return np.ascontiguousarray(rows.T if columns else rows)[None]


def assert_guarded(name: str, samples: int, dtype: str, columns: bool) -> None:
    """A loop on buffers at whose either end no access is allowed."""
    program, given, wanted = looped(name)
    expected = [repeated(array, samples, dtype, columns) for array in wanted]
    for at_end in (True, False):
        arguments = []
        for array in given:
            values = repeated(array, samples, dtype, columns)
            arguments.append(Guarded(values.shape, dtype, at_end).array)
            arguments[-1][...] = values
        outputs = [Guarded(array.shape, dtype, at_end).array for array in expected]
        handle(cpu.target(program, layout_of(program, columns), dtype), arguments, outputs)
        for found, want in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=SUM_TOLERANCE[dtype], atol=SUM_TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_outside_the_buffers_is_read_or_written(name, columns, dtype):
    for samples in (0, 1, 7, 8, 9, 63, 64, 65, 4096):
        assert_guarded(name, samples, dtype, columns)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [False, True])
def test_nor_with_a_million_samples(columns):
    assert_guarded("after a first row", 1_000_003, "float64", columns)


def test_results_do_not_depend_on_who_computes_them():
    program, given, _ = looped("nested")
    arguments = [repeated(array, 60_001, "float64", False) for array in given]
    alone = run(program, layout_of(program), *arguments)
    tasks: list = []

    def pool(task):
        tasks.append(task)
        in_threads(task)

    for found, expected in zip(run(program, layout_of(program), *arguments, threads=3, pool=pool), alone, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len(tasks) == 2


@on_x86
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_lesser_machines_compute_the_same(level, dtype, monkeypatch):
    monkeypatch.setenv("DIFFNEA_CPU", level)
    for name in NAMES:
        program, given, wanted = looped(name)
        found = run(program, layout_of(program), *(repeated(array, 37, dtype, False) for array in given))
        for one, other in zip(found, wanted, strict=True):
            tolerance = SUM_TOLERANCE[dtype]
            np.testing.assert_allclose(one[0], other[:37], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bits", [64, 32])
def test_code_for_arm_is_made(bits):
    llvm_machine.host()
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arm = llvm_machine.Machine("aarch64-unknown-linux-gnu", "generic", "", Vectors(16, fused=True))
    for name in NAMES:
        program, *_ = looped(name)
        text = module(program, layout_of(program), bits, arm.vectors, ffi_frame.runtime(bits)[1])
        assert llvm_machine.object_code(text, arm)[18:20] == (183).to_bytes(2, "little")  # ELF's number for AArch64


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_infinities_nan_and_large_angles_are_those_of_jax(dtype):
    program, (x, a), _ = looped("carried and collected")
    x, a = np.copy(x), np.copy(a)
    x[3, 1], x[11, 0], a[20, 5], a[33, 7] = np.nan, np.inf, -np.inf, np.nan
    x[40:60] *= 1e6
    x, a = x.astype(dtype), a.astype(dtype)
    found = run(program, layout_of(program), x[None], a[None])
    wanted = jax.tree.leaves(jax.vmap(LOOPS["carried and collected"])(x, a.reshape(-1, 4, 3)))
    for one, other in zip(found, wanted, strict=True):
        other, tolerance = np.asarray(other).reshape(one[0].shape), SUM_TOLERANCE[dtype]
        np.testing.assert_array_equal(np.isnan(one[0]), np.isnan(other))
        np.testing.assert_allclose(one[0], other, rtol=tolerance, atol=tolerance)
