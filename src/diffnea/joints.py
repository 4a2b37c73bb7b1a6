"""Joints as motion subspaces of 1, 3 or 6 columns: the rows that the algorithms walk.

A ball has three columns and a free link six, all in the link's own axes: `v_i = Ad v_λ + S_i q̇_i`. Each column is a row
of `Tree.rows`. The first carries the joint's pose, the others stand where the first does, the last is the link.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot, Canonical
from diffnea.manifold import rotation_of
from diffnea.robot import Robot
from diffnea.spatial import Inertia, Moments, Transform, identity, joint_transform, joint_twist

Body = TypeVar("Body", bound=Inertia | Moments)


def joint_frames(robot: AnyRobot, q: Float[Array, " nq"]) -> Transform:
    """`T_{λ,i} = T_O · T_q(q_i)`: the pose of each row's frame in its parent's."""
    if isinstance(robot, Canonical):
        return robot.joint_frames(q)
    if robot.tree.simple:
        return _place_links(robot.placement, robot.axis, robot.tree.revolute, q)
    layout = robot.tree.layout
    single = layout.single
    placed = jax.tree.map(lambda x: x[single], (robot.placement, robot.axis))
    coordinates = q[np.array(layout.first_position, np.int32)[single]]
    found = [_place_links(*placed, robot.tree.revolute[single], coordinates)] if len(single) else []
    found += [_rows(_pose_of(robot, i, q), 1) for i in _several(robot)]
    return _arrange(robot, found, _rows(identity(q.dtype), 1))


@jax.jit
@jax.vmap
def _place_links(T_O, axis, revolute, q):
    return T_O @ joint_transform(axis, revolute, q)


def _pose_of(robot: Robot, i: int, q: Array) -> Transform:
    """A free link's pose in the world, or that of a ball's link in its parent."""
    at = robot.tree.layout.first_position[i]
    if robot.tree.kinds[i] == "free":
        return Transform(rotation_of(q[at + 3 : at + 7]), q[at : at + 3])
    T_O = jax.tree.map(lambda x: x[i], robot.placement)
    return T_O @ Transform(rotation_of(q[at : at + 4]), jnp.zeros(3, q.dtype))


def joint_twists(robot: AnyRobot) -> Float[Array, "n 6"]:
    """`s_i`: the twist of each row at unit rate, in its link's frame; those of one joint are the columns of its S."""
    if robot.tree.simple:
        return _twist_links(robot.axis, robot.tree.revolute)
    single, dtype = robot.tree.layout.single, robot.axis.dtype
    found = [_twist_links(robot.axis[single], robot.tree.revolute[single])] if len(single) else []
    return jnp.concatenate([*found, jnp.eye(6, dtype=dtype)])[_twist_places(robot)]


_twist_links = jax.jit(jax.vmap(joint_twist))


def joint_motions(robot: AnyRobot, s: Float[Array, "n 6"], qd: Float[Array, " n"]) -> Float[Array, "n 6"]:
    """`S_i q̇_i` of the whole joint, at its first row, and zero at its others."""
    layout = robot.tree.layout
    moved = s * qd[:, None]
    whole = [jnp.sum(moved[first:last], 0) for first, last in _spans(robot)]
    nothing = jnp.zeros(6, qd.dtype)
    return jnp.stack(
        [whole[link] if opens else nothing for link, opens in zip(layout.links, layout.opens, strict=True)]
    )


def row_bodies(robot: AnyRobot, bodies: Body) -> Body:
    """What moves with each row alone: the link with the last row of its joint, nothing with the others."""
    if robot.tree.simple:
        return bodies
    layout = robot.tree.layout
    places = np.where(layout.closes, layout.links, robot.num_links).astype(np.int32)
    padded = jax.tree.map(lambda x: jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)]), bodies)
    return jax.tree.map(lambda x: x[places], padded)


def row_numbers(robot: AnyRobot, numbers: Float[Array, " links"]) -> Float[Array, " n"]:
    """A number a joint as one a row."""
    return numbers if robot.tree.simple else numbers[robot.tree.layout.links.astype(np.int32)]


def _several(robot: Robot) -> list[int]:
    single = set(robot.tree.layout.single.tolist())
    return [i for i in range(robot.num_links) if i not in single]


def _spans(robot: AnyRobot) -> list[tuple[int, int]]:
    """Each joint's rows, from the first to behind the last."""
    first = robot.tree.layout.first_velocity
    return list(zip(first, (*first[1:], robot.num_velocities), strict=True))


def _rows(values: Transform, times: int) -> Transform:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (times, *x.shape)), values)


def _arrange(robot: Robot, found: list[Transform], still: Transform) -> Transform:
    """Poses of joints with one coordinate, then of the others, brought to the order of the rows."""
    layout = robot.tree.layout
    order = [*layout.single.tolist(), *_several(robot)]
    places = [
        order.index(link) if opens else len(order) for link, opens in zip(layout.links, layout.opens, strict=True)
    ]
    index = np.array(places, np.int32)
    return jax.tree.map(lambda *parts: jnp.concatenate(parts)[index], *found, still)


def _twist_places(robot: AnyRobot) -> np.ndarray:
    """Where each row's twist stands behind those of joints with one coordinate: [linear, angular] of a free link."""
    layout = robot.tree.layout
    order = layout.single.tolist()
    places = []
    for i, (first, last) in enumerate(_spans(robot)):
        places += [order.index(i)] if i in order else range(len(order) + 6 - (last - first), len(order) + 6)
    return np.array(places, np.int32)


def tree_poses(robot: Robot, q: Float[Array, " nq"]) -> Transform:
    """Each link's frame in the world, of a robot whose joints are all in q."""

    def place(T_world_parent, T_parent_link):
        T_world_link = T_world_parent @ T_parent_link
        return T_world_link, T_world_link

    poses = robot.tree.rows.from_root(place, identity(q.dtype), joint_frames(robot, q))
    if robot.tree.simple:
        return poses
    ends = np.flatnonzero(robot.tree.layout.closes).astype(np.int32)
    return jax.tree.map(lambda x: x[ends], poses)
