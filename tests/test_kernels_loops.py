"""Whole time loops as one kernel: the numbers of `lax.scan`, in value and derivative, however they are called."""

import logging
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from kernel_loops import LOOPS, swing
from robots import random_robot, random_tree, relative
from test_kernels_trace import assert_traced, shape

import diffnea as dn
from diffnea import dynamics, kernels
from diffnea.kernels.rules import scans
from diffnea.kernels.rules.tracer import trace
from diffnea.robot import astype

pytestmark = pytest.mark.skipif(dn.backends()["cpu"] != "active", reason=f"kernels: {dn.backends()['cpu']}")

ROUNDING = 1e-12
SINGLE = 1e-4  # some twenty steps of a swinging arm in single precision
CLOSE = {"float64": {"rtol": ROUNDING, "atol": 1e-14}, "float32": {"rtol": 1e-4, "atol": 1e-6}}
X = np.array([0.3, -1.7, 2.2])
A = np.arange(12.0).reshape(4, 3) / 10


UNROLLED = {
    "collected numbers used again": lambda x, a: jnp.sin(lax.scan(swing, x, a)[1]),
    "some collected numbers": lambda x, a: lax.scan(swing, x, a)[1][-1],
    "computed rows": lambda x, a: lax.scan(swing, x, a * a),
}


def loops(program) -> list:
    return [instruction[1] for instruction in program.instructions if instruction[0] == "loop"]


@pytest.fixture
def always(monkeypatch):
    """Every scan is long enough to be a loop."""
    monkeypatch.setattr(scans, "LONG", 0)


@pytest.mark.parametrize("name", [*LOOPS, *UNROLLED])
def test_programs_with_loops_compute_what_jax_computes(name, always):
    program = assert_traced({**LOOPS, **UNROLLED}[name], X, A)
    assert bool(loops(program)) == (name in LOOPS)


def test_short_scans_are_unrolled_and_long_ones_are_loops():
    program, _ = trace(LOOPS["carried and collected"], shape(X), shape(A))
    assert not loops(program)
    long = np.zeros((5000, 3))
    program, _ = trace(LOOPS["carried and collected"], shape(X), shape(long))
    (loop,) = loops(program)
    assert loop.length == 5000 and len(program.instructions) < 20
    assert program.num_operations == 5000 * 9


def test_a_scan_of_few_steps_with_many_zeros_is_unrolled_where_it_cannot_be_a_loop():
    def function(x, a):
        def step(carry, row):
            kept = jnp.sum(jnp.eye(330) * carry[0], axis=0)[:3]  # 109 000 numbers, of which 330 are none of the zeros
            return jnp.sin(kept) * row, jnp.cos(carry)

        last, seen = lax.scan(step, x, a)
        return lax.scan(lambda carry, row: (carry * row, None), last, seen, reverse=True)[0]

    program = assert_traced(function, X, A)
    assert not loops(program) and len(program.instructions) < 1000


def test_what_does_not_change_is_computed_before_the_loop_and_what_nobody_needs_never(always):
    def function(x, a):
        def step(carry, row):
            used, unused, same = carry
            return (used * jnp.exp(same) + row, jnp.tan(unused), same), jnp.tanh(used)

        return lax.scan(step, (x, x, x), a)[0][0]

    program, _ = trace(function, shape(X), shape(A))
    (loop,) = loops(program)
    names = [instruction[0] for instruction in loop.body.instructions]
    assert names.count("exp") == names.count("sin") == names.count("tanh") == 0
    # JAX itself makes a constant of what a step only hands on; `unused` is ours to drop.
    assert loop.num_carries == 3 and not loop.writes
    assert sum(instruction[0] == "exp" for instruction in program.instructions) == 3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", LOOPS)
def test_kernels_with_loops_compute_what_jax_computes(name, dtype, always):
    rng = np.random.default_rng(0)
    x, a = jnp.asarray(rng.normal(size=(9, 3)), dtype), jnp.asarray(rng.normal(size=(9, 4, 3)), dtype)
    function = LOOPS[name]
    if dtype == "float32" and name in ("steps that are counted", "known numbers"):
        pytest.skip("its numbers are of double precision")
    for axes in ((0, 0), (0, None), (None, 0)):
        given = [value if axis == 0 else value[0] for value, axis in zip((x, a), axes, strict=True)]
        found = jax.jit(jax.vmap(kernels.compile(lambda x, a: function(x, a)), axes))
        assert "diffnea_" in found.lower(*given).as_text()
        wanted = jax.vmap(function, axes)(*given)
        for one, other in zip(jax.tree.leaves(found(*given)), jax.tree.leaves(wanted), strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, **CLOSE[dtype])


# Roll-outs -----------------------------------------------------------------------------------------------------------

TREE = random_tree(3, 2)
ROBOT = random_robot(TREE, 3)
STEPS = 30


def advance(robot, x, u):
    """Two stages of a Runge-Kutta method."""

    def slope(x):
        return jnp.stack([x[1], dynamics.aba(robot, x[0], x[1], u)])

    return x + 1e-2 * slope(x + 5e-3 * slope(x))


step = kernels.compile(advance)


def roll_with(step, robot, x, us):
    return lax.scan(lambda x, u: (step(robot, x, u), x), x, us)


roll = kernels.compile(partial(roll_with, step))


@jax.jit
def reference(robot, x, us):
    return jax.vmap(partial(roll_with, advance), (None, 0, 0))(robot, x, us)


def batch(count, dtype=np.float64):
    rng = np.random.default_rng(count)
    x, us = rng.uniform(-1, 1, (count, 2, 2)), rng.uniform(-1, 1, (count, STEPS, 2))
    return jnp.asarray(x, dtype), jnp.asarray(us, dtype)


def assert_close(found, wanted, bound=ROUNDING):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert not one.size or relative(one, other) < bound


many = jax.vmap(roll, (None, 0, 0))


def test_a_roll_out_is_one_kernel():
    text = jax.jit(many).lower(ROBOT, *batch(9)).as_text()
    assert text.count("custom_call @diffnea_") == 1 and "while" not in text


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 65])
def test_any_number_of_samples(count):
    wanted = jax.tree.map(lambda leaf: leaf[:count], reference(ROBOT, *(x[:65] for x in batch(65))))
    found = many(ROBOT, *(x[:count] for x in batch(65)))
    assert_close(found, wanted)


def test_one_sample_without_vmap():
    x, us = batch(65)
    found = roll(ROBOT, x[0], us[0])
    assert_close(found, jax.tree.map(lambda leaf: leaf[0], reference(ROBOT, x, us)))


def test_single_precision():
    found = many(astype(ROBOT, jnp.float32), *batch(65, np.float32))
    wanted = reference(ROBOT, *batch(65))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == jnp.float32 and relative(one, other) < SINGLE


def test_many_robots_each_on_its_own_samples():
    robots = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(random_robot(TREE, seed) for seed in range(3)))
    given = [jnp.stack([value[:5], value[5:10], value[10:15]]) for value in batch(65)]
    found = jax.vmap(many)(robots, *given)
    wanted = [reference(jax.tree.map(lambda leaf, k=k: leaf[k], robots), *(v[k] for v in given)) for k in range(3)]
    assert_close(found, jax.tree.map(lambda *leaves: jnp.stack(leaves), *wanted))


def test_nan_stays_in_its_sample():
    x, us = batch(9)
    x, us = x.at[2, 0, 1].set(jnp.nan), us.at[5, 7, 0].set(jnp.inf)
    found, wanted = many(ROBOT, x, us), reference(ROBOT, x, us)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(np.isfinite(one), np.isfinite(other))
    sound = np.isfinite(wanted[1])
    np.testing.assert_allclose(np.asarray(found[1])[sound], np.asarray(wanted[1])[sound], rtol=1e-9, atol=1e-12)


def loss(function, robot, x, us):
    last, states = function(robot, x, us)
    return jnp.sum(jnp.cos(last)) + jnp.sum(jnp.sin(states))


def test_tangents_are_one_kernel_too():
    given = batch(9)
    moved = jax.tree.map(jnp.sin, (ROBOT, *given))
    tangent = jax.jit(lambda given, moved: jax.jvp(many, given, moved)[1])
    text = tangent.lower((ROBOT, *given), moved).as_text()
    assert text.count("custom_call @diffnea_") == 1 and "while" not in text
    wanted = jax.jit(lambda given, moved: jax.jvp(reference, given, moved)[1])((ROBOT, *given), moved)
    assert_close(tangent((ROBOT, *given), moved), wanted, 1e-11)


def test_gradients_are_two_kernels(caplog):
    given = batch(9)
    slope = jax.jit(jax.grad(partial(loss, many), (0, 1, 2)))
    with caplog.at_level(logging.DEBUG, "diffnea.kernels"):
        text = slope.lower(ROBOT, *given).as_text()
    assert text.count("custom_call @diffnea_") == 2 and "while" not in text
    assert not caplog.records
    assert_close(slope(ROBOT, *given), jax.jit(jax.grad(partial(loss, reference), (0, 1, 2)))(ROBOT, *given), 1e-11)
