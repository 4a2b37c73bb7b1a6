"""A smooth bound that is the identity for ordinary numbers: `y = x / √(1 + (x / limit)²)`, and its inverse.

A limit is far beyond any robot. It keeps what is computed from a virtual number within the range of floats, float32
included, whatever the number is.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LOG_ROOT_MASS = 14.0  # e^(2 · 14) = 1.4e12 kg
LOG_LENGTH = 25.0  # e^25 = 7e10 m
LENGTH = 2.0**30  # metres
ANGLE = 2.0**20  # radians
ROOT_MASS = 2.0**20  # √kg
ROOT_MOMENT = 2.0**45  # √(kg·m²)
SOFTPLUS = 2.0**20

# Beyond so many limits the bound is reached to the last bit in float64, and squares are still finite in float32.
_SATURATED = 2.0**28
_NEAREST_TO_LIMIT = 0.999


def bounded(x: Float[Array, "*shape"], limit: float) -> Float[Array, "*shape"]:
    """`x` squeezed into ±limit; its slope `(1 + (x / limit)²)^(−3/2)` is positive until it underflows to zero."""
    ratio = jnp.clip(x / limit, -_SATURATED, _SATURATED)
    return limit * (ratio / jnp.sqrt(1 + ratio * ratio))


def unbounded(y, limit: float):
    """The `x` with `bounded(x, limit) == y`, of numpy or JAX arrays."""
    ratio = y / limit
    return y / ((1 - ratio) * (1 + ratio)) ** 0.5


def within(y: np.ndarray | float, limit: float) -> bool:
    """Whether `unbounded` can take the number."""
    return bool(np.all(np.abs(y) < _NEAREST_TO_LIMIT * limit))
