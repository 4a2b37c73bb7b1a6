"""Scores: how good a model is on data that were not fitted, by roll-outs, accelerations and torques."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.files import Json
from diffnea.identify.judge.torque_rows import TorqueRows, torque_rows
from diffnea.identify.judge.windows import (
    HORIZONS,
    Prediction,
    Windows,
    accelerations,
    at_constant_velocity,
    guessed,
    predicted,
    standing,
)
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import AbstractModel, Model

# An error of this share of a joint's spread is that of a good prediction.
GOOD = 0.1


@dataclass(frozen=True)
class Score:
    """A model's errors; lists go by horizon, what is normalised is a share of the joints' spread."""

    nmse: float | None  # of accelerations, mean over joints
    nmse_joints: tuple[float, ...]
    horizons: tuple[float, ...]
    error: tuple[float, ...]  # normalised; median over windows of the root mean square within the horizon
    error_joints: tuple[tuple[float, ...], ...]  # in rad or m, one row a horizon
    good_for: float | None  # seconds until the error is 10 % of the spread, median
    diverged: int
    windows: int
    torque_joints: tuple[float, ...] = ()  # nMSE of torques, for a robot

    def to_dict(self) -> Json:
        """For JSON."""
        return asdict(self)


NOTHING = Score(None, (), (), (), (), None, 0, 0)


def score(model: AbstractModel, tracks: Sequence[Track], cut: Windows | None) -> Score:
    """The errors of a model on these data."""
    found = NOTHING if cut is None else rolled(model, tracks, cut)
    return with_balance(found, model, tracks, torque_rows(model, tracks) if isinstance(model, Model) else None)


def with_balance(found: Score, model: AbstractModel, tracks: Sequence[Track], rows: TorqueRows | None) -> Score:
    """A score of roll-outs together with the errors of accelerations, and for a robot of torques."""
    nmse = tuple(map(float, acceleration_nmse(model, tracks)))
    torque = () if rows is None else tuple(map(float, torque_nmse(rows)))
    return replace(found, nmse=float(np.mean(nmse)), nmse_joints=nmse, torque_joints=torque)


def rolled(model: AbstractModel, tracks: Sequence[Track], cut: Windows) -> Score:
    """The errors of roll-outs alone."""
    return of_predictions(predicted(model, tracks, cut))


def constant_velocity(cut: Windows | None) -> Score | None:
    """The errors of a guess that needs no model: the joints go on as they go."""
    return None if cut is None else of_predictions(guessed(cut, at_constant_velocity))


def standing_still(cut: Windows | None) -> Score | None:
    """The errors of the other such guess: the joints stay where they are."""
    return None if cut is None else of_predictions(guessed(cut, standing))


def acceleration_nmse(model: AbstractModel, tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """Mean squared error of accelerations by their variance, joint by joint."""
    qdd = np.concatenate([track.qdd for track in tracks])
    variance = np.var(qdd, axis=0)
    error = np.mean(np.square(accelerations(model, tracks) - qdd), axis=0)
    return error / np.where(variance > 0, variance, 1.0)


def torque_nmse(rows: TorqueRows) -> Float[np.ndarray, " n"]:
    """Mean squared error of torques by the square of their size, joint by joint.

    Torques are compared as the torque loss compares them: both sides of the equation through one low-pass.
    """
    return np.mean(np.square(rows.left / rows.size), axis=0)


def of_predictions(runs: Sequence[Prediction]) -> Score:
    """All windows count alike, whatever their rate; a horizon is judged by those that reach it."""
    horizons = horizons_of(runs)
    each = [np.concatenate([run.joint_errors(h) for run in runs if h <= run.reached]) for h in horizons]
    normal = [np.median(np.concatenate([run.errors(h) for run in runs if h <= run.reached])) for h in horizons]
    return Score(
        nmse=None,
        nmse_joints=(),
        horizons=horizons,
        error=tuple(map(float, normal)),
        error_joints=tuple(tuple(map(float, np.median(e, axis=0))) for e in each),
        good_for=float(np.median(np.concatenate([run.valid(GOOD) for run in runs]))),
        diverged=sum(int(run.lost().sum()) for run in runs),
        windows=sum(len(run.finite) for run in runs),
    )


def horizons_of(runs: Sequence[Prediction]) -> tuple[float, ...]:
    """The horizons that some windows reach, or what they reach where that is less than all."""
    longest = max(run.reached for run in runs)
    return tuple(h for h in HORIZONS if h <= longest) or (round(longest / (1 + 1e-6), 6),)
