"""Commands that come late, by a fraction of a sample too."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def weights(delay: Float[Array, " n"], most: int) -> Float[Array, "past n"]:
    """How much of the command of 0, 1, … samples ago arrives now: two neighbours, in proportion."""
    ago = jnp.arange(most + 1, dtype=delay.dtype)
    return jnp.maximum(1 - jnp.abs(delay[None, :] - ago[:, None]), 0.0)


def latest(shares: Float[Array, "past n"], past: Float[Array, "past n"]) -> Float[Array, " n"]:
    """What arrives of the past commands, the newest of which comes first."""
    return jnp.sum(shares * past, axis=0)


def delayed(u: Float[Array, "time n"], delay: Float[Array, " n"], most: int) -> Float[Array, "time n"]:
    """What arrives of recorded commands; before the first, there was the first."""
    count = u.shape[0]
    padded = jnp.concatenate([jnp.broadcast_to(u[:1], (most, u.shape[1])), u])
    shares = weights(delay, most)
    return sum((shares[k][None] * padded[most - k : most - k + count] for k in range(1, most + 1)), shares[0][None] * u)


def led(u: Float[Array, "time n"], lead: Float[Array, " n"], dt: Float[Array, ""]) -> Float[Array, "time n"]:
    """Recorded commands with their own rate `lead` seconds ahead; after the last, there is the last."""
    rate = jnp.concatenate([jnp.diff(u, axis=0), jnp.zeros_like(u[:1])]) / dt
    return u + lead[None] * rate
