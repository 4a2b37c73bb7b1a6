"""Assessment: what data that were not fitted say of a model, as numbers that a verdict is made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from diffnea.files import Json
from diffnea.identify.judge.black_box import Structure, structure
from diffnea.identify.judge.bootstrap import Bound
from diffnea.identify.judge.errors import (
    Errors,
    Runs,
    by_joint,
    compared,
    of_accelerations,
    of_rollouts,
    of_torques,
    runs,
)
from diffnea.identify.judge.score import NOTHING, Score, of_predictions, with_balance
from diffnea.identify.judge.torque_rows import TorqueRows, torque_rows
from diffnea.identify.judge.windows import windows
from diffnea.identify.options import JudgeOptions
from diffnea.identify.problem.measurements.tracks import Split, Track
from diffnea.models import AbstractModel, Model

Basis = Literal["torques", "roll-outs", "accelerations"]

# With fewer windows than this nothing is rolled out, and accelerations decide.
LEAST_WINDOWS = 3


@dataclass(frozen=True)
class Metrics:
    """On data not fitted, side by side: the fit, the start (the robot as it was given), and guesses without a model."""

    fit: Score
    start: Score
    constant_velocity: Score | None
    standing_still: Score | None

    def __getitem__(self, name: str) -> Any:
        """A number of the fit by its name, as `metrics["nmse"]`."""
        return getattr(self.fit, name)

    def to_dict(self) -> Json:
        """For JSON."""
        return {name: None if part is None else part.to_dict() for name, part in vars(self).items()}

    def __str__(self) -> str:
        """A table: one line a model."""
        rows = [("fit", self.fit), ("start", self.start)]
        rows += [("constant velocity", self.constant_velocity), ("standing still", self.standing_still)]
        head = "".join(f"{f'{h:g} s':>10}" for h in self.fit.horizons)
        lines = [f"{'':18}{'nMSE':>10}{'of torque':>10}{head}{'good for':>10}{'diverged':>10}"]
        for name, part in rows:
            if part is not None:
                nmse = "" if part.nmse is None else f"{part.nmse:.3g}"
                torque = f"{np.mean(part.torque_joints):.3g}" if part.torque_joints else ""
                errors = "".join(f"{error:>10.3g}" for error in part.error)
                good = "" if part.good_for is None else f"{part.good_for:.2f} s"
                diverged = f"{part.diverged}/{part.windows}"
                lines.append(f"{name:18}{nmse:>10}{torque:>10}{errors}{good:>10}{diverged:>10}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Assessment:
    """What the verdict rests on; bounds are of mean log(error of the fit / error of another) over windows kept back."""

    basis: Basis
    windows: int
    finite: bool  # whether the fit predicts anything
    against_start: Bound | None  # None: the start predicts nothing, or has no masses
    against_guess: Bound | None  # of roll-outs: by the better of constant velocity and standing still
    lost: tuple[int, int] | None  # roll-outs of the fit and of the start that diverge
    unexplained: tuple[float, ...]  # by joint, a share of the torques' size, or of a network's accelerations
    structure: Structure | None = None  # what a black box removes of the torques that are left


def assess(
    model: AbstractModel,
    start: AbstractModel,
    parts: Split,
    spread: Float[np.ndarray, " n"],
    by_torque: bool,
    known: bool = True,
    options: JudgeOptions | None = None,
) -> tuple[Metrics, Assessment]:
    """A model beside its start on the data kept back; `known`: whether the start has masses to be compared with.

    Judged are torques, for fits of torques; roll-outs, for others; accelerations, where nothing can be rolled out.
    """
    options = options or JudgeOptions()
    cut = windows(parts.test, spread)
    found = None if cut is None else runs(model, start, parts.test, cut)
    goals = isinstance(model, Model) and model.actuator.loop is not None  # no torques are known, motion alone counts
    rows = [torque_rows(each, parts.test) if isinstance(each, Model) and not goals else None for each in (model, start)]
    metrics = _metrics(model, start, parts.test, found, rows)
    basis, errors = _errors(model, start, parts.test, found, rows if by_torque else [None, None], options)
    if not known or errors.start is None or not np.any(np.isfinite(errors.start)):
        errors = errors._replace(start=None)
    ratios = compared(errors, options)
    return metrics, Assessment(
        basis=basis,
        windows=len(errors.fit),
        finite=bool(np.any(np.isfinite(errors.fit))),
        against_start=ratios.start,
        against_guess=ratios.guess,
        lost=None if found is None else (metrics.fit.diverged, metrics.start.diverged),
        unexplained=_of_motion(found, spread) if goals else _unexplained(metrics, rows[0], options),
        structure=None
        if rows[0] is None or not isinstance(model, Model)
        else _structure(model, parts.fitted, rows[0], options),
    )


def _metrics(
    model: AbstractModel,
    start: AbstractModel,
    tracks: Sequence[Track],
    found: Runs | None,
    rows: Sequence[TorqueRows | None],
) -> Metrics:
    fit, before, *guesses = [NOTHING, NOTHING, None, None] if found is None else map(of_predictions, found)
    assert fit is not None and before is not None
    return Metrics(with_balance(fit, model, tracks, rows[0]), with_balance(before, start, tracks, rows[1]), *guesses)


def _errors(
    model: AbstractModel,
    start: AbstractModel,
    tracks: Sequence[Track],
    found: Runs | None,
    rows: Sequence[TorqueRows | None],
    options: JudgeOptions,
) -> tuple[Basis, Errors]:
    if rows[0] is not None and rows[1] is not None:
        return "torques", of_torques(rows[0], rows[1])
    if found is not None and sum(len(run.finite) for run in found.fit) >= LEAST_WINDOWS:
        return "roll-outs", of_rollouts(found)
    return "accelerations", of_accelerations(model, start, tracks)


def _unexplained(metrics: Metrics, rows: TorqueRows | None, options: JudgeOptions) -> tuple[float, ...]:
    """Of windows, so that a few in which something else happened do not decide."""
    if rows is None:
        return tuple(map(math.sqrt, metrics.fit.nmse_joints))
    return tuple(map(float, by_joint(rows, options)))


def _of_motion(found: Runs | None, spread: Float[np.ndarray, " n"]) -> tuple[float, ...]:
    """What roll-outs leave of each joint's motion: the median window's error to the farthest horizon, in spreads."""
    if found is None:
        return (0.0,) * len(spread)
    each = np.concatenate([run.joint_errors(run.reached) for run in found.fit])
    return tuple(map(float, np.median(each, axis=0) / spread))


def _structure(
    model: AbstractModel, fitted: Sequence[Track], test: TorqueRows | None, options: JudgeOptions
) -> Structure | None:
    if test is None or not isinstance(model, Model) or not np.all(np.isfinite(test.left)):
        return None
    return structure(torque_rows(model, fitted), test, model.robot.turning, options)
