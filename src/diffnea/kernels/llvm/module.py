"""A scalar program as an LLVM module: its two functions, a table that describes them, and the handler JAX calls."""

import re
from dataclasses import dataclass, replace
from itertools import accumulate

from diffnea.kernels.ir.layout import Layout, Plan, cost, plan_of
from diffnea.kernels.ir.program import Program
from diffnea.kernels.llvm.code import RARELY, Code
from diffnea.kernels.llvm.functions import PARAMETERS, Compute, Prepare
from diffnea.kernels.llvm.operations import COST
from diffnea.kernels.llvm.pieces import DECLARED, in_pieces
from diffnea.kernels.passes.products import with_fewer_products
from diffnea.kernels.passes.schedule import AHEAD, AHEAD_OF_FEW, scheduled

# Work for one thread at a time, in operations on vectors: some 30 µs, several times what waking a thread takes.
CHUNK_OPERATIONS = 2**17
LONGEST = 64  # bytes of a vector


@dataclass(frozen=True)
class Vectors:
    """What a machine computes with at once: bytes in a vector, whether it has fused multiply-add, and registers."""

    bytes: int
    fused: bool
    registers: int = 16


def module(program: Program, layout: Layout, bits: int, vectors: Vectors, runtime: str) -> str:
    """The assembly of a kernel whose handler passes each call to the function called `runtime`."""
    assert program.outputs, "a kernel has results"
    scalar = Code(bits, 1, vectors.fused)
    # Where nothing varies, all is computed once, and what is left is to write it: number by number.
    vector = Code(bits, vectors.bytes * 8 // bits if any(layout.varying) else 1, vectors.fused)
    plan, chosen = _bettered(program, layout, vectors), _shortcut(program, layout, vectors)
    if chosen is None:
        Prepare(plan, scalar).emit()
        Compute(plan, vector).emit()
        shared, choice = len(plan.shared), []
    else:
        short, condition = chosen
        for suffix, one in (("_short", short), ("_long", plan)):
            Prepare(one, scalar, suffix).emit()
            Compute(one, vector, suffix).emit()
        shared = max(len(plan.shared), len(short.shared)) + 1
        choice = _choice(scalar, short.shared[condition], shared - 1)
    declarations = sorted(scalar.declarations | vector.declarations)
    table = _table(plan, shared, bits, vector.lanes)
    functions = in_pieces([*scalar.lines, *vector.lines], vectors.registers)
    lines = [*declarations, *table, *_handler(runtime), *functions, *choice, RARELY, *DECLARED]
    return "\n".join(lines)


def _bettered(program: Program, layout: Layout, vectors: Vectors) -> Plan:
    # Products bound where a core begins one long one a cycle; where it begins two short ones, sums wait no less.
    fewer = with_fewer_products(program) if vectors.bytes == LONGEST else program
    return plan_of(scheduled(fewer, layout, AHEAD if vectors.registers >= 32 else AHEAD_OF_FEW), layout)


def _shortcut(program: Program, layout: Layout, vectors: Vectors) -> tuple[Plan, int] | None:
    """The plan for where a condition holds, and the condition; None if there is none, or samples differ in it."""
    if program.shortcut is None:
        return None
    longer = replace(layout, summed=(*layout.summed, False), columns=_one_more(layout))
    plan = _bettered(program.shortcut, longer, vectors)
    *outputs, (condition,) = plan.program.outputs
    if plan.varies[condition] or condition not in plan.shared:
        return None
    return plan._replace(program=replace(plan.program, outputs=tuple(outputs)), outputs=plan.outputs[:-1]), condition


def _one_more(layout: Layout) -> tuple[bool, ...]:
    return (*layout.columns, False) if layout.columns else ()


def _choice(code: Code, condition: int, flag: int) -> list[str]:
    """`prepare` and `compute`, which pass each call on to those of one of the two programs."""
    real, zero = code.scalar, "0.0"
    at = [f"getelementptr {real},ptr %shared,i64 {place}" for place in (condition, flag)]
    names = re.sub(r"(ptr|i64)( noalias)? ", r"\1 ", PARAMETERS)
    return [
        "define internal void @prepare(ptr %arrays,ptr %shared) {",
        "call void @prepare_short(ptr %arrays,ptr %shared)",
        f"%at={at[0]}",
        f"%holds=load {real},ptr %at",
        f"%flag={at[1]}",
        f"store {real} %holds,ptr %flag",
        f"%truth=fcmp une {real} %holds,{zero}",
        "br i1 %truth,label %done,label %long",
        "long:",
        "call void @prepare_long(ptr %arrays,ptr %shared)",
        "br label %done",
        "done:",
        "ret void",
        "}",
        f"define internal void @compute({PARAMETERS}) {{",
        f"%flag={at[1]}",
        f"%holds=load {real},ptr %flag",
        f"%truth=fcmp une {real} %holds,{zero}",
        "br i1 %truth,label %short,label %long",
        *[
            line
            for way in ("short", "long")
            for line in (f"{way}:", f"tail call void @compute_{way}({names})", "ret void")
        ],
        "}",
    ]


def _table(plan: Plan, shared: int, bits: int, lanes: int) -> list[str]:
    """A `Kernel` and its `Array`s, as `runtime/call.ll` declares them."""
    arrays = [*plan.arguments, *plan.outputs]
    summed = sum(array.size for array in plan.outputs if not array.has_samples)
    sizes = [8 * len(arrays), 8 * len(arrays)]  # pointers to arrays, pointers to copies, then numbers
    sizes += [count * bits // 8 for count in (shared, summed * lanes, summed * lanes, summed)]
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
