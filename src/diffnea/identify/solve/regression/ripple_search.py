"""Ripple that nobody has named: which torques come again with the position, and how often, told from what is left.

What a regression leaves of a joint's torques is compared with waves cos N s and sin N s of how its motor stands, over
many N, through the filter that torques pass (Lomb and Scargle's periodogram, weighted). What is missing in a model is
seldom white, so a peak counts against the level of its neighbours. It is kept where such a peak would hardly come by
chance at any of the N tried, and where blocks in time that are left out are surely predicted better with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.measurements.rows import ALIAS, Batch, Rows
from diffnea.identify.solve.regression.blocks import Regression
from diffnea.identify.solve.regression.columns import Columns, at_centre, of_signals
from diffnea.identify.solve.regression.part_search import named, sure_gain

# Of so many machines without any ripple one joint seems to have some.
FALSE_ALARM = 0.01
# Fewer turns than these in a joint's whole motion may be gravity or friction that is not quite as modelled.
LEAST_CYCLES = 8.0
# Steps of N, of which each is resolved by so many; how many on either side tell the level; at most; at once.
RESOLVED, LEVEL_STEPS, MOST_TRIED, WAVES_AT_ONCE = 4, 60, 6000, 64
# Waves at most of one motor.
MOST_WAVES = 3
# Of its moving time a joint is slow enough for this share, that the fastest wave passes the filter; at rest it is
# slower than the other share of its highest speed.
PASSING, STANDS_STILL = 0.2, 0.01
# Columns whatever is chosen, of which the regression knows the size.
ALWAYS = ("file", "bodies", "gain", "calibration", "constant", "offset")


@dataclass(frozen=True)
class Wave:
    """Of which motor, how often it comes again with a turn of that, and the log evidence that it brought."""

    joint: int
    often: float
    gain: float


@dataclass(frozen=True)
class _Motor:
    """One motor's waves: how it stands, and which joints feel it."""

    several: Sequence[Rows]
    row: Float[np.ndarray, " n"]  # how fast it turns with each joint

    def columns(self, often: Float[np.ndarray, " w"]) -> Float[np.ndarray, "row w 2"]:
        """Cosine and sine of each wave, filtered."""

        def signals(batch: Batch) -> np.ndarray:
            angle = (np.asarray(batch.q) @ self.row)[:, None] * often
            return np.stack([np.cos(angle), np.sin(angle)], axis=2)

        return of_signals(self.several, signals)

    def felt(self, often: float) -> Float[np.ndarray, "row n 2"]:
        """As the joints feel it."""
        return self.columns(np.array([often])) * self.row[:, None]

    def explained(
        self, often: Float[np.ndarray, " w"], wrong: Float[np.ndarray, "row n"], weight: Float[np.ndarray, "row n"]
    ) -> Float[np.ndarray, " w"]:
        """By how much each wave lowers the weighted squares of what is left."""
        pull, square = (weight**2 * wrong) @ self.row, weight**2 @ self.row**2
        found = []
        for first in range(0, len(often), WAVES_AT_ONCE):
            waves = self.columns(often[first : first + WAVES_AT_ONCE])
            matrix = np.einsum("rwk,r,rwl->wkl", waves, square, waves, optimize=True)
            along = np.einsum("rwk,r->wk", waves, pull, optimize=True)
            matrix = matrix + 1e-9 * np.trace(matrix, axis1=1, axis2=2)[:, None, None] * np.eye(2) + 1e-300 * np.eye(2)
            found.append(np.sum(along * np.linalg.solve(matrix, along[..., None])[..., 0], axis=1))
        return np.concatenate(found)

    def tried(self, kept: np.ndarray) -> Float[np.ndarray, " w"]:
        """From a few turns in the whole motion up to what passes the filter where the joint is slow."""
        stands, speed = at_centre(self.several, "q") @ self.row, np.abs(at_centre(self.several, "qd") @ self.row)
        span, moving = float(np.ptp(stands[kept], axis=0)), kept & (speed > STANDS_STILL * speed.max(initial=0.0))
        dt = max((rows.dt or 0.0) for rows in self.several)
        if not span > 0 or not moving.any() or not dt:
            return np.zeros(0)
        step, least = 2 * np.pi / span / RESOLVED, 2 * np.pi * LEAST_CYCLES / span
        most = np.pi / (ALIAS * dt) / float(np.quantile(speed[moving], PASSING))
        return least + step * np.arange(max(0, min(MOST_TRIED, int((most - least) / step))))


def ripple(
    several: Sequence[Rows], weighed: Regression, have: Sequence[str], motors: Float[np.ndarray, "n n"]
) -> tuple[Wave, ...]:
    """Waves that are there beside these parts; `motors` says how fast each turns with the joints."""
    names, found = named(weighed, have), []
    kept = {name: weighed.table.parts[name] for name in (*ALWAYS, *names)}
    current = _regression(weighed, replace(weighed.table, parts=kept), names)
    for joint, row in enumerate(motors):
        motor = _Motor(several, np.asarray(row, float))
        often = motor.tried(current.table.kept[:, joint])
        for count in range(MOST_WAVES if len(often) > 2 * LEVEL_STEPS else 0):
            best = _likeliest(motor, often, current, names)
            if best is None:
                break
            name = f"ripple {joint} {count}"
            parts = {**current.table.parts, name: motor.felt(best)}
            with_it = _regression(current, replace(current.table, parts=parts), names)
            gain = sure_gain(with_it.left_out(names), with_it.left_out([*names, name]))
            if not gain > 0:
                break
            names, found = [*names, name], [*found, Wave(joint, best, gain)]
            with_it.settle(names)
            current = with_it
    return tuple(found)


def _regression(like: Regression, table: Columns, names: Sequence[str]) -> Regression:
    """Of another table, with scale, delay and noise as they are found with these parts."""
    found = Regression(table)
    found.scale, found.late = like.scale, like.late
    found.settle(names)
    return found


def _likeliest(
    motor: _Motor, often: Float[np.ndarray, " w"], weighed: Regression, names: Sequence[str]
) -> float | None:
    """How often the wave comes again that stands out most, found between the steps; None where that may be chance."""
    wrong, weight = weighed.residual(names), weighed.weights()
    height = motor.explained(often, wrong, weight)
    level = _level(height)
    best = int(np.argmax(height / level))
    tries = len(often) / RESOLVED * len(motor.row)
    if tries * np.exp(-height[best] / level[best] / 2) > FALSE_ALARM:
        return None
    near = often[best] + np.linspace(-1.5, 1.5, 61) * (often[1] - often[0])
    return float(near[np.argmax(motor.explained(near, wrong, weight))])


def _level(height: Float[np.ndarray, " w"]) -> Float[np.ndarray, " w"]:
    """The usual height among neighbours, in units of a χ² of two degrees of freedom, whose median is 2 log 2."""
    around = np.lib.stride_tricks.sliding_window_view(np.pad(height, LEVEL_STEPS, "reflect"), 2 * LEVEL_STEPS + 1)
    return np.maximum(np.median(around, axis=1) / (2 * np.log(2)), 1e-300)


def as_reduction(waves: Sequence[Wave], joints: int) -> list[list[float]]:
    """A row a joint of how often its waves come again, as the part takes it."""
    rows = [[each.often for each in waves if each.joint == joint] for joint in range(joints)]
    most = max(map(len, rows))
    return [row + [0.0] * (most - len(row)) for row in rows]
