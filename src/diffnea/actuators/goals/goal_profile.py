"""The profile of a servo's goals: how fast what it is told becomes what its loop follows."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class GoalProfile(NamedTuple):
    """Goals approached at most at `speed`, in rad/s, and sped up and slowed down by `acceleration`, in rad/s².

    Without an acceleration it is a rate limit; with one, the way to a goal far off is a trapezoid of speeds. It depends
    on goals alone, not on where the joint is. One entry a joint.
    """

    speed: Float[Array, " n"]
    acceleration: Float[Array, " n"] | None = None

    def advance(
        self, goal: Float[Array, " n"], rate: Float[Array, " n"], target: Float[Array, " n"], h: Float[Array, ""]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Where the profile is, and how fast, a time `h` later on its way to a target.

        The speed aimed at is the highest from which the way left is enough to stop, in steps of h:
        `v (v + a h) = 2 a d`. It ends at the target, not about it.
        """
        left = target - goal
        if self.acceleration is None:
            rate = jnp.clip(left / h, -self.speed, self.speed)
            return goal + h * rate, rate
        half = self.acceleration * h / 2
        stopping = jnp.sqrt(half**2 + 2 * self.acceleration * jnp.abs(left)) - half
        aimed = jnp.minimum(jnp.minimum(stopping, self.speed), jnp.abs(left) / h) * jnp.sign(left)
        rate = rate + jnp.clip(aimed - rate, -2 * half, 2 * half)
        return goal + h * rate, rate
