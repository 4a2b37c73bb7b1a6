"""Coefficients of joints: checked, one a joint, and the map that keeps some of them from ever being negative."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from diffnea.arrays import Numbers

# What a coefficient can be at most, so that products of several stay finite in single precision too.
MOST = 1e8
# What "none" starts as. An exact zero would lie at minus infinity, where no gradient leads away from it.
LEAST = 1e-6


def limited(raw: Float[Array, "*k"], most: float = MOST) -> Float[Array, "*k"]:
    """Any finite number as one that can be multiplied with others without overflow."""
    return jnp.clip(raw, -most, most)


def positive(raw: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """`log(1 + eˣ)`: non-negative and finite for every finite x, like eˣ where it is small, like x where it is large.

    Small values so change by factors, whatever their size, and a step that is too long does not explode.
    """
    raw = jnp.minimum(raw, MOST)
    return jnp.maximum(raw, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(raw)))


def raw_of(value: Float[Array, "*k"]) -> Float[Array, "*k"]:
    """The number that `positive` maps to `value`; values below `LEAST` count as `LEAST`."""
    value = jnp.clip(value, LEAST, MOST)
    return value + jnp.log(-jnp.expm1(-value))


def counted(num_joints: int | None, *values: Numbers | None) -> int:
    """How many joints there are: as said, or as many as the longest of several coefficients has numbers."""
    sizes = [np.size(value) for value in values if value is not None]
    return num_joints if num_joints is not None else max(sizes, default=1)


def per_joint(name: str, value: Numbers, num_joints: int | None = None) -> Float[Array, " n"]:
    """One number a joint from one for all or one for each."""
    array = jnp.asarray(value)
    array = array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(float)
    count = num_joints if num_joints is not None else (array.shape[0] if array.ndim else 1)
    if array.ndim > 1 or (array.ndim and array.shape[0] != count):
        raise ValueError(f"{name} has shape {array.shape}; give one number, or {count}, one a joint")
    return jnp.broadcast_to(array, (count,))


def raw_per_joint(name: str, value: Numbers, num_joints: int | None = None) -> Float[Array, " n"]:
    """`per_joint` for a quantity that must not be negative, as the number that `positive` maps to it."""
    array = per_joint(name, value, num_joints)
    if not isinstance(array, Tracer):
        refused = [float(number) for number in np.asarray(array) if not 0 <= number < np.inf]
        if refused:
            raise ValueError(f"{name} is {refused[0]:g}; give a finite number that is not negative")
    return raw_of(array)


def static(name: str, value: Any, num_joints: int) -> tuple[float, ...]:
    """A fixed scale, one a joint, positive, in the hashable form that shapes the computation."""
    array = np.asarray(value, float)
    if array.shape not in ((), (num_joints,)):
        raise ValueError(f"{name} has shape {array.shape}; give one number, or {num_joints}, one a joint")
    for number in array.ravel().tolist():
        if not 0 < number < np.inf:
            raise ValueError(f"{name} is {number:g}; give a finite number above zero")
    return tuple(np.broadcast_to(array, (num_joints,)).tolist())
