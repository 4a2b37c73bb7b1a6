"""Kernels inside JAX: the numbers of the readable form, in value and in every derivative, however they are called."""

import logging
import subprocess
import sys
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot, random_state, random_tree, relative

import diffnea as dn
from diffnea import batching, dynamics, kernels
from diffnea.robot import astype

ROUNDING = 1e-12
# A dozen links in single precision: the bound the laws of the dynamics are given too.
SINGLE = 2e-3

pytestmark = pytest.mark.skipif(dn.backends()["cpu"] != "active", reason=f"kernels: {dn.backends()['cpu']}")

TREE = random_tree(3, 5)
ROBOT = random_robot(TREE, 3)
FAST = kernels.compile(dynamics.aba)


def batch(count, seed=0, joints=5):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=(count, joints))) for _ in range(3))


def assert_close(found, wanted, bound=ROUNDING):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert relative(one, other) < bound


ALGORITHMS = ("aba", "forward", "rnea", "crba", "energies", "bias", "holding", "christoffel", "file_poses")


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_on_random_trees(name, seed):
    robot = random_robot(random_tree(seed), seed)
    function = getattr(dynamics, name)
    arrays = random_state(robot.num_joints, seed)
    count = {"aba": 3, "forward": 3, "rnea": 3, "crba": 1, "holding": 1, "file_poses": 1}.get(name, 2)
    given = [jnp.asarray(row)[None] * jnp.array([[1.0], [-0.5], [2.0]]) for row in arrays[:count]]
    fast = jax.vmap(partial(kernels.compile(function), robot))(*given)
    assert_close(fast, jax.jit(jax.vmap(partial(function, robot)))(*given))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 4096])
def test_any_number_of_samples(count):
    given = batch(count)
    assert_close(jax.vmap(partial(FAST, ROBOT))(*given), _reference(ROBOT, *given))


def test_no_samples_at_all():
    assert jax.vmap(partial(FAST, ROBOT))(*batch(0)).shape == (0, 5)


@jax.jit
def _reference(robot, *given):
    return jax.vmap(partial(dynamics.aba, robot))(*given)


def _loss(function, robot, *given):
    return jnp.sum(jnp.sin(jax.vmap(partial(function, robot))(*given)))


def test_gradients_in_the_robot_the_state_and_the_input():
    given = batch(70)
    every = (0, 1, 2, 3)
    found = jax.jit(jax.grad(partial(_loss, FAST), every))(ROBOT, *given)
    assert_close(found, jax.jit(jax.grad(partial(_loss, dynamics.aba), every))(ROBOT, *given), 1e-10)


@pytest.mark.slow
def test_forward_mode_and_second_derivatives():
    given = batch(9)

    def along(function, step):
        robot = replace(ROBOT, inertia=jax.tree.map(lambda x: x * (1 + step), ROBOT.inertia))
        return _loss(function, robot, given[0] + step, *given[1:])

    for derivative in (jax.jacfwd, jax.hessian):
        found = jax.jit(derivative(partial(along, FAST)))(0.3)
        assert_close(found, jax.jit(derivative(partial(along, dynamics.aba)))(0.3), 1e-9)


@pytest.mark.slow
def test_many_robots_at_once_each_on_its_own_or_on_shared_samples():
    robots = [random_robot(TREE, seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *robots)
    given = batch(10)
    wanted = jnp.stack([_reference(robot, *given) for robot in robots])
    shared = jax.vmap(lambda robot: jax.vmap(partial(FAST, robot))(*given))(stacked)
    assert_close(shared, wanted)
    own = jax.vmap(lambda robot, *own: jax.vmap(partial(FAST, robot))(*own))(
        stacked, *(jnp.broadcast_to(x, (3, *x.shape)) for x in given)
    )
    assert_close(own, wanted)
    slopes = jax.grad(lambda robots: jnp.sum(jax.vmap(lambda robot: _loss(FAST, robot, *given))(robots)))(stacked)
    one = jax.grad(partial(_loss, dynamics.aba))(robots[1], *given)
    assert_close(jax.tree.map(lambda leaf: leaf[1], slopes), one, 1e-10)


def test_inside_a_scan():
    q, qd, tau = batch(16)

    def simulate(function):
        def step(state, _):
            q, qd = state
            qd = qd + 1e-3 * jax.vmap(partial(function, ROBOT))(q, qd, tau)
            return (q + 1e-3 * qd, qd), jnp.sum(q)

        return jax.lax.scan(step, (q, qd), length=20)

    assert_close(jax.jit(simulate, static_argnums=0)(FAST), jax.jit(simulate, static_argnums=0)(dynamics.aba), 1e-11)


def test_single_precision():
    robot = astype(ROBOT, jnp.float32)
    given = tuple(x.astype(jnp.float32) for x in batch(33))
    found = jax.vmap(partial(FAST, robot))(*given)
    assert found.dtype == jnp.float32
    assert relative(found, _reference(ROBOT, *batch(33))) < SINGLE
    assert relative(found, _reference(robot, *given)) < SINGLE


def test_nan_and_infinity_pass_through():
    given = [np.array(x) for x in batch(8)]
    given[0][2, 1], given[1][4, 0], given[2][6, 2] = np.nan, np.inf, -np.inf
    found = np.asarray(jax.vmap(partial(FAST, ROBOT))(*given))
    wanted = np.asarray(_reference(ROBOT, *map(jnp.asarray, given)))
    assert np.array_equal(np.isfinite(found), np.isfinite(wanted))
    assert np.all(np.isfinite(found[[0, 1, 3, 5, 7]]))


def test_large_angles_stay_accurate():
    q = jnp.asarray([[1e6, -1e6, 123456.789, 1e5, 3.0]])
    still = jnp.zeros((1, 5))
    robot = replace(ROBOT, tree=replace(TREE, kinds=("revolute",) * 5))
    given = (q, still, still)
    assert_close(jax.vmap(partial(FAST, robot))(*given), _reference(robot, *given), 1e-9)


def test_a_function_of_nested_things():
    def function(values, pair):
        return {"sum": values["a"] + pair[0] @ pair[1], "network": jnp.tanh(pair[0])}

    values, pair = {"a": jnp.asarray(2.0)}, (jnp.arange(6.0).reshape(2, 3), jnp.ones(3))
    assert_close(kernels.compile(function)(values, pair), function(values, pair))


def _closing(wrap, c, y):
    """A function that closes over traced values, also inside a scan and a nested call."""

    def one(x):
        scale = jax.jit(lambda x: jnp.sin(c["b"]) * x)
        total, _ = jax.lax.scan(lambda sum, _: (sum + c["a"] * scale(x), None), x, length=3)
        return {"total": total, "product": jnp.exp(-(c["a"] ** 2)) * x}

    return jax.vmap(wrap(one))(y)


_bent, _plain = partial(_closing, kernels.compile), partial(_closing, lambda function: function)


def test_values_that_jax_traces_may_be_closed_over():
    c, y = (
        {"a": jnp.array([0.3, -0.2]), "b": jnp.asarray(0.7)},
        jnp.asarray(np.random.default_rng(0).normal(size=(9, 2))),
    )
    with jax.checking_leaks():
        assert "diffnea_" in jax.jit(_bent).lower(c, y).as_text()
        assert_close(jax.jit(_bent)(c, y), _plain(c, y))
    assert_close(jax.jit(_bent)({"a": 2 * c["a"], "b": c["b"]}, y), _plain({"a": 2 * c["a"], "b": c["b"]}, y))

    def loss(function, c, y):
        return sum(jnp.sum(jnp.cos(leaf)) for leaf in jax.tree.leaves(function(c, y)))

    for derivative in (jax.grad, jax.jacfwd, jax.hessian):
        found = jax.jit(derivative(partial(loss, _bent)))(c, y)
        assert_close(found, derivative(partial(loss, _plain))(c, y), 1e-11)
    assert_close(jax.grad(partial(loss, _bent))(c, y), jax.grad(partial(loss, _plain))(c, y), 1e-11)


def test_values_closed_over_may_be_batched_and_carried():
    many = {"a": jnp.asarray(np.random.default_rng(1).normal(size=(4, 2))), "b": jnp.linspace(0.0, 1.0, 4)}
    y = jnp.ones((9, 2))
    assert_close(jax.vmap(_bent, (0, None))(many, y), jax.vmap(_plain, (0, None))(many, y))

    def repeated(function):
        step = lambda y, c: (function(c, y)["total"], jnp.sum(y))  # noqa: E731
        return jax.jit(lambda many, y: jax.lax.scan(step, y, many))(many, y)

    assert_close(repeated(_bent), repeated(_plain))


def test_what_has_no_scalar_form_runs_through_xla_and_says_so(caplog):
    with caplog.at_level(logging.DEBUG, "diffnea.kernels"):
        found = jax.vmap(kernels.compile(lambda x: jnp.sort(x)))(jnp.asarray([[3.0, 1.0], [0.0, 2.0]]))
    assert found.tolist() == [[1.0, 3.0], [0.0, 2.0]]
    assert [record.getMessage() for record in caplog.records] == [
        "a function runs through XLA: no scalar form for sort"
    ]


def test_the_public_functions_use_kernels_without_being_asked():
    given = batch(4)
    lowered = jax.jit(lambda *given: dn.forward_dynamics(ROBOT, *given)).lower(*given).as_text()
    assert "diffnea_" in lowered
    assert_close(dn.forward_dynamics(ROBOT, *given), _reference(ROBOT, *given))


def test_zeros_and_ones_of_the_geometry_cost_nothing():
    plain = replace(
        ROBOT,
        placement=dn.Transform(jnp.broadcast_to(jnp.eye(3), (5, 3, 3)), jnp.zeros((5, 3))),
        axis=jnp.broadcast_to(jnp.array([0.0, 0.0, 1.0]), (5, 3)),
    )
    assert_close(dn.forward_dynamics(plain, *batch(4)), _reference(plain, *batch(4)))
    assert batching.whole_numbers(plain) != batching.whole_numbers(ROBOT)


def test_kernels_can_be_switched_off():
    program = (
        "import diffnea as dn, jax, jax.numpy as jnp; print(dn.backends());"
        "robot = dn.load_robot('examples/cartpole.urdf'); x = jnp.ones((3, 2));"
        "text = jax.jit(lambda x: dn.forward_dynamics(robot, x, x, x)).lower(x).as_text(); print('diffnea_' in text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"DIFFNEA_KERNELS": "off"}
    )
    off = "off: DIFFNEA_KERNELS is set to off"
    assert done.stdout.splitlines() == [str({"cpu": off, "cuda": off}), "False"]
