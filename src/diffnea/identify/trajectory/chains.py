"""The trajectory loss: from many starts over growing horizons, and what predicts the recordings best is taken."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from diffnea.identify.judge.score import rolled
from diffnea.identify.judge.windows import Windows, samples, windows
from diffnea.identify.problem.least_squares import Quadratic
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.tracks import Split, Track
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.friction_starts import with_other_friction
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.multistart import Found
from diffnea.identify.solve.starts import spread as moderate_changes
from diffnea.identify.trajectory.recording_zeros import Zeros, moved, own_zeros, said
from diffnea.identify.trajectory.shooting import MOST_WINDOWS, Shooting, shots, side_by_side
from diffnea.identify.trajectory.window_weights import weights
from diffnea.models import Model

# Seconds. Every chain goes through the first of them, the best one on to the others.
HORIZONS, LATER_HORIZONS = (0.1, 0.25, 0.5, 1.0), (2.0,)
# Chains differ in their starts and in the few windows that each sees: the loss is rough, and most of them get stuck. So
# many run until so many have come to about the best place, and the best of them go on to the last horizon.
LEAST_CHAINS, CHAINS, AGREEING, FINALISTS = 8, 24, 3, 5
# In a step the fastest motion that stands out of the noise turns by no more than so many radians.
MOST_TURN = 0.5
ITERATIONS = 30
# A moderate change of a number costs as much as so many residuals of usual size: what the data do not tell stays.
PRIOR = 10.0
# A joint that comes to rest a sample earlier makes the loss jump a little. A step may go up by this share, to get past.
ROUGH = 2e-3
# How far a start state is from its smoothed value: shares of the positions' and of the velocities' spread.
POSITION_SHARE, VELOCITY_SHARE = 0.005, 0.02
# A longer horizon tells more of θ than a few roll-outs can show: it is taken unless it predicts worse by this share.
# The warm start, which has seen all data, is left unless it predicts better by as much.
MARGIN = 0.1
# Where recordings differ, long windows multiply what no model has of them all: the last fit is one of short windows.
SHORT = 0.5
# Zeros and θ are found in turn, at first from a θ that is a compromise between zeros: while it helps, and so often.
ZERO_ROUNDS = 4
# With all data in the fit, they cannot be predicted worse than before by this factor.
WORSE = 1.1
# Blocks of at most so many seconds, of which one in so many is kept apart; roll-outs start so close together.
BLOCK, ONE_IN, LONGEST, STRIDE = 2.5, 4, 2.0, 0.1


class _Effort(NamedTuple):
    """How many windows are fitted, evenly chosen or drawn by a seed, and how often they are weighted anew."""

    windows: int
    seed: int | None
    rounds: int


ALL = _Effort(MOST_WINDOWS, None, 4)
FEW_WINDOWS, FEW_ROUNDS = 32, 2


@dataclass(frozen=True)
class _Stage:
    """θ after a horizon."""

    horizon: float
    theta: Float[np.ndarray, " p"]
    trial: "_Trial"
    loss: float
    problem: Shooting | None = None
    x0: Float[np.ndarray, "window two_n"] | None = None
    alone: int = 0  # so many windows, the first, do not lie over each other

    @cached_property
    def error(self) -> float:
        """How well it predicts; worked out when first asked for."""
        return self.trial.error(self.theta)

    def linearised(self, learned: tuple[str, ...]) -> Linearised:
        """The residuals at the solution of windows that share no sample; each is a segment of its own."""
        assert self.problem is not None and self.x0 is not None
        kept = np.asarray(self.problem.shots.weight)[0, :, 0] > 0
        kept[self.alone :] = False
        r, J = self.problem.reduced_rows(self.theta, self.x0)
        r, J = r[kept], J[kept]
        windows, times, n = r.shape
        free = self.problem.free
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
        )


class Improved(NamedTuple):
    """What the trajectory loss brought; `linearised` is None where the warm start was better."""

    found: Found
    linearised: Callable[[], Linearised] | None


def improve(
    found: Found,
    free: Unknowns,
    parts: Split,
    spread: Float[np.ndarray, " n"],
    others: Sequence[Float[np.ndarray, " p"]] = (),
) -> Improved:
    """Fit trajectories from where another loss ended, and from `others`; start and horizon are chosen on roll-outs.

    The roll-outs are of all recordings. A candidate has seen few windows of them, and none in blocks that are kept
    apart. The choice is then fitted once more to all data.
    """
    with threadpool_limits(1, "blas"):  # matrices are small; threads that wait for each other take more than they give
        return _improve(found, free, parts, spread, others)


def _improve(found: Found, free: Unknowns, parts: Split, spread: np.ndarray, others: Sequence[np.ndarray]) -> Improved:
    seen = _seen(parts.fitted)
    starts = (found.theta, *others)
    centre = starts[-1]  # what the data do not tell stays as given
    trial = _Trial(free, spread, parts.fitted, _every(parts.fitted), centre)
    chain = _race(trial, [*starts, *with_other_friction(free, centre, CHAINS - len(starts))], seen)
    if chain:
        chain += trial.chain(LATER_HORIZONS, chain[-1].theta, seen, _few(0))
    best = _chosen(chain, _Stage(0.0, found.theta, trial, found.loss))
    notes = (*found.notes, _said(best))
    if best.horizon:
        best, zeros = trial.last(best)
        notes = (*notes, *said(zeros, _joints(free)))
    history = (*found.history, *(stage.loss for stage in chain))
    better = replace(found, theta=best.theta, loss=best.loss, history=history, notes=notes)
    return Improved(better, partial(best.linearised, free.learned) if best.problem is not None else None)


def _joints(free: Unknowns) -> Sequence[str]:
    model = free.model(jnp.asarray(free.start))
    return model.robot.joint_names if isinstance(model, Model) else [f"joint {k}" for k in range(model.num_joints)]


def _few(seed: int) -> _Effort:
    return _Effort(FEW_WINDOWS, seed, FEW_ROUNDS)


def _race(trial: "_Trial", starts: Iterable[Float[np.ndarray, " p"]], tracks: Sequence[Track]) -> list[_Stage]:
    """Of chains from these starts the one that predicts best; the best few go on to the last horizon."""
    chains: list[tuple[int, list[_Stage]]] = []
    for k, start in enumerate(starts):
        stages = trial.chain(HORIZONS[:-1], start, tracks, _few(k))
        chains += [(k, stages)] if stages else []
        if k + 1 >= LEAST_CHAINS and _agreed([stages[-1].error for _, stages in chains]):
            break
    ahead = sorted(chains, key=lambda each: each[1][-1].error)[:FINALISTS]
    ended = [chain + trial.chain(HORIZONS[-1:], chain[-1].theta, tracks, _few(k)) for k, chain in ahead]
    return min(ended, key=lambda chain: chain[-1].error, default=[])


def _agreed(errors: Sequence[float]) -> bool:
    """Whether several chains have come to about the best place, so that more would not find a better one."""
    return sum(error <= (1 + MARGIN) * min(errors) for error in errors) >= AGREEING


def _chosen(chain: list[_Stage], warm: _Stage) -> _Stage:
    """The longest horizon that predicts about as well as the best, or the warm start where all predict worse."""
    least = min((stage.error for stage in chain), default=np.inf)
    if not least < (1 + MARGIN) * warm.error:
        return warm
    return [stage for stage in chain if stage.error <= (1 + MARGIN) * least][-1]


def _said(best: _Stage) -> str:
    if not best.horizon:
        return "every horizon of the trajectory loss predicted the recordings worse than its warm start, which is kept"
    return f"trajectory loss over {best.horizon:g} s, chosen on roll-outs of the recordings"


def _every(tracks: Sequence[Track]) -> int:
    """How many samples make a step."""
    turns = [2 * np.pi * (track.dt or 0.0) * track.terms.bandwidth if track.terms else np.inf for track in tracks]
    return max(1, int(MOST_TURN / max(turns)))


def _seen(tracks: Sequence[Track]) -> list[Track]:
    """Blocks to fit. Others are kept apart, all over the recordings: the end of each alone is seldom like the rest."""
    seconds = [len(track) * (track.dt or 0.0) for track in tracks]
    length = min(BLOCK, sum(seconds) / ONE_IN)
    blocks = []
    for track, duration in zip(tracks, seconds, strict=True):
        # A tenth more is no block of its own; so there are at least as many blocks as it takes to keep one apart.
        cuts = np.linspace(0, len(track), max(1, math.ceil(duration / length - 0.1)) + 1).astype(int)
        blocks += [track.take(slice(int(a), int(b))) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    return [block for k, block in enumerate(blocks) if k % ONE_IN != ONE_IN - 1]


@dataclass(frozen=True)
class _Trial:
    """Fits of windows, and how they are judged."""

    free: Unknowns
    spread: Float[np.ndarray, " n"]
    judged: Sequence[Track]
    every: int  # samples a step
    centre: Float[np.ndarray, " p"]  # where numbers are held, weakly

    def error(self, theta: Float[np.ndarray, " p"]) -> float:
        """Geometric mean of the roll-out error over horizons and joints: none hides another."""
        cut = self._windows
        if cut is None:
            return np.inf
        found = rolled(self.free.model(jnp.asarray(theta)), self.judged, cut)
        each = np.nan_to_num(np.array(found.error_joints) / self.spread, nan=1e9, posinf=1e9)
        return float(np.exp(np.mean(np.log(np.maximum(each, 1e-9)))))

    @cached_property
    def _windows(self) -> Windows | None:
        return windows(self.judged, self.spread, LONGEST, STRIDE)

    def chain(
        self, horizons: Sequence[float], theta: np.ndarray, tracks: Sequence[Track], effort: _Effort
    ) -> list[_Stage]:
        """One horizon after the other, each from where the last ended, until there are no windows."""
        stages: list[_Stage] = []
        for horizon in horizons:
            stage = self.stage(horizon, stages[-1].theta if stages else theta, tracks, effort)
            if stage is None:
                break
            stages.append(stage)
        return stages

    def stage(self, horizon: float, theta: np.ndarray, tracks: Sequence[Track], effort: _Effort) -> _Stage | None:
        """Windows of one length, weighted by their errors, and Levenberg-Marquardt until nothing moves."""
        steps = self._steps(horizon, tracks)
        speed = np.concatenate([track.qd for track in tracks]).std(0) + 1e-9
        hold = np.r_[POSITION_SHARE * self.spread, VELOCITY_SHARE * speed]
        cut = shots(tracks, self.free, steps, self.spread, hold, effort.windows, self.every, effort.seed)
        if cut is None:
            return None
        problem, x0, loss = Shooting(self.free, cut, cut.measured.size), cut.x0, np.inf
        for _ in range(effort.rounds):
            weight = weights(problem.positions(theta, x0) - cut.measured, self.spread)
            if weight is None:
                return None
            problem = replace(problem, shots=cut._replace(weight=weight))
            unit = np.maximum(moderate_changes(self.free), np.abs(theta))
            prior = Quadratic(self.centre, PRIOR / problem.rows / unit**2)
            whole = problem.least_squares.with_prior(prior, len(theta))
            found = minimise(whole, np.r_[theta, x0.ravel()][None], ITERATIONS, unit=unit, rough=ROUGH)
            assert found.eliminated is not None
            theta, x0, loss = found.theta[0], found.eliminated[0].reshape(x0.shape), float(found.loss[0])
        alone = min(len(side_by_side(tracks, self.every * steps)), len(x0))
        return _Stage(horizon, theta, self, loss, problem, x0, alone)

    def last(self, best: _Stage) -> tuple[_Stage, Zeros]:
        """The choice fitted to all data, and the zeros of recordings that stood out and were moved for it."""
        zeros = self.zeros(best.theta)
        if not zeros:
            return self.final(best, best.horizon), zeros
        ends: list[tuple[float, _Stage, Zeros]] = []
        while len(ends) < ZERO_ROUNDS and (len(ends) < 2 or ends[-1][0] < ends[-2][0]):
            best = replace(self, judged=moved(self.judged, zeros)).final(best, min(best.horizon, SHORT))
            zeros = self.zeros(best.theta)
            ends.append((replace(self, judged=moved(self.judged, zeros)).error(best.theta), best, zeros))
        return min(ends, key=lambda end: end[0])[1:]

    def zeros(self, theta: np.ndarray) -> Zeros:
        """Of the recordings whose zero stands out."""
        return own_zeros(self.free, theta, self.judged, self.spread, self._steps(SHORT, self.judged), self.every)

    def final(self, best: _Stage, horizon: float) -> _Stage:
        """The choice fitted to all data, unless that went wrong."""
        best = best if best.trial is self else replace(best, trial=self)
        stage = self.stage(horizon, best.theta, self.judged, ALL)
        return best if stage is None or not stage.error < WORSE * best.error else stage

    def _steps(self, horizon: float, tracks: Sequence[Track]) -> int:
        dt = self.every * float(np.median([track.dt or 0.0 for track in tracks]))
        return max(4, samples(horizon, dt))
