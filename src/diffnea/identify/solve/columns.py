"""Columns: what torques may be made of, linearly, part by part; regressions of them choose between models.

Bodies near the file's, armatures, friction of several forms, constant and position-dependent torques, drives with a
gain, zero positions. All pass the filter that the measured torques pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from diffnea.batches import inertial_parameters, inverse_dynamics, regressor
from diffnea.identify.problem.rows import Batch, LowPass, Rows, through
from diffnea.robot import Robot

# Files are off by about so much where a part is chosen: bodies may take up what that explains.
FILE_WIDTH = 0.3
# Stribeck velocities that are tried, as shares of a joint's usual speed; harmonics of a position-dependent torque.
STRIBECK, HARMONICS = (0.05, 0.15, 0.4), 3
# A zero position is moved by this, in rad or m, to see what it changes.
STEP = 1e-4
# Samples at once, and pieces of a long log that are looked at.
PIECE, PIECES = 4096, 16


@dataclass(frozen=True)
class Columns:
    """Filtered columns of every part, what they are to add up to for each delay, and where each row is from."""

    parts: dict[str, Float[np.ndarray, "row n k"]]
    wanted: Float[np.ndarray, "row n delay"]  # commands, late by 0, 1, 2 … samples
    kept: np.ndarray  # (row, n), False where a row is left out for a joint
    segment: Int[np.ndarray, " row"]
    ordered: bool

    @property
    def driven(self) -> np.ndarray:
        """Which joints have a command."""
        return np.asarray(np.any(self.wanted[..., 0] != 0, axis=0))


def columns(robot: Robot, several: Sequence[Rows]) -> Columns:
    """Of rows whose weights are 1; long logs in an even choice of pieces."""
    basis = body_basis(robot)
    speed = np.sqrt(np.mean(np.concatenate([rows.batch.qd for rows in several]) ** 2, axis=0)) + 1e-9
    found, kept, segments = [], [], []
    for k, rows in enumerate(several):
        pieces = rows.pieces(PIECE)
        length = len(pieces[0][0].weight) if rows.low_pass is None else len(pieces[0][1].weight)  # type: ignore[union-attr]
        for i in np.unique(np.linspace(0, len(pieces) - 1, PIECES).astype(int)).tolist():
            batch, low_pass = pieces[i]
            weight = batch.weight if low_pass is None else low_pass.weight
            found.append(_filtered(robot, batch, low_pass, basis, speed))
            kept.append(np.asarray(weight) > 0)
            place = np.minimum(i * length + np.arange(len(weight)), len(rows.segment) - 1)
            segments.append(1000 * k + rows.segment[place])
    names = list(found[0])
    whole = {name: np.concatenate([each[name] for each in found]) for name in names}
    wanted = whole.pop("")
    return Columns(whole, wanted, np.concatenate(kept), np.concatenate(segments), several[0].dt is not None)


def _filtered(
    robot: Robot, batch: Batch, low_pass: LowPass | None, basis: np.ndarray, speed: np.ndarray
) -> dict[str, np.ndarray]:
    parts = _of_samples(robot, batch, basis, speed)
    clear = None if low_pass is None else low_pass._replace(weight=np.ones_like(low_pass.weight))
    return {name: np.asarray(through(clear, jnp.asarray(part))) for name, part in parts.items()}


def _of_samples(robot: Robot, batch: Batch, basis: np.ndarray, speed: np.ndarray) -> dict[str, np.ndarray]:
    """(sample, n, k) of each part; the name "" stands for the commands, one column a delay."""
    q, qd, qdd, commands = (np.asarray(array) for array in batch[:4])
    n, each = q.shape[1], np.eye(q.shape[1])
    way = np.sign(qd) if batch.way is None else np.asarray(batch.way)[:, :n]
    inertia = np.asarray(regressor(robot, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)))

    def own(signal: np.ndarray) -> np.ndarray:
        return signal[:, :, None] * each

    curves = [own(way * np.exp(-((qd / (share * speed)) ** 2))) for share in STRIBECK]
    rates = np.where(robot.tree.revolute, 1.0, np.pi / (np.ptp(q, axis=0) + 1e-9))
    waves = [own(f((k + 1) * rates * q)) for k in range(HARMONICS) for f in (np.cos, np.sin)]
    return {
        "": np.swapaxes(commands, 1, 2),
        "file": (inertia @ np.asarray(inertial_parameters(robot)))[:, :, None]
        + own(qdd) @ np.asarray(robot.armature)[:, None],
        "bodies": inertia @ basis,
        "armature": own(qdd),
        "viscous": own(qd),
        "coulomb": own(way),
        **{f"stribeck {k}": curve for k, curve in enumerate(curves)},
        "grease": own(way * np.sqrt(np.abs(qd))),
        "constant": own(np.ones_like(q)),
        "offset": np.concatenate(waves, axis=2),
        "calibration": _zeros(robot, q, qd, qdd),
    }


def _zeros(robot: Robot, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
    """How the file's torques change with the zero position of each joint."""
    sides = []
    for j in range(q.shape[1]):
        step = STEP * np.eye(q.shape[1])[j]
        up, down = (np.asarray(inverse_dynamics(robot, q + sign * step, qd, qdd)) for sign in (1, -1))
        sides.append((up - down) / (2 * STEP))
    return np.stack(sides, axis=2)


def body_basis(robot: Robot) -> Float[np.ndarray, "ten_n ten_n"]:
    """Changes of the inertial parameters by one expected distance from the file, along each relative coordinate."""
    rows = np.asarray(inertial_parameters(robot), float).reshape(-1, 10)
    basis = np.zeros((rows.size, rows.size))
    for i, row in enumerate(rows):
        basis[10 * i : 10 * i + 10, 10 * i : 10 * i + 10] = FILE_WIDTH * _of_body(row)
    return basis


def _of_body(row: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10 10"]:
    xx, xy, yy, xz, yz, zz = row[4:]
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    pseudo = np.block([[second, row[1:4, None]], [row[None, 1:4], row[None, :1]]])
    values, vectors = np.linalg.eigh(pseudo)
    thick = (vectors * np.maximum(values, 1e-6 * max(values[-1], 1e-12))) @ vectors.T
    U = np.linalg.cholesky(thick[::-1, ::-1])[::-1, ::-1]
    found = []
    for i in range(4):
        for j in range(i, 4):
            step = np.zeros((4, 4))
            step[i, j] = 0.5 if i == j else 1 / np.sqrt(2)
            change = U @ (step + step.T) @ U.T
            turned = np.trace(change[:3, :3]) * np.eye(3) - change[:3, :3]
            found.append([change[3, 3], *change[:3, 3], *turned[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    return np.array(found).T
