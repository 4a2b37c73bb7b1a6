"""`compile`: any per-sample function of arrays and pytrees as a kernel."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.kernels import cpu, cuda, lowering
from diffnea.kernels.call import Function, call, make


def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a kernel: same arguments, same results, under `jit`, `vmap`, `scan`, `grad` and `jvp` alike.

    Every array leaf must be of one floating type. Nothing runs faster for one sample: put it under `jax.vmap`.
    """

    @wraps(function)
    def compiled(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        arrays = [jnp.asarray(leaf) for leaf in leaves]
        shapes = tuple((array.shape, str(array.dtype)) for array in arrays)
        flat, results = _flatten(function, structure, shapes)
        return jax.tree.unflatten(results, call(flat, *arrays))

    return compiled


@lru_cache(maxsize=4096)
def _flatten(function: Callable[..., Any], structure, shapes) -> tuple[Function, Any]:
    """A function of pytrees as one of flat arrays, and how its results hang together."""
    found = []

    def flat(*leaves):
        results, tree = jax.tree.flatten(function(*jax.tree.unflatten(structure, leaves)))
        found.append(tree)
        return [jnp.asarray(result) for result in results]

    made = make(flat, [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in shapes])
    return made, found[0]


def backends() -> dict[str, str]:
    """Which code generators are active, and why one is not: `{"cpu": "active", …}`."""
    generators = {"cpu": cpu, "cuda": cuda}
    if lowering.switched_off():
        return dict.fromkeys(generators, "off: DIFFNEA_KERNELS is set to off")
    reasons = {name: generator.unavailable() for name, generator in generators.items()}
    return {name: f"not available: {reason}" if reason else "active" for name, reason in reasons.items()}
