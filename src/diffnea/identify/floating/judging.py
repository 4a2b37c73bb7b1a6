"""What data that were not fitted say of a free robot: its equations of motion, row by row, beside its start's."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from diffnea.identify.floating.linear_rows import LinearRows
from diffnea.identify.floating.stretches import Stretch
from diffnea.identify.judge.assess import Assessment, Metrics
from diffnea.identify.judge.balance import EQUATIONS_KEPT, MOTION_KEPT, PICTURES, Balance, turned
from diffnea.identify.judge.errors import by_joint, compared, of_torques
from diffnea.identify.judge.score import NOTHING, torque_nmse
from diffnea.identify.judge.torque_rows import TorqueRows
from diffnea.identify.options import JudgeOptions


def torque_rows(rows: Sequence[LinearRows], phi: Float[np.ndarray, " m"]) -> TorqueRows:
    """What φ leaves of the equations, in units of their size."""
    left = np.concatenate([each.left(phi) for each in rows])
    segment, before = [], 0
    for each in rows:
        segment.append(each.segment + before)
        before += int(each.segment.max(initial=-1)) + 1
    time = np.concatenate([each.sample * each.dt for each in rows])
    nothing: Any = np.zeros_like(left)
    driven = np.concatenate([each.table[:, :, -1] for each in rows])
    return TorqueRows(
        left=left,
        driven=driven,
        q=nothing,
        qd=nothing,
        qdd=nothing,
        u=driven,
        way=nothing,
        segment=np.concatenate(segment),
        time=time,
        timed=True,
        size=np.ones(left.shape[1]),
    )


def balance(
    rows: LinearRows,
    stretch: Stretch,
    labels: tuple[str, ...],
    scale: Float[np.ndarray, " v"],
    phi: tuple[np.ndarray, np.ndarray],
    feet: bool,
    covariance: Float[np.ndarray, "m m"] | None = None,
) -> Balance:
    """The first of the data not fitted as the page draws them, rows in N and N·m; φ of the fit and of its start."""
    some = np.flatnonzero((rows.segment == 0) & (rows.sample * rows.dt <= EQUATIONS_KEPT))
    table = rows.table[some] * scale[:, None]
    every = max(1, round(1 / (PICTURES * stretch.dt)))
    seen = stretch.take(slice(0, round(MOTION_KEPT / stretch.dt)))
    pose = turned(seen.rates, seen.dt) if seen.pose is None else seen.pose
    ours, theirs = (table[:, :, :-1] @ each for each in phi)
    motion = every * stretch.dt, pose[::every], seen.q[::every]
    return Balance(stretch.name, labels, rows.dt, table[:, :, -1], ours, theirs, *motion, feet, covariance)


def assess(fit: TorqueRows, start: TorqueRows, known: bool, options: JudgeOptions) -> tuple[Metrics, Assessment]:
    """Fit and start side by side, as `judge.assess` has it for torques."""
    ours, theirs = (replace(NOTHING, torque_joints=tuple(map(float, torque_nmse(rows)))) for rows in (fit, start))
    errors = of_torques(fit, start)
    errors = errors if known else errors._replace(start=None)
    return Metrics(ours, theirs, None, None), Assessment(
        basis="torques",
        windows=len(errors.fit),
        finite=bool(np.any(np.isfinite(errors.fit))),
        against_start=compared(errors, options).start,
        against_guess=None,
        lost=None,
        unexplained=tuple(map(float, by_joint(fit, options))),
    )
