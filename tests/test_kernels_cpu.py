"""Kernels on the CPU: what they compute, what they touch, and what they take from the cache."""

import ctypes
import math
import mmap
import platform
import sys
import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.program import Program
from diffnea.kernels.jax import cpu, ffi_frame
from diffnea.kernels.jax.cpu import Layout
from diffnea.kernels.llvm import machine as llvm_machine
from diffnea.kernels.llvm.module import Vectors, module

on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels of x86-64")

NUMPY: dict[str, Callable] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "sin": np.sin, "cos": np.cos,
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "round": np.round,
    "sign": np.sign, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum,
    "max": np.maximum, "atan2": np.arctan2, "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "xor": np.logical_xor, "not": np.logical_not, "select": np.where,
}  # fmt: skip
REALS = "neg abs sign sqrt rsqrt sin cos exp log tanh floor ceil round".split()
PAIRS = "add sub mul div min max atan2 pow".split()
TRUTHS = "lt le gt ge eq ne".split()


def evaluate(program: Program, *arguments: np.ndarray) -> list[np.ndarray]:
    """The program by NumPy, on arguments (models or 1, samples or 1, size)."""
    values: list = []
    dtype = arguments[0].dtype.type
    with np.errstate(all="ignore"):
        for operation, *operands in program.instructions:
            if operation == "input":
                values.append(arguments[operands[0]][..., operands[1]])
            elif operation == "constant":
                values.append(operands[0] if isinstance(operands[0], bool) else dtype(operands[0]))
            else:
                values.append(NUMPY[operation](*(values[operand] for operand in operands)))
    shape = np.broadcast_shapes(*(argument.shape[:2] for argument in arguments))
    return [
        np.stack([np.broadcast_to(values[v], shape) for v in o], -1) if o else np.zeros((*shape, 0), dtype)
        for o in program.outputs
    ]


# Calls as XLA makes them, with buffers and threads of our own -------------------------------------------------------


_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


def handle(name: str, arguments, outputs, threads: int = 1, pool: Callable = lambda task: None) -> None:
    """Call a target's handler; `pool` is given tasks, as functions without arguments, that it may run when it likes."""
    keep: list = []
    errors: list[bytes] = []

    def words(*values):  # every field of XLA's structs takes eight bytes
        keep.append((ctypes.c_size_t * len(values))(*values))
        return ctypes.addressof(keep[-1])

    def buffers(arrays):
        kinds = {8: 12, 4: 11}
        parts = [(x, words(*x.shape)) for x in arrays]
        each = [words(48, 0, kinds[x.dtype.itemsize], x.ctypes.data, x.ndim, dims) for x, dims in parts]
        return 40, 0, len(arrays), 0, words(*each)

    def num_threads(fields):
        ctypes.cast(fields[3], ctypes.POINTER(ctypes.c_int64))[0] = threads

    def schedule(fields):
        task, data = fields[3], fields[4]
        pool(lambda: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(task)(data))

    def error_create(fields):
        errors.append(ctypes.string_at(fields[2]))
        return 1

    interface = ffi_frame.interface()
    api = [0] * (6 + interface["functions"])
    for function in (num_threads, schedule, error_create):
        keep.append(_Function(function))
        api[6 + interface[function.__name__]] = ctypes.cast(keep[-1], ctypes.c_void_p).value or 0
    frame = words(0, 0, words(*api), 0, 3, *buffers(arguments), *buffers(outputs))
    _Function(cpu.handlers[name])(ctypes.cast(frame, ctypes.POINTER(ctypes.c_void_p)))
    if errors:
        raise RuntimeError(errors[0].decode())


def run(program: Program, layout: Layout, *arguments: np.ndarray, samples: int = 1, **how) -> list[np.ndarray]:
    """A program as a kernel, on arguments in its layout."""
    dtype = arguments[0].dtype
    columns = layout.columns or (False,) * (len(arguments) + len(layout.summed))
    for argument, varying, last in zip(arguments, layout.varying, columns, strict=False):
        samples = argument.shape[2 if last else 1] if varying else samples
    models = np.broadcast_shapes(*(argument.shape[:1] for argument in arguments))[0]
    outputs = []
    for output, summed, last in zip(program.outputs, layout.summed, columns[len(arguments) :], strict=True):
        shape = (models, len(output), samples) if last else (models, 1 if summed else samples, len(output))
        outputs.append(np.full(shape, np.nan, dtype))
    handle(cpu.target(program, layout, str(dtype)), arguments, outputs, **how)
    return outputs


def special(dtype) -> np.ndarray:
    """Numbers at the edges of a type, and ordinary ones."""
    limits = np.finfo(dtype)
    edges = [0.0, 1.0, 0.5, 1.5, 2.5, math.pi, 1e6, limits.max, limits.tiny, limits.smallest_subnormal, np.inf]
    rng = np.random.default_rng(0)
    ordinary = [*rng.normal(size=12), *(10 ** rng.uniform(-6, 6, 12)), *rng.uniform(-800, 800, 12)]
    return np.array([np.nan, *edges, *(-edge for edge in edges), *ordinary], dtype)


def assert_close(found, expected, units: float, message: str = "") -> None:
    """Equal but for some units in the last place; infinities and NaN exactly."""
    found, expected = np.broadcast_arrays(found, expected)
    same = (found == expected) | np.isnan(found) & np.isnan(expected)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.maximum(np.abs(expected), np.finfo(expected.dtype).tiny))
        close = np.abs(found - expected) <= units * unit
    assert np.all(same | close & np.isfinite(expected)), (message, found[~same & ~close], expected[~same & ~close])


# What is computed --------------------------------------------------------------------------------------------------

UNITS = 4  # ours may be three off (llvm_math.py), NumPy's single-precision ones as well


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("varying", [True, False])
def test_every_operation_is_that_of_numpy(dtype, varying):
    builder = Builder()
    a, b = builder.input(0, 0), builder.input(0, 1)
    names = [*REALS, *PAIRS, *TRUTHS]
    values = [builder.op(name, a) for name in REALS]
    values += [builder.op(name, a, b) for name in PAIRS]
    truths = [builder.op(name, a, b) for name in TRUTHS]
    values += [builder.op("select", truth, builder.constant(1.0), builder.constant(0.0)) for truth in truths]
    program = builder.build([values], [2])
    numbers = special(dtype)
    pairs = np.stack(np.meshgrid(numbers, numbers), -1).reshape(1, -1, 2)
    if varying:
        (found,) = run(program, Layout((True,), (False,)), pairs)
    else:  # the same code as scalars: each pair is a model of its own
        found = run(program, Layout((False,), (False,)), pairs.reshape(-1, 1, 2))[0].reshape(1, -1, len(values))
    (expected,) = evaluate(program, pairs)
    for k, name in enumerate(names):
        assert_close(found[..., k], expected[..., k], UNITS, name)


def test_signs_of_zero_and_of_infinity_are_kept():
    builder = Builder()
    a, b = builder.input(0, 0), builder.input(0, 1)
    names = "sin tanh sqrt floor round atan2 mul".split()
    program = builder.build([[builder.op(n, *((a, b) if n in PAIRS else (a,))) for n in names]], [2])
    zeros = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf])
    pairs = np.stack(np.meshgrid(zeros, zeros), -1).reshape(1, -1, 2)
    (found,), (expected,) = run(program, Layout((True,), (False,)), pairs), evaluate(program, pairs)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_large_angles_stay_accurate_whatever_their_neighbours(dtype):
    builder = Builder()
    angle = builder.input(0, 0)
    program = builder.build([[builder.op("sin", angle), builder.op("cos", angle)]], [1])
    rng = np.random.default_rng(1)
    multiples = np.round(rng.uniform(-6e5, 6e5, 500)) * (math.pi / 2)
    angles = np.concatenate([rng.uniform(-1e6, 1e6, 500), multiples, 10 ** rng.uniform(6, 30, 500)]).astype(dtype)
    expected = np.array([[math.sin(x), math.cos(x)] for x in angles.tolist()], dtype)
    (found,) = run(program, Layout((True,), (False,)), angles.reshape(1, -1, 1))
    assert_close(found[0], expected, UNITS)
    (alone,) = run(program, Layout((True,), (False,)), angles[:1000].reshape(1, -1, 1))
    np.testing.assert_array_equal(alone[0], found[0, :1000])


def test_truth_values_pass_through_logic_and_selection():
    builder = Builder()
    a, b, c = (builder.input(k, 0) for k in range(3))
    less, more = builder.op("lt", a, b), builder.op("gt", c, builder.constant(0.0))  # the second does not vary
    mixed = builder.op("select", less, more, builder.op("not", more))
    either = builder.op("xor", builder.op("and", less, more), builder.op("or", mixed, builder.constant(False)))
    program = builder.build([[builder.op("select", either, a, b), builder.op("select", more, a, c)]], [1, 1, 1])
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 1, 50, 1))
    for c in (np.ones((1, 1, 1)), -np.ones((1, 1, 1))):
        (found,) = run(program, Layout((True, True, False), (False,)), a, b, c)
        np.testing.assert_array_equal(found, evaluate(program, a, b, c)[0])


def random_program(seed: int, sizes=(7, 10, 3, 40), outputs=(5, 9, 2), length: int = 120) -> Program:
    """A program that uses every input, and a little of everything that keeps numbers of ordinary size."""
    rng = np.random.default_rng(seed)
    builder = Builder()
    values = [builder.input(k, j) for k, size in enumerate(sizes) for j in range(size)]
    for _ in range(length):
        a, b, c = rng.choice(values[-60:], 3).tolist()
        name = str(rng.choice(["add", "sub", "mul", "sin", "cos", "tanh", "max", "select"]))
        operands = [a, b] if name in PAIRS else [builder.op("lt", a, b), b, c] if name == "select" else [a]
        values.append(builder.op("tanh" if name == "mul" else "neg", builder.op(name, *operands)))
    return builder.build([rng.choice(values, count).tolist() for count in outputs], sizes)


def random_arguments(rng, program: Program, layout: Layout, models: int, samples: int, dtype="float64"):
    """In rows, whatever the layout says of columns."""
    sizes = zip(program.argument_sizes, layout.varying, strict=True)
    return [rng.normal(size=(models, samples if varying else 1, size)).astype(dtype) for size, varying in sizes]


# The error of a sum is that of the sum of absolute values; a hundred operations come before it.
SUM_TOLERANCE = {"float64": 1e-12, "float32": 2e-4}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(3))
def test_models_by_samples_with_shared_and_varying_arguments(dtype, seed):
    program, rng = random_program(seed), np.random.default_rng(seed)
    varying = (True, bool(seed % 2), True, False)
    columns = tuple(bool(flag) for flag in rng.integers(2, size=7)) if seed else ()
    layout = Layout(varying, (False, True, False), columns and (*columns[:5], False, columns[6]))
    for models, samples in ((1, 20), (3, 33), (5, 0), (0, 4), (4, 4000)):
        arguments = random_arguments(rng, program, layout, models, samples, dtype)
        arguments[2] = arguments[2][:1]  # one for all models
        expected = evaluate(program, *arguments)
        expected[1] = expected[1].sum(1, keepdims=True)
        turn = layout.columns or (False,) * 7
        given = [np.ascontiguousarray(x.swapaxes(1, 2)) if t else x for x, t in zip(arguments, turn, strict=False)]
        found = run(program, layout, *given)
        found = [x.swapaxes(1, 2) if t else x for x, t in zip(found, turn[4:], strict=True)]
        for got, want in zip(found, expected, strict=True):
            tolerance = SUM_TOLERANCE[dtype]
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * max(samples, 1) ** 0.5)


# What is touched ---------------------------------------------------------------------------------------------------

PAGE = mmap.PAGESIZE


class Guarded:
    """Memory that ends, or begins, where no access is allowed: one byte too far ends the process."""

    def __init__(self, shape, dtype, at_end: bool):
        size = math.prod(shape) * np.dtype(dtype).itemsize
        whole = -(-size // PAGE) * PAGE
        self.memory = mmap.mmap(-1, whole + 2 * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for page in (start, start + PAGE + whole):
            assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0
        offset = PAGE + (whole - size if at_end else 0)
        self.array = np.frombuffer(self.memory, dtype, math.prod(shape), offset).reshape(shape)


SIZES = [0, 1, 7, 8, 9, 63, 64, 65, 4096, 100_003, pytest.param(10**6 + 3, marks=pytest.mark.slow)]


@pytest.mark.parametrize("samples", SIZES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("columns", [False, True])
def test_nothing_outside_the_buffers_is_read_or_written(samples, dtype, columns):
    builder = Builder()
    sizes = (1, 2, 3, 5, 7, 8, 9)
    rows = [[builder.op("neg", builder.input(k, j)) for j in range(size)] for k, size in enumerate(sizes)]
    program = builder.build(rows, sizes)
    layout = Layout((True,) * 7, (False,) * 6 + (True,), (columns,) * 13 + (False,))
    shapes = [(1, size, samples) if columns else (1, samples, size) for size in sizes]
    for at_end in (True, False):
        arguments = [Guarded(shape, dtype, at_end).array for shape in shapes]
        outputs = [Guarded(shape, dtype, at_end).array for shape in (*shapes[:6], (1, 1, 9))]
        for argument in arguments:
            argument[...] = np.arange(argument.size).reshape(argument.shape) % 1000
        handle(cpu.target(program, layout, dtype), arguments, outputs)
        for argument, output in zip(arguments[:6], outputs, strict=False):
            np.testing.assert_array_equal(output, -argument)
        sums = arguments[6][0].sum(1 if columns else 0, dtype=float)
        np.testing.assert_allclose(outputs[6][0, 0], -sums, rtol=1e-5)


def test_buffers_of_other_shapes_are_refused():
    program, layout = random_program(0), Layout((True,) * 4, (False,) * 3)
    arguments = [np.zeros((1, 20, size)) for size in program.argument_sizes]
    for wrong in (np.zeros((1, 21, 7)), np.zeros((2, 20, 7)), np.zeros((1, 20, 8)), np.zeros((1, 20, 7), np.float32)):
        with pytest.raises(RuntimeError, match="shapes"):
            handle(cpu.target(program, layout, "float64"), [wrong, *arguments[1:]], run(program, layout, *arguments))


# Threads -----------------------------------------------------------------------------------------------------------


def in_threads(task: Callable) -> None:
    threading.Thread(target=task).start()


@pytest.mark.parametrize("models, samples", [(1, 50_001), (3000, 5), (7, 9000)])
def test_results_do_not_depend_on_who_computes_them(models, samples):
    program, rng = random_program(3), np.random.default_rng(3)
    layout = Layout((True, True, True, False), (False, True, True))
    arguments = random_arguments(rng, program, layout, models, samples)
    alone = run(program, layout, *arguments)
    late: list[Callable] = []
    pools = {"at once": lambda task: task(), "beside": in_threads, "late": late.append}
    for pool in pools.values():
        for found, expected in zip(run(program, layout, *arguments, threads=3, pool=pool), alone, strict=True):
            np.testing.assert_array_equal(found, expected)
    assert len(late) == 2  # tasks that come when the call is long over find nothing to do
    for task in late:
        task()
    np.testing.assert_allclose(alone[1], evaluate(program, *arguments)[1].sum(1, keepdims=True), rtol=1e-9, atol=1e-9)


# Inside JAX --------------------------------------------------------------------------------------------------------


def call(program: Program, layout: Layout, *arguments):
    """A program as a custom call of JAX, without sums or columns."""
    target = cpu.target(program, layout, str(arguments[0].dtype))
    shape = np.broadcast_shapes(*(argument.shape[:2] for argument in arguments))
    shapes = [jax.ShapeDtypeStruct((*shape, len(output)), arguments[0].dtype) for output in program.outputs]
    return jax.ffi.ffi_call(target, shapes)(*arguments)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_two_kernels_in_a_loop_inside_jit(dtype):
    builder = Builder()
    swing = builder.build([[builder.op("sin", builder.op("mul", builder.input(0, 0), builder.input(1, 0)))]], [1, 1])
    builder = Builder()
    shrink = builder.build([[builder.op("tanh", builder.input(0, 0))]], [1])
    x, rate = jnp.linspace(-3, 3, 30_000, dtype=dtype).reshape(1, -1, 1), jnp.full((1, 1, 1), 1.5, dtype)

    def step(x, _):
        (turned,) = call(swing, Layout((True, False), (False,)), x, rate)
        return call(shrink, Layout((True,), (False,)), turned)[0], None

    found = jax.jit(lambda x: jax.lax.scan(step, x, length=20)[0])(x)
    expected = np.asarray(x)
    for _ in range(20):
        expected = np.tanh(np.sin(expected * np.asarray(rate)))
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == "float64" else 1e-4)


def test_equal_programs_share_a_target_and_zeros_of_either_sign_do_not():
    def target(number: float) -> str:
        builder = Builder()
        return cpu.target(builder.build([[builder.constant(number)]], [1]), Layout((True,), (False,)), "float64")

    assert target(2.0) == target(2.0) != target(3.0)
    assert target(0.0) != target(-0.0)


# Machines ----------------------------------------------------------------------------------------------------------


@on_x86
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_lesser_machines_compute_the_same(level, dtype, monkeypatch):
    program, rng = random_program(4), np.random.default_rng(4)
    layout = Layout((True, True, False, False), (False, True, False))
    arguments = random_arguments(rng, program, layout, 2, 37, dtype)
    expected = run(program, layout, *arguments)
    monkeypatch.setenv("DIFFNEA_CPU", level)
    for found, same in zip(run(program, layout, *arguments), expected, strict=True):
        tolerance = SUM_TOLERANCE[dtype]
        np.testing.assert_allclose(found, same, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bits", [64, 32])
def test_code_for_arm_is_made(bits):
    llvm_machine.host()
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    arm = llvm_machine.Machine("aarch64-unknown-linux-gnu", "generic", "", Vectors(16, fused=True))
    runtime, run = ffi_frame.runtime(bits)
    kernel = module(random_program(5), Layout((True, True, False, False), (False, True, False)), bits, arm.vectors, run)
    for assembly in (runtime, kernel):
        assert llvm_machine.object_code(assembly, arm)[18:20] == (183).to_bytes(2, "little")  # ELF's number for AArch64


def test_without_llvmlite_it_says_so(monkeypatch):
    for function in ("_llvm", "_host"):  # without what they remember
        monkeypatch.setattr(llvm_machine, function, getattr(llvm_machine, function).__wrapped__)
    assert cpu.unavailable.__wrapped__() is None
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert "llvmlite" in str(cpu.unavailable.__wrapped__())
