"""Kernels inside JAX: one primitive that batches, differentiates and transposes into further kernels.

A call carries a per-sample function of arrays, the batch axes, and which operand has which of them. `vmap` adds an
axis, `jvp` calls the function's tangent, transposing calls its adjoint, with sums over the axes an operand does not
have; each of these is traced and compiled as a kernel of its own. Where no kernel can be made, XLA runs the function.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from diffnea.kernels.jax.tapes import tape_for
from diffnea.kernels.rules.function import Axes, Function, sample_shape
from diffnea.kernels.rules.tape import Flags, Tape


@lru_cache(maxsize=4096)
def _tangent(function: Function, moved: Flags, kept: tuple[jax.ShapeDtypeStruct, ...] = ()) -> Function:
    """`(arguments, tangents of those that move) → tangents of the results`, linear in the tangents.

    What is kept for its adjoint stands between the two.
    """
    count = len(function.arguments)

    def call(*operands):
        primals, tangents = operands[:count], operands[count + len(kept) :]
        free = [primal for primal, moves in zip(primals, moved, strict=True) if moves]

        def of_free(*given):
            given = iter(given)
            return list(function.call(*(next(given) if m else p for p, m in zip(primals, moved, strict=True))))

        return jax.jvp(of_free, free, list(tangents))[1]

    moving = [argument for argument, moves in zip(function.arguments, moved, strict=True) if moves]
    name = None if kept else function.named("tangent", moved)
    origin = (function, moved, len(kept))
    arguments = (*function.arguments, *kept, *moving)
    found = Function(call, arguments, function.results, len(moving), name=name, tangent_of=origin)
    return replace(found, loops=name is not None and function.loops)


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

    name = None if function.loops else function.named("adjoint", wanted, given)  # with loops it has a tape, or no name
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
    with jax.disable_jit(False):  # there is no other way to run a kernel
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
    if function.tangent_of is not None and (tape := tape_for(*function.tangent_of[:2])) is not None:
        return _pull(tape, cotangents, operands, wanted, function, batch, taken)
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


# Functions with loops ------------------------------------------------------------------------------------------------


def _keep(tape: Tape, operands, batch, taken, given: tuple[Axes, ...]) -> tuple[list[Any], list[Any]]:
    """The results of a function with loops, and what is kept for its gradient."""
    everywhere = (True,) * len(batch)
    besides = (everywhere,) * (len(tape.forward.results) - len(given))
    found = kernel_call.bind(*operands, function=tape.forward, batch=batch, taken=taken, given=(*given, *besides))
    return found[: len(given)], [found[k] for k in tape.sources]


def _pull(tape: Tape, cotangents, operands, wanted: Flags, tangent: Function, batch, taken) -> list[Any]:
    """The transpose of a tangent: the backward pass, after a forward one if nothing was kept."""
    assert tangent.tangent_of is not None
    function, moved, num_kept = tangent.tangent_of
    count, everywhere = len(function.arguments), (True,) * len(batch)
    primals, kept = list(operands[:count]), list(operands[count : count + num_kept])
    if not num_kept:
        _, kept = _keep(tape, primals, batch, taken[:count], (everywhere,) * len(function.results))
    active = [ad.instantiate_zeros(c) for c, moves in zip(cotangents, tape.active, strict=True) if moves]
    moving = tuple(axes for axes, moves in zip(taken, moved, strict=False) if moves)
    found = kernel_call.bind(
        *primals,
        *kept,
        *active,
        function=tape.pull,
        batch=batch,
        taken=(*taken[:count], *(everywhere,) * (len(kept) + len(active))),
        given=moving,
    )
    linear = zip(found, wanted[count + num_kept :], strict=True)
    return [None] * (count + num_kept) + [one if want else None for one, want in linear]


def _linearize(moves, primals, params: dict[str, Any], tape: Tape):
    """Results, which of them move, what is kept, and the tangent by that: what JAX asks for a gradient."""
    function, batch, taken, given = (params[name] for name in ("function", "batch", "taken", "given"))
    results, kept = _keep(tape, primals, batch, taken, given)
    shapes = tuple(tape.forward.results[k] for k in tape.sources)
    tangent, everywhere = _tangent(function, tuple(moves), shapes), (True,) * len(batch)
    axes = (*taken, *(everywhere,) * len(kept), *(a for a, m in zip(taken, moves, strict=True) if m))

    def push(residuals, *tangents):
        moving = [ad.instantiate_zeros(one) for one, m in zip(tangents, moves, strict=True) if m]
        pushed = kernel_call.bind(*residuals, *moving, function=tangent, batch=batch, taken=axes, given=given)
        zeros = (ad.Zero(ShapedArray(one.shape, one.dtype)) for one in results)
        return [one if m else zero for one, zero, m in zip(pushed, zeros, tape.active, strict=True)]

    return results, list(tape.active), [*primals, *kept], push


def _register_linearization() -> None:
    """By JAX's own interface, which is not public and was another before: elsewhere `_transpose` serves, and gradients
    take one forward pass more. From 0.11 on there is room for residuals of another kind, which we have none of."""
    from jax._src.interpreters import ad as inner

    def rule(is_vjp, moves, *primals, **params):
        tape = tape_for(params["function"], tuple(moves))
        if tape is None or any(not all(axes) for axes in params["given"]):
            return inner.fallback_linearize_rule(kernel_call, is_vjp, moves, *primals, **params)
        *found, push = _linearize(moves, primals, params, tape)
        return (*found, push) if not structured else (*found, None, lambda kept, _, *tangents: push(kept, *tangents))

    structured = jax.__version_info__[:2] == (0, 11)
    inner.primitive_linearizations[kernel_call] = rule


linearizes = jax.__version_info__[:2] in ((0, 10), (0, 11))  # JAX asks for what a gradient keeps
if linearizes:
    _register_linearization()
batching.primitive_batchers[kernel_call] = _batch
ad.primitive_jvps[kernel_call] = _jvp
ad.primitive_transposes[kernel_call] = _transpose
