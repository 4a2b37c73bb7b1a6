"""Fits are computed in double precision, whatever the program's own is."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


def is_double() -> bool:
    """Whether the program computes in double precision."""
    return bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def double_precision() -> Iterator[None]:
    """Double precision for a while.

    JAX remembers what numpy indices look like without asking for the precision, and then mixes 32 and 64 bits: so what
    it remembers is dropped on the way in and out.
    """
    if is_double():
        yield
        return
    jax.clear_caches()
    try:
        with jax.enable_x64(True):
            yield
    finally:
        jax.clear_caches()
