"""A scalar program as an LLVM module: its two functions, a table that describes them, and the handler JAX calls."""

from dataclasses import dataclass
from itertools import accumulate

from diffnea.kernels.ir.layout import Layout, Plan, cost, plan_of
from diffnea.kernels.ir.program import Program
from diffnea.kernels.llvm.code import RARELY, Code
from diffnea.kernels.llvm.functions import Compute, Prepare
from diffnea.kernels.llvm.operations import COST
from diffnea.kernels.passes.products import with_fewer_products
from diffnea.kernels.passes.schedule import scheduled

# Work for one thread at a time, in operations on vectors: some 30 µs, several times what waking a thread takes.
CHUNK_OPERATIONS = 2**17


@dataclass(frozen=True)
class Vectors:
    """What a machine computes with at once: bytes in a vector, and whether it has fused multiply-add."""

    bytes: int
    fused: bool


def module(program: Program, layout: Layout, bits: int, vectors: Vectors, runtime: str) -> str:
    """The assembly of a kernel whose handler passes each call to the function called `runtime`."""
    assert program.outputs, "a kernel has results"
    plan = plan_of(scheduled(with_fewer_products(program), layout), layout)
    scalar = Code(bits, 1, vectors.fused)
    vector = Code(bits, vectors.bytes * 8 // bits, vectors.fused)
    Prepare(plan, scalar).emit()
    Compute(plan, vector).emit()
    declarations = sorted(scalar.declarations | vector.declarations)
    lines = [*declarations, *_table(plan, bits, vector.lanes), *_handler(runtime), *scalar.lines, *vector.lines, RARELY]
    return "\n".join(lines)


def _table(plan: Plan, bits: int, lanes: int) -> list[str]:
    """A `Kernel` and its `Array`s, as `runtime_call.ll` declares them."""
    arrays = [*plan.arguments, *plan.outputs]
    summed = sum(array.size for array in plan.outputs if not array.has_samples)
    sizes = [8 * len(arrays), 8 * len(arrays)]  # pointers to arrays, pointers to copies, then numbers
    sizes += [count * bits // 8 for count in (len(plan.shared), summed * lanes, summed * lanes, summed)]
    sizes += [array.size * lanes * bits // 8 if array.has_samples else 0 for array in arrays]
    offsets = [0, *accumulate(-(-size // 64) * 64 for size in sizes)]
    rows = [
        f"{{i64,i64,i64,i64}}{{i64 {a.size},i64 {a.has_samples:d},i64 {a.samples_last:d},i64 {copy}}}"
        for a, copy in zip(arrays, offsets[6:-1], strict=True)
    ]
    numbers = [len(plan.arguments), len(arrays), lanes, _chunk(plan) * lanes, summed, offsets[-1], *offsets[1:6]]
    return [
        f"@arrays=internal constant [{len(rows)} x {{i64,i64,i64,i64}}] [{','.join(rows)}]",
        f"@kernel=internal constant {{ptr,ptr,ptr{',i64' * len(numbers)}}} {{ptr @arrays,ptr @prepare,ptr @compute,"
        + ",".join(f"i64 {number}" for number in numbers)
        + "}",
    ]


def _chunk(plan: Plan) -> int:
    """How many vectors of samples make a piece of work for a thread; what is computed once should be little of it."""
    work = cost(plan.program, COST)
    each = sum(one for one, varies in zip(work, plan.varies, strict=True) if varies)
    return max((CHUNK_OPERATIONS + 10 * (sum(work) - each)) // (each + 1), 1)


def _handler(runtime: str) -> list[str]:
    return [
        f"declare ptr @{runtime}(ptr,ptr)",
        "define ptr @handler(ptr %frame) {",
        f"%error=tail call ptr @{runtime}(ptr %frame,ptr @kernel)",
        "ret ptr %error",
        "}",
    ]
