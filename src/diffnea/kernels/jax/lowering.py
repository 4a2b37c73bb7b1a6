"""From a kernel call to code: a compiled kernel where one can be made, the function through XLA where not."""

import logging
import os
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir

from diffnea.kernels.ir.program import IN_LOOP, Program
from diffnea.kernels.jax import cpu, cuda
from diffnea.kernels.jax.garbage import without_pauses
from diffnea.kernels.jax.primitive import kernel_call
from diffnea.kernels.rules import tracer
from diffnea.kernels.rules.function import Axes, Function, inlined, portable

log = logging.getLogger("diffnea.kernels")


def switched_off() -> bool:
    """Whether the user said `DIFFNEA_KERNELS=off`."""
    return os.environ.get("DIFFNEA_KERNELS", "").lower() in ("off", "0", "no", "false")


@lru_cache(maxsize=4096)
def program_of(function: Function) -> Program | None:
    """The scalar program of a function, or None, with a word in the log on what stands against it."""
    dtypes = {str(array.dtype) for array in (*function.arguments, *function.results)}
    if len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
        log.debug("a function of %s runs through XLA: kernels take float32 or float64", ", ".join(sorted(dtypes)))
        return None
    try:
        empty = ((),) * len(function.arguments), ((),) * len(function.results)
        return tracer.program_of(inlined(function, (), *empty))
    except tracer.Unsupported as reason:
        log.debug("a function runs through XLA: no scalar form for %s", reason)
        return None


class Grouping(NamedTuple):
    """Batch axes in two groups: the inner one, along which each operand varies or not, and the outer ones."""

    outer: int  # how many axes are in the outer group
    sizes: tuple[int, int]


def group(batch: tuple[int, ...], flags: tuple[Axes, ...]) -> Grouping:
    """The last axis, and those before it that every array has or lacks together with it, make the inner group."""
    columns = list(zip(*flags, strict=True))
    outer = len(batch)
    while outer and columns[outer - 1] == columns[-1]:
        outer -= 1
    return Grouping(outer, (int(np.prod(batch[:outer])), int(np.prod(batch[outer:]))))


def _gather_axes(operand, axes: Axes, batch: tuple[int, ...], grouping: Grouping):
    """An operand as (outer or 1, inner or 1, size)."""
    outer = grouping.outer
    full = [size if has else 1 for size, has in zip(batch, axes, strict=True)]
    size = int(np.prod(operand.shape[sum(axes) :]))
    spread = operand.reshape(*full, size)
    if any(axes[:outer]) and not all(axes[:outer]):
        spread = jnp.broadcast_to(spread, (*batch[:outer], *spread.shape[outer:]))
    return spread.reshape(int(np.prod(spread.shape[:outer])), int(np.prod(spread.shape[outer:-1])), size)


def _spread_axes(result, axes: Axes, batch: tuple[int, ...], grouping: Grouping, sample: tuple[int, ...]):
    """A result (outer, inner or 1, size) with its own axes, summed over outer ones it lacks."""
    outer = grouping.outer
    inner = batch[outer:] if all(axes[outer:]) else ()
    full = result.reshape(*batch[:outer], *inner, *sample)
    missing = tuple(k for k in range(outer) if not axes[k])
    return jnp.sum(full, missing) if missing else full


def _target(backend: Any, function: Function, layout: Any) -> str | None:
    """The name under which XLA finds the function's code; None if there can be none."""
    dtype = str(function.arguments[0].dtype) if function.arguments else ""
    name = function.name if backend is cpu else None  # code for GPUs is found by its text alone
    found = cpu.recalled(name, layout, dtype) if name else None
    if found is not None:
        return found
    program = program_of(function)
    if program is None:
        return None
    if any(IN_LOOP in output for output, sums in zip(program.outputs, layout.summed, strict=True) if sums):
        log.debug("a function runs through XLA: what a scan collects is summed over the samples")
        return None
    return cpu.target(program, layout, dtype, name) if name else backend.target(program, layout, dtype)


def _on(backend: Any, *operands, function: Function, batch: tuple[int, ...], taken, given) -> list[Any]:
    """The call as a compiled kernel, if there is one."""
    if switched_off() or backend.unavailable() or not any(map(any, taken)) and batch:
        return portable(*operands, function=function, batch=batch, taken=taken, given=given)
    summed = tuple(bool(axes) and not axes[-1] for axes in given)
    layout = backend.Layout(varying=tuple(bool(axes) and axes[-1] for axes in taken), summed=summed)
    with without_pauses():
        target = _target(backend, function, layout)
    if target is None:
        return portable(*operands, function=function, batch=batch, taken=taken, given=given)
    grouping = group(batch, (*taken, *given))
    outer, inner = grouping.sizes
    shapes = [
        jax.ShapeDtypeStruct((outer, 1 if summed else inner, int(np.prod(result.shape))), result.dtype)
        for result, summed in zip(function.results, layout.summed, strict=True)
    ]
    gathered = [_gather_axes(o, axes, batch, grouping) for o, axes in zip(operands, taken, strict=True)]
    results = jax.ffi.ffi_call(target, shapes)(*gathered)
    rows = zip(results, given, function.results, strict=True)
    return [_spread_axes(result, axes, batch, grouping, like.shape) for result, axes, like in rows]


mlir.register_lowering(kernel_call, mlir.lower_fun(portable, multiple_results=True))
for _platform, _backend in (("cpu", cpu), ("cuda", cuda)):
    mlir.register_lowering(kernel_call, mlir.lower_fun(partial(_on, _backend), multiple_results=True), _platform)
