"""Energy: of motion, of weight, and what is stored otherwise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.coupled import whole
from diffnea.joints import joint_frames, joint_twists, row_bodies, row_numbers
from diffnea.passive import stored_energy
from diffnea.spatial import Adjoint


class Energy(NamedTuple):
    """Kinetic and potential energy in joules; the potential is zero with all mass at the base's origin."""

    kinetic: Float[Array, "*batch"]
    potential: Float[Array, "*batch"]


@jax.jit
def energies(robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Energy:
    """`½ Σ v_iᵀ M_i v_i + ½ Σ armature_i q̇_i²` and `−g · Σ m_i c_i`, with what is stored otherwise.

    Of a canonical robot without what no joint lifts.
    """
    if robot.couplings is not None:
        full = whole(robot, q)
        return energies(full.robot, full.q, full.velocities(qd))
    base = jnp.zeros(6, q.dtype), robot.gravity, jnp.zeros((), q.dtype)
    links = joint_frames(robot, q), joint_twists(robot), row_bodies(robot, robot.inertia.moments), qd
    twice, lift = robot.tree.rows.from_root(_carry_energy, base, *links)
    kinetic = (jnp.sum(twice) + jnp.sum(row_numbers(robot, robot.armature) * qd**2)) / 2
    potential = -jnp.sum(lift)
    return Energy(kinetic, potential + stored_energy(robot, q) if robot.stores else potential)


@jax.jit
def _carry_energy(parent, T, s, body, qd):
    v, g, fall = parent  # the twist; gravity in the link's axes; and g · p, with p where the origin is in the world
    v, g, fall = Adjoint(T) @ v + s * qd, T.rotation.T @ g, fall + g @ T.translation
    return (v, g, fall), (v @ (body @ v), body.mass * fall + g @ body.first)
