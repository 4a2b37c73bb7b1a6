"""A function with loops as two for its gradient: one that keeps what the other needs to pull cotangents back."""

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters import partial_eval

from diffnea.kernels.rules import adjoint
from diffnea.kernels.rules.flat import flattened, has_scan
from diffnea.kernels.rules.flow import active_of, shifts
from diffnea.kernels.rules.function import Function, inlined

Flags = tuple[bool, ...]


class Tape(NamedTuple):
    """`forward` gives the results and, after them, what is kept besides.

    `pull` takes the arguments, what is kept, and cotangents of the results that are `active`; it gives cotangents of
    the arguments that move. What it takes as kept are the results of `forward` with the numbers `sources`.
    """

    forward: Function
    sources: tuple[int, ...]
    active: Flags
    pull: Function


@lru_cache(maxsize=1024)
def tape_of(function: Function, moved: Flags) -> Tape | None:
    """Of a function whose arguments `moved` get cotangents; None if it has no scan, or one that cannot be kept."""
    jaxpr = inlined(function, (), ((),) * len(function.arguments), ((),) * len(function.results))
    if not has_scan(jaxpr):
        return None
    flat = flattened(jaxpr)
    store = _Store(flat, function.arguments)
    keeping, (_, kept) = jax.make_jaxpr(store.forward, return_shape=True)(*function.arguments)
    if any(array.dtype != function.results[0].dtype for array in kept):
        return None  # whole numbers and truths
    moving = active_of(flat.jaxpr, moved)
    active = tuple(variable in moving for variable in flat.jaxpr.outvars)
    pulling, needed = _pulling(store, function, kept, moved, active)
    count = len(function.results)
    places = _places(keeping, count, needed)
    besides = sorted({place for place in places if place >= count})
    extra = tuple(kept[place - count] for place in besides)
    forward = _function(_only(keeping, [*range(count), *besides]), function.arguments, (*function.results, *extra))
    sources = tuple(place if place < count else count + besides.index(place) for place in places)
    given = [*function.arguments, *(kept[k] for k in needed), *_chosen(function.results, active)]
    pull = _function(pulling, given, _chosen(function.arguments, moved))
    return Tape(forward, sources, active, pull)


class _Store:
    """What is kept, as arrays: one that others are, some steps later, begins with as many rows of zeros."""

    def __init__(self, flat: ClosedJaxpr, arguments):
        self.flat, self.shifts = flat, shifts(flat)
        self.shapes = jax.eval_shape(partial(adjoint.forward, flat), arguments)[1]
        self.late = {k: self._late(k) for k in self.shifts}  # which array, how many steps later
        self.ahead: dict[int, int] = {}
        for k, (source, steps) in self.late.items():
            axis = self.shifts[k][1]
            row = int(np.prod(self.shapes[source].shape[axis + 1 :]))
            self.ahead[source] = max(self.ahead.get(source, 0), steps * row)

    def _late(self, k: int) -> tuple[int, int]:
        source, steps = self.shifts[k][0], 1
        while source in self.shifts:
            source, steps = self.shifts[source][0], steps + 1
        return source, steps

    def forward(self, *arguments):
        results, kept = adjoint.forward(self.flat, arguments)
        return results, [self._padded(k, array) for k, array in enumerate(kept) if array is not None]

    def _padded(self, k: int, array):
        if k not in self.ahead:
            return array
        return jnp.concatenate([jnp.zeros(self.ahead[k], array.dtype), array.ravel()])

    def kept(self, stored) -> list:
        """All that `adjoint.pull` asks for."""
        stored = iter(stored)
        found = {k: next(stored) for k, shape in enumerate(self.shapes) if shape is not None}
        return [self._array(found, k) for k in range(len(self.shapes))]

    def _array(self, found: dict, k: int):
        source, steps = self.late.get(k, (k, 0))
        if source not in self.ahead:
            return found[k]
        shape = self.shapes[source].shape
        row = int(np.prod(shape[self.shifts[k][1] + 1 :])) if steps else 0
        first = self.ahead[source] - steps * row
        return found[source][first : first + int(np.prod(shape))].reshape(shape)


def _pulling(store: _Store, function: Function, kept, moved: Flags, active: Flags) -> tuple[ClosedJaxpr, list[int]]:
    """The backward pass without what is kept in vain, and the numbers of the arrays it needs."""
    cotangents = _chosen(function.results, active)

    def pull(arguments, stored, given):
        given = iter(given)
        pulled = [next(given) if moves else None for moves in active]
        found = adjoint.pull(store.flat, arguments, iter(store.kept(stored)), pulled, moved)
        like = _chosen(arguments, moved)
        return [jnp.zeros_like(one) if ct is None else ct for ct, one in zip(found, like, strict=True)]

    traced = jax.make_jaxpr(pull)(function.arguments, kept, cotangents)
    always = [True] * len(function.arguments), [False] * len(kept), [True] * len(cotangents)
    everything = [True] * len(traced.jaxpr.outvars)
    jaxpr, used = partial_eval.dce_jaxpr(traced.jaxpr, everything, [flag for flags in always for flag in flags])
    first = len(function.arguments)
    return ClosedJaxpr(jaxpr, traced.consts), [k for k in range(len(kept)) if used[first + k]]


def _places(keeping: ClosedJaxpr, count: int, needed: list[int]) -> list[int]:
    """Which output of the forward pass a needed array is: one of the results, if it is the same."""
    first = {}
    for place, variable in enumerate(keeping.jaxpr.outvars):
        first.setdefault(id(variable), place)
    return [first[id(keeping.jaxpr.outvars[count + k])] for k in needed]


def _only(closed: ClosedJaxpr, outputs: list[int]) -> ClosedJaxpr:
    flags = [k in outputs for k in range(len(closed.jaxpr.outvars))]
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, flags, True)
    return ClosedJaxpr(jaxpr, closed.consts)


def _function(closed: ClosedJaxpr, arguments, results) -> Function:
    return Function(jaxpr_as_fun(closed), tuple(arguments), tuple(results), jaxpr=closed)


def _chosen(arrays, flags: Flags) -> tuple:
    return tuple(array for array, flag in zip(arrays, flags, strict=True) if flag)
