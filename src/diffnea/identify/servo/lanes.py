"""Motions laid side by side in lanes of about equal length, and their predictions by many models at once.

A lane holds one motion after the other; where one begins, the state is set to where the robot was. Lanes and models
fill vector registers, which one long motion would leave idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from diffnea import batches
from diffnea.identify.problem.tracks import Track
from diffnea.simulate.delay import delayed, led
from diffnea.simulate.safe import safe_step

# Lanes at most: with several models these fill every register.
MOST_LANES = 16


@dataclass(frozen=True)
class Lanes:
    """Goals and readings in lanes; `motion` says of each row which motion it is of, −1 where it is none."""

    goal: Float[np.ndarray, "lane time n"]
    measured: Float[np.ndarray, "lane time n"]
    first: Bool[np.ndarray, "lane time"]
    dt: Float[np.ndarray, "lane time"]
    motion: Int[np.ndarray, "lane time"]

    @property
    def count(self) -> int:
        """How many motions there are."""
        return int(self.motion.max()) + 1


def lanes(tracks: Sequence[Track], most_delay: int) -> Lanes:
    """Motions in lanes, each after as many rows of its first goal as a delay can reach back."""
    n, sizes = tracks[0].q.shape[1], np.array([len(track) + most_delay for track in tracks])
    length = int(max(sizes.max(), -(-sizes.sum() // MOST_LANES)))
    free: list[int] = []
    places: list[tuple[int, int, int]] = []
    for k in np.argsort(-sizes, kind="stable").tolist():
        lane = next((i for i, left in enumerate(free) if left >= sizes[k]), len(free))
        if lane == len(free):
            free.append(length)
        places.append((k, lane, length - free[lane]))
        free[lane] -= int(sizes[k])
    shape = len(free), length
    goal, measured = np.zeros((2, *shape, n))
    first, dt, motion = np.zeros(shape, bool), np.full(shape, float(tracks[0].dt or 1.0)), np.full(shape, -1)
    for k, lane, start in places:
        track, begin, end = tracks[k], start + most_delay, start + int(sizes[k])
        goal[lane, start:begin], goal[lane, begin:end] = track.u[0], track.u
        measured[lane, begin:end], motion[lane, begin:end] = track.measured, k
        first[lane, begin], dt[lane, start:end] = True, float(track.dt or 1.0)
    return Lanes(goal, measured, first, dt, motion)


@lru_cache(maxsize=64)
def _course(known: Any) -> Any:
    """Positions along a lane, the whole loop as one kernel."""
    one = batches.kernel_for(_advance, known)

    def course(model: Any, goal: Array, measured: Array, first: Array, dt: Array) -> Array:
        def body(state, row):
            q, qd = one(model, *row, *state)
            # The state before the step is what is compared: at a first row, where the robot was.
            return (q, qd), jnp.where(row[2] > 0, row[1], state[0])

        start = measured[0], jnp.zeros_like(measured[0])
        return jax.lax.scan(body, start, (goal, measured, first, dt))[1]

    return batches.kernel_for(course, known)


def _advance(model: Any, goal: Array, measured: Array, first: Array, dt: Array, q: Array, qd: Array):
    q, qd = jnp.where(first > 0, measured, q), jnp.where(first > 0, 0.0, qd)
    return safe_step(model, q, qd, goal, dt)


@partial(jax.jit, static_argnums=(0, 1))
def _predict(
    skeleton: Any, known: Any, leaves: list[Array], data: tuple[Array, ...]
) -> Float[Array, "model lane time n"]:
    course = _course(known)
    goal, measured, first, dt = data

    def of_model(leaves: list[Array]) -> Array:
        model = jax.tree.unflatten(skeleton, [leaf.astype(goal.dtype) for leaf in leaves])
        actuator = model.actuator

        def of_lane(goal, measured, first, dt):
            acting = delayed(goal, actuator.delay, actuator.most_delay) if actuator.most_delay else goal
            acting = acting if actuator.lead is None else led(acting, actuator.lead, dt[0])
            return course(model, acting, measured, first, dt)

        return jax.vmap(of_lane)(goal, measured, first, dt)

    return jax.vmap(of_model)(leaves)


class Predictor:
    """Predicts all motions of some lanes by several models at once, in single precision."""

    def __init__(self, data: Lanes, like: Any):
        leaves, structure = jax.tree.flatten(like)
        self._skeleton, self._known = batches.skeleton_of(like, structure), batches.whole_numbers(like)
        arrays = data.goal, data.measured, data.first, data.dt
        self._data = tuple(jnp.asarray(array, jnp.float32) for array in arrays)

    def __call__(self, models: Any) -> Float[np.ndarray, "model lane time n"]:
        """Positions; `models` has a leading axis on every leaf."""
        return np.asarray(_predict(self._skeleton, self._known, jax.tree.leaves(models), self._data))
