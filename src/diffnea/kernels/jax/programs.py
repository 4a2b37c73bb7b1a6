"""The scalar program of a function, made once; or why there is none."""

import logging
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax

from diffnea.kernels.ir.program import Program
from diffnea.kernels.jax.garbage import without_pauses
from diffnea.kernels.rules import tracer
from diffnea.kernels.rules.function import Function, inlined
from diffnea.kernels.rules.scans import num_products

# A law of control with more products takes longer to compile as part of a loop than it is worth.
MOST_PRODUCTS = 4_000

log = logging.getLogger("diffnea.kernels")


# Every call by hand asks: `os.environ` takes a microsecond to say that something is not there, its own table does not.
_PLAIN, _NAME = getattr(os.environ, "_data", None), getattr(os.environ, "encodekey", str)("DIFFNEA_KERNELS")


def switched_off() -> bool:
    """Whether the user said `DIFFNEA_KERNELS=off`."""
    if _PLAIN is not None and _NAME not in _PLAIN:
        return False
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


def can_be_kernel(function: Function) -> bool:
    """Whether there is a program for it."""
    with without_pauses():
        return program_of(function) is not None


def fits(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a per-sample function of such arrays can be a part of a kernel: by its operations, types and size."""
    dtypes = {str(leaf.dtype) for leaf in jax.tree.leaves(arguments)}
    if switched_off() or len(dtypes) != 1 or not dtypes <= {"float32", "float64"}:
        return False
    closed = jax.make_jaxpr(function)(*arguments)
    if num_products(closed.jaxpr) > MOST_PRODUCTS:
        return False
    try:
        return bool(tracer.program_of(closed))
    except tracer.Unsupported as reason:
        log.debug("a function runs through XLA: no scalar form for %s", reason)
        return False
