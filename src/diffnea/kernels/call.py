"""Kernels inside JAX: one primitive that batches, differentiates and transposes into further kernels.

A call carries a per-sample function of arrays, the batch axes, and which operand has which of them. `vmap` adds an
axis, `jvp` calls the function's tangent, transposing calls its adjoint, with sums over the axes an operand does not
have; each of these is traced and compiled as a kernel of its own. Where no kernel can be made, XLA runs the function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching

Axes = tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Function:
    """A per-sample function of flat arrays, known by identity, and the shapes of what it takes and gives."""

    call: Callable[..., Sequence[Any]]
    arguments: tuple[jax.ShapeDtypeStruct, ...]
    results: tuple[jax.ShapeDtypeStruct, ...]
    linear: int = 0  # how many of the last arguments it is linear in
    jaxpr: ClosedJaxpr | None = None  # if it was traced already
    name: str | None = None  # under which its code is found on disk without tracing it

    def named(self, *change: Any) -> str | None:
        """The name of a function made from this one."""
        return None if self.name is None else f"{self.name} {change}"


def make(call: Callable[..., Sequence[Any]], arguments: Sequence[jax.ShapeDtypeStruct], linear: int = 0) -> Function:
    """A function with the shapes of its results found out."""
    traced, results = jax.make_jaxpr(lambda *operands: list(call(*operands)), return_shape=True)(*arguments)
    return Function(call, tuple(arguments), tuple(results), linear, traced)


def opened(function: Function) -> tuple[Function, list[Any]]:
    """The same function with the traced values that it closes over as further arguments; and these values."""
    assert function.jaxpr is not None
    jaxpr, consts = function.jaxpr.jaxpr, function.jaxpr.consts
    traced = [const for const in consts if isinstance(const, Tracer)]
    if not traced:
        return function, []
    # What is kept must not hold on to a trace that is over.
    known = [None if isinstance(const, Tracer) else (const,) for const in consts]
    count = len(function.arguments)

    def call(*operands):
        given = iter(operands[count:])
        filled = [next(given) if const is None else const[0] for const in known]
        return jaxpr_as_fun(ClosedJaxpr(jaxpr, filled))(*operands[:count])

    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in traced]
    return make(call, (*function.arguments, *shapes)), traced


@lru_cache(maxsize=4096)
def _tangent(function: Function, moved: tuple[bool, ...]) -> Function:
    """`(arguments, tangents of those that move) → tangents of the results`, linear in the tangents."""
    count = len(function.arguments)

    def call(*operands):
        primals, tangents = operands[:count], iter(operands[count:])
        free = [primal for primal, moves in zip(primals, moved, strict=True) if moves]

        def of_free(*given):
            given = iter(given)
            return list(function.call(*(next(given) if m else p for p, m in zip(primals, moved, strict=True))))

        return jax.jvp(of_free, free, list(tangents))[1]

    moving = [argument for argument, moves in zip(function.arguments, moved, strict=True) if moves]
    name = function.named("tangent", moved)
    return Function(call, (*function.arguments, *moving), function.results, len(moving), name=name)


@lru_cache(maxsize=4096)
def _adjoint(function: Function, wanted: tuple[bool, ...], given: tuple[bool, ...]) -> Function:
    """`(arguments not wanted, cotangents given) → cotangents of the arguments wanted`, linear in the cotangents."""
    linear = [argument for argument, want in zip(function.arguments, wanted, strict=True) if want]
    fixed = [argument for argument, want in zip(function.arguments, wanted, strict=True) if not want]
    pulled = [result for result, has in zip(function.results, given, strict=True) if has]

    def call(*operands):
        held = operands[: len(fixed)]

        def of_linear(*free):
            free, kept = iter(free), iter(held)
            results = function.call(*(next(free) if want else next(kept) for want in wanted))
            return [result for result, has in zip(results, given, strict=True) if has]

        return list(jax.linear_transpose(of_linear, *linear)(list(operands[len(fixed) :])))

    name = function.named("adjoint", wanted, given)
    return Function(call, (*fixed, *pulled), tuple(linear), len(pulled), name=name)


def portable(*operands, function: Function, batch: tuple[int, ...], taken, given) -> list[Any]:
    """The same call as ordinary JAX: the function under `vmap`, sums taken after."""

    def over(depth: int) -> Callable[..., Any]:
        if depth == len(batch):
            return lambda *samples: list(function.call(*samples))
        inner = over(depth + 1)
        axes = [0 if axes[depth] else None for axes in taken]
        if all(axis is None for axis in axes):
            return lambda *samples: [jnp.broadcast_to(r, (batch[depth], *r.shape)) for r in inner(*samples)]
        return jax.vmap(inner, axes)

    results = over(0)(*operands)
    missing = [tuple(k for k, has in enumerate(axes) if not has) for axes in given]
    return [jnp.sum(result, axes) if axes else result for result, axes in zip(results, missing, strict=True)]


@lru_cache(maxsize=4096)
def inlined(
    function: Function, batch: tuple[int, ...], taken: tuple[Axes, ...], given: tuple[Axes, ...]
) -> ClosedJaxpr:
    """The same call as a jaxpr."""
    if function.jaxpr is not None and not batch:
        return function.jaxpr
    arguments = zip(function.arguments, taken, strict=True)
    shapes = [jax.ShapeDtypeStruct(_shape(batch, axes, argument.shape), argument.dtype) for argument, axes in arguments]
    return jax.make_jaxpr(partial(portable, function=function, batch=batch, taken=taken, given=given))(*shapes)


# The primitive ---------------------------------------------------------------------------------------------------

kernel_call = Primitive("diffnea_kernel")
kernel_call.multiple_results = True


def call(function: Function, *operands: Any) -> list[Any]:
    """Call a function as a kernel on one sample; `jax.vmap` makes it many."""
    nothing = tuple(() for _ in function.arguments), tuple(() for _ in function.results)
    return kernel_call.bind(*operands, function=function, batch=(), taken=nothing[0], given=nothing[1])


def _shape(batch: tuple[int, ...], axes: Axes, sample: tuple[int, ...]) -> tuple[int, ...]:
    return (*(size for size, has in zip(batch, axes, strict=True) if has), *sample)


@kernel_call.def_abstract_eval
def _abstract_eval(*_, function: Function, batch, taken, given):
    results = zip(function.results, given, strict=True)
    return [ShapedArray(_shape(batch, axes, result.shape), result.dtype) for result, axes in results]


@kernel_call.def_impl
def _impl(*operands, **params):
    return _jitted(tuple(sorted(params.items())))(*operands)


@lru_cache(maxsize=4096)
def _jitted(params):
    return jax.jit(partial(kernel_call.bind, **dict(params)))


def _batch(operands, dims, *, function: Function, batch, taken, given):
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    moved = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
    taken = tuple((d is not None, *axes) for d, axes in zip(dims, taken, strict=True))
    given = tuple((True, *axes) for axes in given)
    results = kernel_call.bind(*moved, function=function, batch=(size, *batch), taken=taken, given=given)
    return results, [0] * len(results)


def _jvp(primals, tangents, *, function: Function, batch, taken, given):
    results = kernel_call.bind(*primals, function=function, batch=batch, taken=taken, given=given)
    moved = tuple(type(tangent) is not ad.Zero for tangent in tangents)
    moving = [tangent for tangent, moves in zip(tangents, moved, strict=True) if moves]
    axes = tuple(axes for axes, moves in zip(taken, moved, strict=True) if moves)
    pushed = kernel_call.bind(
        *primals, *moving, function=_tangent(function, moved), batch=batch, taken=(*taken, *axes), given=given
    )
    return results, pushed


def _transpose(cotangents, *operands, function: Function, batch, taken, given):
    wanted = tuple(ad.is_undefined_primal(operand) for operand in operands)
    has = tuple(type(cotangent) is not ad.Zero for cotangent in cotangents)
    pulled = [ad.instantiate_zeros(c) for c, there in zip(cotangents, has, strict=True) if there]
    held = [operand for operand, want in zip(operands, wanted, strict=True) if not want]
    axes_held = [axes for axes, want in zip(taken, wanted, strict=True) if not want]
    axes_pulled = [axes for axes, there in zip(given, has, strict=True) if there]
    axes_wanted = tuple(axes for axes, want in zip(taken, wanted, strict=True) if want)
    found = iter(
        kernel_call.bind(
            *held,
            *pulled,
            function=_adjoint(function, wanted, has),
            batch=batch,
            taken=(*axes_held, *axes_pulled),
            given=axes_wanted,
        )
    )
    return [next(found) if want else None for want in wanted]


batching.primitive_batchers[kernel_call] = _batch
ad.primitive_jvps[kernel_call] = _jvp
ad.primitive_transposes[kernel_call] = _transpose
