"""What torques at the joints do to the residuals of a fit: the way to try another friction curve without a new fit."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea.batches import mass_matrix
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.models import Model


@dataclass(frozen=True)
class TorqueEffect:
    """The data behind a linearised problem, and how its residuals change with a torque that opposes motion.

    `rows` holds those of the first `counts` rows of each group, in order, whose weight is not 0.
    """

    model: Model
    loss: str  # "torque" or "acceleration"
    rows: tuple[Rows, ...]
    counts: tuple[int, ...]

    @property
    def velocity(self) -> Float[np.ndarray, "sample n"]:
        """Of every sample."""
        return np.concatenate([np.asarray(rows.batch.qd) for rows in self.rows])

    @property
    def way(self) -> Float[np.ndarray, "sample n"]:
        """Which way dry friction is overcome at every sample, from −1 to 1, as the loss takes it."""
        n = self.model.num_joints
        ways = [None if self.loss != "torque" or rows.batch.way is None else rows.batch.way for rows in self.rows]
        pairs = zip(ways, self.rows, strict=True)
        return np.concatenate([np.sign(rows.batch.qd) if way is None else way[:, :n] for way, rows in pairs])

    @property
    def crowded(self) -> Bool[np.ndarray, " n"]:
        """Joints whose rows near reversals had to stay."""
        none = np.zeros(self.model.num_joints, bool)
        return np.any([none if rows.crowded is None else rows.crowded for rows in self.rows], axis=0)

    @property
    def commands(self) -> Float[np.ndarray, "sample late n"]:
        """The last commands at every sample, newest first."""
        return np.concatenate([np.asarray(rows.batch.u) for rows in self.rows])

    @property
    def seen(self) -> Float[np.ndarray, "rows n"]:
        """The velocities in the middle of each residual's filter."""
        found = [rows.at_centre(np.asarray(rows.batch.qd))[_kept(rows, c)[0]] for rows, c in self._groups]
        return np.concatenate(found)

    def of_joint(self, joint: int, torque: Float[np.ndarray, "sample k"]) -> Float[np.ndarray, "rows k"]:
        """The change of the residuals under torques against this joint's motion, one column each."""
        return self._changed(torque, lambda first, last, slopes: slopes[:, :, joint, None] * torque[first:last, None])

    def of_all(self, torque: Float[np.ndarray, "sample n k"]) -> Float[np.ndarray, "rows k"]:
        """The same under torques against all joints' motion."""
        return self._changed(
            torque, lambda first, last, slopes: np.einsum("sij,sjk->sik", slopes, torque[first:last], optimize=True)
        )

    @property
    def _groups(self) -> list[tuple[Rows, int]]:
        return list(zip(self.rows, self.counts, strict=True))

    def _changed(self, torque: np.ndarray, effect) -> np.ndarray:
        parts, first = [], 0
        for rows, count in self._groups:
            last = first + len(rows.batch.q)
            changed = _through(rows, effect(first, last, self._slopes(rows)))
            parts.append(changed[_kept(rows, count)])
            first = last
        return np.concatenate(parts)

    def _slopes(self, rows: Rows) -> Float[np.ndarray, "sample n n"]:
        """Of the residuals of a sample in the torques against its motion."""
        weight = np.asarray(rows.batch.weight)
        if self.loss == "torque":
            return weight[:, :, None] * np.eye(self.model.num_joints)
        actuator = self.model.actuator
        turns = np.array(actuator.turning, float).reshape(-1, self.model.num_joints)
        mass = np.asarray(mass_matrix(self.model.robot, jnp.asarray(rows.batch.q)))
        mass = mass + turns.T @ (np.asarray(actuator.rotors)[:, None] * turns)
        return -weight[:, :, None] * np.linalg.inv(mass)


def _kept(rows: Rows, count: int) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " kept"]]:
    """Row and joint of the residuals that count."""
    row, joint = np.nonzero(rows.weight[:count])
    return row, joint


def _through(rows: Rows, values: Float[np.ndarray, "sample n k"]) -> Float[np.ndarray, "row n k"]:
    """Values of samples as rows, filtered as residuals are."""
    if rows.low_pass is None:
        return values
    taps = np.asarray(rows.low_pass.taps)
    count, size = len(rows.weight), taps.shape[1]
    parts = values.reshape(-1, size, *values.shape[1:])
    found = sum(np.tensordot(parts[k : k + count], row, (1, 0)) for k, row in enumerate(taps))
    return np.asarray(found) * rows.weight[:, :, None]
