"""Flight: what is known of a flying body over time, and windows of it to predict."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float

from diffnea.flight.rotations import turn_between

# Samples back that a body's rates are read off its attitudes: a straight line through so many.
ATTITUDES = 12
# A rotor turns where its command is above this share of the largest; a body flies so high, m, over its lowest place.
TURNING, FLYING = 0.08, 0.15
# Attitudes so far apart in time, s, tell rates that on-board ones are compared with; on-board streams are late by less.
APART, LATEST = 0.03, 0.12


@dataclass(frozen=True)
class Flight:
    """Position m and velocity m/s in the world, attitude w x y z, rates rad/s in the body's axes, rotors 0 … 1, V."""

    name: str
    time: Float[np.ndarray, " time"]
    position: Float[np.ndarray, "time 3"]
    velocity: Float[np.ndarray, "time 3"]
    attitude: Float[np.ndarray, "time 4"]
    rates: Float[np.ndarray, "time 3"]
    rotors: Float[np.ndarray, "time r"]
    battery: Float[np.ndarray, " time"]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def steps(self) -> Float[np.ndarray, " time"]:
        """Seconds from each sample to the next."""
        step = np.diff(self.time)
        return np.append(step, np.median(step))

    @property
    def flying(self) -> Bool[np.ndarray, " time"]:
        """Off the ground, all rotors turning."""
        known = np.isfinite(np.column_stack([self.position, self.velocity, self.attitude, self.rates])).all(1)
        height = self.position[:, 2] - np.nanmin(self.position[:, 2])
        return known & (height > FLYING) & (self.rotors > TURNING).all(1)

    @cached_property
    def seen_rates(self) -> Float[np.ndarray, "time 3"]:
        """Rates at each sample from the attitudes up to it: they are as late as nothing on board."""
        found = np.zeros((len(self), 3))
        if len(self) <= ATTITUDES:
            return found
        windows = np.lib.stride_tricks.sliding_window_view(np.arange(len(self)), ATTITUDES)
        turns = turn_between(self.attitude[windows[:, -1:]], self.attitude[windows])
        time = self.time[windows] - self.time[windows].mean(axis=1, keepdims=True)
        found[ATTITUDES - 1 :] = np.einsum("wk,wki->wi", time, turns) / np.sum(time**2, axis=1)[:, None]
        return found

    def windows(self, horizon: float, every: int) -> list[tuple[int, int]]:
        """(first, last) samples of windows of this length in which it flies, one for every so many samples."""
        last = np.searchsorted(self.time, self.time + horizon)
        good = np.concatenate([[0], np.cumsum(~self.flying)])
        starts = [a for a in range(0, len(self), every) if last[a] < len(self) and last[a] > a + 2]
        return [(a, int(last[a])) for a in starts if good[last[a] + 1] == good[a]]

    @cached_property
    def late(self) -> float:
        """By how many seconds on-board rates come after those of the attitude: where both are most alike."""
        step = max(1, round(APART / float(np.median(np.diff(self.time)))))
        if len(self) < 4 * step or self.flying.sum() < 4 * step:
            return 0.0
        inner = slice(step, len(self) - step)
        span = (self.time[2 * step :] - self.time[: -2 * step])[:, None]
        centred = turn_between(self.attitude[: -2 * step], self.attitude[2 * step :]) / span
        good = self.flying[inner]
        shifts = np.arange(-LATEST, LATEST + 1e-9, 0.005)
        time, scores = self.time[inner][good], []
        for shift in shifts:
            moved = np.column_stack([np.interp(time + shift, self.time, column) for column in self.rates.T])
            scores.append(float(np.sum(moved * centred[good])))
        return float(shifts[int(np.argmax(scores))])

    def aligned(self) -> "Flight":
        """With on-board streams moved to where attitudes say that they belong."""

        def moved(values: np.ndarray) -> np.ndarray:
            columns = values.reshape(len(self), -1).T
            return np.column_stack([np.interp(self.time + self.late, self.time, each) for each in columns])

        return replace(
            self, rates=moved(self.rates), rotors=moved(self.rotors), battery=moved(self.battery).reshape(-1)
        )

    def take(self, samples: slice) -> "Flight":
        """Some of its samples."""
        signals = ("time", "position", "velocity", "attitude", "rates", "rotors", "battery")
        return replace(self, **{name: getattr(self, name)[samples] for name in signals})
