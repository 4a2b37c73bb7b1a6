"""The energy balance of a step: the velocity is scaled so that the energy is what was there, came in and was lost."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea import dynamics
from diffnea.models import Model

# A velocity is lengthened by at most this factor: losing some energy is better than to make up for much.
MOST_LENGTHENING = 1.25
# A roll-out may overshoot its last turning point by this share of its step, and is moved back; more, and it waits.
SMALL_OVERSHOOT = 1e-3
# Roundings of an energy: what is lower than this many units in the last place is no rise.
ROUNDINGS = 64


class Level(NamedTuple):
    """A state's energies: kinetic, and potential with what the actuators store."""

    kinetic: Float[Array, ""]
    potential: Float[Array, ""]

    @property
    def total(self) -> Float[Array, ""]:
        return self.kinetic + self.potential


def level(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Level:
    """The energies of a state."""
    kinetic, potential = dynamics.energies(model.robot, q, qd)
    return Level(kinetic, potential + model.actuator.potential(q))


def settle(
    old: tuple[Array, Level],
    new: tuple[Array, Array, Level],
    wanted: Float[Array, ""],
    most: Float[Array, ""],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The new state with its energy at `wanted`, in any case not above `most`.

    Where the potential alone is above, the step went past a turning point: it ends at rest, moved back by as much, or
    where it began, which is always low enough.
    """
    (q_old, before), (q, qd, after) = old, new
    moving = after.kinetic > 0
    kinetic = jnp.where(moving, after.kinetic, 1.0)
    square = jnp.clip((wanted - after.potential) / kinetic, 0.0, MOST_LENGTHENING**2)
    scale = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    excess = after.potential - most
    rounding = ROUNDINGS * jnp.finfo(q.dtype).eps * (jnp.abs(after.potential) + jnp.abs(before.potential))
    above = excess > rounding
    share = excess / jnp.where(above, jnp.maximum(after.potential - before.potential, excess), 1.0)
    back = jnp.where(above, jnp.where(share < SMALL_OVERSHOOT, 2 * share, 1.0), 0.0)
    qd = jnp.where(moving & ~above, scale, 0.0) * qd
    return q + back * (q_old - q), qd
