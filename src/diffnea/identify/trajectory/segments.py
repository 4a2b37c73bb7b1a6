"""Windows rolled out piece by piece: kernels of a few windows and steps, with and without slopes.

Every horizon and any number of windows is made of the same pieces, so that their code is compiled once. Pieces are
handed out before their results are looked at; those of different windows run side by side.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import kernels
from diffnea.identify.problem.residuals import Form, delayed
from diffnea.kernels.rules.tracer import MOST_RESULTS
from diffnea.models import in_canonical_frames
from diffnea.simulate import rk4_step, safe_step

# Of a piece. The windows fill a few vectors, the steps are many beside what a call costs.
WINDOWS_TOGETHER, STEPS_TOGETHER = 32, 25
# So many pieces are under way: enough for every core, and few enough for the cache.
AHEAD = 4
# Huber's limit, in units of a residual's usual size.
CLIP_FROM = 2.0


class Piece(NamedTuple):
    """Commands and measured positions of some windows over some steps; a weight of 0 leaves a residual out."""

    u: Array  # (WINDOWS_TOGETHER, STEPS_TOGETHER, late, n)
    measured: Array  # (WINDOWS_TOGETHER, STEPS_TOGETHER, n), as the weight
    weight: Array


class Group(NamedTuple):
    """Windows side by side, and their pieces in time."""

    windows: slice
    dt: Array  # (WINDOWS_TOGETHER,)
    pieces: list[Piece]

    def filled(self, x0: Float[np.ndarray, "window two_n"]) -> Float[np.ndarray, "WINDOWS_TOGETHER two_n"]:
        """Their start states; the last stands in where there are too few."""
        return _filled(x0[self.windows], 0, WINDOWS_TOGETHER)


def groups(u: np.ndarray, measured: np.ndarray, weight: np.ndarray, dt: np.ndarray) -> list[Group]:
    """All windows `(time, window, …)` in pieces; what fills them up has no weight."""
    turned = [np.moveaxis(np.asarray(array), 1, 0) for array in (u, measured, weight)]
    count, times = turned[1].shape[:2]
    found = []
    for first in range(0, count, WINDOWS_TOGETHER):
        chosen = slice(first, min(first + WINDOWS_TOGETHER, count))
        cuts = []
        for array in turned:
            part = _filled(_filled(array[chosen], 0, WINDOWS_TOGETHER), 1, -(-times // STEPS_TOGETHER) * STEPS_TOGETHER)
            if array is turned[2]:
                part[chosen.stop - first :] = 0.0
                part[:, times:] = 0.0
            cuts.append([jnp.asarray(part[:, k : k + STEPS_TOGETHER]) for k in range(0, part.shape[1], STEPS_TOGETHER)])
        pieces = [Piece(*parts) for parts in zip(*cuts, strict=True)]
        found.append(Group(chosen, jnp.asarray(_filled(dt[chosen], 0, WINDOWS_TOGETHER)), pieces))
    return found


def _filled(array: np.ndarray, axis: int, count: int) -> np.ndarray:
    """As many along an axis, the last repeated; a copy."""
    return np.take(array, np.minimum(np.arange(count), array.shape[axis] - 1), axis=axis)


def courses(form: Form, theta, leaves, x0: np.ndarray, several: list[Group]) -> Iterator[tuple[Group, int, np.ndarray]]:
    """The positions of every piece `(WINDOWS_TOGETHER, STEPS_TOGETHER, n)`, with its group and its number in time."""
    states = [jnp.asarray(group.filled(x0)) for group in several]

    def begun():
        for k in range(len(several[0].pieces)):
            for i, group in enumerate(several):
                states[i], positions = _course(form)(theta, leaves, states[i], group.pieces[k].u, group.dt)
                yield group, k, positions

    return _ahead(begun())


def rows(form: Form, theta, leaves, x0: np.ndarray, several: list[Group]) -> Iterator[tuple[Group, int, np.ndarray]]:
    """The rows of every piece `(WINDOWS_TOGETHER, STEPS_TOGETHER, n, p + 2n + 1)`: slopes in θ and start, residuals.

    All are weighted, outliers down to the square root of Huber's weight.
    """
    states = [jnp.asarray(group.filled(x0)) for group in several]
    p, count = theta.shape[0], x0.shape[1]
    first = np.concatenate([np.zeros((count, p)), np.eye(count)], axis=1)  # at first there is the start alone
    slopes = [jnp.asarray(np.broadcast_to(first, (WINDOWS_TOGETHER, *first.shape)))] * len(several)

    def begun():
        for k in range(len(several[0].pieces)):
            for i, group in enumerate(several):
                given = theta, leaves, states[i], slopes[i], *group.pieces[k], group.dt
                states[i], slopes[i], found = _sloped_course(form, p, count)(*given)
                yield group, k, found

    return _ahead(begun())


def _ahead(begun: Iterator[tuple[Group, int, Array]]) -> Iterator[tuple[Group, int, np.ndarray]]:
    """Results in their order, looked at when some more are under way."""
    waiting: deque[tuple[Group, int, Array]] = deque()
    for each in begun:
        waiting.append(each)
        if len(waiting) > AHEAD:
            group, k, found = waiting.popleft()
            yield group, k, np.asarray(found)
    yield from ((group, k, np.asarray(found)) for group, k, found in waiting)


def _step(form: Form, theta, leaves, x, u, dt) -> Float[Array, " two_n"]:
    model = form.model(theta, leaves)
    model = in_canonical_frames(model, x.dtype) or model  # half the operations, slopes in θ included
    n = x.shape[0] // 2
    # As roll-outs do it. With joints that truly rest the loss is smooth in θ; signs that flip in a step make it rough.
    step = rk4_step if model.energy_class == "unbounded" else safe_step
    q, qd = step(model, x[:n], x[n:], delayed(model, u), dt)
    return jnp.concatenate([q, qd])


@lru_cache(maxsize=64)
def _course(form: Form):
    def course(theta, leaves, x, u, dt):
        n = x.shape[0] // 2
        return jax.lax.scan(lambda x, u: (_step(form, theta, leaves, x, u, dt), x[:n]), x, u)

    return jax.jit(jax.vmap(kernels.compile(course, form.name(_course)), (None, None, 0, 0, 0)))


def _slopes(form: Form, group: np.ndarray, theta, leaves, x, u, dt) -> tuple[Array, Array, Array]:
    """Some numbers of the next state, and their slopes in x and in θ."""
    value, pull = jax.vjp(lambda theta, x: _step(form, theta, leaves, x, u, dt)[group], theta, x)
    by_theta, by_x = jax.vmap(pull)(jnp.eye(len(group), dtype=x.dtype))
    return value, by_x, by_theta


@lru_cache(maxsize=64)
def _sloped_course(form: Form, p: int, states: int):
    """`(θ, leaves, x, S, *piece, dt) → x, S, rows`, the whole as a kernel where it is small enough for one."""
    most = max(1, MOST_RESULTS // (p + states + 1))
    parts = [np.arange(k, min(k + most, states)) for k in range(0, states, most)]
    if len(parts) == 1:
        course = kernels.compile(partial(_rows, [partial(_slopes, form, parts[0])]), form.name(_sloped_course))
    else:  # each step in several kernels, and the loop by XLA
        steps = [kernels.compile(partial(_slopes, form, part), form.name(_slopes, part.tolist())) for part in parts]
        course = partial(_rows, steps)
    return jax.jit(jax.vmap(course, (None, None, 0, 0, 0, 0, 0, 0)))


def _rows(advance: list[Callable[..., tuple[Array, Array, Array]]], theta, leaves, x, S, u, measured, weight, dt):
    p, n = theta.shape[0], measured.shape[1]

    def body(carry, inputs):
        x, S = carry
        u, *seen = inputs
        parts = [function(theta, leaves, x, u, dt) for function in advance]
        value, A, B = (jnp.concatenate([part[k] for part in parts]) for k in range(3))
        following = jnp.concatenate([A @ S[:, :p] + B, A @ S[:, p:]], axis=1)
        return (value, following), _row(x[:n], S[:n], *seen)

    (x, S), found = jax.lax.scan(body, (x, S), (u, measured, weight))
    return x, S, found


def _row(q, S, measured, weight) -> Float[Array, "n columns"]:
    """Weighted slopes and residuals; zero without weight, even where a window has left the world."""
    r = weight * (q - measured)
    root = jnp.sqrt(jnp.minimum(CLIP_FROM / jnp.maximum(jnp.abs(r), 1e-300), 1.0))
    found = jnp.concatenate([(root * weight)[:, None] * S, (root * r)[:, None]], axis=1)
    return jnp.where(weight[:, None] > 0, found, 0.0)
