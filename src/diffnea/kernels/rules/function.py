"""Per-sample functions, the compiler's input: what they take and give, and a batched call of one as a jaxpr."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

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
    loops: bool = False  # of one with a name: it has loops
    written: tuple[bool, ...] | None = None  # which results its loops write, where that is known without tracing it
    # It is the tangent of this function in these arguments, and takes so many arrays for its adjoint between the two.
    tangent_of: "tuple[Function, tuple[bool, ...], int] | None" = None

    def named(self, *change: Any) -> str | None:
        """The name of a function made from this one, which has loops if this one has."""
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


def sample_shape(batch: tuple[int, ...], axes: Axes, sample: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array that has these of the batch axes."""
    return (*(size for size, has in zip(batch, axes, strict=True) if has), *sample)


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
    shapes = [
        jax.ShapeDtypeStruct(sample_shape(batch, axes, argument.shape), argument.dtype) for argument, axes in arguments
    ]
    return jax.make_jaxpr(partial(portable, function=function, batch=batch, taken=taken, given=given))(*shapes)
