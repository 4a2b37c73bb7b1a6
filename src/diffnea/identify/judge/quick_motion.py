"""Quick motion that smoothing takes away: the robot's own, as of joints that stick and slip, or a joint that bends."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from diffnea.identify.judge.score import Score
from diffnea.identify.judge.torque_rows import TorqueRows, torque_rows
from diffnea.identify.notes import Note
from diffnea.identify.options import JudgeOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import AbstractModel, Model
from diffnea.recordings.signal.differentiate import joint_by_joint
from diffnea.recordings.signal.matched_input import held
from diffnea.recordings.signal.terms import WIDER, Terms


def beyond_the_model(
    limits: Sequence[Note],
    model: AbstractModel,
    tracks: Sequence[Track],
    found: Score,
    joint_names: Sequence[str],
    options: JudgeOptions,
) -> tuple[Note, ...]:
    """Of the motions that smoothing takes away those that a model neither predicts nor explains.

    It predicts one where its roll-outs are off by less, in positions as read. It explains one where, between the
    frequencies of the note, torques by the model leave less than half of what that motion takes.
    """

    def predicted(each: Note, joint: int) -> bool:
        return min((row[joint] for row in found.error_joints), default=np.inf) < float(str(each.values["size"]))

    def stays(each: Note) -> bool:
        joint = joint_names.index(each.subject) if each.subject in joint_names else None
        return joint is None or not (predicted(each, joint) or _explained(each, joint, model, tracks, options))

    return tuple(filter(stays, limits))


def _explained(each: Note, joint: int, model: AbstractModel, tracks: Sequence[Track], options: JudgeOptions) -> bool:
    low, high = (float(str(each.values[key])) for key in ("low", "high"))
    if not isinstance(model, Model) or model.actuator.loop is not None or high / WIDER <= low:
        return False
    if not any(track.terms is not None for track in tracks):
        return False
    smoothed = [_smoothed_to(track, high) for track in tracks]
    quick, slow = (torque_rows(model, [_up_to(track, hertz) for track in smoothed]) for hertz in (high / WIDER, low))
    left, taken = (
        _power(quick, joint, beside) - _power(slow, joint, beside)
        for beside in (0.0, 1.0)  # of what the motion takes beyond what drives bring, and of all
    )
    return bool(left < options.hint_better**2 * taken)


def _smoothed_to(track: Track, wide: float) -> Track:
    """With states that keep more than the fit's, up to `wide` Hz."""
    if track.terms is None or track.dt is None:
        return track
    found = joint_by_joint(track.measured, track.dt, wide)
    q, qd, qdd = (np.column_stack([getattr(each, key) for each in found]) for key in ("q", "qd", "qdd"))
    u = np.column_stack([held(column, track.dt, wide, 0.0) for column in track.u.T])
    return replace(track, terms=Terms(q, qd, qdd, u, wide, wide / WIDER))


def _up_to(track: Track, hertz: float) -> Track:
    """With equations compared up to a frequency."""
    return track if track.terms is None else replace(track, terms=replace(track.terms, bandwidth=hertz))


def _power(rows: TorqueRows, joint: int, beside: float) -> float:
    return float(np.var(rows.left[:, joint] + beside * rows.driven[:, joint]))
