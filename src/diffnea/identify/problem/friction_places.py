"""Where the coefficients of Stribeck curves stand among the learned numbers."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from diffnea import parameters
from diffnea.actuators import AbstractActuator, Combined, Stribeck
from diffnea.actuators.base import Role
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.models import FeedForward


def curve_places(free: Unknowns) -> dict[Role, Int[np.ndarray, " n"]]:
    """Where in θ the coefficients of each joint's Stribeck curve stand, −1 where not learned; empty without one."""
    if isinstance(free.tree, FeedForward):
        return {}
    indices = jnp.arange(free.size, dtype=float)
    numbered, chosen = parameters.unpack(free.tree, free.masks, indices)[1], free.masks[1]
    pairs = zip(_parts(numbered), _parts(chosen), strict=True)
    curve = next(((part, mask) for part, mask in pairs if isinstance(part, Stribeck)), None)
    if curve is None:
        return {}
    leaves = {Role.STATIC: "raw_static", Role.KINETIC: "raw_kinetic", Role.VISCOUS: "raw_viscous"}
    leaves[Role.STRIBECK_VELOCITY] = "raw_shape"
    part, mask = curve
    return {
        role: np.where(np.asarray(getattr(mask, name)), np.asarray(getattr(part, name)), -1).astype(int)
        for role, name in leaves.items()
    }


def _parts(actuator: AbstractActuator) -> tuple[AbstractActuator, ...]:
    return actuator.parts if isinstance(actuator, Combined) else (actuator,)
