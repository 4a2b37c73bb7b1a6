"""The order of instructions: the same program, with what most others wait for first."""

import numpy as np
import pytest
from kernel_loops import LOOPS
from test_kernels_cpu import evaluate, random_program
from test_kernels_trace import shape

from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.ir.program import operands
from diffnea.kernels.llvm.module import Vectors, module
from diffnea.kernels.passes.schedule import AHEAD, scheduled
from diffnea.kernels.rules import scans
from diffnea.kernels.rules.tracer import trace


def assert_in_order(program):
    for i, instruction in enumerate(program.instructions):
        assert all(value < i for value in operands(instruction))
        if instruction[0] == "loop":
            assert_in_order(instruction[1].body)


def names(program) -> list[str]:
    return [instruction[0] for instruction in program.instructions]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_instructions_with_the_same_results(seed):
    program, rng = random_program(seed, length=400), np.random.default_rng(seed)
    other = scheduled(program, Layout((True, False, True, True), (False,) * 3))
    assert_in_order(other)
    assert sorted(names(other)) == sorted(names(program)) and names(other) != names(program)
    arguments = [rng.normal(size=(1, 9, size)) for size in program.argument_sizes]
    for found, wanted in zip(evaluate(other, *arguments), evaluate(program, *arguments), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_reordered_inside(name, monkeypatch):
    monkeypatch.setattr(scans, "LONG", 0)
    program, _ = trace(LOOPS[name], shape(np.zeros(3)), shape(np.zeros((4, 3))))
    other = scheduled(program, Layout((True, True), (False,) * len(program.outputs)))
    assert_in_order(other)
    bodies = [[i[1] for i in one.instructions if i[0] == "loop"] for one in (program, other)]
    for before, after in zip(*bodies, strict=True):
        assert sorted(names(before.body)) == sorted(names(after.body))
        for one, same in zip(before.writes, after.writes, strict=True):
            assert before.body.instructions[one.value][0] == after.body.instructions[same.value][0]


def chain_behind(count: int):
    """So many products that nothing waits for, then a chain of quotients."""
    b = Builder()
    x = b.input(0, 0)
    products = [b.op("mul", x, b.constant(2.0 + k)) for k in range(count)]
    quotient = x
    for k in range(8):
        quotient = b.op("div", b.constant(3.0 + k), quotient)
    return b.build([[*products, quotient]], [1])


def test_a_long_chain_begins_first_but_only_what_is_near_comes_forward():
    near, far = (scheduled(chain_behind(count), Layout((True,), (False,))) for count in (AHEAD // 2, 3 * AHEAD))
    computed = [[name for name in names(program) if name in ("mul", "div")] for program in (near, far)]
    assert computed[0][0] == "div" and "mul" in computed[0][1:3]  # while a quotient is on its way there is time
    assert 2 * AHEAD <= computed[1].index("div") < 3 * AHEAD


def test_angles_of_one_level_are_there_before_the_first_is_turned():
    b = Builder()
    x = [b.input(0, k) for k in range(3)]
    turned = [b.op("sin", b.op("add", one, b.constant(0.5))) for one in x]  # in its own order, angle by angle
    program = b.build([[*turned, b.op("cos", b.op("mul", turned[0], turned[1]))]], [3])
    layout = Layout((True,), (False,))
    order = names(scheduled(program, layout))
    assert order.index("sin") > max(i for i, name in enumerate(order) if name == "add")
    text = module(program, layout, 64, Vectors(32, fused=True), "run")
    assert text.count("call void @diffnea_sincos_f64(") == 2  # one test for three angles, one for that of their turns
