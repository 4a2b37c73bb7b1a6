"""Random starts: physical robots of the size and mass of the one given, and otherwise nothing like it."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from diffnea.parameters import bounds
from diffnea.parameters.bounds import unbounded
from diffnea.parameters.selection import pack, unpack
from diffnea.parameters.virtual import VirtualRobot

# Shares of the robot's typical length. A centre of mass keeps away from its joint, where gradients vanish and where
# failed fits end; an extent keeps away from zero, the flat spot of a square root.
_CENTRE, _EXTENT, _STEP = (0.3, 1.0), (0.1, 0.4), (0.5, 1.5)
_SKEW = 0.1
_MASS = (0.4, 2.5)  # shares of the mean mass
_ROTOR = (-2.0, 1.0)


def random(virtual: VirtualRobot, masks: VirtualRobot, key: Key[Array, ""]) -> VirtualRobot:
    """The learned numbers drawn at the scales of the robot's mass and length; `jax.vmap` over keys gives many.

    Args:
        virtual: the numbers of a robot, as `encode` gives them.
        masks: what is learned.
        key: as `jax.random.key(0)`.
    """
    sizes = (virtual.mass_scale, virtual.length_scale)
    drawn = _draw(virtual.form, virtual.own.num_links, key, *sizes)
    other = eqx.tree_at(lambda v: (v.inertia, v.translation, v.rpy, v.armature), virtual, drawn)
    return unpack(virtual, masks, pack(other, masks))


def random_vectors(
    virtual: VirtualRobot, masks: VirtualRobot, key: Key[Array, ""], count: int
) -> Float[Array, "count p"]:
    """Many random starts as packed vectors.

    Args:
        virtual: the numbers of a robot, as `encode` gives them.
        masks: what is learned.
        key: as `jax.random.key(0)`.
        count: how many.
    """
    return jax.vmap(lambda key: pack(random(virtual, masks, key), masks))(jax.random.split(key, count))


@partial(jax.jit, static_argnums=(0, 1))
def _draw(form: str, count: int, key, mass: Float[Array, ""], length: Float[Array, ""]) -> tuple[Array, ...]:
    """Inertias, translations, angles and rotors, one row a link."""
    inertia, steps, turns, rotors = jax.random.split(key, 4)
    body = _log_cholesky if form == "log-cholesky" else _square_root
    return (
        jax.vmap(lambda key: body(key, mass, length))(jax.random.split(inertia, count)),
        jax.vmap(lambda key: _vector(key, length, _STEP))(jax.random.split(steps, count)),
        jax.vmap(lambda key: _angles(key, length.dtype))(jax.random.split(turns, count)),
        jax.random.uniform(rotors, (count,), length.dtype, *_ROTOR),
    )


def _between(key, low_high, shape, dtype) -> Array:
    """Uniform in the logarithm: no size within the range is preferred."""
    low, high = low_high
    return low * (high / low) ** jax.random.uniform(key, shape, dtype)


def _vector(key, length: Float[Array, ""], low_high) -> Float[Array, "3"]:
    """Any direction, and a length away from zero."""
    way, far = jax.random.split(key)
    direction = jax.random.normal(way, (3,), length.dtype)
    size = length * _between(far, low_high, (), length.dtype)
    return direction * (size / jnp.linalg.norm(direction))


def _angles(key, dtype) -> Float[Array, "3"]:
    """Roll, pitch and yaw of a rotation drawn evenly from all."""
    around, up = jax.random.split(key)
    roll, yaw = jax.random.uniform(around, (2,), dtype, -jnp.pi, jnp.pi)
    return jnp.stack([roll, jnp.arcsin(jax.random.uniform(up, (), dtype, -1.0, 1.0)), yaw])


def _log_cholesky(key, mass: Float[Array, ""], length: Float[Array, ""]) -> Float[Array, "10"]:
    keys, dtype = jax.random.split(key, 4), mass.dtype
    alpha = jnp.log(mass * _between(keys[0], _MASS, (), dtype)) / 2
    d = jnp.log(length * _between(keys[1], _EXTENT, (3,), dtype))
    s = _SKEW * length * jax.random.normal(keys[2], (3,), dtype)
    logs = [unbounded(alpha, bounds.LOG_ROOT_MASS)[None], unbounded(d, bounds.LOG_LENGTH)]
    return jnp.concatenate([*logs, s, _vector(keys[3], length, _CENTRE)])


def _square_root(key, mass: Float[Array, ""], length: Float[Array, ""]) -> Float[Array, "10"]:
    keys, dtype = jax.random.split(key, 4), mass.dtype
    root = jnp.sqrt(mass * _between(keys[0], _MASS, (), dtype))
    roots = root * length * _between(keys[1], _EXTENT, (3,), dtype)
    return jnp.concatenate([root[None], roots, _angles(keys[2], dtype), _vector(keys[3], length, _CENTRE)])
