"""Where links are and how they move, by name: poses and Jacobians of every link of a robot's file, fixed ones too."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Real

from diffnea import batches, batching, dynamics
from diffnea.arrays import Rows, numbers
from diffnea.coupled import whole
from diffnea.formats import link_frames
from diffnea.joints import joint_frames, joint_twists
from diffnea.robot import Robot, nameless
from diffnea.spatial import Adjoint, Transform, identity
from diffnea.text import meant

ORIGIN = (0.0, 0.0, 0.0)


def forward_kinematics(
    robot: Robot, q: Real[ArrayLike, "*batch n"] | Rows, link: str | None = None
) -> Float[Array, "*batch links 4 4"] | Float[Array, "*batch 4 4"]:
    """World poses as homogeneous 4 × 4 matrices.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        link: one link of the robot's file, by name; None: every moving link, in the order of q.

    Returns:
        (…, 4, 4) for a link, (…, num_links, 4, 4) for all. A link that fixed joints hold is found by its name too.
    """
    if link is None:
        return batches.forward_kinematics(robot, q)
    owner, frame = _find(robot, link)
    return _on_batches(partial(_pose, owner, nameless(robot), frame), robot, q)


def jacobian(
    robot: Robot,
    q: Real[ArrayLike, "*batch nq"] | Rows,
    link: str,
    point: Float[ArrayLike, "3"] | Rows = ORIGIN,
) -> Float[Array, "*batch 6 n"]:
    """The geometric Jacobian of a link: `J @ qd` is the velocity of `point` over the angular velocity, in world axes.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        link: a link of the robot's file, by name; links that fixed joints hold have one too.
        point: whose velocity is asked for, in the link's own frame (m); its origin by default.

    Returns:
        (…, 6, num_velocities): three rows of linear, three of angular velocity. Pinocchio's `LOCAL_WORLD_ALIGNED`,
        MuJoCo's `mj_jac`.
    """
    owner, frame = _find(robot, link)
    at = jnp.asarray(point, float)
    if at.shape != (3,):
        raise ValueError(f"point has shape {at.shape}; give three numbers, in the frame of link {link}")
    return _on_batches(partial(_jacobian, owner, nameless(robot), frame, at), robot, q)


def _find(robot: Robot, link: str) -> tuple[int, np.ndarray]:
    if not isinstance(robot, Robot):
        raise TypeError(f"got a {type(robot).__name__} for a robot; give a Robot, as load_robot reads it")
    placed = link_frames(robot)
    if link not in placed:
        hint = meant(str(link), placed) or f"; it has {', '.join(placed)}"
        raise ValueError(f'robot "{robot.name}" has no link "{link}"{hint}')
    return placed[link]


def _on_batches(function, robot: Robot, q) -> Array:
    q = numbers("q", q)
    batching.check_lengths(robot, {"q": q.shape})
    q = q if jnp.issubdtype(q.dtype, jnp.floating) else q.astype(float)
    for _ in q.shape[:-1]:
        function = jax.vmap(function)
    return function(q)


@partial(jax.jit, static_argnums=0)
def _pose(owner: int, robot: Robot, frame: Float[ArrayLike, "4 4"], q: Float[Array, " n"]) -> Float[Array, "4 4"]:
    return _world(robot, owner, q).matrix() @ jnp.asarray(frame, q.dtype)


def _world(robot: Robot, owner: int, q: Float[Array, " n"]) -> Transform:
    """The pose of a moving link's own frame, or of the base."""
    return identity(q.dtype) if owner < 0 else jax.tree.map(lambda rows: rows[owner], dynamics.link_poses(robot, q))


@partial(jax.jit, static_argnums=0)
def _jacobian(
    owner: int, robot: Robot, frame: Float[ArrayLike, "4 4"], point: Float[Array, "3"], q: Float[Array, " nq"]
) -> Float[Array, "6 n"]:
    if owner < 0:
        return jnp.zeros((6, robot.num_velocities), q.dtype)
    own = _twist_columns(robot, q)[owner]
    frame = jnp.asarray(frame, q.dtype)
    at = frame[:3, :3] @ point.astype(q.dtype) + frame[:3, 3]
    moved = Adjoint(Transform(jnp.eye(3, dtype=q.dtype), at)) @ own  # the twist at the point, in the link's axes
    R = _world(robot, owner, q).rotation
    return jnp.concatenate([R @ moved[:3], R @ moved[3:]])


def _twist_columns(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, "links 6 n"]:
    """`v_i = V_i q̇` in each link's own frame: `V_i = X_i V_λ + s_i e_iᵀ`."""
    if robot.couplings is not None:
        full = whole(robot, q)
        return _twist_columns(full.robot, full.q) @ full.G
    X, s = Adjoint(joint_frames(robot, q)), joint_twists(robot)

    def move(V_parent, X, s, own):
        V = X @ V_parent + jnp.outer(s, own)
        return V, V

    n, ends = robot.num_velocities, np.flatnonzero(robot.tree.layout.closes)
    return robot.tree.rows.from_root(move, jnp.zeros((6, n), q.dtype), X, s, jnp.eye(n, dtype=q.dtype))[ends]
