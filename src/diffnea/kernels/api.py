"""`compile`: any per-sample function of arrays and pytrees as a kernel."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.kernels.jax import cache, cpu, cuda
from diffnea.kernels.jax.garbage import without_pauses
from diffnea.kernels.jax.primitive import call
from diffnea.kernels.jax.programs import switched_off
from diffnea.kernels.rules.flat import has_scan
from diffnea.kernels.rules.function import Function, make, opened


def compile(function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """The function as a kernel: same arguments, same results, under `jit`, `vmap`, `scan`, `grad` and `jvp` alike.

    Every array leaf must be of one floating type. Nothing runs faster for one sample: put it under `jax.vmap`. Numbers
    that the function closes over are part of the kernel; what JAX is tracing becomes an argument of it, and then the
    function is traced at each call.

    Args:
        function: of arrays and modules of arrays.
        name: as `cache.name_of` gives it; with one a later process finds the code without tracing.
    """

    @wraps(function)
    def compiled(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        arrays = [jnp.asarray(leaf) for leaf in leaves]
        shapes = tuple((array.shape, str(array.dtype)) for array in arrays)
        try:
            flat, results, closed_over = _kept(function, name, structure, shapes)
        except _ClosesOver as found:  # not kept: it would hold on to a trace that will be over
            flat, results, closed_over = found.args
        return jax.tree.unflatten(results, call(flat, *arrays, *closed_over))

    return compiled


_ONE = jax.tree.structure(0)  # the structure of a result that is one array


class _ClosesOver(Exception):
    """A function that closes over what JAX is tracing, as `_flatten` gives it."""


@lru_cache(maxsize=4096)
def _kept(function: Callable[..., Any], name: str | None, structure, shapes) -> tuple[Function, Any, list[Any]]:
    made = _flatten(function, name and cache.full_name(name, structure, shapes), structure, shapes)
    if made[2]:
        raise _ClosesOver(*made)
    return made


def _flatten(function: Callable[..., Any], name: str | None, structure, shapes) -> tuple[Function, Any, list[Any]]:
    """A function of pytrees as one of flat arrays, how its results hang together, and what it closes over."""
    found = []

    def flat(*leaves):
        results, tree = jax.tree.flatten(function(*jax.tree.unflatten(structure, leaves)))
        found.append(tree)
        return [jnp.asarray(result) for result in results]

    arguments = tuple(jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in shapes)
    known = cache.results_of(name) if name else None
    if known is not None:
        results, alone, loops = known
        return Function(flat, arguments, results, name=name, loops=loops), _tree(results, alone), []
    with without_pauses():
        without, closed_over = opened(make(flat, arguments))
    alone = found[0] == _ONE
    if name is None or closed_over or found[0] != _tree(without.results, alone):
        return without, found[0], closed_over
    assert without.jaxpr is not None
    loops = has_scan(without.jaxpr)
    cache.note_results(name, without.results, alone, loops)
    return replace(without, name=name, loops=loops), found[0], []


def _tree(results: cache.Arrays, alone: bool) -> Any:
    """The structure of one array, or of a tuple of them: others have no name."""
    return _ONE if alone else jax.tree.structure(tuple(results))


def backends() -> dict[str, str]:
    """Which code generators are active, and why one is not: `{"cpu": "active", …}`."""
    generators = {"cpu": cpu, "cuda": cuda}
    if switched_off():
        return dict.fromkeys(generators, "off: DIFFNEA_KERNELS is set to off")
    reasons = {name: generator.unavailable() for name, generator in generators.items()}
    return {name: f"not available: {reason}" if reason else "active" for name, reason in reasons.items()}
