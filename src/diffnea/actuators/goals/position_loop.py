"""The position loop of servos: the torque that a goal brings, the energy it stores, and both solved within a step."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class PositionLoop(NamedTuple):
    """`τ = clip(kp z(g − q) − kd q̇, ±T (1 ∓ q̇ / ω))` with z(e) = e but for ±`slack`, where it is 0; one entry a joint.

    At rest the torque is the slope of a stored energy, and it only ever falls with the velocity: a goal that is held
    adds no energy. The limits T fall to 0 at the speed ω, as of a motor on a given voltage; None: there are none.
    """

    stiffness: Float[Array, " n"]
    damping: Float[Array, " n"]
    slack: Float[Array, " n"] | None = None
    limit: Float[Array, " n"] | None = None
    speed: Float[Array, " n"] | None = None

    def torque(self, error: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        """The torque at an error `g − q` and a velocity."""
        free = self.stiffness * _beyond(error, self.slack) - self.damping * qd
        if self.limit is None:
            return free
        falling = 0.0 if self.speed is None else qd / self.speed
        return jnp.clip(free, -self.limit * (1 + falling), self.limit * (1 - falling))

    def energy(self, error: Float[Array, " n"]) -> Float[Array, ""]:
        """What is stored between goal and position: its slope is the torque at rest."""
        stretch = jnp.abs(_beyond(error, self.slack))
        if self.limit is None:
            return jnp.sum(self.stiffness * stretch**2) / 2
        most = self.limit / jnp.where(self.stiffness > 0, self.stiffness, 1.0)
        within = jnp.minimum(stretch, most)
        driven = jnp.where(self.stiffness > 0, self.limit * (stretch - within), 0.0)
        return jnp.sum(self.stiffness * within**2 / 2 + driven)

    def velocity(
        self,
        i: int,
        mass: Float[Array, ""],
        push: Float[Array, ""],
        error: Float[Array, ""],
        dry: Float[Array, ""],
        h: Float[Array, ""],
    ) -> Float[Array, ""]:
        """The v of joint i with `mass v = push + h τ(error − h v, v) − h dry sign(v)`: one root, found exactly.

        τ falls with v and is made of straight pieces by min and max: so is the root, of the pieces' roots.
        """
        forward = self._root(i, mass, push - h * dry, error, h)
        backward = self._root(i, mass, push + h * dry, error, h)
        return jnp.maximum(forward, 0.0) + jnp.minimum(backward, 0.0)

    def _root(self, i, mass, push, error, h):
        kp, kd = self.stiffness[i], self.damping[i]
        stiff = mass + h * kd + h * h * kp
        if self.slack is None:
            root = (push + h * kp * error) / stiff
        else:
            above = (push + h * kp * (error - self.slack[i])) / stiff
            below = (push + h * kp * (error + self.slack[i])) / stiff
            root = jnp.maximum(above, jnp.minimum(push / (mass + h * kd), below))
        if self.limit is None:
            return root
        braked = mass if self.speed is None else mass + h * self.limit[i] / self.speed[i]
        most, least = ((push + sign * h * self.limit[i]) / braked for sign in (1, -1))
        return jnp.minimum(most, jnp.maximum(least, root))


def _beyond(error: Float[Array, " n"], slack: Float[Array, " n"] | None) -> Float[Array, " n"]:
    """What of the error is beyond the slack."""
    return error if slack is None else jnp.maximum(error - slack, jnp.minimum(error + slack, 0.0))
