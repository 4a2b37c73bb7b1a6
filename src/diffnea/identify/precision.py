"""Fits are computed in double precision, whatever the program's own is."""

from contextlib import AbstractContextManager

import jax


def is_double() -> bool:
    """Whether the program computes in double precision."""
    return bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]


def double_precision() -> AbstractContextManager[None]:
    """Double precision for a while."""
    return jax.enable_x64(True)
