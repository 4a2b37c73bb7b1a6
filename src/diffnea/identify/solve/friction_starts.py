"""Starts that differ in their dry friction: its curve is narrow or wide, and a fit seldom goes from one to the other.

A curve that has grown wide mimics viscous friction, and one that has lost its height has no slope left that would lead
back. So several curves are tried.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators.coefficients import positive, raw_of
from diffnea.identify.problem.unknowns import Unknowns

# Factors of a Stribeck velocity, of static by kinetic friction, and of viscous friction: where a start has too much of
# that, dry friction goes to make up for it.
WIDTH, HEIGHT, VISCOUS = (0.2, 3.0), (0.7, 4.0), (0.03, 1.5)
DRY = "raw_shape", "raw_static", "raw_kinetic"


def with_other_friction(
    free: Unknowns, theta: Float[np.ndarray, " p"], count: int, seed: int = 0
) -> list[Float[np.ndarray, " p"]]:
    """Copies of θ with Stribeck curves drawn at random, one a joint; none where no such curve is learned."""
    shape, static, kinetic, viscous = (_places(free, name) for name in (*DRY, "raw_viscous"))
    if not len(shape) == len(static) == len(kinetic) == len(viscous) > 0:
        return []
    rng = np.random.default_rng(seed)
    found = []
    for k in range(count):
        width, height, share = (_between(rng, ends, len(shape)) for ends in (WIDTH, HEIGHT, VISCOUS))
        drawn = np.array(theta)
        drawn[shape] = _raw(_value(theta[shape]) / width**2)
        drawn[static] = _raw(height * _value(theta[kinetic]))
        if k % 2:  # every second one keeps what it has
            drawn[viscous] = _raw(share * _value(theta[viscous]))
        found.append(drawn)
    return found


def with_given_friction(free: Unknowns, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """θ with the Stribeck curves that its start has: where a fit has ended, a curve may have lost its effect."""
    places = np.concatenate([_places(free, name) for name in (*DRY, "raw_viscous")])
    kept = np.array(theta)
    kept[places] = free.start[places]
    return kept


def _between(rng: np.random.Generator, ends: tuple[float, float], count: int) -> np.ndarray:
    """Even in the logarithm."""
    return ends[0] * (ends[1] / ends[0]) ** rng.uniform(size=count)


def _places(free: Unknowns, name: str) -> np.ndarray:
    return np.array([k for k, label in enumerate(free.labels) if name in label], int)


def _value(raw: np.ndarray) -> np.ndarray:
    return np.asarray(positive(jnp.asarray(raw)))


def _raw(value: np.ndarray) -> np.ndarray:
    return np.asarray(raw_of(jnp.asarray(value)))
