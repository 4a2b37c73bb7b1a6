"""Trajectories as least squares: windows of a recording rolled out, each from a start state that is estimated too.

Multiple shooting. A window's residuals depend on θ and on its own start. Sensitivities travel along with the roll-out,
`S⁺ = A S + [B 0]` with A and B the step's derivatives (a kernel), and the normal equations are summed on the way. Each
window's start is then eliminated (Schur complement), so that the system solved is only as large as θ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import kernels
from diffnea.identify.data import Track
from diffnea.identify.residuals import Form, delayed
from diffnea.identify.unknowns import Unknowns, late
from diffnea.kernels.trace import MOST_RESULTS
from diffnea.rollout import rk4_step, safe_step

FEW_WINDOWS, MOST_WINDOWS = 64, 384
# Huber's limit, in units of a residual's usual size.
HUBER = 2.0


class Shots(NamedTuple):
    """Windows of measured motion: start states as smoothed, commands and positions in time, and weights."""

    x0: Any  # (window, 2n): position and velocity
    u: Any  # (time, window, late, n)
    measured: Any  # (time, window, n), from the start on
    weight: Any  # (time, window, n): one over the usual size of a residual; 0 leaves a window out
    hold: Any  # (2n,): how firmly a start state is held at its smoothed value
    dt: Any  # (window,)


class Sums(NamedTuple):
    """The normal equations of all windows: of θ, of each start, and between them."""

    loss: Any
    theta: Any  # (p, p)
    cross: Any  # (window, p, 2n)
    start: Any  # (window, 2n, 2n)
    g_theta: Any
    g_start: Any  # (window, 2n)


@dataclass(frozen=True)
class Shooting:
    """A trajectory problem: the windows, and what is free."""

    free: Unknowns
    shots: Shots
    rows: int

    def loss(self, theta: np.ndarray, x0: np.ndarray) -> float:
        """The mean Huber loss of all residuals; not finite where a window is not."""
        return float(_loss(self._form, jnp.asarray(theta), self._leaves, jnp.asarray(x0), self.shots)) / self.rows

    def sums(self, theta: np.ndarray, x0: np.ndarray) -> Sums:
        """Loss and normal equations."""
        found = _sums(self._form, jnp.asarray(theta), self._leaves, jnp.asarray(x0), self.shots)
        return Sums(*(np.asarray(value) / self.rows for value in found))

    def positions(self, theta: np.ndarray, x0: np.ndarray) -> Float[np.ndarray, "time window n"]:
        """The positions of every window."""
        return np.asarray(_predicted(self._form, jnp.asarray(theta), self._leaves, jnp.asarray(x0), self.shots))

    @property
    def _form(self) -> Form:
        _, structure, masks = self.free.nameless()
        return Form.of("acceleration", structure, masks)

    @property
    def _leaves(self) -> list[Any]:
        return self.free.nameless()[0]


def shots(
    tracks: Sequence[Track],
    free: Unknowns,
    steps: int,
    sizes: Float[np.ndarray, " n"],
    hold: Float[np.ndarray, " two_n"],
    most: int = MOST_WINDOWS,
) -> Shots | None:
    """Windows of so many steps, side by side; while they are few, after them others half way between; None if none fit.

    Of more than `most` an even choice is taken.
    """
    places = side_by_side(tracks, steps)
    places += side_by_side(tracks, steps, steps // 2) if len(places) < FEW_WINDOWS else []
    if not places:
        return None
    chosen = [places[i] for i in np.unique(np.linspace(0, len(places) - 1, most).astype(int))]
    commands = [track.commands(late(free)) for track in tracks]
    u = np.stack([commands[k][s : s + steps] for k, s in chosen], axis=1)
    measured = np.stack([tracks[k].measured[s : s + steps + 1] for k, s in chosen], axis=1)
    x0 = np.stack([np.concatenate([tracks[k].q[s], tracks[k].qd[s]]) for k, s in chosen])
    weight = np.broadcast_to(1 / sizes, measured.shape)
    return Shots(x0, u, measured, weight, 1 / hold, np.array([tracks[k].dt for k, _ in chosen]))


def side_by_side(tracks: Sequence[Track], steps: int, first: int = 0) -> list[tuple[int, int]]:
    """Track and sample at which each window begins, none over another."""
    return [(k, s) for k, track in enumerate(tracks) for s in range(first, len(track) - steps, steps)]


def _step(form: Form, theta, leaves, x, u, dt) -> Float[Array, " two_n"]:
    model = form.model(theta, leaves)
    n = x.shape[0] // 2
    # As roll-outs do it. With joints that truly rest the loss is smooth in θ; signs that flip in a step make it rough.
    step = rk4_step if model.energy_class == "unbounded" else safe_step
    q, qd = step(model, x[:n], x[n:], delayed(model, u), dt)
    return jnp.concatenate([q, qd])


@lru_cache(maxsize=64)
def _step_kernel(form: Form):
    return kernels.compile(partial(_step, form))


@lru_cache(maxsize=64)
def _slope_kernels(form: Form, size: int, states: int):
    """`(θ, leaves, x, u, dt) → x⁺, ∂x⁺/∂x, ∂x⁺/∂θ`, a few rows in each kernel."""
    most = max(1, MOST_RESULTS // (size + states + 1))
    groups = [np.arange(k, min(k + most, states)) for k in range(0, states, most)]

    def rows(group, theta, leaves, x, u, dt):
        value, pull = jax.vjp(lambda theta, x: _step(form, theta, leaves, x, u, dt)[group], theta, x)
        by_theta, by_x = jax.vmap(pull)(jnp.eye(len(group), dtype=x.dtype))
        return value, by_x, by_theta

    return [kernels.compile(partial(rows, group)) for group in groups]


def _over_windows(function):
    return jax.vmap(function, (None, None, 0, 0, 0))


def _residual(x, measured, weight):
    """Weighted position errors, and the square root of Huber's weight of each."""
    n = measured.shape[-1]
    r = weight * (x[:, :n] - measured)
    r = jnp.where(weight > 0, r, 0.0)
    return r, jnp.sqrt(jnp.minimum(HUBER / jnp.maximum(jnp.abs(r), 1e-300), 1.0))


def _huber(r):
    size = jnp.abs(r)
    return jnp.sum(jnp.where(size <= HUBER, size**2, 2 * HUBER * size - HUBER**2))


def _held(shots: Shots, x0):
    """How far the starts are from their smoothed values; a window that is left out is not held."""
    return (x0 - shots.x0) * shots.hold[None] * jnp.where(shots.weight[0, :, :1] > 0, 1.0, 0.0)


@partial(jax.jit, static_argnums=0)
def _loss(form: Form, theta, leaves, x0, shots: Shots):
    function = _over_windows(_step_kernel(form))

    def body(x, inputs):
        u, measured, weight = inputs
        r, _ = _residual(x, measured, weight)
        return function(theta, leaves, x, u, shots.dt), _huber(r)

    last, losses = jax.lax.scan(body, x0, (shots.u, shots.measured[:-1], shots.weight[:-1]))
    r, _ = _residual(last, shots.measured[-1], shots.weight[-1])
    return jnp.sum(losses) + _huber(r) + jnp.sum(jnp.square(_held(shots, x0)))


@partial(jax.jit, static_argnums=0)
def _predicted(form: Form, theta, leaves, x0, shots: Shots) -> Float[Array, "time window n"]:
    function = _over_windows(_step_kernel(form))
    n = shots.measured.shape[-1]

    def body(x, u):
        return function(theta, leaves, x, u, shots.dt), x[:, :n]

    last, positions = jax.lax.scan(body, x0, shots.u)
    return jnp.concatenate([positions, last[None, :, :n]])


def _first(windows: int, p: int, states: int) -> Float[Array, "window two_n all"]:
    """At its beginning a window depends on its start alone."""
    S = jnp.concatenate([jnp.zeros((states, p)), jnp.eye(states)], axis=1)
    return jnp.broadcast_to(S, (windows, *S.shape))


def _advance(form: Form, theta, leaves, dt, states: int):
    """States and sensitivities one step on: `S⁺ = A S + [B 0]`."""
    p = theta.shape[0]
    functions = [_over_windows(f) for f in _slope_kernels(form, p, states)]

    def advance(x, S, u):
        parts = [f(theta, leaves, x, u, dt) for f in functions]
        value, A, B = (jnp.concatenate([part[k] for part in parts], axis=1) for k in range(3))
        return value, jnp.einsum("wij,wjk->wik", A, S).at[:, :, :p].add(B)

    return advance


@partial(jax.jit, static_argnums=0)
def _rows(form: Form, theta, leaves, x0, shots: Shots) -> tuple[Array, Array]:
    """Residuals `(time, window, n)` and their slopes in θ and the start, outliers weighted down."""
    windows, states = x0.shape
    n = states // 2
    advance = _advance(form, theta, leaves, shots.dt, states)

    def row(x, S, measured, weight):
        r, root = _residual(x, measured, weight)
        return root * r, (root * weight)[:, :, None] * S[:, :n]

    def body(carry, inputs):
        x, S = carry
        u, *seen = inputs
        return advance(x, S, u), row(x, S, *seen)

    begin = x0, _first(windows, theta.shape[0], states)
    last, (r, J) = jax.lax.scan(body, begin, (shots.u, shots.measured[:-1], shots.weight[:-1]))
    r_last, J_last = row(*last, shots.measured[-1], shots.weight[-1])
    return jnp.concatenate([r, r_last[None]]), jnp.concatenate([J, J_last[None]])


def reduced_rows(problem: Shooting, theta: np.ndarray, x0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residuals `(window, time, n)` and their slopes in θ `(window, time, n, p)` once the starts follow θ."""
    r, J = _rows(problem._form, jnp.asarray(theta), problem._leaves, jnp.asarray(x0), problem.shots)
    r, J = np.moveaxis(np.asarray(r), 1, 0), np.moveaxis(np.asarray(J), 1, 0)
    windows, times, n = r.shape
    flat, p = J.reshape(windows, times * n, -1), len(theta)
    by_theta, by_start = flat[:, :, :p], flat[:, :, p:]
    turned = np.swapaxes(by_start, 1, 2)
    follow = np.linalg.solve(turned @ by_start + np.diag(problem.shots.hold**2), turned @ by_theta)
    return r, (by_theta - by_start @ follow).reshape(windows, times, n, p)


@partial(jax.jit, static_argnums=0)
def _sums(form: Form, theta, leaves, x0, shots: Shots) -> Sums:
    windows, states = x0.shape
    p, n = theta.shape[0], states // 2
    advance = _advance(form, theta, leaves, shots.dt, states)

    def add(sums, x, S, measured, weight):
        r, root = _residual(x, measured, weight)
        J = (root * weight)[:, :, None] * S[:, :n]
        r_root = root * r
        return (
            sums[0] + _huber(r),
            sums[1] + jnp.einsum("wnj,wnk->wjk", J, J),
            sums[2] + jnp.einsum("wnj,wn->wj", J, r_root),
        )

    def body(carry, inputs):
        x, S, sums = carry
        u, *seen = inputs
        sums = add(sums, x, S, *seen)
        return (*advance(x, S, u), sums), None

    zero = jnp.zeros(()), jnp.zeros((windows, p + states, p + states)), jnp.zeros((windows, p + states))
    begin = x0, _first(windows, p, states), zero
    (x, S, sums), _ = jax.lax.scan(body, begin, (shots.u, shots.measured[:-1], shots.weight[:-1]))
    loss, matrix, slope = add(sums, x, S, shots.measured[-1], shots.weight[-1])
    held = _held(shots, x0)
    start = matrix[:, p:, p:] + jnp.diag(shots.hold**2)[None]
    g_start = slope[:, p:] + held * shots.hold[None]
    loss = loss + jnp.sum(jnp.square(held))
    return Sums(loss, jnp.sum(matrix[:, :p, :p], 0), matrix[:, :p, p:], start, jnp.sum(slope[:, :p], 0), g_start)
