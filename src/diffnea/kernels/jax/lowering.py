"""From a kernel call to code: a compiled kernel where one can be made, the function through XLA where not."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir

from diffnea.kernels.ir.program import IN_LOOP
from diffnea.kernels.jax import cpu, cuda
from diffnea.kernels.jax.garbage import without_pauses
from diffnea.kernels.jax.primitive import kernel_call
from diffnea.kernels.jax.programs import program_of, switched_off
from diffnea.kernels.rules.function import Axes, Function, portable


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
    return cpu.target(program, layout, dtype, name) if name else backend.target(program, layout, dtype)


def _summed_after(function: Function, given: tuple[Axes, ...]) -> tuple[Axes, ...]:
    """The axes that results have in the kernel: all of them, where a loop writes what is then summed over samples."""
    if function.name is not None or all(not axes or axes[-1] for axes in given):
        return given
    program = program_of(function)
    if program is None:
        return given
    rows = zip(program.outputs, given, strict=True)
    return tuple((True,) * len(axes) if IN_LOOP in output and axes and not axes[-1] else axes for output, axes in rows)


def _on(backend: Any, *operands, function: Function, batch: tuple[int, ...], taken, given) -> list[Any]:
    """The call as a compiled kernel, if there is one."""
    if switched_off() or backend.unavailable() or not any(map(any, taken)) and batch:
        return portable(*operands, function=function, batch=batch, taken=taken, given=given)
    if (inside := _summed_after(function, given)) != given:
        results = _on(backend, *operands, function=function, batch=batch, taken=taken, given=inside)
        missing = (tuple(k for k in range(len(b)) if b[k] and not a[k]) for a, b in zip(given, inside, strict=True))
        return [jnp.sum(result, axes) if axes else result for result, axes in zip(results, missing, strict=True)]
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
