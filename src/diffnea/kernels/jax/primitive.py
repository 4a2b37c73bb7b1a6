"""Kernels inside JAX: one primitive that batches, differentiates and transposes into further kernels.

A call carries a per-sample function of arrays, the batch axes, and which operand has which of them. `vmap` adds an
axis, `jvp` calls the function's tangent, transposing calls its adjoint, with sums over the axes an operand does not
have; each of these is traced and compiled as a kernel of its own. Where no kernel can be made, XLA runs the function.
"""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from diffnea.kernels.rules.function import Function, sample_shape


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


# The primitive ---------------------------------------------------------------------------------------------------

kernel_call = Primitive("diffnea_kernel")
kernel_call.multiple_results = True


def call(function: Function, *operands: Any) -> list[Any]:
    """Call a function as a kernel on one sample; `jax.vmap` makes it many."""
    nothing = tuple(() for _ in function.arguments), tuple(() for _ in function.results)
    return kernel_call.bind(*operands, function=function, batch=(), taken=nothing[0], given=nothing[1])


@kernel_call.def_abstract_eval
def _abstract_eval(*_, function: Function, batch, taken, given):
    results = zip(function.results, given, strict=True)
    return [ShapedArray(sample_shape(batch, axes, result.shape), result.dtype) for result, axes in results]


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
