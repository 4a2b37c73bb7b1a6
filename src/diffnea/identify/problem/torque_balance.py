"""Torques of a recorded motion: what its actuators leave of what it takes, where the past says how friction points."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diffnea import kernels
from diffnea.models import Model, inverse


class Torques(NamedTuple):
    """In N·m, or N at joints that slide."""

    left: Float[np.ndarray, "time n"]  # what the motion takes beyond what the actuators give
    driven: Float[np.ndarray, "time n"]  # what the commands bring


def torques(
    model: Model,
    q: Float[ArrayLike, "time n"],
    qd: Float[ArrayLike, "time n"],
    qdd: Float[ArrayLike, "time n"],
    u: Float[ArrayLike, "time n"],
    way: Float[ArrayLike, "time m"] | None = None,
) -> Torques:
    """Of every sample; `u` are commands as they arrive, `way` is that of `presliding.ways`, None: by velocities."""
    arrays = [None if array is None else jnp.asarray(array) for array in (q, qd, qdd, u, way)]
    same = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(q).dtype), model)
    return Torques(*map(np.asarray, _torques(same, *arrays)))


def _of_sample(model: Model, q: Array, qd: Array, qdd: Array, u: Array, way: Array | None) -> tuple[Array, Array]:
    left = inverse(model, q, qd, qdd) - model.actuator(u, q, qd, way)
    return left, model.actuator.drive(u, q, qd)


_kernel = kernels.compile(_of_sample)


@jax.jit
def _torques(model: Model, *arrays: Array | None) -> tuple[Array, Array]:
    return jax.vmap(_kernel, (None, *[0] * len(arrays)))(model, *arrays)
