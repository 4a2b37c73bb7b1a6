"""Task: what an environment asks of a model, made of what a user says of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.models import Model, unlimited
from diffnea.robot import Robot, require_single

Reward = Callable[[Array, Array, Array], Any]


@dataclass(frozen=True)
class Task:
    """What an environment asks of a model: the time step, the episode, where it starts, what is rewarded."""

    model: Model
    dt: float
    steps: int  # of an episode
    driven: tuple[int, ...]  # the joints that an action reaches
    effort: np.ndarray  # the command of an action of 1, one a driven joint
    start: Float[np.ndarray, "2 n"]  # positions and velocities
    spread: Float[np.ndarray, "2 n"]  # half the range in which a start is drawn about them
    reward: Reward
    wraps: tuple[bool, ...] = field(default=())

    @property
    def observation_size(self) -> int:
        """Sine and cosine of joints that turn without end, positions of the others, and velocities."""
        return 2 * self.model.num_joints + sum(self.wraps)

    def observe(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " k"]:
        """What the agent sees of one robot."""
        turning, others = np.flatnonzero(self.wraps), np.flatnonzero(np.logical_not(self.wraps))
        return jnp.concatenate([jnp.cos(q[turning]), jnp.sin(q[turning]), q[others], qd])


def model_of(given: Any) -> Model:
    """The model of what was given, of joints of one coordinate."""
    model = getattr(given, "model", given)
    model = Model(model) if isinstance(model, Robot) else model
    if not isinstance(model, Model):
        raise TypeError(f"make_env: got a {type(given).__name__}; give a fit, a Model or a Robot")
    require_single(model.robot, "make_env")
    return model


def task_of(model: Model, dt, seconds, goal, reward, effort, start, spread) -> Task:
    """The task, or one line on what is wrong with it."""
    n, robot = model.num_joints, model.robot
    if not 0 < dt < np.inf or not seconds >= dt:
        raise ValueError(f"make_env: dt is {dt} s and seconds {seconds}; give 0 < dt ≤ seconds")
    strongest = np.asarray(robot.joint_limits.effort) * (np.asarray(robot.gear)[robot.joint_links] != 0)
    limits = strongest if effort is None else np.asarray(effort)
    if limits.shape != (n,) or not np.all(np.isfinite(limits)) or np.any(limits < 0) or not np.any(limits > 0):
        found = "the robot's file limits no effort" if effort is None else f"effort is {limits.tolist()}"
        raise ValueError(f"make_env: {found}; give effort, {n} numbers, 0 where nothing drives a joint")
    driven = np.flatnonzero(limits > 0)
    wraps = unlimited(robot)
    aim = jnp.zeros(n) if goal is None else jnp.asarray(goal, float)
    if aim.shape != (n,):
        raise ValueError(f"make_env: goal has shape {aim.shape}; give {n} numbers, one a joint")
    first = np.zeros((2, n)) if start is None else np.asarray(start, float)
    if first.shape != (2, n):
        raise ValueError(f"make_env: start has shape {first.shape}; give two rows of {n}: positions and velocities")
    return Task(
        model,
        float(dt),
        int(round(seconds / dt)),
        tuple(driven.tolist()),
        limits[driven],
        first,
        np.broadcast_to(np.asarray(spread, float), (2, n)),
        reward if reward is not None else partial(_near, aim, robot.turning),
        wraps,
    )


def _near(goal: Float[Array, " n"], turns: np.ndarray, q: Array, qd: Array, u: Array) -> Float[Array, ""]:
    away = jnp.where(turns, 2 - 2 * jnp.cos(q - goal), (q - goal) ** 2)
    return -jnp.sum(away) - 0.01 * jnp.sum(qd**2)
