"""What ties joints and links: couplings, springs, tendons, loops, and what takes weight off links."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.spatial import Transform


class Couplings(eqx.Module):
    """Joints that follow others: `q_follower = Σ_j c_j q_leader^j`, by the indices of their links."""

    followers: tuple[int, ...] = eqx.field(static=True)
    leaders: tuple[int, ...] = eqx.field(static=True)
    coefficients: Float[Array, "k degrees"]

    def positions(self, leading: Float[Array, " k"]) -> Float[Array, " k"]:
        """Where the followers are."""
        return _polynomial(self.coefficients, leading)

    def slopes(self, leading: Float[Array, " k"]) -> Float[Array, " k"]:
        """How fast the followers go, for each unit of their leader's velocity."""
        return _polynomial(_derivative(self.coefficients), leading)

    def curvatures(self, leading: Float[Array, " k"]) -> Float[Array, " k"]:
        """How the slopes change along the leader's way."""
        return _polynomial(_derivative(_derivative(self.coefficients)), leading)


def _polynomial(coefficients: Array, x: Array) -> Array:
    total = coefficients[:, -1]
    for j in reversed(range(coefficients.shape[1] - 1)):
        total = coefficients[:, j] + x * total
    return total


def _derivative(coefficients: Array) -> Array:
    degrees = coefficients.shape[1]
    if degrees == 1:
        return jnp.zeros_like(coefficients)
    return coefficients[:, 1:] * jnp.arange(1, degrees, dtype=coefficients.dtype)[None]


class Springs(eqx.Module):
    """Springs at joints, one row a link: stored energy `½ k (q − rest)²`.

    A ball is pulled to where the file has it, by `½ k θ²` of its angle.
    """

    stiffness: Float[Array, " links"]  # N·m/rad or N/m, zero where there is none
    rest: Float[Array, " links"]


class Tendons(eqx.Module):
    """Springs along sums of joints, `l = Σ_i w_i q_i`: `½ k d²` of how far l is outside of `lower` to `upper`."""

    weights: Float[Array, "k links"]
    stiffness: Float[Array, " k"]
    lower: Float[Array, " k"]
    upper: Float[Array, " k"]


class Loops(eqx.Module):
    """Pairs of links that are held together, by a point ("connect") or by their poses ("weld"); −1 is the ground."""

    kinds: tuple[str, ...] = eqx.field(static=True)
    first: tuple[int, ...] = eqx.field(static=True)
    second: tuple[int, ...] = eqx.field(static=True)
    first_place: Transform  # in the link's frame, one a loop
    second_place: Transform


class Lift(eqx.Module):
    """Weight that is taken off links: of mass `share · m`, with the first moment `share · h + excess`.

    `excess` is what bodies that are joined to a link have of it, where their shares differ.
    """

    share: Float[Array, " links"]
    excess: Float[Array, "links 3"]
