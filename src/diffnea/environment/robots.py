"""Robots in step: states, commands under way and what servos keep, advanced by one compiled call."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from diffnea.environment.task import Task
from diffnea.simulate import delay, step
from diffnea.simulate.memory import Memory, at_rest


class Robots:
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
