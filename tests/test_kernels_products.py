"""Fewer products: the same numbers to rounding, and nothing else is touched."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_kernels_cpu import evaluate, random_program
from test_kernels_trace import shape

from diffnea import kernels
from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.program import Program, operands
from diffnea.kernels.passes.products import with_fewer_products
from diffnea.kernels.rules import scans
from diffnea.kernels.rules.tracer import trace

ROUNDING = 4 * np.finfo(float).eps  # of numbers as long as the vector that is turned


def names(program: Program) -> list[str]:
    return [instruction[0] for instruction in program.instructions]


def turn(*differences: tuple[str, bool]) -> Program:
    """`± c x ± s y` and `± s x ± c y`: for each, its operation, and whether its terms change places."""
    b = Builder()
    angle, x, y = (b.input(0, k) for k in range(3))
    c, s = b.op("cos", angle), b.op("sin", angle)
    terms = [(b.op("mul", c, x), b.op("mul", s, y)), (b.op("mul", s, x), b.op("mul", c, y))]
    halves = [
        b.op(name, *(pair[::-1] if swap else pair)) for (name, swap), pair in zip(differences, terms, strict=True)
    ]
    return b.build([halves], [3])


@pytest.mark.parametrize("halves", list(product(product(("add", "sub"), (False, True)), repeat=2)))
def test_every_turn_and_every_mirror_takes_three_products(halves):
    program = turn(*halves)
    other = with_fewer_products(program)
    assert names(program).count("mul") == 4 and names(other).count("mul") == 3
    given = np.random.default_rng(0).normal(size=(1, 200, 3)) * [3, 1, 1]
    (found,), (wanted,) = evaluate(other, given), evaluate(program, given)
    length = np.linalg.norm(given[..., 1:], axis=-1, keepdims=True)
    assert np.all(np.abs(found - wanted) <= ROUNDING * length)


def test_what_is_not_finite_stays_so():
    program = turn(("add", False), ("sub", False))
    given = np.random.default_rng(1).normal(size=(1, 4, 3))
    given[0, 0, 1], given[0, 1, 2], given[0, 2, 0] = np.inf, np.nan, -np.inf
    (found,), (wanted,) = evaluate(with_fewer_products(program), given), evaluate(program, given)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))


def test_a_product_that_serves_others_and_a_half_alone_stay():
    b = Builder()
    angle, x, y = (b.input(0, k) for k in range(3))
    c, s = b.op("cos", angle), b.op("sin", angle)
    half, served = b.op("add", b.op("mul", c, x), b.op("mul", s, y)), b.op("mul", c, y)
    other = b.op("sub", served, b.op("mul", s, x))
    for outputs in ([half], [half, other, served], [b.op("add", b.op("mul", c, x), b.op("mul", s, x))]):
        program = b.build([outputs], [3])
        assert with_fewer_products(program) == program


@pytest.mark.parametrize("seed", range(3))
def test_programs_without_turns_stay_as_they_are(seed):
    program = random_program(seed)
    assert with_fewer_products(program) == program


def swing(x, angles):
    """A vector that is turned again and again, every state kept."""

    def step(x, angle):
        c, s = jnp.cos(angle * x[2]), jnp.sin(angle * x[2])
        x = jnp.stack([c * x[0] - s * x[1], s * x[0] + c * x[1], x[2] + 0.1 * x[0]])
        return x, x[:2]

    return jax.lax.scan(step, x, angles)


def test_loops_turn_in_three_products_too(monkeypatch):
    monkeypatch.setattr(scans, "LONG", 0)
    program, _ = trace(swing, shape(np.zeros(3)), shape(np.zeros(20)))
    bodies = [
        next(instruction[1].body for instruction in one.instructions if instruction[0] == "loop")
        for one in (program, with_fewer_products(program))
    ]
    assert names(bodies[1]).count("mul") == names(bodies[0]).count("mul") - 1
    assert all(value < i for i, one in enumerate(bodies[1].instructions) for value in operands(one))
    rng = np.random.default_rng(2)
    given = rng.normal(size=(33, 3)), rng.normal(size=(33, 20))
    found, wanted = jax.vmap(kernels.compile(swing))(*given), jax.vmap(swing)(*given)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_a_double_is_a_sum():
    b = Builder()
    x, two = b.input(0, 0), b.constant(2.0)
    program = b.build([[b.op("mul", two, x), b.op("mul", b.op("sin", x), two), b.op("mul", x, b.constant(2.5))]], [1])
    other = with_fewer_products(program)
    assert names(program).count("mul") == 3 and names(other).count("mul") == 1
    given = np.array([0.3, -0.0, np.inf, np.nan, 1e308]).reshape(1, -1, 1)
    np.testing.assert_array_equal(evaluate(other, given), evaluate(program, given))
