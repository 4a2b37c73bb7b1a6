"""Kernels on NVIDIA's GPUs: what is written and launched, and, where there is a GPU, what they compute."""

import ctypes
import math
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_loops import LOOPS
from test_kernels_cpu import PAIRS, REALS, TRUTHS, assert_close, evaluate, special

from diffnea import kernels
from diffnea.kernels import cuda, cuda_driver, cuda_handler, llvm_machine, scans
from diffnea.kernels.builder import Builder
from diffnea.kernels.cuda_operations import literal
from diffnea.kernels.cuda_source import THREADS, source
from diffnea.kernels.plan import Layout
from diffnea.kernels.program import Program
from diffnea.kernels.trace import trace

missing = cuda.unavailable()
on_gpu = pytest.mark.skipif(missing is not None, reason=f"no GPU for kernels: {missing}")
SIZES = (0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 4096, 1_000_003)
# Units in the last place: CUDA's manual says up to 3 for float32, 2 for float64, 4 for pow; division, root are exact.
LIBRARY_UNITS = 4.0
RECIPROCAL_UNITS = 1.5  # one of the hardware's, and half of one that the exact number is rounded to
# Sums over many samples in another order.
SUM_TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def all_operations() -> Program:
    """Every operation on two varying numbers and a fixed one, an output each."""
    b = Builder()
    x, y, u = b.input(0, 0), b.input(0, 1), b.input(1, 0)
    one, zero = b.constant(1.0), b.constant(0.0)
    results = [b.op(name, x) for name in REALS] + [b.op(name, x, y) for name in PAIRS]
    truths = [b.op(name, x, y) for name in TRUTHS]
    truths += [b.op(name, truths[0], truths[4]) for name in ("and", "or", "xor", "eq", "ne")] + [b.op("not", truths[1])]
    fixed = b.op("lt", u, one)
    truths += [b.op("and", truths[0], fixed), b.op("select", truths[2], truths[3], fixed)]
    results += [b.op("select", truth, one, zero) for truth in truths]
    results += [b.op("mul", b.op("sin", u), x), b.op("select", fixed, x, y), u, b.constant(float("-inf"))]
    return b.build([results], [2, 1])


def swing() -> Program:
    """A small function like those of dynamics: turns of an angle, fixed numbers, two outputs."""
    b = Builder()
    q, qd, m, g = b.input(0, 0), b.input(0, 1), b.input(1, 0), b.input(1, 1)
    s, c = b.op("sin", q), b.op("cos", q)
    weight = b.op("mul", m, g)
    torque = b.op("mul", weight, s)
    rate = b.op("add", b.op("mul", qd, c), b.op("div", torque, b.op("add", m, b.op("mul", c, c))))
    return b.build([[torque, rate], [b.op("mul", rate, s), weight, b.op("mul", qd, qd)]], [2, 2])


def long_rows(count: int = 20) -> Program:
    """Rows that go by way of shared memory: angles, one of them also used as it is, numbers, and a row of results."""
    b = Builder()
    q, u = [b.input(0, k) for k in range(count)], [b.input(1, k) for k in range(count)]
    turned = [(b.op("sin", angle), b.op("cos", angle)) for angle in q]
    results = [b.op("add", b.op("mul", s, x), b.op("mul", c, q[3])) for (s, c), x in zip(turned, u, strict=True)]
    return b.build([results, results[:2]], [count, count])


def small_and_large_angles() -> Program:
    """Several angles whose size is tested at once, and one that comes of them."""
    b = Builder()
    turned = [[b.op(name, b.input(0, k)) for name in ("sin", "cos")] for k in range(3)]
    last = b.op("mul", b.op("add", turned[0][0], turned[1][1]), b.input(0, 3))
    return b.build([[*sum(turned, []), b.op("sin", last), b.op("cos", last)]], [4])


# What is written -------------------------------------------------------------------------------------------------


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
    for k, program in enumerate((all_operations(), swing(), long_rows())):
        summed = (False,) if k == 0 else (False, True)
        path = tmp_path / f"{k}.cu"
        layout = Layout((True, k == 2), summed, (*columns, False)[: 2 + len(summed)] if columns else ())
        path.write_text(source(program, layout, dtype).text)
        subprocess.run(["nvcc", "-arch=sm_80", "-cubin", "-o", path.with_suffix(".cubin"), path], check=True)


# What is launched: the handler, with a driver and an interface of our own -----------------------------------------

_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
_Launch = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class _Calls:
    """A handler for `swing`, and what it did."""

    def __init__(self, status: int = 0):
        written = source(swing(), Layout((True, False), (False, True)), "float64")
        self.launches: list[tuple] = []
        self.memory: list[int] = []
        self.errors: list[bytes] = []
        self.slots = 2 * 4 + 4
        name = f"test_{id(self)}"
        self.keep: list = [_Launch(lambda *given: self._launch(status, *given))]
        address = ctypes.cast(self.keep[0], ctypes.c_void_p).value
        llvm_machine.publish(f"{name}_launch", address or 0)
        llvm_machine.publish(f"{name}_name", ctypes.cast(_no_name, ctypes.c_void_p).value or 0)
        llvm_machine.publish(f"{name}_compute", 1)
        llvm_machine.publish(f"{name}_reduce", 2)
        arrays = written.arguments, written.outputs
        launch = cuda_handler.Launch(
            f"{name}_compute", f"{name}_reduce", *arrays, THREADS, 4, 100, 1234, written.summed
        )
        machine, assembly = llvm_machine.host(), cuda_handler.handler(launch, 64)
        assembly = assembly.replace("diffnea_cuLaunchKernel", f"{name}_launch")
        assembly = assembly.replace("diffnea_cuGetErrorName", f"{name}_name")
        (self.handler,) = llvm_machine.load(llvm_machine.object_code(assembly, machine), machine, "handler")

    def _launch(self, status, kernel, x, y, _z, threads, _ty, _tz, shared, stream, parameters, _extra):
        pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        slots = [ctypes.cast(pointers[k] or 0, ctypes.POINTER(ctypes.c_int64))[0] for k in range(self.slots)]
        self.launches.append((kernel, (x, y), threads, shared, stream, slots))
        return status

    def __call__(self, *shapes: tuple[int, int, int]) -> bool:
        """Call with buffers of these shapes; whether it went well."""
        interface = cuda_handler.interface()
        api = (ctypes.c_void_p * (6 + interface["functions"]))()
        functions = {"stream_get": self._stream, "allocate": self._allocate, "free": self._free}
        functions["error_create"] = self._error
        for name, function in functions.items():
            self.keep.append(_Function(function))
            api[6 + interface[name]] = ctypes.cast(self.keep[-1], ctypes.c_void_p).value
        buffers = *self._buffers(shapes[:2]), *self._buffers(shapes[2:])
        frame = (ctypes.c_int64 * 15)(0, 0, ctypes.addressof(api), 0, 3, *buffers)
        error = _Function(self.handler)(ctypes.cast(ctypes.pointer(frame), ctypes.POINTER(ctypes.c_void_p)))
        return error is None

    def _buffers(self, shapes) -> list[int]:
        places = (ctypes.c_int64 * len(shapes))()
        for k, shape in enumerate(shapes):
            dims = (ctypes.c_int64 * 3)(*shape)
            buffer = (ctypes.c_int64 * 6)(48, 0, 12, 1000 + k, 3, ctypes.addressof(dims))
            places[k] = ctypes.addressof(buffer)
            self.keep += [dims, buffer]
        self.keep.append(places)
        return [40, 0, len(shapes), 0, ctypes.addressof(places)]

    def _stream(self, arguments):
        arguments[3] = 77

    def _allocate(self, arguments):
        self.memory.append(arguments[3])
        arguments[5] = 4096

    def _free(self, arguments):
        assert arguments[4] == 4096
        self.memory.append(-arguments[3])

    def _error(self, arguments):
        self.errors.append(ctypes.string_at(arguments[2]))
        return 1


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
def _no_name(_status, _place):
    return 0


def _shapes(models: int, samples: int):
    return (models, samples, 2), (1, 1, 2), (models, samples, 2), (models, 1, 3)


@pytest.fixture(scope="module")
def handler_needs():
    try:
        llvm_machine.host()
        cuda_handler.interface()
    except (ImportError, ValueError) as error:
        pytest.skip(str(error))


def test_handler_cuts_samples_into_blocks(handler_needs):
    calls = _Calls()
    assert calls(*_shapes(1, 100_000))
    (kernel, grid, threads, shared, stream, slots), (second, *_, more) = calls.launches
    assert (kernel, threads, shared, stream, second) == (1, THREADS, 1234, 77, 2)
    blocks = slots[-1]
    assert grid == (blocks, 1) and blocks <= 100 and blocks * THREADS * 8 >= 100_000
    assert calls.memory == [8 * 3 * blocks, -8 * 3 * blocks] and slots[-4] == more[-4] == 4096
    assert slots[:8] == [1000, 200_000, 1001, 2, 1000, 200_000, 1001, 3] and slots[-3:-1] == [100_000, 1]


def test_handler_takes_any_number_of_models(handler_needs):
    calls = _Calls()
    assert calls(*_shapes(100_000, 5)) and calls.launches[0][1] == (1, 65_535)
    assert calls.launches[0][-1][2:4] == [1001, 0]  # one copy for all
    assert calls(*_shapes(0, 5)) and len(calls.launches) == 2


def test_handler_sums_no_samples_to_zero(handler_needs):
    calls = _Calls()
    assert calls(*_shapes(2, 0)) and [launch[0] for launch in calls.launches] == [2] and not calls.memory


def test_handler_refuses_other_shapes_and_reports_failures(handler_needs):
    calls = _Calls()
    assert not calls((1, 5, 2), (1, 1, 2), (1, 6, 2), (1, 1, 3)) and b"shapes" in calls.errors[0]
    assert not calls((1, 5, 2), (1, 1, 2), (1, 5, 2), (2, 1, 3)) and not calls.launches
    failing = _Calls(status=1)
    assert not failing(*_shapes(1, 5)) and len(failing.errors) == 1 and sum(failing.memory) == 0


def test_unavailable_gives_a_reason():
    assert missing is None or "\n" not in missing and missing


# What is computed --------------------------------------------------------------------------------------------------


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
def test_cache_serves_the_same_code(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFNEA_CACHE", str(tmp_path))
    text, device = source(swing(), Layout((True, False), (False, True)), "float32").text, cuda_driver.device()
    code = cuda.compiled(text, device)
    monkeypatch.setattr(cuda_driver, "binary", lambda *_: pytest.fail("compiled again"))
    assert cuda.compiled(text, device) == code
