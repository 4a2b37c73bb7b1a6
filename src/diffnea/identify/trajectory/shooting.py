"""Trajectories as least squares: windows of a recording rolled out, each from a start state that is estimated too.

Multiple shooting. A window's residuals depend on θ and on its own start. Sensitivities travel along with the roll-out,
`S⁺ = A S + [B 0]` with A and B the step's derivatives, and the normal equations are summed on the way. Each window's
start is then eliminated (Schur complement), so that the system solved is only as large as θ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.identify.problem.least_squares import Eliminated, Normal, Points, Problem
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.residuals import Form
from diffnea.identify.problem.unknowns import Unknowns, late
from diffnea.identify.trajectory.segments import CLIP_FROM, Group, courses, groups, rows


class Shots(NamedTuple):
    """Windows of measured motion: start states as smoothed, commands and positions in time, and weights."""

    x0: Float[np.ndarray, "window two_n"]  # position and velocity
    u: Float[np.ndarray, "time window late n"]
    measured: Float[np.ndarray, "time window n"]  # from the start on
    weight: Float[np.ndarray, "time window n"]  # one over the usual size of a residual; 0 leaves a window out
    hold: Float[np.ndarray, " two_n"]  # how firmly a start state is held at its smoothed value
    dt: Float[np.ndarray, " window"]


class Sums(NamedTuple):
    """The normal equations of all windows: of θ, of each start, and between them."""

    loss: Float[np.ndarray, ""]
    theta: Float[np.ndarray, "p p"]
    cross: Float[np.ndarray, "window p two_n"]
    start: Float[np.ndarray, "window two_n two_n"]
    g_theta: Float[np.ndarray, " p"]
    g_start: Float[np.ndarray, "window two_n"]

    def reduced(self) -> Normal:
        """Those of θ once each start follows it (Schur complement)."""
        p = len(self.g_theta)
        right = np.concatenate([np.swapaxes(self.cross, 1, 2), self.g_start[:, :, None]], axis=2)
        solved = np.linalg.solve(self.start, right)  # (window, 2n, p + 1)
        taken = np.tensordot(self.cross, solved, ((0, 2), (0, 1)))  # what the starts take over: (p, p + 1)
        flat, decrease = solved.reshape(1, -1, p + 1), np.array([np.sum(self.g_start * solved[:, :, -1])])
        eliminated = Eliminated(-flat[:, :, -1], -flat[:, :, :-1], decrease)
        gradient, matrix = self.g_theta - taken[:, -1], self.theta - taken[:, :-1]
        return Normal(np.reshape(self.loss, 1), gradient[None], matrix[None], eliminated)


class Reduced(NamedTuple):
    """Windows as least squares in θ alone, each start following it; a window's last rows are how far it was held.

    `starts` span what each window's start could do to its rows, orthonormal, and the slopes are orthogonal to them.
    """

    residuals: Float[np.ndarray, "window row"]
    slopes: Float[np.ndarray, "window row p"]
    starts: Float[np.ndarray, "window row two_n"]


@dataclass(frozen=True)
class Shooting:
    """A trajectory problem: the windows, and what is free."""

    free: Unknowns
    shots: Shots
    rows: int

    @property
    def least_squares(self) -> Problem:
        """As a problem of points `[θ, starts]`; the residuals of a window and joint rise and fall together, as one."""
        p, shape = self.free.size, self.shots.x0.shape

        def each(points: Points) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(point[:p], point[p:].reshape(shape)) for point in points]

        def normal(points: Points) -> Normal:
            (one,) = each(points)  # windows fill the machine: one start at a time
            return self.sums(*one).reduced()

        independent = self.shots.measured.shape[1] * self.shots.measured.shape[2]
        return Problem(lambda points: np.array([self.loss(*one) for one in each(points)]), normal, independent)

    def loss(self, theta: np.ndarray, x0: np.ndarray) -> float:
        """The mean Huber loss of all residuals; not finite where a window is not."""
        weight = self.shots.weight
        size = np.where(weight > 0, np.abs(weight * (self.positions(theta, x0) - self.shots.measured)), 0.0)
        each = np.where(size <= CLIP_FROM, size**2, 2 * CLIP_FROM * size - CLIP_FROM**2)
        return float(np.sum(each) + np.sum(self._held(x0) ** 2)) / self.rows

    def sums(self, theta: np.ndarray, x0: np.ndarray) -> Sums:
        """Loss and normal equations."""
        p, hold = len(theta), np.asarray(self.shots.hold)
        columns = p + len(hold) + 1
        total, of_windows, loss = np.zeros((columns, columns)), np.zeros((len(x0), columns, len(hold) + 1)), 0.0
        for group, _, found in rows(self._form, jnp.asarray(theta), self._leaves, x0, self._groups):
            flat = found.reshape(-1, columns)
            total += flat.T @ flat
            each = found.reshape(len(found), -1, columns)
            of_windows[group.windows] += (np.swapaxes(each, 1, 2) @ each[:, :, p:])[: _count(group)]
            square = flat[:, -1] ** 2
            loss += np.sum(np.where(square <= CLIP_FROM**2, square, 2 * square - CLIP_FROM**2))
        held = self._held(x0)
        parts = Sums(
            loss + np.sum(held**2),
            total[:p, :p],
            of_windows[:, :p, :-1],
            of_windows[:, p:-1, :-1] + np.diag(hold**2),
            total[:p, -1],
            of_windows[:, p:-1, -1] + held * hold,
        )
        return Sums(*(part / self.rows for part in parts))

    def positions(self, theta: np.ndarray, x0: np.ndarray) -> Float[np.ndarray, "time window n"]:
        """The positions of every window."""
        found = courses(self._form, jnp.asarray(theta), self._leaves, x0, self._groups)
        return self._together((group, k, np.asarray(part)) for group, k, part in found)

    def reduced_rows(self, theta: np.ndarray, x0: np.ndarray) -> Reduced:
        """Residuals and slopes, time by time and joint by joint, and after them those of the held starts."""
        found = self._together(rows(self._form, jnp.asarray(theta), self._leaves, x0, self._groups))
        windows, p, count = found.shape[1], len(theta), x0.shape[1]
        found = np.moveaxis(found, 1, 0).reshape(windows, -1, p + count + 1)
        held = np.zeros((windows, count, p + count + 1))
        held[:, :, p:-1], held[:, :, -1] = np.diag(self.shots.hold), self._held(x0)
        whole = np.concatenate([found, held], axis=1)
        starts = np.linalg.qr(whole[:, :, p:-1])[0]
        by_theta = whole[:, :, :p]
        return Reduced(whole[:, :, -1], by_theta - starts @ (np.swapaxes(starts, 1, 2) @ by_theta), starts)

    def _held(self, x0: np.ndarray) -> Float[np.ndarray, "window two_n"]:
        """How far the starts are from their smoothed values; a window that is left out is not held."""
        return (x0 - self.shots.x0) * self.shots.hold * (self.shots.weight[0, :, :1] > 0)

    def _together(self, found) -> np.ndarray:
        """Pieces as one array `(time, window, …)`."""
        times, windows = self.shots.measured.shape[:2]
        whole = np.zeros(0)
        for group, k, part in found:
            if not whole.size:
                steps = part.shape[1]
                whole = np.zeros((-(-times // steps) * steps, windows, *part.shape[2:]))
            place = slice(k * part.shape[1], (k + 1) * part.shape[1])
            whole[place, group.windows] = np.moveaxis(part[: _count(group)], 0, 1)
        return whole[:times]

    @cached_property
    def _groups(self) -> list[Group]:
        return groups(self.shots.u, self.shots.measured, self.shots.weight, self.shots.dt)

    @cached_property
    def _form(self) -> Form:
        _, structure, masks = self.free.nameless()
        return Form.of("acceleration", structure, masks)

    @cached_property
    def _leaves(self) -> list[Array]:
        return [jnp.asarray(leaf) for leaf in self.free.nameless()[0]]


def _count(group: Group) -> int:
    return group.windows.stop - group.windows.start


def shots(
    tracks: Sequence[Track],
    free: Unknowns,
    steps: int,
    sizes: Float[np.ndarray, " n"],
    hold: Float[np.ndarray, " two_n"],
    most: int = 384,
    every: int = 1,
    seed: Sequence[int] | None = None,
    few: int = 64,
) -> Shots | None:
    """Windows of so many steps, side by side; while they are `few`, after them others in between; None if none fit.

    Of more than `most` an even choice is taken, or any, drawn by the seed. A step is `every` samples, with the mean of
    their commands.
    """
    length = steps * every
    places = side_by_side(tracks, length)
    for quarter in (2, 1, 3):
        places += side_by_side(tracks, length, quarter * length // 4) if len(places) < few else []
    if not places:
        return None
    chosen = [places[i] for i in _choice(len(places), most, seed)]
    commands = [track.commands(late(free)) for track in tracks]
    u = np.stack([commands[k][s : s + length] for k, s in chosen], axis=1)
    u = u.reshape(steps, every, *u.shape[1:]).mean(axis=1)
    measured = np.stack([tracks[k].measured[s : s + length : every] for k, s in chosen], axis=1)
    x0 = np.stack([np.concatenate([tracks[k].q[s], tracks[k].qd[s]]) for k, s in chosen])
    weight = np.broadcast_to(1 / sizes, measured.shape)
    return Shots(x0, u, measured, weight, 1 / hold, np.array([every * (tracks[k].dt or 0.0) for k, _ in chosen]))


def _choice(count: int, most: int, seed: Sequence[int] | None) -> np.ndarray:
    if seed is None:
        return np.unique(np.linspace(0, count - 1, most).astype(int))
    return np.sort(np.random.default_rng(seed).permutation(count)[:most])


def side_by_side(tracks: Sequence[Track], steps: int, first: int = 0) -> list[tuple[int, int]]:
    """Track and sample at which each window begins, none over another."""
    return [(k, s) for k, track in enumerate(tracks) for s in range(first, len(track) - steps, steps)]
