"""The rule for `lax.scan`: short ones are unrolled, long ones stay loops."""

from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from diffnea.kernels.ir.program import Unfit
from diffnea.kernels.rules.function import inlined
from diffnea.kernels.rules.tracer import FEW, Operand, Steps, Symbols, Tracer, Unsupported, alike, move, rule

# Numbers computed in all steps: below the first a scan is always unrolled, above the second never. One of few steps
# (`FEW`) gains little as a loop: then the first is ten times as much, and the second a hundred times: most numbers of a
# robot's slopes are zeros that fall away (of 587 000 in a step of three joints 33 000 stay). XLA, which would compile
# all of them, takes many minutes where a kernel takes a dozen seconds.
LONG = 4_000
TOO_LONG = 40_000


@rule("scan")
def _scan(tracer: Tracer, *operands: Operand, jaxpr: ClosedJaxpr, length: int, reverse: bool, **params: Any):
    if not length:
        raise Unsupported("scan of no steps")
    num_consts, num_carry = scan_counts(params)
    consts, carry = list(operands[:num_consts]), list(operands[num_consts : num_consts + num_carry])
    rows = list(operands[num_consts + num_carry :])
    stays = length >= tracer.fewest and not tracer.no_loops
    if stays and is_long({"jaxpr": jaxpr, "length": length}):
        return _loop(tracer, jaxpr, consts, carry, rows, length, reverse)
    if length * _size(jaxpr.jaxpr) > TOO_LONG * (100 if length <= FEW else 1):
        raise Unsupported(tracer.no_loops or "a scan that is too long")
    return _unroll(tracer, jaxpr, consts, carry, rows, range(length)[:: -1 if reverse else 1])


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """How many operands are constants and how many are carried; from JAX 0.12 on, by the tree they form."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def is_long(params: dict[str, Any]) -> bool:
    """Whether a scan stays a loop."""
    length = params["length"]
    return length > 1 and length * _size(params["jaxpr"].jaxpr) > LONG * (10 if length <= FEW else 1)


_sizes: dict[int, tuple[Jaxpr, int]] = {}


def _size(jaxpr: Jaxpr) -> int:
    """About how many numbers are computed."""
    if id(jaxpr) not in _sizes:
        if len(_sizes) > 10_000:
            _sizes.clear()
        _sizes[id(jaxpr)] = jaxpr, _count(jaxpr)
    return _sizes[id(jaxpr)][1]


def _count(jaxpr: Jaxpr) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inner = _inside(equation)
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        total += sum(times * _size(part) for part in inner)
        if not inner:
            total += sum(int(np.prod(getattr(variable.aval, "shape", ()))) for variable in equation.outvars)
    return total


def _inside(equation: Any) -> list[Jaxpr]:
    """The jaxprs that an equation calls."""
    found = [inlined(**equation.params)] if equation.primitive.name == "diffnea_kernel" else []
    for parameter in equation.params.values():
        parts = parameter if isinstance(parameter, (tuple, list)) else [parameter]
        found += [part for part in parts if isinstance(part, (ClosedJaxpr, Jaxpr))]
    return [part.jaxpr if isinstance(part, ClosedJaxpr) else part for part in found]


def num_products(jaxpr: Any) -> int:
    """About how many products of numbers its products of matrices take: more than they have results."""
    total = 0
    for equation in jaxpr.eqns:
        total += sum(map(num_products, _inside(equation)))
        if equation.primitive.name == "dot_general":
            (over, _), _ = equation.params["dimension_numbers"]
            shape, out = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
            total += int(np.prod([*out, *(shape[axis] for axis in over)]))
    return total


def _unroll(tracer: Tracer, jaxpr: ClosedJaxpr, consts, carry, rows, steps: range) -> list[Operand]:
    collected: list[list[Operand]] = []
    for step in steps:
        slices = [move(lambda array, step=step: array[step], row) for row in rows]
        results = tracer.run(jaxpr, [*consts, *carry, *slices])
        carry, ys = results[: len(carry)], results[len(carry) :]
        collected.append(ys)
    collected = collected[:: steps.step]
    return [*carry, *(_stack(tracer, list(column)) for column in zip(*collected, strict=True))]


def _stack(tracer: Tracer, arrays: list[Operand]) -> Operand:
    return move(lambda *parts: np.stack(parts), *alike(tracer, *arrays))


def _loop(tracer: Tracer, jaxpr: ClosedJaxpr, consts, carry, rows, length: int, reverse: bool) -> list[Operand]:
    if any(isinstance(operand, Steps) for operand in (*consts, *carry, *rows)):
        raise Unfit("a scan in a scan over the number of the outer one's step")
    builder = tracer.builder
    counted, final = _counters(tracer, jaxpr.jaxpr, consts, carry, rows, length, reverse)
    starts = {k: tracer.symbols(one) for k, one in enumerate(carry) if k not in counted}
    sizes = [start.values.size for start in starts.values()]
    carried = builder.begin_loop(length, reverse, [v for s in starts.values() for v in s.values.ravel().tolist()])
    parts = np.split(np.array(carried, np.int64), np.cumsum(sizes)[:-1])
    now: dict[int, Operand] = dict(counted)
    for (k, start), part in zip(starts.items(), parts, strict=False):
        now[k] = Symbols(part.reshape(start.values.shape), start.truths)
    results = tracer.run(jaxpr, [*consts, *(now[k] for k in range(len(carry))), *(_at_step(tracer, r) for r in rows)])
    following = [tracer.symbols(results[k]).values.ravel() for k in starts]
    ys = [_collectable(tracer, result) for result in results[len(carry) :]]
    flat = [y.values.ravel() for y in ys]
    last, collected = builder.end_loop(_joined(following).tolist(), _joined(flat))
    return [
        *_carried_out(starts, final, np.split(np.array(last, np.int64), np.cumsum(sizes)[:-1]), len(carry)),
        *_collected(collected, ys),
    ]


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _at_step(tracer: Tracer, rows: Operand) -> Operand:
    """A row of what is scanned over."""
    return tracer.at_step(rows) if isinstance(rows, Symbols) else Steps(np.asarray(rows))


def _collectable(tracer: Tracer, result: Operand) -> Symbols:
    if isinstance(result, Steps):
        raise Unfit("a scan that collects the number of its step")
    return tracer.symbols(result)


def _carried_out(starts: dict[int, Symbols], final: dict[int, Operand], parts, count: int) -> list[Operand]:
    found = dict(final)
    for (k, start), part in zip(starts.items(), parts, strict=False):
        found[k] = Symbols(part.reshape(start.values.shape), start.truths)
    return [found[k] for k in range(count)]


def _collected(numbers: np.ndarray, ys: list[Symbols]) -> list[Operand]:
    ends = np.cumsum([y.values.size for y in ys])[:-1]
    parts = np.split(numbers, ends, axis=1) if ys else []
    return [Symbols(part.reshape(len(numbers), *y.values.shape), y.truths) for part, y in zip(parts, ys, strict=True)]


def _counters(tracer: Tracer, jaxpr: Jaxpr, consts, carry, rows, length: int, reverse: bool):
    """Carried whole numbers and known truths: what they are at every step, and after the last."""
    which = [k for k, operand in enumerate(carry) if not isinstance(operand, Symbols)]
    if not which:
        return {}, {}
    wanted = {jaxpr.outvars[k] for k in which}
    equations = []
    for equation in reversed(jaxpr.eqns):
        if wanted.intersection(equation.outvars):
            equations.insert(0, equation)
            wanted.update(variable for variable in equation.invars if not hasattr(variable, "val"))
    only = jaxpr.replace(eqns=equations, outvars=[jaxpr.outvars[k] for k in which])
    now, each = list(carry), []
    for step in range(length)[:: -1 if reverse else 1]:
        each.append([now[k] for k in which])
        results = tracer.run(only, [*consts, *now, *(move(lambda array, step=step: array[step], row) for row in rows)])
        if any(isinstance(result, Symbols) for result in results):
            raise Unfit("a scan that carries whole numbers or truths that are computed")
        for k, result in zip(which, results, strict=True):
            now[k] = result
    in_order = each[::-1] if reverse else each
    columns = [Steps(np.stack([np.asarray(step[j]) for step in in_order])) for j in range(len(which))]
    return dict(zip(which, columns, strict=True)), {k: now[k] for k in which}
