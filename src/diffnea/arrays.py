"""What users may give where numbers in rows are asked for: arrays of any kind, and plain lists."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

Rows = list[Any] | tuple[Any, ...]
Numbers = ArrayLike | Rows  # one for all joints, or one for each


def numbers(name: str, value: Any) -> jax.Array:
    """An array of real numbers, or one line on what was found instead."""
    # A call by hand is bound by Python: what is an array already is not made one again, which takes 8 µs each.
    try:
        array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {_in_short(value)}; give real numbers, in rows of one length") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"{name} is complex; give real numbers")
    return array


def _in_short(value: Any) -> str:
    text = " ".join(repr(value).split())
    kind = "an array of " + str(value.dtype) if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    return f"{kind}, {text if len(text) <= 40 else text[:40] + '…'}"
