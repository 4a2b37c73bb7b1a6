"""A Gymnasium environment of a learned model: `make_env(fit)`, for one robot or many side by side.

Needs the extra `gym`; this module is imported when an environment is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
except ImportError as error:
    raise ImportError("make_env needs gymnasium; pip install 'diffnea[gym]'") from error

from diffnea.arrays import Rows
from diffnea.models import Model, unlimited
from diffnea.robot import Robot, require_single
from diffnea.simulate import delay, step
from diffnea.simulate.memory import Memory, at_rest

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


def make_env(
    model: Any,
    *,
    dt: float = 0.02,
    seconds: float = 10.0,
    goal: Rows | Float[ArrayLike, " n"] | None = None,
    reward: Reward | None = None,
    effort: Rows | Float[ArrayLike, " n"] | None = None,
    start: Rows | Float[ArrayLike, "2 n"] | None = None,
    spread: float | Rows | Float[ArrayLike, "2 n"] = 0.05,
    num_envs: int | None = None,
) -> "RobotEnv | RobotVectorEnv":
    """A Gymnasium environment that simulates a learned model.

    Args:
        model: a fit, a `Model`, or a robot (then torques drive it).
        dt: seconds between actions; the action is held meanwhile.
        seconds: how long an episode lasts before it is truncated.
        goal: joint positions to hold, for the reward; zeros by default.
        reward: `(q, qd, u) -> number` in JAX for one robot, after the step; by default minus the squared distance from
            the goal (angles by `2 − 2 cos`), less a hundredth of the squared speed.
        effort: the command of an action of 1, one a joint, 0 where nothing drives it; by default the file's limits.
        start: positions and velocities (two rows) that an episode starts from; all zero by default.
        spread: starts are drawn uniformly within this of `start`; one number or two rows.
        num_envs: None for one robot, a `gymnasium.Env`; a number for that many in one call, a `VectorEnv`.

    Returns:
        Actions are in [−1, 1], one a driven joint; observations are cosine and sine of joints that turn without end,
        positions of the others, then all velocities. An episode terminates where the simulation diverges.
    """
    model = _model_of(model)
    task = _task(model, dt, seconds, goal, reward, effort, start, spread)
    return RobotEnv(task) if num_envs is None else RobotVectorEnv(task, num_envs)


def _model_of(given: Any) -> Model:
    model = getattr(given, "model", given)
    model = Model(model) if isinstance(model, Robot) else model
    if not isinstance(model, Model):
        raise TypeError(f"make_env: got a {type(given).__name__}; give a fit, a Model or a Robot")
    require_single(model.robot, "make_env")
    return model


def _task(model: Model, dt, seconds, goal, reward, effort, start, spread) -> Task:
    n, robot = model.num_joints, model.robot
    if not 0 < dt < np.inf or not seconds >= dt:
        raise ValueError(f"make_env: dt is {dt} s and seconds {seconds}; give 0 < dt ≤ seconds")
    limits = np.asarray(robot.limits.effort) * (np.asarray(robot.gear) != 0) if effort is None else np.asarray(effort)
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
        reward if reward is not None else partial(_near, aim, np.asarray(robot.tree.revolute)),
        wraps,
    )


def _near(goal: Float[Array, " n"], turns: np.ndarray, q: Array, qd: Array, u: Array) -> Float[Array, ""]:
    away = jnp.where(turns, 2 - 2 * jnp.cos(q - goal), (q - goal) ** 2)
    return -jnp.sum(away) - 0.01 * jnp.sum(qd**2)


class _Robots:
    """So many robots in step: states, commands under way and what servos keep, advanced by one compiled call."""

    def __init__(self, task: Task, count: int):
        self.task, self.count = task, count
        actuator = task.model.actuator
        self.past = actuator.most_delay + 1
        self.shares = np.asarray(delay.weights(jnp.asarray(actuator.delay), actuator.most_delay))
        self._advance = eqx.filter_jit(partial(_advance, task))
        self._observe = jax.jit(jax.vmap(task.observe))
        n = task.model.num_joints
        self.q, self.qd = np.zeros((count, n)), np.zeros((count, n))
        self.commands = np.zeros((count, self.past, n))
        self._resting = jax.jit(jax.vmap(lambda q: at_rest(task.model, q, q)))  # switched on where it is
        self.memory: tuple[Any, ...] = tuple(np.array(each) for each in self._resting(self.q))

    def restart(self, which: np.ndarray, generator: np.random.Generator) -> None:
        """New starts for some."""
        low, high = self.task.start - self.task.spread, self.task.start + self.task.spread
        drawn = generator.uniform(low, high, (int(np.sum(which)), *low.shape))
        self.q[which], self.qd[which] = drawn[:, 0], drawn[:, 1]
        self.commands[which] = 0.0
        for kept, begun in zip(self.memory, self._resting(self.q), strict=True):
            kept[which] = np.asarray(begun)[which]

    def observations(self) -> np.ndarray:
        return np.asarray(self._observe(self.q, self.qd), np.float32)

    def act(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One step; rewards, and which robots diverged (they stay where they were)."""
        u = np.zeros_like(self.q)
        u[:, list(self.task.driven)] = np.clip(actions, -1.0, 1.0) * self.task.effort
        self.commands = np.concatenate([u[:, None], self.commands[:, :-1]], axis=1)
        arrived = np.sum(self.shares[None] * self.commands, axis=1)
        rewards, q, qd, *memory = (np.array(x) for x in self._advance(self.q, self.qd, arrived, u, self.memory))
        lost = ~(np.all(np.isfinite(q), 1) & np.all(np.isfinite(qd), 1) & np.isfinite(rewards))
        self.q, self.qd = np.where(lost[:, None], self.q, q), np.where(lost[:, None], self.qd, qd)
        self.memory = tuple(memory)
        return np.where(lost, 0.0, rewards), lost


def _advance(task: Task, q: Any, qd: Any, arrived: Any, u: Any, memory: Memory) -> tuple[Array, ...]:
    q, qd, *kept = step(task.model, q, qd, arrived, task.dt, memory)
    return jax.vmap(task.reward)(q, qd, u), q, qd, *kept


def _spaces(task: Task) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
    return seen, gymnasium.spaces.Box(-1.0, 1.0, (len(task.driven),), np.float32)


class RobotEnv(gymnasium.Env):
    """One robot."""

    metadata = {"render_modes": []}

    def __init__(self, task: Task):
        self.task, self._robots, self._done = task, _Robots(task, 1), 0
        self.observation_space, self.action_space = _spaces(task)

    @property
    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities."""
        return self._robots.q[0].copy(), self._robots.qd[0].copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._robots.restart(np.ones(1, bool), self.np_random)
        self._done = 0
        return self._robots.observations()[0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        rewards, lost = self._robots.act(np.asarray(action, float)[None])
        self._done += 1
        over = self._done >= self.task.steps
        return self._robots.observations()[0], float(rewards[0]), bool(lost[0]), over and not lost[0], {}


class RobotVectorEnv(VectorEnv):
    """Many robots; one that is over starts anew at the next step (Gymnasium's `AutoresetMode.NEXT_STEP`)."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, task: Task, num_envs: int):
        if num_envs < 1:
            raise ValueError(f"make_env: num_envs is {num_envs}; give a whole number from 1 on")
        self.task, self.num_envs, self._robots = task, num_envs, _Robots(task, num_envs)
        self.single_observation_space, self.single_action_space = _spaces(task)
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, num_envs)
        self.action_space = batch(self.single_action_space, num_envs)
        self._done, self._over = np.zeros(num_envs, int), np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._robots.restart(np.ones(self.num_envs, bool), self.np_random)
        self._done[:], self._over[:] = 0, False
        return self._robots.observations(), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        fresh = self._over
        rewards, lost = self._robots.act(np.asarray(actions, float))
        self._done += 1
        if np.any(fresh):
            self._robots.restart(fresh, self.np_random)
            self._done[fresh] = 0
        rewards, lost = np.where(fresh, 0.0, rewards), lost & ~fresh
        late = (self._done >= self.task.steps) & ~lost
        self._over = lost | late
        return self._robots.observations(), rewards, lost, late, {}
