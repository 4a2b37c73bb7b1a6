"""The trajectory loss by multistart: chains of growing horizons from many starts; the best are fitted to all data.

The loss is rough, since joints come to rest, and its minima are many, most of them of dry friction. So a chain draws a
few windows anew for every stage, which leads past bumps, and chains are run from drawn friction curves until the chance
that another start finds a new minimum is small. Whatever is compared is compared by roll-outs of all recordings.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits

from diffnea.identify.notes import Note, note
from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.tracks import Split
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.friction_starts import with_other_friction
from diffnea.identify.solve.multistart import Found
from diffnea.identify.solve.stopping import distinct, unexplored
from diffnea.identify.trajectory.recording_zeros import Zeros, moved, own_zeros
from diffnea.identify.trajectory.stages import ALTERNATIONS, Fitter, Stage
from diffnea.models import Model

# Starts at most, however many minima they find.
MOST_STARTS = 12
# A start whose roll-outs are off by less than this share of the spread needs no other: no encoder is as good.
MET_EXACTLY = 1e-4
# So many ends are fitted to all data: a chain's few windows do not tell which of the best is best.
FINALISTS_OF_ALL_DATA = 3


class Improved(NamedTuple):
    """What the trajectory loss brought; `linearised` is None where the warm start was better."""

    found: Found
    linearised: Callable[[], Linearised] | None


def improve(
    found: Found,
    free: Unknowns,
    parts: Split,
    spread: Float[np.ndarray, " n"],
    others: Sequence[Float[np.ndarray, " p"]],
    seed: int,
    options: TrajectoryOptions,
) -> Improved:
    """Fit trajectories from where another loss ended, from `others`, and from drawn friction; choose by roll-outs.

    Where the other loss has met the motion exactly, as simulated ones, there is no other minimum to look for.
    What the data do not tell stays at the last of `others`, or where the other loss ended. `seed` draws windows, and
    friction curves for the start that predicts best: beside a gain that is far off no curve leads anywhere.
    """
    centre = others[-1] if others else found.theta
    fitter = Fitter(free, spread, parts.fitted, centre, options)
    speed = np.concatenate([track.qd for track in parts.fitted]).std(0)
    with threadpool_limits(1, "blas"):  # matrices are small; threads that wait for each other take more than they give
        warm = fitter.start(found.theta, found.loss)
        nearest = min([*map(fitter.start, others), warm], key=lambda stage: stage.error)
        drawn = with_other_friction(free, nearest.theta, MOST_STARTS - 1 - len(others), seed, speed)
        exact = warm.error < np.log(MET_EXACTLY)
        ends = race(fitter, [] if exact else [found.theta, *others, *drawn], seed)
        best = chosen(fitter, [warm] if exact else ends.best)
        if not best.lengths or best.error >= warm.error:
            kept = replace(found, notes=(*found.notes, note("trajectory-kept-warm-start")))
            return Improved(kept, None)
        best, zeros = _with_zeros(fitter, best)
    history = (*found.history, *(stage.loss for stage in ends.best), best.loss)
    counted = [ends.note] if drawn and not exact else []  # the rule is for drawn starts
    notes = (*found.notes, *counted, note("trajectory-lengths", lengths=_spoken(best.lengths)), *_notes(zeros, free))
    return Improved(
        replace(found, theta=best.theta, loss=best.loss, history=history, notes=notes),
        partial(best.linearised, free.learned),
    )


@dataclass(frozen=True)
class Race:
    """Where chains ended, in the order of their starts."""

    ends: tuple[Stage, ...]
    most_best: int
    apart: float  # ends whose errors differ by less are of one minimum

    @property
    def best(self) -> list[Stage]:
        """The best end of each of the best few minima, best first."""
        found: list[Stage] = []
        for end in sorted(self.ends, key=lambda stage: stage.error):
            if not found or end.error >= found[-1].error + self.apart:
                found.append(end)
        return found[: self.most_best]

    @property
    def minima(self) -> int:
        """How many there are."""
        return distinct([end.error for end in self.ends], self.apart)

    @property
    def unexplored(self) -> float:
        """The expected share of starts that would lead elsewhere."""
        return unexplored(len(self.ends), self.minima)

    @property
    def note(self) -> Note:
        """How many starts there were, and what they leave open."""
        return note("trajectory-starts", starts=len(self.ends), minima=self.minima, unexplored=self.unexplored)


def race(fitter: Fitter, starts: Iterable[Float[np.ndarray, " p"]], seed: int) -> Race:
    """Chains from these starts, until the rest is expected to bring nothing new (Boender and Rinnooy Kan)."""
    options, ran = fitter.options, Race((), FINALISTS_OF_ALL_DATA, fitter.options.apart)
    for k, start in enumerate(starts):
        known = min((end.error for end in ran.ends), default=np.inf)
        ran = replace(ran, ends=(*ran.ends, run_chain(fitter, start, (seed, k), known)))
        if ran.unexplored < options.unexplored:
            break
    return ran


def run_chain(fitter: Fitter, theta: Float[np.ndarray, " p"], seed: tuple[int, int], known: float = np.inf) -> Stage:
    """One horizon after the other, each from where the last ended, on windows of its own; the best of them.

    A chain with windows of full length that predicts about as well as the best end so far, whose error is `known`, has
    come to its minimum: it is counted there, and goes no further (as in clustering, Rinnooy Kan and Timmer 1987).
    """
    options, best = fitter.options, fitter.start(theta)
    here = best
    for k, horizon in enumerate(options.horizons):
        stage = fitter.few(horizon, here.theta, (*seed, k))
        if stage is not None:
            here = stage
            best = stage if stage.error < best.error or not best.lengths else best
        if horizon == max(options.horizons) and abs(best.error - known) < options.apart:
            break
    return best


def chosen(fitter: Fitter, finalists: Sequence[Stage]) -> Stage:
    """Finalists, best first, fitted to windows of all data and of all lengths at once; the best of them.

    Long windows tell more of θ, but multiply what a model lacks: which counts more differs between machines and, alike
    as lengths often predict, from one draw of windows to the next. Where all data lead away from the finalists, by more
    than one standard error, the first is left as it is.
    """
    first = finalists[0]
    fitted = [fitter.all(fitter.options.all_horizons, end.theta) for end in finalists]
    present = [stage for stage in fitted if stage is not None]
    if not present:
        return first
    least = min(present, key=lambda stage: stage.error)
    return first if fitter.judge.clearly_worse(least.errors, first.errors) else least


def _with_zeros(fitter: Fitter, best: Stage) -> tuple[Stage, Zeros]:
    """θ and the zeros of recordings that stand out, found in turn while that predicts the recordings better."""
    found, zeros, error = (best, Zeros({})), _zeros(fitter, best), np.inf
    for _ in range(ALTERNATIONS):
        if not zeros.shifts:
            break
        there = replace(fitter, tracks=moved(fitter.tracks, zeros))
        again = there.all(best.lengths, best.theta)
        if again is None or again.error >= error:
            break
        best = again
        found, error = (best, zeros), best.error
        zeros = _zeros(fitter, best)
    return found


def _zeros(fitter: Fitter, stage: Stage) -> Zeros:
    steps = fitter.steps(fitter.options.all_horizons[0])
    return own_zeros(fitter.free, stage.theta, fitter.tracks, fitter.spread, steps, fitter.every, fitter.options)


def _spoken(lengths: Sequence[float]) -> str:
    *others, last = [f"{length:g}" for length in lengths]
    return f"{', '.join(others)} and {last}" if others else last


def _notes(zeros: Zeros, free: Unknowns) -> Iterable[Note]:
    model = free.model(jnp.asarray(free.start))
    joints = model.robot.joint_names if isinstance(model, Model) else [f"joint {k}" for k in range(model.num_joints)]
    return zeros.notes(joints)
