"""Torques of recorded motion as rows: what a model leaves of them, through the low-pass of the torque loss."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from diffnea.batches import gravity_torque, mass_matrix
from diffnea.identify.judge.windows import without_delay
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.rows import Rows, through
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import Model
from diffnea.simulate.delay import Late, smooth_weights, weights

# Rows are compared in windows of so many seconds; samples without order in time, so many together.
SECONDS, TOGETHER = 0.5, 10
# So many samples tell how large torques are.
SIZING_ROWS = 1000


class TorqueRows(NamedTuple):
    """One row a filtered instant, one column a joint; N·m, or N at joints that slide."""

    left: Float[np.ndarray, "row n"]  # what the motion takes beyond what the actuators give
    driven: Float[np.ndarray, "row n"]  # what the commands bring
    q: Float[np.ndarray, "row n"]
    qd: Float[np.ndarray, "row n"]
    qdd: Float[np.ndarray, "row n"]
    u: Float[np.ndarray, "row n"]
    way: Float[np.ndarray, "row n"]  # the velocity's sign through the same filter: inside ±1 where a joint turns back
    segment: Int[np.ndarray, " row"]  # which recording
    time: Float[np.ndarray, " row"]  # seconds since its beginning; the index of samples without order
    timed: bool
    size: Float[np.ndarray, " n"]  # how large the torques of each joint are

    def take(self, rows: slice | np.ndarray) -> "TorqueRows":
        """Some of the rows."""
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[:-2]})

    @property
    def window(self) -> Int[np.ndarray, " row"]:
        """The window that each row belongs to, numbered from zero in order of recording and time."""
        seconds = SECONDS if self.timed else float(TOGETHER)
        keys = np.stack([self.segment, np.floor(self.time / seconds + 1e-9)])
        return np.unique(keys, axis=1, return_inverse=True)[1].ravel()


def torque_rows(model: Model, tracks: Sequence[Track]) -> TorqueRows:
    """The balance of torques of all tracks; a late command is taken as it arrives."""
    prompt, late = without_delay(model)
    assert isinstance(prompt, Model)
    parts, before = [], 0
    for rows in equations(tracks, 0 if late is None else late.most, np.ones(model.num_joints)):
        parts.append(_rows(prompt, rows, late, before))
        before += int(rows.segment.max(initial=-1)) + 1
    columns = map(np.concatenate, zip(*parts, strict=True))
    named = dict(zip(TorqueRows._fields, columns, strict=False))
    return TorqueRows(**named, timed=tracks[0].dt is not None, size=_size(prompt, named["driven"], tracks))


def _rows(model: Model, rows: Rows, late: Late | None, before: int) -> tuple[np.ndarray, ...]:
    q, qd, qdd, commands, _, way = rows.batch
    shares = weights if rows.low_pass is None else smooth_weights
    u = commands[:, 0] if late is None else np.einsum("pn,tpn->tn", np.asarray(shares(late.delay, late.most)), commands)
    found = torques(model, q, qd, qdd, u, way)
    signals = np.stack([found.left, found.driven, q, qd, qdd, u, np.sign(qd)], axis=2)
    kept = rows.weight.any(axis=1)
    smooth = np.asarray(through(rows.low_pass, jnp.asarray(signals)))[kept]
    time = rows.sample * (rows.dt or 1.0)
    return (*np.moveaxis(smooth, 2, 0), rows.segment[kept] + before, time[kept])


def _size(model: Model, driven: np.ndarray, tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """The larger of what commands bring, and of what moving a joint by itself and holding it takes: as they vary."""
    q, qdd = (np.concatenate([getattr(track, key) for track in tracks]) for key in ("q", "qdd"))
    some = slice(None, None, max(1, len(q) // SIZING_ROWS))
    q, qdd = jnp.asarray(q[some]), qdd[some]
    own = np.einsum("skk->sk", np.asarray(mass_matrix(model.robot, q))) * qdd
    held = np.asarray(gravity_torque(model.robot, q))
    found = np.maximum(driven.std(0), np.sqrt(own.var(0) + held.var(0)))
    return np.where(found > 0, found, found.max(initial=0.0) or 1.0)


def window_means(values: Float[np.ndarray, "row k"], window: Int[np.ndarray, " row"]) -> Float[np.ndarray, "window k"]:
    """The mean of the rows of each window; NaN where a window has none."""
    count = np.bincount(window, minlength=int(window.max(initial=-1)) + 1)
    sums = np.column_stack([np.bincount(window, column, len(count)) for column in values.T])
    with np.errstate(invalid="ignore"):
        return sums / count[:, None]
