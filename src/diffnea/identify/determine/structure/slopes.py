"""Structure: how torques change with each physical number, on states that no recording limits."""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics, manifold
from diffnea.actuators import AbstractActuator
from diffnea.actuators.on_joints import on_joints
from diffnea.batches import regressor
from diffnea.batching import batched
from diffnea.coupled import whole
from diffnea.identify.determine.structure.coordinates import Coordinates, value_and_slopes
from diffnea.models import Model
from diffnea.robot import Robot
from diffnea.spatial import Transform, skew

# Enough for any robot: ten unknowns a link, some more a joint, one row a state and joint. A network needs more.
_PROBED_STATES, _ROWS_AN_UNKNOWN = 96, 1.5


def torque_slopes(
    robot: Robot,
    q: Float[np.ndarray, "sample nq"],
    qd: Float[np.ndarray, "sample n"],
    qdd: Float[np.ndarray, "sample n"],
    kinematics: bool,
) -> Float[np.ndarray, "sample n z"]:
    """Slopes of inverse dynamics in all that stands in `robot_vector`; zero for placements unless they are learned."""
    inertia = np.asarray(regressor(robot, q, qd, qdd))
    rotors = _rotor_slopes(robot, q, qd, qdd)
    moved = np.zeros((*np.shape(qdd), 6 * robot.num_links))
    if kinematics:
        moved = np.asarray(batched(_placement_slopes, robot, q=q, qd=qd, qdd=qdd))
    return np.concatenate([inertia, rotors, moved], axis=2)


def _rotor_slopes(robot: Robot, q, qd, qdd) -> Float[np.ndarray, "sample n links"]:
    """What rotors of armature 1 take, each at its own joint; of those that follow as it is felt where they are led."""
    at_links = np.eye(robot.num_links)[robot.tree.layout.links]
    if robot.couplings is None:
        return np.asarray(qdd)[:, :, None] * at_links
    return np.asarray(batched(_felt_rotors, robot, q=q, qd=qd, qdd=qdd)) @ at_links


def _felt_rotors(robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"], qdd: Float[Array, " n"]):
    full = whole(robot, q)  # Gᵀ diag(armature) (G q̈ + Ġ q̇)
    return full.G.T * full.accelerations(qd, qdd)[None]


def _placement_slopes(robot: Robot, q: Float[Array, " n"], qd: Float[Array, " n"], qdd: Float[Array, " n"]):
    """Slopes of the torques in each joint's translation and in small turns about its link's axes."""

    def torque(moves):
        slide, turn = moves
        rotation = jax.vmap(lambda R, w: R + R @ skew(w))(robot.placement.rotation, turn)
        placement = Transform(rotation, robot.placement.translation + slide)
        return dynamics.rnea(replace(robot, placement=placement), q, qd, qdd)

    nowhere = jnp.zeros_like(robot.placement.translation)
    slides, turns = jax.jacfwd(torque)((nowhere, nowhere))
    return jnp.concatenate([slides.reshape(len(q), -1), turns.reshape(len(q), -1)], axis=1)


@eqx.filter_jit
def _actuator_slopes(actuator: AbstractActuator, u: Array, q: Array, qd: Array, qdd: Array) -> list[Array]:
    """Slopes of the actuators' torques, less what their rotors take, in their leaves, (sample, n, size of the leaf)."""
    numbers, rest = eqx.partition(actuator, eqx.is_inexact_array)
    if not jax.tree.leaves(numbers):
        return []

    def torque(numbers, u, q, qd, qdd):
        whole = eqx.combine(numbers, rest)
        turns = jnp.asarray(np.array(whole.turning).reshape(-1, len(qd)), q.dtype)
        return whole(u, q, qd) - turns.T @ (whole.rotors * (turns @ qdd))

    slopes = jax.vmap(jax.jacrev(torque), (None, 0, 0, 0, 0))(numbers, u, q, qd, qdd)
    return [leaf.reshape(*qd.shape, -1) for leaf in jax.tree.leaves(slopes)]


def _numbers(actuator: AbstractActuator) -> Float[Array, " a"]:
    leaves = jax.tree.leaves(eqx.filter(actuator, eqx.is_inexact_array))
    return jnp.concatenate([leaf.ravel() for leaf in leaves]) if leaves else jnp.zeros(0)


def exciting_states(
    model: Model, unknowns: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """q, q̇ and commands at random over the joints' range, and the accelerations that the model has there."""
    robot, n = model.robot, model.num_joints
    rng = np.random.default_rng(seed)
    count = max(_PROBED_STATES, int(_ROWS_AN_UNKNOWN * unknowns / max(n, 1)) + 1)
    lower, upper = (np.asarray(each, float) for each in (robot.joint_limits.lower, robot.joint_limits.upper))
    bounded = np.isfinite(lower) & np.isfinite(upper) & (upper > lower)
    reach = np.where(robot.turning, np.pi, 1.0)
    lower, upper = np.where(bounded, lower, -reach), np.where(bounded, upper, reach)
    joints = rng.uniform(lower, upper, (count, n))
    shape = 2, count, robot.num_velocities
    qd, wanted = rng.normal(size=shape) * np.array([2.0, 10.0])[:, None, None]
    q = joints if robot.tree.simple else with_joints(robot, joints, rng)
    torque = np.asarray(batched(dynamics.rnea, robot, q=q, qd=qd, qdd=wanted))
    rows = [part.v.start for part in manifold.parts(robot) if part.kind == "single"]
    u = rng.normal(size=(count, n)) * np.sqrt(np.mean(torque[:, rows] ** 2, axis=0))
    return q, qd, u, np.asarray(model(q, qd, u), float)


def with_joints(
    robot: Robot, joints: Float[np.ndarray, "sample n"], rng: np.random.Generator | None = None
) -> Float[np.ndarray, "sample nq"]:
    """q of these joint positions; free links and balls where the file has them, or turned at random."""
    if robot.tree.simple:
        return joints
    q = np.tile(np.asarray(manifold.neutral(robot), float), (len(joints), 1))
    for part in manifold.parts(robot):
        if part.kind != "single" and rng is not None:
            turn = rng.normal(size=(len(q), 4))
            q[:, part.q.stop - 4 : part.q.stop] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    q[:, [part.q.start for part in manifold.parts(robot) if part.kind == "single"]] = joints
    return q


def structural_jacobian(
    unpack: Callable[[Array], Model],
    model: Model,
    theta: np.ndarray,
    coordinates: Coordinates,
    kinematics: bool,
) -> Float[np.ndarray, "rows k"]:
    """Slopes of `torque taken − actuator torque` in the coordinates, each joint's rows divided by their size.

    Accelerations belong to the model, so that its own slopes, `−M⁻¹` times these, have the same null space.
    """
    point = jnp.asarray(theta)
    q, qd, u, qdd = exciting_states(model, len(theta))
    rows = torque_slopes(model.robot, q, qd, qdd, kinematics) @ coordinates.robot_slopes
    leaves = _actuator_slopes(
        on_joints(model.actuator, model.robot), *(jnp.asarray(x, point.dtype) for x in (u, q, qd, qdd))
    )
    if leaves:
        _, inner = value_and_slopes(lambda theta: _numbers(unpack(theta).actuator), point)
        outer = np.concatenate([np.asarray(leaf, float) for leaf in leaves], axis=2)
        rows = rows - outer @ (inner @ coordinates.inverse)
    size = np.sqrt(np.mean((rows * coordinates.scales) ** 2, axis=(0, 2)))
    return (rows / np.where(size > 0, size, 1.0)[:, None]).reshape(-1, rows.shape[2])
