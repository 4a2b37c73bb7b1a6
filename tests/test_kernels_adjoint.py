"""Gradients of functions with loops: two kernels, the numbers of JAX's own gradient, however they are called."""

import logging
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from kernel_loops import LOOPS
from robots import random_robot, random_tree, relative

import diffnea as dn
from diffnea import actuators, kernels
from diffnea.kernels.rules import adjoint, flat, scans
from diffnea.kernels.rules.tracer import trace

pytestmark = pytest.mark.skipif(dn.backends()["cpu"] != "active", reason=f"kernels: {dn.backends()['cpu']}")

ROUNDING = 1e-12
SINGLE = 5e-5  # float32, forty steps, of the largest number in each array: 1.8e-5 in a delay, elsewhere below 4e-7
RNG = np.random.default_rng(0)
X, A = jnp.asarray(RNG.normal(size=(5, 3))), jnp.asarray(RNG.normal(size=(5, 4, 3)))
AXES = {"both": (0, 0), "rows shared": (0, None), "start shared": (None, 0)}


@pytest.fixture
def always(monkeypatch):
    """Every scan is long enough to be a loop."""
    monkeypatch.setattr(scans, "LONG", 0)
    scans._sizes.clear()
    flat._holds.clear()


def weighted(results):
    return sum(jnp.sum(jnp.sin(leaf + k)) for k, leaf in enumerate(jax.tree.leaves(results)))


def gradient(function, axes):
    return jax.jit(jax.grad(lambda x, a: weighted(jax.vmap(function, axes)(x, a)), (0, 1)))


def assert_close(found, wanted, bound=ROUNDING):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert relative(one, other) < bound


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_of_loops_are_loops(name, always):
    for axes in AXES.values() if name == "nested" else [(0, 0)]:
        given = [value if axis == 0 else value[0] for value, axis in zip((X, A), axes, strict=True)]
        slope = gradient(kernels.compile(lambda x, a: LOOPS[name](x, a)), axes)
        text = slope.lower(*given).as_text()
        assert "while" not in text and text.count("custom_call @diffnea_") == 2
        assert_close(slope(*given), gradient(LOOPS[name], axes)(*given))


@jax.custom_jvp
def root(a, x):
    return checkpoint_name(jnp.sqrt(1 + a * x * x), adjoint.KEPT)


@root.defjvp
def _root_tangent(primals, tangents):
    a, x = primals
    y = root(a, x)
    return y, (tangents[0] * x * x + 2 * a * x * tangents[1]) / (2 * y)


def marked(x, a):
    def stage(before, weight):
        return before + weight * root(x * x, before), None

    def step(now, row):
        end = lax.scan(stage, now, jnp.array([0.5, 0.3, 0.2]))[0]
        near = checkpoint_name(jnp.where(jnp.exp(end) < 2, 1.0, 0.5), adjoint.KEPT)
        return end * row + near * now, now

    return lax.scan(step, x, a)


def test_marked_results_are_not_computed_again(always):
    jaxpr = flat.flattened(jax.make_jaxpr(marked)(X[0], A[0]))
    _, kept = jax.eval_shape(partial(adjoint.forward, jaxpr), (X[0], A[0]))
    results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.jaxpr.outvars]
    pull = lambda given, kept, pulled: adjoint.pull(jaxpr, given, iter(kept), pulled, [True, True])  # noqa: E731
    program, _ = trace(pull, jax.tree.map(_shape, (X[0], A[0])), kept, results)
    text = repr(program)
    assert "sqrt" not in text and "exp" not in text and "'loop'" in text
    assert_close(gradient(kernels.compile(marked), (0, 0))(X, A), gradient(marked, (0, 0))(X, A))


def _shape(array):
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def test_second_derivatives(always):
    fast, plain = (gradient(function, (0, 0)) for function in (kernels.compile(marked), marked))
    moved = jnp.cos(X), jnp.sin(A)
    push = [jax.jit(lambda f=f: jax.jvp(f, (X, A), moved)[1])() for f in (fast, plain)]
    assert_close(*push)
    again = [jax.jit(jax.grad(lambda x, f=f: jnp.sum(jnp.sin(f(x, A)[0]))))(X) for f in (fast, plain)]
    assert_close(*again)
    forward = [jax.jit(jax.grad(lambda x, f=f: jnp.sum(jax.jvp(jax.vmap(f), (x, A), moved)[1][0])))(X)
               for f in (kernels.compile(marked), marked)]  # fmt: skip
    assert_close(*forward)


def test_under_other_transformations(always):
    fast = kernels.compile(marked)
    wanted = gradient(marked, (0, 0))(X, A)

    def total(function, x, a):
        return weighted(jax.vmap(function)(x, a))

    assert_close(jax.jit(jax.grad(jax.checkpoint(partial(total, fast)), (0, 1)))(X, A), wanted)

    def one_by_one(x, a):
        return jnp.sum(lax.map(lambda pair: weighted(fast(*pair)), (x, a)))

    assert_close(jax.jit(jax.grad(one_by_one, (0, 1)))(X, A), wanted)
    each = jax.jit(jax.vmap(jax.grad(lambda x, a: weighted(fast(x, a)), (0, 1))))(X, A)
    assert_close(each, wanted)
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("batch",))
    spec = jax.sharding.PartitionSpec("batch")
    apart = jax.shard_map(jax.vmap(fast), mesh=mesh, in_specs=(spec, spec), out_specs=spec, check_vma=False)
    assert_close(jax.jit(jax.grad(lambda x, a: weighted(apart(x, a)), (0, 1)))(X, A), wanted)
    with jax.disable_jit():
        assert_close(jax.grad(partial(total, fast), (0, 1))(X, A), wanted)


# Roll-outs -----------------------------------------------------------------------------------------------------------

COUNT, STEPS = 5, 40
ROBOT = random_robot(random_tree(2, 2), 3)
RUBBING = actuators.combine(actuators.Viscous.of(np.array([0.1, 0.2])), actuators.Coulomb.of(np.array([0.3, 2.0])))
MODEL, STICKING = dn.Model(ROBOT), dn.Model(ROBOT, RUBBING)
LATE = dn.Model(ROBOT, actuators.combine(actuators.Viscous.of(np.array([0.1, 0.2])), actuators.Delay.of(1.4, 2, 3)))
LATE_STICKING = dn.Model(ROBOT, actuators.combine(RUBBING, actuators.Delay.of(1.4, 2, 3)))
START = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (2, COUNT, 2)))
COMMANDS = jnp.asarray(np.random.default_rng(2).uniform(-1, 1, (COUNT, STEPS, 2)))
WEIGHTS = jnp.asarray(np.random.default_rng(3).normal(size=(COUNT, STEPS, 2)))


def law(t, q, qd):
    return -1.5 * jnp.sin(q) - 0.3 * qd + jnp.cos(t)


CASES = {
    "rk4": (MODEL, COMMANDS, "rk4"),
    "auto, sticking": (STICKING, COMMANDS, "auto"),
    "one record for all, late": (LATE, COMMANDS[0], "auto"),
    "feedback, late, sticking": (LATE_STICKING, law, "auto"),
}


def cost(u, integrator, given):
    model, start, record = given
    commands, steps = (u, STEPS) if callable(u) else (record, None)
    run = dn.rollout(model, start[0], start[1], commands, 1e-2, integrator, steps)
    return jnp.sum(WEIGHTS.astype(run.q.dtype) * (jnp.sin(run.q) + run.qd))


def of_case(case):
    model, u, integrator = CASES[case]
    return jax.jit(jax.grad(partial(cost, u, integrator))), (model, START, COMMANDS if callable(u) else u)


def dot(one, other):
    return sum(jnp.sum(a * b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_roll_outs_are_kernels_and_agree_with_tangents(case, caplog):
    slope, given = of_case(case)
    with caplog.at_level(logging.DEBUG, "diffnea.kernels"):
        found = slope(given)
    assert not [record for record in caplog.records if "XLA" in record.getMessage()]
    text = slope.lower(given).as_text()
    assert "while" not in text  # of the whole loop, a law of control included
    moved = jax.tree.map(jnp.cos, given)
    pushed = jax.jit(lambda given, moved: jax.jvp(partial(cost, *CASES[case][1:]), (given,), (moved,))[1])(given, moved)
    assert relative(dot(found, moved), pushed) < ROUNDING


def test_a_hessian_vector_product_of_a_roll_out_agrees_with_differences():
    slope, given = of_case("auto, sticking")
    moved = jax.tree.map(jnp.zeros_like, given)
    moved = (moved[0], jnp.cos(START), jnp.sin(COMMANDS))
    found = jax.jit(lambda given, moved: jax.jvp(slope, (given,), (moved,))[1])(given, moved)[1:]
    there, back = (slope(jax.tree.map(lambda x, way, s=s: x + s * way, given, moved))[1:] for s in (1e-6, -1e-6))
    assert_close(found, jax.tree.map(lambda a, b: (a - b) / 2e-6, there, back), 1e-7)


def one_cost(model, start, weights):
    run = dn.rollout(model, start[0], start[1], law, 1e-2, "auto", STEPS)
    return jnp.sum(weights * (jnp.sin(run.q) + run.qd))


@pytest.fixture(scope="module")
def of_feedback():
    """The gradient, in the model and in the start, of roll-outs under feedback, late and with a joint that sticks."""
    slope, given = of_case("feedback, late, sticking")
    run = jax.jit(lambda model, q, qd: dn.rollout(model, q, qd, law, 1e-2, "auto", STEPS))(LATE_STICKING, *START)
    assert jnp.any(jnp.abs(run.qd[:, 10:, 1]) < 1e-6)  # that it does stick
    return slope(given)[:2]


def _by_vmap(model, start):
    slopes = jax.vmap(jax.grad(one_cost, (0, 1)), (None, 1, 0), (0, 1))(model, start, WEIGHTS)
    return jax.tree.map(lambda leaf: jnp.sum(leaf, 0), slopes[0]), slopes[1]


def _by_scan(model, start):
    def add(total, row):
        slope, at_start = jax.grad(one_cost, (0, 1))(model, *row)
        return jax.tree.map(jnp.add, total, slope), at_start

    zero = jax.tree.map(jnp.zeros_like, model)
    total, at_start = lax.scan(add, zero, (jnp.swapaxes(start, 0, 1), WEIGHTS))
    return total, jnp.swapaxes(at_start, 0, 1)


def _by_remat(model, start):
    return jax.grad(jax.checkpoint(lambda *given: cost(law, "auto", (*given, None))), (0, 1))(model, start)


def _by_shard_map(model, start):
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("batch",))
    rows, all_of_it = jax.sharding.PartitionSpec("batch"), jax.sharding.PartitionSpec()
    each = jax.vmap(one_cost, (None, 0, 0))
    apart = jax.shard_map(each, mesh=mesh, in_specs=(all_of_it, rows, rows), out_specs=rows, check_vma=False)
    return jax.grad(lambda m, s: jnp.sum(apart(m, jnp.swapaxes(s, 0, 1), WEIGHTS)), (0, 1))(model, start)


@pytest.mark.parametrize("how", [_by_vmap, _by_scan, _by_remat, _by_shard_map], ids=["vmap", "scan", "remat", "shard"])
def test_gradients_of_roll_outs_under_other_transformations(how, of_feedback):
    assert_close(jax.jit(how)(LATE_STICKING, START), of_feedback)


def test_gradients_of_roll_outs_without_jit(of_feedback):
    with jax.disable_jit():
        found = jax.grad(lambda model, start: cost(law, "auto", (model, start, None)), (0, 1))(LATE_STICKING, START)
    assert_close(found, of_feedback)


def test_gradients_of_roll_outs_in_single_precision(of_feedback):
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), (LATE_STICKING, START, COMMANDS))
    found = of_case("feedback, late, sticking")[0](single)[:2]
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(of_feedback), strict=True):
        assert one.dtype == jnp.float32 and relative(one, other) < SINGLE


def along_rotations(given, gradient):
    """A gradient in rotations and unit axes means something along these alone; and all the rest of it."""
    at, slope = given[0].robot, gradient[0].robot
    turning = jnp.swapaxes(at.placement.rotation, 1, 2) @ slope.placement.rotation
    across = slope.axis - jnp.sum(slope.axis * at.axis, 1, keepdims=True) * at.axis
    others = slope.placement.translation, slope.inertia, slope.armature, slope.gravity
    return turning - jnp.swapaxes(turning, 1, 2), across, others, gradient[0].actuator, gradient[1:]


def readable(monkeypatch, slope, given):
    """A gradient without kernels."""
    monkeypatch.setenv("DIFFNEA_KERNELS", "off")
    jax.clear_caches()
    wanted = slope(given)
    monkeypatch.delenv("DIFFNEA_KERNELS")
    jax.clear_caches()
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradients_of_roll_outs_are_those_of_the_readable_form(case, monkeypatch):
    slope, given = of_case(case)
    found, wanted = slope(given), readable(monkeypatch, of_case(case)[0], given)
    assert_close(along_rotations(given, found), along_rotations(given, wanted))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 9])
def test_gradients_on_random_trees_are_those_of_the_readable_form(seed, monkeypatch):
    robot, rng = random_robot(random_tree(seed, 4), seed), np.random.default_rng(seed)
    given = dn.Model(robot), *(jnp.asarray(rng.uniform(-1, 1, shape)) for shape in ((2, 3, 4), (3, 30, 4)))

    def total(given):
        model, start, commands = given
        run = dn.rollout(model, start[0], start[1], commands, 1e-2, "rk4")
        return jnp.sum(jnp.sin(run.q) + run.qd)

    found = jax.jit(jax.grad(total))(given)
    wanted = readable(monkeypatch, jax.jit(jax.grad(lambda given: total(given))), given)
    assert_close(along_rotations(given, found), along_rotations(given, wanted))
