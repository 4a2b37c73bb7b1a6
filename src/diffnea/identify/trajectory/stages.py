"""Fits of windows of one length: drawn, weighted by their errors, and descended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from diffnea.identify.judge.windows import samples
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.least_squares import Quadratic
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.starts import spread as moderate_changes
from diffnea.identify.trajectory.rollout_errors import RolloutErrors
from diffnea.identify.trajectory.shooting import Shooting, shots, side_by_side
from diffnea.identify.trajectory.window_weights import weights

Seed = tuple[int, ...]

# Of all data so many windows at most.
MOST_WINDOWS_OF_ALL = 384
# In a step the fastest motion that stands out of the noise turns by no more than so many radians.
MOST_TURN = 0.5
# So often windows of all data are weighted anew, and zeros of recordings and θ are found in turn.
ALTERNATIONS = 2


@dataclass(frozen=True)
class Stage:
    """θ after windows of one length, and how well it predicts the recordings; a start has a length of none."""

    horizon: float
    theta: Float[np.ndarray, " p"]
    loss: float
    errors: Float[np.ndarray, " rollout"]  # logarithms, of `RolloutErrors`
    problem: Shooting | None = None
    x0: Float[np.ndarray, "window two_n"] | None = None
    alone: int = 0  # so many windows, the first, do not lie over each other

    @property
    def error(self) -> float:
        """The mean of the logarithms."""
        return float(np.mean(self.errors)) if self.errors.size else np.inf

    def linearised(self, learned: tuple[str, ...]) -> Linearised:
        """The residuals at the solution of windows that share no sample; each is a segment of its own."""
        assert self.problem is not None and self.x0 is not None
        kept = np.asarray(self.problem.shots.weight)[0, :, 0] > 0
        kept[self.alone :] = False
        r, J, starts = (part[kept] for part in self.problem.reduced_rows(self.theta, self.x0))
        free, n = self.problem.free, self.problem.shots.measured.shape[2]
        windows, times = len(r), r.shape[1] // n  # positions and velocities of held starts stand behind the last
        return Linearised(
            theta=self.theta,
            jacobian=J.reshape(-1, free.size),
            residuals=r.reshape(-1),
            joint=np.tile(np.arange(n), windows * times),
            sample=np.tile(np.repeat(np.arange(times), n), windows),
            segment=np.repeat(np.arange(windows), times * n),
            labels=free.labels,
            unpack=free.model,
            learned=learned,
            dt=float(np.median(self.problem.shots.dt)),
            starts=starts.reshape(-1, 2 * n),
        )


@dataclass(frozen=True)
class Fitter:
    """What is fitted to which recordings, and how."""

    free: Unknowns
    spread: Float[np.ndarray, " n"]
    tracks: Sequence[Track]
    centre: Float[np.ndarray, " p"]  # what the data do not tell stays there
    options: TrajectoryOptions

    def start(self, theta: Float[np.ndarray, " p"], loss: float = np.inf) -> Stage:
        """A θ that no windows were fitted with."""
        return Stage(0.0, theta, loss, self.judge.of(theta))

    def few(self, horizon: float, theta: Float[np.ndarray, " p"], seed: Seed) -> Stage | None:
        """A few windows, drawn anew; None where there are none. The loss is rough: other windows lead past a bump."""
        return self._fitted(horizon, theta, self.options.windows, 1, seed)

    def all(self, horizon: float, theta: Float[np.ndarray, " p"]) -> Stage | None:
        """Windows of all data, weighted anew while that changes them."""
        return self._fitted(horizon, theta, MOST_WINDOWS_OF_ALL, ALTERNATIONS, None)

    def steps(self, horizon: float) -> int:
        """How many steps a window has."""
        dt = self.every * float(np.median([track.dt or 0.0 for track in self.tracks]))
        return max(4, samples(horizon, dt))

    @cached_property
    def judge(self) -> RolloutErrors:
        """By roll-outs of the same recordings."""
        return RolloutErrors(self.free, self.spread, self.tracks)

    @cached_property
    def every(self) -> int:
        """How many samples make a step: in it, the fastest motion that stands out of the noise turns a little only."""
        bands = [2 * np.pi * (t.dt or 0.0) * t.terms.bandwidth if t.terms else np.inf for t in self.tracks]
        return max(1, int(MOST_TURN / max(bands)))

    def _fitted(
        self, horizon: float, theta: Float[np.ndarray, " p"], count: int, rounds: int, seed: Seed | None
    ) -> Stage | None:
        options, steps = self.options, self.steps(horizon)
        speed = np.concatenate([track.qd for track in self.tracks]).std(0) + 1e-9
        hold = np.r_[options.position_share * self.spread, options.velocity_share * speed]
        cut = shots(self.tracks, self.free, steps, self.spread, hold, count, self.every, seed, 2 * options.windows)
        if cut is None:
            return None
        problem, x0, loss = Shooting(self.free, cut, cut.measured.size), cut.x0, np.inf
        for _ in range(rounds):
            weight = weights(problem.positions(theta, x0) - cut.measured, self.spread, options)
            if weight is None:
                return None
            problem = replace(problem, shots=cut._replace(weight=weight))
            theta, x0, loss = self._descended(problem, theta, x0)
        alone = min(len(side_by_side(self.tracks, self.every * steps)), len(x0))
        return Stage(horizon, theta, loss, self.judge.of(theta), problem, x0, alone)

    def _descended(
        self, problem: Shooting, theta: Float[np.ndarray, " p"], x0: Float[np.ndarray, "window two_n"]
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, "window two_n"], float]:
        unit = np.maximum(moderate_changes(self.free), np.abs(theta))
        prior = Quadratic(self.centre, self.options.prior / problem.rows / unit**2)
        whole = problem.least_squares.with_prior(prior, len(theta))
        points = np.r_[theta, x0.ravel()][None]
        found = minimise(whole, points, self.options.iterations, unit=unit, rough=self.options.rough)
        assert found.eliminated is not None
        return found.theta[0], found.eliminated[0].reshape(x0.shape), float(found.loss[0])
