"""The trajectory loss: from several starts over growing horizons, and what predicts blocks kept apart best is taken."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.data import Split, Track
from diffnea.identify.linearised import Linearised
from diffnea.identify.scoring import Windows, samples, score, windows
from diffnea.identify.search import Found
from diffnea.identify.shooting import Shooting, shots, side_by_side
from diffnea.identify.shooting_descent import Held, descend
from diffnea.identify.shooting_weights import weights
from diffnea.identify.starts import spread as moderate_changes
from diffnea.identify.unknowns import Unknowns

# Seconds. Every start tries the first of them, the best goes on.
FIRST_HORIZONS, LATER_HORIZONS = (0.1, 0.25), (0.5, 1.0)
ITERATIONS = 30
# How often the residuals' weights are taken anew from the errors that are left.
ROUNDS = 4
# How far a start state is from its smoothed value: shares of the positions' and of the velocities' spread.
POSITION_SHARE, VELOCITY_SHARE = 0.005, 0.02
# A longer horizon tells more of θ than a few roll-outs can show: it is taken unless it predicts worse by this share.
# The warm start, which has seen what was kept apart, is left unless it predicts better by as much.
MARGIN = 0.1
# With what was kept apart in the fit too, it cannot be predicted worse than before by this factor.
WORSE = 1.1
# Blocks of at most so many seconds, of which one in so many is kept apart; roll-outs there start so close together.
BLOCK, ONE_IN, LONGEST, STRIDE = 2.5, 4, 1.0, 0.1


@dataclass(frozen=True)
class _Stage:
    """θ after a horizon, and how well it predicts what was kept apart."""

    horizon: float
    theta: Float[np.ndarray, " p"]
    error: float
    loss: float
    problem: Shooting | None = None
    x0: Float[np.ndarray, "window two_n"] | None = None
    alone: int = 0  # so many windows, the first, do not lie over each other

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

    The roll-outs are of blocks that are spread over the recordings and that no candidate has seen. The choice is then
    fitted once more to all data.
    """
    seen, apart = _blocks(parts.fitted)
    trial = _Trial(free, spread, apart)
    starts = (found.theta, *others)
    chains = [trial.chain(FIRST_HORIZONS, start, start, seen) for start in starts]
    ahead = min(range(len(starts)), key=lambda k: min((stage.error for stage in chains[k]), default=np.inf))
    if chains[ahead]:
        chains[ahead] += trial.chain(LATER_HORIZONS, chains[ahead][-1].theta, starts[ahead], seen)
    stages = [stage for chain in chains for stage in chain]
    best = _chosen(chains[ahead], _Stage(0.0, found.theta, trial.error(found.theta), found.loss))
    notes = (*found.notes, _said(best))
    if best.horizon:
        best = trial.final(best, parts.fitted)
    history = (*found.history, *(stage.loss for stage in stages))
    better = replace(found, theta=best.theta, loss=best.loss, history=history, notes=notes)
    return Improved(better, partial(best.linearised, free.learned) if best.problem is not None else None)


def _chosen(chain: list[_Stage], warm: _Stage) -> _Stage:
    """The longest horizon that predicts about as well as the best, or the warm start where all predict worse."""
    least = min((stage.error for stage in chain), default=np.inf)
    if not least < (1 + MARGIN) * warm.error:
        return warm
    return [stage for stage in chain if stage.error <= (1 + MARGIN) * least][-1]


def _said(best: _Stage) -> str:
    if not best.horizon:
        return "every horizon of the trajectory loss predicted validation data worse than its warm start, which is kept"
    return f"trajectory loss over {best.horizon:g} s, chosen on validation data"


def _blocks(tracks: Sequence[Track]) -> tuple[list[Track], list[Track]]:
    """Blocks to fit and blocks to choose by, all over the recordings: the end of each alone is seldom like the rest."""
    seconds = [len(track) * (track.dt or 0.0) for track in tracks]
    length = min(BLOCK, sum(seconds) / ONE_IN)
    blocks = []
    for track, duration in zip(tracks, seconds, strict=True):
        # A tenth more is no block of its own; so there are at least as many blocks as it takes to keep one apart.
        cuts = np.linspace(0, len(track), max(1, math.ceil(duration / length - 0.1)) + 1).astype(int)
        blocks += [track.take(slice(int(a), int(b))) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    apart = range(ONE_IN - 1, len(blocks), ONE_IN)
    return [block for k, block in enumerate(blocks) if k not in apart], [blocks[k] for k in apart]


@dataclass(frozen=True)
class _Trial:
    """Fits of windows, and how they are judged."""

    free: Unknowns
    spread: Float[np.ndarray, " n"]
    apart: Sequence[Track]

    def error(self, theta: Float[np.ndarray, " p"]) -> float:
        """Geometric mean of the roll-out error on what was kept apart, over horizons and joints: none hides another."""
        cut = self._windows()
        if cut is None:
            return np.inf
        found = score(self.free.model(jnp.asarray(theta)), self.apart, cut)
        each = np.nan_to_num(np.array(found.error_joints) / self.spread, nan=1e9, posinf=1e9)
        return float(np.exp(np.mean(np.log(np.maximum(each, 1e-9)))))

    def _windows(self) -> Windows | None:
        return windows(self.apart, self.spread, LONGEST, STRIDE)

    def chain(
        self, horizons: Sequence[float], theta: np.ndarray, centre: np.ndarray, tracks: Sequence[Track]
    ) -> list[_Stage]:
        """One horizon after the other, each from where the last ended, until there are no windows."""
        stages: list[_Stage] = []
        for horizon in horizons:
            stage = self.stage(horizon, stages[-1].theta if stages else theta, centre, tracks)
            if stage is None:
                break
            stages.append(stage)
        return stages

    def stage(self, horizon: float, theta: np.ndarray, centre: np.ndarray, tracks: Sequence[Track]) -> _Stage | None:
        """Windows of one length, weighted by their errors, and Levenberg-Marquardt until nothing moves."""
        dt = float(np.median([track.dt or 0.0 for track in tracks]))
        steps = max(4, samples(horizon, dt))
        speed = np.concatenate([track.qd for track in tracks]).std(0) + 1e-9
        cut = shots(tracks, self.free, steps, self.spread, np.r_[POSITION_SHARE * self.spread, VELOCITY_SHARE * speed])
        if cut is None:
            return None
        problem, x0, loss = Shooting(self.free, cut, cut.measured.size), cut.x0, np.inf
        for _ in range(ROUNDS):
            weight = weights(problem.positions(theta, x0) - cut.measured, self.spread)
            if weight is None:
                return None
            problem = replace(problem, shots=cut._replace(weight=weight))
            held = Held(centre, np.maximum(moderate_changes(self.free), np.abs(theta)))
            place = descend(problem, theta, x0, held, ITERATIONS)
            theta, x0, loss = place.theta, place.x0, place.loss
        alone = min(len(side_by_side(tracks, steps)), len(x0))
        return _Stage(horizon, theta, self.error(theta), loss, problem, x0, alone)

    def final(self, best: _Stage, tracks: Sequence[Track]) -> _Stage:
        """The choice fitted to all data, unless that went wrong."""
        stage = self.stage(best.horizon, best.theta, best.theta, tracks)
        return best if stage is None or not stage.error < WORSE * best.error else stage
