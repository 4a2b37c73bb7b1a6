"""Long code in pieces: cut into many and with few registers, kernels compute what they did."""

import math

import numpy as np
import pytest
from kernel_loops import LOOPS
from test_kernels_cpu import SUM_TOLERANCE, UNITS, assert_close, evaluate, on_x86, random_program, run
from test_kernels_loops_cpu import NAMES, assert_guarded, layout_of, looped, repeated

from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.llvm import lines, pieces
from diffnea.kernels.llvm.module import Vectors, module

FEW = 6  # registers: of three operands and a result, two more values stay


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch):
    """Pieces of some thirty lines that use six registers, and programs that were not compiled in other ways."""
    of_machine = pieces.in_pieces
    monkeypatch.setattr("diffnea.kernels.llvm.module.in_pieces", lambda text, _: of_machine(text, FEW + pieces.SPARE))
    monkeypatch.setattr(pieces, "LONG", 30)
    monkeypatch.setattr(pieces, "FENCE", 10)
    looped.cache_clear()
    yield
    looped.cache_clear()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(2))
def test_a_program_of_all_operations(dtype, seed):
    program, rng = random_program(seed, length=400), np.random.default_rng(seed)
    varying = (True, False, True, True)
    arguments = [
        rng.normal(size=(2, 21 if varies else 1, size)).astype(dtype)
        for size, varies in zip(program.argument_sizes, varying, strict=True)
    ]
    found = run(program, Layout(varying, (False,) * 3), *arguments)
    for one, wanted in zip(found, evaluate(program, *arguments), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=SUM_TOLERANCE[dtype], atol=SUM_TOLERANCE[dtype])


def test_where_nothing_varies():
    program, rng = random_program(3, length=300), np.random.default_rng(3)
    arguments = [rng.normal(size=(1, 1, size)) for size in program.argument_sizes]
    found = run(program, Layout((False,) * 4, (False,) * 3), *arguments, samples=5)
    for one, wanted in zip(found, evaluate(program, *arguments), strict=True):
        np.testing.assert_allclose(one, np.broadcast_to(wanted, one.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("samples", "dtype", "columns"), [(1, "float64", False), (37, "float32", True)])
def test_loops_within_their_buffers(name, samples, dtype, columns):
    assert_guarded(name, samples, dtype, columns)


@on_x86
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v3"])
def test_on_lesser_machines(level, monkeypatch):
    monkeypatch.setenv("DIFFNEA_CPU", level)
    for name in LOOPS:
        program, given, wanted = looped(name)
        found = run(program, layout_of(program), *(repeated(array, 13, "float64", False) for array in given))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one[0], other[:13], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_many_angles_some_of_them_large(dtype):
    """What is found aside takes the place in memory of what a piece has left there."""
    builder, count = Builder(), 24
    angles = [builder.input(0, k) for k in range(count)]
    sines = [builder.op("sin", angle) for angle in angles]
    cosines = [builder.op("cos", angle) for angle in angles]
    program = builder.build([[*sines, *cosines]], [count])
    given = np.random.default_rng(1).uniform(-3, 3, (1, 40, count))
    given[0, 5, 3], given[0, 17, 20], given[0, 18, 0] = 1e15, -3e20, np.nan
    given = given.astype(dtype)
    turned = [[f(x) if x == x else math.nan for f in (math.sin, math.cos) for x in row] for row in given[0].tolist()]
    (found,) = run(program, Layout((True,), (False,)), given)
    assert_close(found[0], np.array(turned, dtype), UNITS)


def test_no_function_is_long_and_no_piece_has_more_values_than_registers():
    program = random_program(5, length=800)
    text = module(program, Layout((True,) * 4, (False,) * 3), 64, Vectors(32, True), "runtime").split("\n")
    starts = [k for k, line in enumerate(text) if line.startswith("define internal") and "noinline" in line]
    assert len(starts) > 10
    for start in starts:
        piece = text[start + 1 : text.index("}", start)]
        assert len(piece) < 20 * pieces.LONG
        made = {line.name or line.text.partition("=")[0]: k for k, line in enumerate(lines.read(piece))}
        kinds = {name: line.partition("=")[2] for line in piece if (name := line.partition("=")[0]) in made}
        reals = [name for name in kinds if name[:1] == "%" and lines.kind_of(kinds[name]) == "<4 x double>"]
        last = {name: max((k for k, line in enumerate(piece) if f"{name}," in f"{line},"), default=0) for name in reals}
        alive = [sum(made[name] <= k < last[name] for name in reals) for k in range(len(piece))]
        assert max(alive) <= FEW + 1  # a product that waits for its sum


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("fadd contract <8 x double> %v1,%v2", "<8 x double>"),
        ("fcmp olt <8 x double> %v1,splat (double 0x3FF0000000000000)", "<8 x i1>"),
        ("fcmp olt double %v1,%v2", "i1"),
        ("select <4 x i1> %v1,<4 x float> %v2,<4 x float> %v3", "<4 x float>"),
        ("shufflevector <4 x double> %v1,<4 x double> %v2,<8 x i32> <i32 0,i32 poison>", "<8 x double>"),
        ("fpext <16 x float> %v1 to <16 x double>", "<16 x double>"),
        ("getelementptr [168 x double],ptr %v1,i64 %block", "ptr"),
        ("bitcast double %v1 to i64", "i64"),
        ("phi i64 [0,%entry],[%next,%latch]", "i64"),
        ("call <8 x double> @llvm.fabs.v8f64(<8 x double> %v1)", "<8 x double>"),
    ],
)
def test_types_are_read(expression, kind):
    assert lines.kind_of(expression) == kind
