"""Motions laid side by side in lanes of about equal length, and their predictions by many models at once.

A lane holds one motion after the other; where one begins, the state is set to where the robot was. Lanes and models
fill vector registers, which one long motion would leave idle.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from diffnea import batching
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.simulate.delay import arrivals, delayed, led
from diffnea.simulate.memory import at_rest
from diffnea.simulate.safe import safe_step
from diffnea.simulate.servo import with_gains

# Lanes at most: with a block of models these fill every register.
MOST_LANES = 16
# Rows of a motion are correlated: every so many of them are enough for slopes.
THIN = 6
# An error in rad that stands for one that is not finite.
LOST = 1e3


@dataclass(frozen=True)
class Lanes:
    """Goals and readings in lanes; `motion` says of each row which motion it is of, −1 where it is none."""

    goal: Float[np.ndarray, "lane time n"]
    measured: Float[np.ndarray, "lane time n"]
    first: Bool[np.ndarray, "lane time"]
    dt: Float[np.ndarray, "lane time"]
    motion: Int[np.ndarray, "lane time"]
    gain: Float[np.ndarray, "lane time n"] | None = None  # of servos, where their logs say

    @property
    def count(self) -> int:
        """How many motions there are."""
        return int(self.motion.max()) + 1

    def windowed(self, rows: int) -> "Lanes":
        """The same with every motion set to where the robot was after each so many rows."""
        first = self.first.copy()
        for lane, motions in enumerate(self.motion):
            for k in np.unique(motions[motions >= 0]):
                first[lane, np.flatnonzero(motions == k)[::rows]] = True
        return replace(self, first=first)

    @property
    def compared_rows(self) -> Int[np.ndarray, " row"]:
        """Rows of all lanes in one that slopes are compared in: every `THIN`th of those of motions."""
        return np.flatnonzero(self.motion.ravel() >= 0)[::THIN]

    @property
    def compared_motion(self) -> Int[np.ndarray, " row"]:
        """Which motion each of these rows is of."""
        return self.motion.ravel()[self.compared_rows]


def lanes(tracks: Sequence[Track], most_delay: int) -> Lanes:
    """Motions in lanes, each after as many rows of its first goal as a delay can reach back."""
    wholes = [track.from_start() for track in tracks]
    n, sizes = tracks[0].q.shape[1], np.array([len(q) + most_delay for q, _ in wholes])
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
    goal, measured, gain = np.zeros((3, *shape, n))
    first, dt, motion = np.zeros(shape, bool), np.full(shape, float(tracks[0].dt or 1.0)), np.full(shape, -1)
    for k, lane, start in places:
        track, begin, end = tracks[k], start + most_delay, start + int(sizes[k])
        q, u = wholes[k]
        goal[lane, start:begin], goal[lane, begin:end] = u[0], u
        measured[lane, begin:end], motion[lane, begin:end] = q, k
        if (set_to := track.gains_from_start()) is not None:
            gain[lane, begin:end] = set_to
        first[lane, begin], dt[lane, start:end] = True, float(track.dt or 1.0)
    return Lanes(goal, measured, first, dt, motion, None if tracks[0].gain is None else gain)


@lru_cache(maxsize=64)
def _course(known: PyTree) -> PyTree:
    """Positions along a lane, the whole loop as one kernel."""
    one = batching.kernel_for(_advance, known)

    def course(model: PyTree, goal: Array, measured: Array, first: Array, dt: Array) -> Array:
        def body(state, row):
            # The state before the step is what is compared: at a first row, where the robot was.
            return one(model, *row, *state), jnp.where(row[2] > 0, row[1], state[0])

        start = measured[0], jnp.zeros_like(measured[0]), *at_rest(model, measured[0], goal[0])
        return jax.lax.scan(body, start, (goal, measured, first, dt))[1]

    return batching.kernel_for(course, known, batching.name_for(_course, known))


def _advance(model: PyTree, goal: Array, measured: Array, first: Array, dt: Array, *state: Array) -> tuple[Array, ...]:
    begun = measured, jnp.zeros_like(measured), *at_rest(model, measured, goal)
    q, qd, *memory = (jnp.where(first > 0, new, old) for new, old in zip(begun, state, strict=True))
    return safe_step(model, q, qd, goal, dt, *memory)


@partial(jax.jit, static_argnums=(0, 1))
def _predict(
    skeleton: PyTree, known: PyTree, leaves: list[Array], data: tuple[Array, ...]
) -> Float[Array, "model lane time n"]:
    course = _course(known)
    goal, measured, first, dt, *gains = data

    def of_model(leaves: list[Array]) -> Array:
        model = jax.tree.unflatten(skeleton, [leaf.astype(goal.dtype) for leaf in leaves])
        actuator = model.actuator

        def of_lane(goal, measured, first, dt, *gains):
            acting = delayed(goal, arrivals(actuator)) if actuator.most_delay else goal
            acting = acting if actuator.lead is None else led(acting, actuator.lead, dt[0])
            return course(model, with_gains(acting, *gains) if gains else acting, measured, first, dt)

        return jax.vmap(of_lane)(goal, measured, first, dt, *gains)

    return jax.vmap(of_model)(leaves)


@partial(jax.jit, static_argnums=(0, 1))
def _compare(
    skeleton: PyTree, known: PyTree, leaves: list[Array], data: tuple[Array, ...], rows: Array, members: Array
) -> tuple[Float[Array, "model row n"], Float[Array, "model lane slot n"]]:
    """Errors of some rows, and sums of squares over the rows of each motion of a lane."""
    left = _predict(skeleton, known, leaves, data) - data[1][None]
    every = left.reshape(left.shape[0], -1, left.shape[-1])
    squares = jnp.where(jnp.isfinite(left), left, LOST) ** 2
    return every[:, rows], jnp.einsum("mltn,lts->mlsn", squares, members)


class Predictor:
    """Predicts all motions of some lanes by several models at once, in single precision."""

    def __init__(self, data: Lanes, like: PyTree):
        leaves, structure = jax.tree.flatten(like)
        self._skeleton, self._known = batching.skeleton_of(like, structure), batching.whole_numbers(like)
        arrays = data.goal, data.measured, data.first, data.dt, *(() if data.gain is None else (data.gain,))
        self._data = tuple(jnp.asarray(array, jnp.float32) for array in arrays)
        self._rows = jnp.asarray(data.compared_rows)
        lanes, self._slots = _members(data.motion)
        self._members, self._sizes = jnp.asarray(lanes), lanes.sum(axis=1)

    def __call__(self, models: PyTree) -> Float[np.ndarray, "model lane time n"]:
        """Positions; `models` has a leading axis on every leaf."""
        return np.asarray(_predict(self._skeleton, self._known, jax.tree.leaves(models), self._data))

    def compared(self, models: PyTree) -> tuple[Float[np.ndarray, "model row n"], Float[np.ndarray, "model motion n"]]:
        """Errors of the rows that are compared, and mean squares of all rows of each motion."""
        leaves = jax.tree.leaves(models)
        errors, sums = _compare(self._skeleton, self._known, leaves, self._data, self._rows, self._members)
        lane, slot = self._slots
        rows = self._sizes[lane, slot][None, :, None]
        return np.asarray(errors), np.asarray(sums, np.float64)[:, lane, slot] / np.maximum(rows, 1)


def _members(
    motion: Int[np.ndarray, "lane time"],
) -> tuple[Float[np.ndarray, "lane time slot"], tuple[np.ndarray, np.ndarray]]:
    """Which rows of each lane are of its first, second, … motion; and lane and place of each motion."""
    inside = [np.unique(row[row >= 0]) for row in motion]
    members = np.zeros((*motion.shape, max(map(len, inside))), np.float32)
    places = np.zeros((2, int(motion.max()) + 1), int)
    for lane, motions in enumerate(inside):
        for slot, k in enumerate(motions):
            members[lane, motion[lane] == k, slot], places[:, k] = 1.0, (lane, slot)
    return members, (places[0], places[1])
