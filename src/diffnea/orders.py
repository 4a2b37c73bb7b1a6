"""Positions and velocities in the orders of MuJoCo and Pinocchio, and back, for any leading axes.

MuJoCo has the same positions; the linear velocity of a free link is in the world's axes there. Pinocchio has the same
velocities; quaternions are x y z w there, joints that turn without end are a cosine and a sine, and joints are numbered
in an order of its own.
"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Real

from diffnea.arrays import Rows
from diffnea.coupled import whole
from diffnea.manifold import Part, parts
from diffnea.robot import Robot

Pair = tuple[np.ndarray, np.ndarray]


def to_mujoco(
    robot: Robot, q: Real[ArrayLike, "*batch nq"] | Rows, qd: Real[ArrayLike, "*batch n"] | Rows | None = None
) -> np.ndarray | Pair:
    """`qpos` of MuJoCo's model of the robot's file; with `qd` a pair, `qpos` and `qvel`.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities, or None.
    """
    robot, place, speed = _all(robot, q, qd)
    return place if speed is None else (place, _turned(robot, place, speed, outwards=True))


def from_mujoco(
    robot: Robot, qpos: Real[ArrayLike, "*batch nq"] | Rows, qvel: Real[ArrayLike, "*batch n"] | Rows | None = None
) -> np.ndarray | Pair:
    """`q` of MuJoCo's `qpos`; with `qvel` a pair, `q` and `qd`.

    Args:
        robot: the robot.
        qpos: MuJoCo's positions, with any leading batch axes.
        qvel: MuJoCo's velocities, or None.
    """
    place = np.array(qpos, float)
    every = replace(robot, couplings=None)
    if qvel is None:
        return _leading(robot, place)
    return _leading(robot, place, _turned(every, place, np.array(qvel, float), outwards=False))


def to_pinocchio(
    robot: Robot,
    q: Real[ArrayLike, "*batch nq"] | Rows,
    qd: Real[ArrayLike, "*batch n"] | Rows | None = None,
    *,
    model: Any = None,
) -> np.ndarray | Pair:
    """Pinocchio's `q`; with `qd` a pair, `q` and `v`.

    Args:
        robot: the robot.
        q: joint positions, with any leading batch axes.
        qd: joint velocities, or None.
        model: a `pinocchio.Model`, whose joints are found by name; without one joints keep the robot's order, and all
            that turn are angles.
    """
    robot, place, speed = (robot, np.array(q, float), qd) if _reduced(robot, model) else _all(robot, q, qd)
    ours = _entries(robot, model)
    there = np.zeros((*place.shape[:-1], robot.num_positions if model is None else model.nq))
    for part, at, width, _ in ours:
        own = place[..., part.q]
        if part.kind == "single":
            there[..., at : at + width] = own if width == 1 else np.concatenate([np.cos(own), np.sin(own)], axis=-1)
        else:
            there[..., at : at + width] = np.concatenate([own[..., :-4], own[..., -3:], own[..., -4:-3]], axis=-1)
    if speed is None:
        return there
    speed = np.asarray(speed, float)
    moving = np.zeros((*speed.shape[:-1], robot.num_velocities if model is None else model.nv))
    for part, _, _, at in ours:
        moving[..., at : at + part.v.stop - part.v.start] = speed[..., part.v]
    return there, moving


def from_pinocchio(
    robot: Robot,
    q: Real[ArrayLike, "*batch nq"] | Rows,
    v: Real[ArrayLike, "*batch n"] | Rows | None = None,
    *,
    model: Any = None,
) -> np.ndarray | Pair:
    """`q` of Pinocchio's `q`; with `v` a pair, `q` and `qd`. Angles of cosine and sine are between −π and π.

    Args:
        robot: the robot.
        q: Pinocchio's positions, with any leading batch axes.
        v: Pinocchio's velocities, or None.
        model: a `pinocchio.Model`, as for `to_pinocchio`.
    """
    whole_robot = robot if _reduced(robot, model) else replace(robot, couplings=None)
    if whole_robot is not robot:
        found = from_pinocchio(whole_robot, q, v, model=model)
        return _leading(robot, *found) if isinstance(found, tuple) else _leading(robot, found)
    ours, place = _entries(robot, model), np.asarray(q, float)
    here = np.zeros((*place.shape[:-1], robot.num_positions))
    for part, at, width, _ in ours:
        own = place[..., at : at + width]
        if part.kind == "single":
            here[..., part.q] = own if width == 1 else np.arctan2(own[..., 1:], own[..., :1])
        else:
            here[..., part.q] = np.concatenate([own[..., :-4], own[..., -1:], own[..., -4:-1]], axis=-1)
    if v is None:
        return here
    speed = np.asarray(v, float)
    moving = np.zeros((*speed.shape[:-1], robot.num_velocities))
    for part, _, _, at in ours:
        moving[..., part.v] = speed[..., at : at + part.v.stop - part.v.start]
    return here, moving


def _reduced(robot: Robot, model: Any) -> bool:
    """Whether Pinocchio's model has joints that follow others out of its q, as ours does."""
    return robot.couplings is None or (model is not None and model.nv == robot.num_velocities)


def _all(robot: Robot, q: Any, qd: Any) -> tuple[Robot, np.ndarray, np.ndarray | None]:
    """The robot with all joints independent, its q and q̇ with those of followers."""
    place, speed = np.array(q, float), None if qd is None else np.array(qd, float)
    if robot.couplings is None:
        return robot, place, speed
    shape = place.shape[:-1]
    full = [whole(robot, jnp.asarray(row)) for row in place.reshape(-1, place.shape[-1])]
    every = np.array([one.q for one in full]).reshape(*shape, -1)
    if speed is not None:
        rows = speed.reshape(-1, speed.shape[-1])
        moving = [np.asarray(one.G, float) @ row for one, row in zip(full, rows, strict=True)]
        speed = np.array(moving).reshape(*shape, -1)
    return replace(robot, couplings=None), every, speed


def _leading(robot: Robot, q: np.ndarray, qd: np.ndarray | None = None) -> np.ndarray | Pair:
    """Of all joints' q and q̇ those that lead."""
    every = {part.link: part for part in parts(replace(robot, couplings=None))}
    own = [every[part.link] for part in parts(robot)]
    place = np.concatenate([q[..., part.q] for part in own], axis=-1)
    return place if qd is None else (place, np.concatenate([qd[..., part.v] for part in own], axis=-1))


def _entries(robot: Robot, model: Any) -> list[tuple[Part, int, int, int]]:
    """Each joint's part, where Pinocchio's q of it begins and how long it is, and where its v begins."""
    if model is None:
        return [(part, part.q.start, part.q.stop - part.q.start, part.v.start) for part in parts(robot)]
    found = []
    for name, part in zip(robot.tree.joint_names, parts(robot), strict=True):
        if not model.existJointName(name):
            raise ValueError(f'the Pinocchio model has no joint "{name}"; it has {", ".join(list(model.names)[1:])}')
        joint = model.joints[model.getJointId(name)]
        found.append((part, joint.idx_q, joint.nq, joint.idx_v))
    return found


def _turned(robot: Robot, q: np.ndarray, velocity: np.ndarray, outwards: bool) -> np.ndarray:
    """Linear velocities of free links from their own axes to the world's, or back."""
    for part in parts(robot):
        if part.kind == "free":
            w, u = q[..., part.q][..., 3:4], q[..., part.q][..., 4:]
            u = u if outwards else -u
            linear = velocity[..., part.v.start : part.v.start + 3]
            twice = 2 * np.cross(u, w * linear + np.cross(u, linear)) / (w**2 + np.sum(u**2, -1, keepdims=True))
            velocity[..., part.v.start : part.v.start + 3] = linear + twice
    return velocity
