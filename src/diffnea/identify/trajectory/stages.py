"""Fits of windows of one length or several: drawn, weighted by their errors, and descended."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from diffnea.identify.trajectory.lengths import Lengths, Starts
from diffnea.identify.trajectory.rollout_errors import RolloutErrors
from diffnea.identify.trajectory.shooting import Shooting, Shots, shots, side_by_side

Seed = tuple[int, ...]

# Of all data so many windows at most.
MOST_WINDOWS_OF_ALL = 384
# In a step the fastest motion that stands out of the noise turns by no more than so many radians.
MOST_TURN = 0.5
# So often windows of all data are weighted anew, and zeros of recordings and θ are found in turn.
ALTERNATIONS = 2


@dataclass(frozen=True)
class Stage:
    """θ after windows of some lengths, and how well it predicts the recordings; a start has no lengths."""

    lengths: tuple[float, ...]  # seconds, the shortest first
    theta: Float[np.ndarray, " p"]
    loss: float
    errors: Float[np.ndarray, " rollout"]  # logarithms, of `RolloutErrors`
    windows: Lengths | None = None
    starts: Starts = ()
    alone: int = 0  # so many windows of the shortest length, the first, do not lie over each other

    @property
    def error(self) -> float:
        """The mean of the logarithms."""
        return float(np.mean(self.errors)) if self.errors.size else np.inf

    def linearised(self, learned: tuple[str, ...]) -> Linearised:
        """The residuals at the solution of windows that share no sample; each is a segment of its own.

        Of several lengths the shortest, which has most windows: those of the others lie over the same samples.
        """
        assert self.windows is not None
        problem = self.windows.problems[0]
        kept = np.asarray(problem.shots.weight)[0, :, 0] > 0
        kept[self.alone :] = False
        r, J, starts = (part[kept] for part in problem.reduced_rows(self.theta, self.starts[0]))
        free, n = problem.free, problem.shots.measured.shape[2]
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
            dt=float(np.median(problem.shots.dt)),
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
        return Stage((), theta, loss, self.judge.of(theta))

    def few(self, length: float, theta: Float[np.ndarray, " p"], seed: Seed) -> Stage | None:
        """A few windows, drawn anew; None where there are none. The loss is rough: other windows lead past a bump."""
        return self._fitted((length,), theta, self.options.windows, 1, seed)

    def all(self, lengths: tuple[float, ...], theta: Float[np.ndarray, " p"]) -> Stage | None:
        """Windows of all data, of those lengths that fit into the recordings, weighted anew while that changes them."""
        return self._fitted(lengths, theta, MOST_WINDOWS_OF_ALL, ALTERNATIONS, None)

    def steps(self, length: float) -> int:
        """How many steps a window has."""
        dt = self.every * float(np.median([track.dt or 0.0 for track in self.tracks]))
        return max(4, samples(length, dt))

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
        self, lengths: tuple[float, ...], theta: Float[np.ndarray, " p"], count: int, rounds: int, seed: Seed | None
    ) -> Stage | None:
        cuts = [(length, self._cut(length, count, seed)) for length in lengths]
        present = [(length, cut) for length, cut in cuts if cut is not None]
        if not present:
            return None
        windows = Lengths(tuple(Shooting(self.free, cut, cut.measured.size) for _, cut in present))
        starts, loss = tuple(cut.x0 for _, cut in present), np.inf
        for _ in range(rounds):
            weighted = windows.weighted(theta, starts, self.spread, self.options)
            if weighted is None:
                return None
            windows = weighted
            theta, starts, loss = self._descended(windows, theta, starts)
        first = self.every * self.steps(present[0][0])
        alone = min(len(side_by_side(self.tracks, first)), len(starts[0]))
        kept = tuple(length for length, _ in present)
        return Stage(kept, theta, loss, self.judge.of(theta), windows, starts, alone)

    def _cut(self, length: float, count: int, seed: Seed | None) -> Shots | None:
        """Windows of one length, `count` at most."""
        options = self.options
        speed = np.concatenate([track.qd for track in self.tracks]).std(0) + 1e-9
        hold = np.r_[options.position_share * self.spread, options.velocity_share * speed]
        few = 2 * options.windows
        return shots(self.tracks, self.free, self.steps(length), self.spread, hold, count, self.every, seed, few)

    def _descended(
        self, windows: Lengths, theta: Float[np.ndarray, " p"], starts: Starts
    ) -> tuple[Float[np.ndarray, " p"], Starts, float]:
        unit = np.maximum(moderate_changes(self.free), np.abs(theta))
        prior = Quadratic(self.centre, self.options.prior / windows.rows / unit**2)
        whole = windows.least_squares.with_prior(prior, len(theta))
        points = np.concatenate([theta, *(each.ravel() for each in starts)])[None]
        found = minimise(whole, points, self.options.iterations, unit=unit, rough=self.options.rough)
        assert found.eliminated is not None
        return found.theta[0], windows.starts(found.eliminated[0]), float(found.loss[0])
