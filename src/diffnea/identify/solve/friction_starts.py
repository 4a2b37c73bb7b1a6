"""Starts that differ in their dry friction: its curve is narrow or wide, and a fit seldom goes from one to the other.

A curve that has grown wide mimics viscous friction, and one that has lost its height has no slope left that would lead
back. So curves are drawn, whatever the one is that a fit has come to.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from diffnea import parameters
from diffnea.actuators import Stribeck
from diffnea.actuators.coefficients import positive, raw_of
from diffnea.identify.problem.unknowns import Unknowns

CURVE_LEAVES = "raw_shape", "raw_static", "raw_kinetic", "raw_viscous"
# Curves are drawn from … to: Stribeck velocities as shares of a joint's usual speed, static and kinetic friction as
# multiples of the given dry friction, viscous friction as multiples of the given.
DRAWN_VELOCITY, DRAWN_DRY, DRAWN_VISCOUS = (0.01, 0.3), (0.2, 3.0), (0.03, 1.5)


def with_other_friction(
    free: Unknowns,
    theta: Float[np.ndarray, " p"],
    count: int,
    seed: int = 0,
    speed: Float[np.ndarray, " n"] | None = None,
) -> list[Float[np.ndarray, " p"]]:
    """Copies of θ with Stribeck curves drawn at random, one a joint; none where no such curve is learned.

    All is even in the logarithm: Stribeck velocities as shares of the joints' usual `speed`, static, kinetic and
    viscous friction as multiples of the given model's dry and viscous friction.
    """
    shape, static, kinetic, viscous = (_places(free, name) for name in CURVE_LEAVES)
    if not len(shape) == len(static) == len(kinetic) == len(viscous) > 0:
        return []
    rng, n = np.random.default_rng((seed, 1)), len(shape)
    dry, damping = _value(free.start[kinetic]), _value(free.start[viscous])
    usual = np.full(n, 1.0) if speed is None or len(speed) != n else np.maximum(speed, 1e-9)
    found = []
    for _ in range(count):
        drawn = np.array(theta)
        drawn[shape] = _raw(1 / (usual * _between(rng, DRAWN_VELOCITY, n)) ** 2)
        drawn[static] = _raw(dry * _between(rng, DRAWN_DRY, n))
        drawn[kinetic] = _raw(dry * _between(rng, DRAWN_DRY, n))
        drawn[viscous] = _raw(damping * _between(rng, DRAWN_VISCOUS, n))
        found.append(drawn)
    return found


def with_given_friction(free: Unknowns, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """θ with the Stribeck curves that its start has: where a fit has ended, a curve may have lost its effect."""
    places = np.concatenate([_places(free, name) for name in CURVE_LEAVES])
    kept = np.array(theta)
    kept[places] = free.start[places]
    return kept


def _between(rng: np.random.Generator, ends: tuple[float, float], count: int) -> np.ndarray:
    """Even in the logarithm."""
    return ends[0] * (ends[1] / ends[0]) ** rng.uniform(size=count)


def _places(free: Unknowns, name: str) -> np.ndarray:
    """Where θ has this coefficient of Stribeck curves."""

    def marked(part: PyTree) -> PyTree:
        none = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), part)
        if not isinstance(part, Stribeck):
            return none
        return eqx.tree_at(lambda curve: getattr(curve, name), none, np.ones(np.shape(getattr(part, name))))

    tree = jax.tree.map(marked, free.tree, is_leaf=lambda part: isinstance(part, Stribeck))
    return np.flatnonzero(np.asarray(parameters.pack(tree, free.masks)))


def _value(raw: np.ndarray) -> np.ndarray:
    return np.asarray(positive(jnp.asarray(raw)))


def _raw(value: np.ndarray) -> np.ndarray:
    return np.asarray(raw_of(jnp.asarray(value)))
