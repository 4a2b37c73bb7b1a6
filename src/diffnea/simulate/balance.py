"""The energy balance of a step: the velocity is scaled so that the energy is what was there, came in and was lost."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.models import Model, energies

# A velocity is lengthened by at most this factor: losing some energy is better than to make up for much.
MOST_LENGTHENING = 1.25
# A roll-out may overshoot its last turning point by this share of its step, and is moved back; more, and it waits.
SMALL_OVERSHOOT = 1e-3
# Units in the last place of the energies that are no difference: motion so slow that its kinetic energy drowns in the
# rounding of the potential is left alone.
ROUNDINGS = 8


class Level(NamedTuple):
    """A state's energies: kinetic, and potential with what the actuators store."""

    kinetic: Float[Array, ""]
    potential: Float[Array, ""]


def level(model: Model, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Level:
    """The energies of a state."""
    return Level(*energies(model, q, qd))


def settle(
    model: Model,
    old: tuple[Array, Level],
    new: tuple[Array, Array, Level],
    work: Float[Array, ""],
    conserve: bool,
) -> tuple[Float[Array, " nq"], Float[Array, " n"]]:
    """The new state with no more energy than the old one and the command's work, or with exactly as much (`conserve`).

    Where the potential alone is above, the step went past a turning point: it ends at rest, moved back by as much, or
    where it began, which is always low enough.
    """
    (q_old, before), (q, qd, after) = old, new
    climbed = after.potential - before.potential
    limit = before.kinetic + work - climbed  # the kinetic energy that is left; differences first, for their digits
    size = jnp.abs(after.potential) + jnp.abs(before.potential) + before.kinetic
    rounding = ROUNDINGS * jnp.finfo(q.dtype).eps * size
    surplus = after.kinetic - limit
    wrong = jnp.abs(surplus) > rounding if conserve else surplus > rounding
    scale = jnp.where(wrong, _scale(limit, after.kinetic), 1.0)
    above = limit < -rounding
    share = jnp.where(above, -limit / jnp.where(above, jnp.maximum(climbed, -limit), 1.0), 0.0)
    back = jnp.where(share < SMALL_OVERSHOOT, 2 * share, 1.0)
    return model.displace(q, back * model.difference(q, q_old)), jnp.where(above, 0.0, scale) * qd


def _scale(wanted: Float[Array, ""], kinetic: Float[Array, ""]) -> Float[Array, ""]:
    """What the velocity is multiplied with to have the kinetic energy wanted; zero where there is none to have."""
    some = (wanted > 0) & (kinetic > 0)
    ratio = jnp.where(some, wanted / jnp.where(some, kinetic, 1.0), 1.0)
    return jnp.where(some, jnp.minimum(jnp.sqrt(ratio), MOST_LENGTHENING), 0.0)
