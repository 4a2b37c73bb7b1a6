"""Kernels on NVIDIA's GPUs: what they compute, where there is one."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_loops import LOOPS
from kernel_programs import all_operations, long_rows, many_sums, small_and_large_angles, swing
from robots import random_robot, random_tree
from test_kernels_cpu import PAIRS, REALS, assert_close, evaluate, special

import diffnea as dn
from diffnea import kernels
from diffnea.kernels.cuda import driver as cuda_driver
from diffnea.kernels.cuda.source import source
from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.ir.program import Program
from diffnea.kernels.jax import cuda
from diffnea.kernels.jax.primitive import linearizes
from diffnea.kernels.rules import flat, scans

missing = cuda.unavailable()
on_gpu = pytest.mark.skipif(missing is not None, reason=f"no GPU for kernels: {missing}")
SIZES = (0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4096, 1_000_003)
# Units in the last place: CUDA's manual says up to 3 for float32, 2 for float64, 4 for pow; division, root are exact.
LIBRARY_UNITS = 4.0
RECIPROCAL_UNITS = 1.5  # one of the hardware's, and half of one that the exact number is rounded to
# Sums over many samples in another order.
SUM_TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def test_unavailable_gives_a_reason():
    assert missing is None or "\n" not in missing and missing


def run(program: Program, layout: Layout, *arguments: np.ndarray, repeat: int = 0) -> list[np.ndarray]:
    """A program as a kernel under `jit`, on arguments in its layout; `repeat`: that often again, in a `scan`."""
    columns = layout.columns or (False,) * (len(arguments) + len(layout.summed))
    models = np.broadcast_shapes(*(argument.shape[:1] for argument in arguments))[0]
    inputs = zip(arguments, layout.varying, columns, strict=False)
    samples = next((argument.shape[2 if last else 1] for argument, varying, last in inputs if varying), 1)
    shapes = []
    for output, summed, last in zip(program.outputs, layout.summed, columns[len(arguments) :], strict=True):
        shape = (models, len(output), samples) if last else (models, 1 if summed else samples, len(output))
        shapes.append(jax.ShapeDtypeStruct(shape, arguments[0].dtype))
    call = jax.ffi.ffi_call(cuda.target(program, layout, str(arguments[0].dtype)), shapes)

    @jax.jit
    def compute(*given):
        results = call(*given)
        if repeat:
            results, _ = jax.lax.scan(lambda last, _: (call(*given), jnp.sum(last[0])), results, length=repeat)
        return results

    gpu = jax.devices("cuda")[0]
    return [np.asarray(result) for result in compute(*(jax.device_put(argument, gpu) for argument in arguments))]


@on_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operations(dtype):
    numbers = special(dtype)
    x = np.stack(np.meshgrid(numbers, numbers), -1).reshape(1, -1, 2)
    program = all_operations()
    for fixed in (0.5, 1.5):
        arguments = x, np.full((1, 1, 1), fixed, dtype)
        (found,) = run(program, Layout((True, False), (False,)), *arguments)
        (expected,) = evaluate(program, *arguments)
        for k in range(expected.shape[-1]):
            name = (*REALS, *PAIRS)[k] if k < len(REALS) + len(PAIRS) else f"output {k}"
            ordinary = np.isfinite(expected[..., k]) & (np.abs(expected[..., k]) > np.finfo(dtype).tiny)
            chosen = ordinary | ~np.isfinite(expected[..., k])
            assert_close(found[..., k][chosen], expected[..., k][chosen], LIBRARY_UNITS, f"{name} in {dtype.__name__}")


@on_gpu
def test_large_angles():
    b = Builder()
    x = b.input(0, 0)
    program = b.build([[b.op("sin", x), b.op("cos", x)]], [1])
    angles = np.random.default_rng(0).uniform(-1, 1, 100_000) * 10 ** np.random.default_rng(1).uniform(-3, 30, 100_000)
    angles = angles.astype(np.float32).reshape(1, -1, 1)
    (found,) = run(program, Layout((True,), (False,)), angles)
    wide = angles.astype(np.float64)
    np.testing.assert_allclose(found, np.concatenate([np.sin(wide), np.cos(wide)], -1), atol=3e-7)


@on_gpu
def test_a_large_angle_among_small_ones():
    angles = np.random.default_rng(0).normal(size=(1, 100_000, 4))
    angles[0, ::7, 1], angles[0, ::5, 2], angles[0, ::11, 3] = 1e6, -123456.789, 1e7
    angles[0, ::501, 0] = np.inf
    program, angles = small_and_large_angles(), angles.astype(np.float32)
    (found,) = run(program, Layout((True,), (False,)), angles)
    with np.errstate(invalid="ignore"):
        (expected,) = evaluate(program, angles.astype(np.float64))
    # The last angle is a product in single precision: what is rounded there, a large angle shows.
    slope = np.abs(angles[..., 3:]) * 2e-7 * (np.arange(8) > 5)
    assert np.all((np.abs(found - expected) <= 3e-7 + slope) | np.isnan(expected))
    assert np.array_equal(np.isnan(found), np.isnan(expected))


@on_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reciprocals(dtype):
    b = Builder()
    program = b.build([[b.op("div", b.constant(1.0), b.input(0, 0))]], [1])
    numbers = np.concatenate([special(dtype), np.random.default_rng(0).normal(size=10_000).astype(dtype)])
    (found,) = run(program, Layout((True,), (False,)), numbers.reshape(1, -1, 1))
    with np.errstate(divide="ignore", over="ignore"):
        assert_close(found.ravel(), (1 / numbers.astype(np.float64)).astype(dtype), RECIPROCAL_UNITS, "1 / x")


@on_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("samples", SIZES[:-1])
def test_long_rows(samples, dtype):
    rng, program = np.random.default_rng(samples), long_rows()
    arguments = [rng.normal(size=(3, samples, 20)).astype(dtype) for _ in range(2)]
    arguments[0][:, ::3, 5] *= 1e6
    found, sums = run(program, Layout((True, True), (False, True)), *arguments)
    expected, terms = evaluate(program, *(argument.astype(np.float64) for argument in arguments))
    tolerance = SUM_TOLERANCE[np.dtype(dtype).name]
    np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=tolerance)
    assert np.all(
        np.abs(sums - terms.sum(1, keepdims=True)) <= 2 * tolerance * (np.abs(terms).sum(1, keepdims=True) + 1)
    )


@on_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("samples", SIZES)
def test_any_number_of_samples_and_models(samples, dtype):
    rng = np.random.default_rng(samples)
    program, layout = swing(), Layout((True, False), (False, True))
    for models, fixed in ((1, 1), (3, 3), (3, 1)):
        if models * samples > 2_000_000:
            continue
        arguments = rng.normal(size=(models, samples, 2)).astype(dtype), rng.uniform(1, 2, (fixed, 1, 2)).astype(dtype)
        found, sums = run(program, layout, *arguments)
        expected, terms = evaluate(program, *(argument.astype(np.float64) for argument in arguments))
        tolerance = SUM_TOLERANCE[np.dtype(dtype).name]
        np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=tolerance)
        scale = np.sum(np.abs(terms), 1, keepdims=True) + 1e-300
        exact = np.apply_along_axis(math.fsum, 1, terms)[:, None]  # NumPy's own sum over rows loses five digits
        assert np.all(np.abs(sums - exact) <= tolerance * scale)


@on_gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("samples", [1, 31, 33, 127, 129, 100_003])
def test_many_sums(samples, dtype):
    rng = np.random.default_rng(samples)
    arguments = rng.normal(size=(2, samples, 4)).astype(dtype), rng.uniform(1, 2, (2, 1, 1)).astype(dtype)
    found, sums = run(many_sums(), Layout((True, False), (False, True)), *arguments)
    expected, terms = evaluate(many_sums(), *(argument.astype(np.float64) for argument in arguments))
    tolerance = SUM_TOLERANCE[np.dtype(dtype).name]
    np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=tolerance)
    exact = np.apply_along_axis(math.fsum, 1, np.broadcast_to(terms, (2, samples, terms.shape[-1])))[:, None]
    assert np.all(np.abs(sums - exact) <= tolerance * (np.abs(terms).sum(1, keepdims=True) + 1))


@on_gpu
def test_sums_repeat_exactly_and_inside_a_scan():
    rng = np.random.default_rng(0)
    arguments = rng.normal(size=(1, 300_001, 2)), rng.uniform(1, 2, (1, 1, 2))
    once = run(swing(), Layout((True, False), (False, True)), *arguments)
    again = run(swing(), Layout((True, False), (False, True)), *arguments, repeat=20)
    assert all(np.array_equal(a, b) for a, b in zip(once, again, strict=True))


@on_gpu
def test_samples_last():
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(2, 1000, 2)), rng.uniform(1, 2, (1, 1, 2))
    expected = evaluate(swing(), x, u)
    found = run(swing(), Layout((True, False), (False, False), (True, False, True, False)), x.swapaxes(1, 2).copy(), u)
    np.testing.assert_allclose(found[0].swapaxes(1, 2), expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


@on_gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name, dtype, monkeypatch):
    monkeypatch.setattr(scans, "LONG", 0)
    rng, gpu = np.random.default_rng(0), jax.devices("cuda")[0]
    if dtype == "float32" and name in ("steps that are counted", "known numbers"):
        pytest.skip("its numbers are of double precision")
    x, a = (jax.device_put(rng.normal(size=shape).astype(dtype), gpu) for shape in ((300, 3), (300, 4, 3)))
    for axes in ((0, 0), (0, None), (None, 0)):
        given = [value if axis == 0 else value[0] for value, axis in zip((x, a), axes, strict=True)]
        found = jax.jit(jax.vmap(kernels.compile(lambda x, a: LOOPS[name](x, a)), axes))
        assert "diffnea_cuda" in found.lower(*given).as_text()
        wanted = jax.vmap(LOOPS[name], axes)(*given)
        for one, other in zip(jax.tree.leaves(found(*given)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3 if dtype == "float32" else 1e-10, atol=1e-5)


@on_gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["carried and collected", "nested", "reversed", "exchanged", "checkpoints"])
def test_gradients_of_loops(name, dtype, monkeypatch):
    monkeypatch.setattr(scans, "LONG", 0)
    scans._sizes.clear()
    flat._holds.clear()
    rng, gpu = np.random.default_rng(0), jax.devices("cuda")[0]
    x, a = (jax.device_put(rng.normal(size=shape).astype(dtype), gpu) for shape in ((300, 3), (300, 4, 3)))
    passes = 2 if linearizes else 3  # where JAX does not ask for what is kept, the forward pass runs twice

    def slope(function, axes):
        def total(x, a):
            return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(jax.vmap(function, axes)(x, a)))

        return jax.jit(jax.grad(total, (0, 1)))

    for axes in ((0, 0), (0, None), (None, 0)):
        given = [value if axis == 0 else value[0] for value, axis in zip((x, a), axes, strict=True)]
        found = slope(kernels.compile(lambda x, a: LOOPS[name](x, a)), axes)
        text = found.lower(*given).as_text()
        assert text.count("custom_call @diffnea_cuda") == passes and "while" not in text
        for one, other in zip(found(*given), slope(LOOPS[name], axes)(*given), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3 if dtype == "float32" else 1e-10, atol=1e-4)


@on_gpu
@pytest.mark.parametrize("integrator", ["rk4", "auto"])
def test_gradients_of_roll_outs_agree_with_the_processor(integrator):
    robot = random_robot(random_tree(1, 3), 1)
    model = dn.Model(robot, dn.actuators.Stribeck.of(0.1, 0.08, 0.05, num_joints=3) if integrator == "auto" else None)
    rng = np.random.default_rng(0)
    start, u = rng.uniform(-1, 1, (2, 300, 3)), rng.uniform(-1, 1, (300, 20, 3))

    def total(u, q, qd):
        run = dn.rollout(model, q, qd, u, 1e-2, integrator)
        return jnp.sum(jnp.sin(run.q) + run.qd)

    slopes = []
    for device in (jax.devices("cuda")[0], jax.devices("cpu")[0]):
        given = [jax.device_put(array, device) for array in (u, *start)]
        slopes.append(np.asarray(jax.jit(jax.grad(total))(*given)))
    np.testing.assert_allclose(*slopes, rtol=1e-9, atol=1e-9)


@on_gpu
def test_cache_serves_the_same_code(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFNEA_CACHE", str(tmp_path))
    text, device = source(swing(), Layout((True, False), (False, True)), "float32").text, cuda_driver.device()
    code = cuda.compiled(text, device)
    monkeypatch.setattr(cuda_driver, "binary", lambda *_: pytest.fail("compiled again"))
    assert cuda.compiled(text, device) == code
