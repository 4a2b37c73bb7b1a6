"""The matrix `C(q, q̇)` for which `Ṁ − 2C` is skew."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.dynamics.composite import crba
from diffnea.manifold import displace, parts
from diffnea.robot import Robot
from diffnea.spatial import skew


def christoffel(robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Float[Array, "n n"]:
    """`C(q, q̇)` from Christoffel's symbols, `½ (Ṁ + ∂(M q̇)/∂q − (∂(M q̇)/∂q)ᵀ)`, so that `Ṁ − 2C` is skew."""
    still = jnp.zeros_like(qd)
    mass_rate = jax.jvp(lambda step: crba(robot, displace(robot, q, step)), (still,), (qd,))[1]
    momentum_slope = jax.jacfwd(lambda step: crba(robot, displace(robot, q, step)) @ qd)(still)
    C = (mass_rate + momentum_slope - momentum_slope.T) / 2
    return C if robot.tree.simple else C + _turning_axes(robot, crba(robot, q) @ qd, qd)


def _turning_axes(robot: Robot, momentum: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, "n n"]:
    """What is added where a joint's axes turn with its link: `[0, −[P]; −[P], −[L]]` of its momenta, skew itself."""
    found = jnp.zeros((len(momentum), len(momentum)), momentum.dtype)
    for kind, _, place, link in parts(robot):
        p = momentum[place] - robot.armature[link] * qd[place]  # rotors do not turn with the link
        if kind == "ball":
            found = found.at[place, place].set(-skew(p))
        elif kind == "free":
            linear, angular = -skew(p[:3]), -skew(p[3:])
            found = found.at[place, place].set(jnp.block([[0 * linear, linear], [linear, angular]]))
    return found
