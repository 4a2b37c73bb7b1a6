"""The environments that Gymnasium knows; needs the extra `gym`, and is imported when one is asked for."""

from typing import Any

import numpy as np

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
except ImportError as error:
    raise ImportError("make_env needs gymnasium; pip install 'diffnea[gym]'") from error

from diffnea.environment.robots import Robots
from diffnea.environment.task import Task


def _spaces(task: Task) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
    return seen, gymnasium.spaces.Box(-1.0, 1.0, (len(task.driven),), np.float32)


class RobotEnv(gymnasium.Env):
    """One robot."""

    metadata = {"render_modes": []}

    def __init__(self, task: Task):
        self.task, self._robots, self._done = task, Robots(task, 1), 0
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
        self.task, self.num_envs, self._robots = task, num_envs, Robots(task, num_envs)
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
