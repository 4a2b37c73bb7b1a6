"""From a kernel call to code: a compiled kernel where one can be made, the function through XLA where not."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir

from diffnea.kernels.ir.layout import Layout
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


def _target(backend: Any, function: Function, layout: Layout, samples: int) -> tuple[str, Layout] | None:
    """The name under which XLA finds the function's code, and its arrays' layout; None if there can be none."""
    dtype = str(function.arguments[0].dtype) if function.arguments else ""
    name = function.name if backend is cpu else None  # code for GPUs is found by its text alone
    found = cpu.recalled(name, layout, dtype) if name else None
    if found is not None:
        return found, layout
    program = program_of(function)
    if program is None:
        return None
    if backend is cpu:
        return cpu.target(program, layout, dtype, name), layout
    layout = cuda.arranged(program, layout)
    return cuda.target(program, layout, dtype, samples), layout


def _summed_after(function: Function, given: tuple[Axes, ...]) -> tuple[Axes, ...]:
    """The axes that results have in the kernel: all of them, where a loop writes what is then summed over samples."""
    if function.name is not None and not function.loops or all(not axes or axes[-1] for axes in given):
        return given
    if (written := function.written) is None:
        if (program := program_of(function)) is None:
            return given
        written = tuple(IN_LOOP in output for output in program.outputs)
    rows = zip(written, given, strict=True)
    return tuple((True,) * len(axes) if by_loop and axes and not axes[-1] else axes for by_loop, axes in rows)


def _on(backend: Any, *operands, function: Function, batch: tuple[int, ...], taken, given) -> list[Any]:
    """The call as a compiled kernel, if there is one."""
    if switched_off() or backend.unavailable() or not any(map(any, taken)) and batch:
        return portable(*operands, function=function, batch=batch, taken=taken, given=given)
    if (inside := _summed_after(function, given)) != given:
        results = _on(backend, *operands, function=function, batch=batch, taken=taken, given=inside)
        missing = (tuple(k for k in range(len(b)) if b[k] and not a[k]) for a, b in zip(given, inside, strict=True))
        return [jnp.sum(result, axes) if axes else result for result, axes in zip(results, missing, strict=True)]
    summed = tuple(bool(axes) and not axes[-1] for axes in given)
    layout = Layout(varying=tuple(bool(axes) and axes[-1] for axes in taken), summed=summed)
    grouping = group(batch, (*taken, *given))
    outer, inner = grouping.sizes
    with without_pauses():
        found = _target(backend, function, layout, inner)
    if found is None:
        return portable(*operands, function=function, batch=batch, taken=taken, given=given)
    target, layout = found
    columns = layout.columns or (False,) * (len(taken) + len(given))
    shapes = []
    for result, summed, last in zip(function.results, layout.summed, columns[len(taken) :], strict=True):
        rows, size = 1 if summed else inner, int(np.prod(result.shape))
        shapes.append(jax.ShapeDtypeStruct((outer, size, rows) if last else (outer, rows, size), result.dtype))
    gathered = [_gather_axes(o, axes, batch, grouping) for o, axes in zip(operands, taken, strict=True)]
    arranged = [jnp.swapaxes(o, 1, 2) if last else o for o, last in zip(gathered, columns, strict=False)]
    results = jax.ffi.ffi_call(target, shapes)(*arranged)
    results = [jnp.swapaxes(r, 1, 2) if last else r for r, last in zip(results, columns[len(taken) :], strict=True)]
    rows = zip(results, given, function.results, strict=True)
    return [_spread_axes(result, axes, batch, grouping, like.shape) for result, axes, like in rows]


mlir.register_lowering(kernel_call, mlir.lower_fun(portable, multiple_results=True))
for _platform, _backend in (("cpu", cpu), ("cuda", cuda)):
    mlir.register_lowering(kernel_call, mlir.lower_fun(partial(_on, _backend), multiple_results=True), _platform)
