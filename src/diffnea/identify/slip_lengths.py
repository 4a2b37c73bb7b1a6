"""How far joints give before they slip, from the data: by regressions that let friction turn over that slowly.

Torques are linear in inertias, rotors and the size of friction, whatever the robot. So each length of a few is tried
for each joint and each coupled motor, with all other numbers free, and the one that explains the torques best is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.batches import regressor
from diffnea.identify.data import Track, equations
from diffnea.identify.presliding import coordinates, known
from diffnea.identify.rows import Batch, Rows, through
from diffnea.models import Model

# In radians; joints that slide give by a tenth of it in metres. The first is taken where the data do not tell.
LENGTHS, SLIDING = (3e-5, 1e-4, 3e-4, 1e-3), 0.1
# A length is better when it leaves less by this share, of squares; joints are gone through so many times.
MARGIN, ROUNDS = 0.01, 2
# Columns of length 1 that add less than this to the others are rounding.
RIDGE = 1e-7
# Looked at are so many pieces, of so many samples each.
PIECES, PIECE = 16, 4096


def slip_lengths(model: Model, tracks: Sequence[Track], weight: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    """One for each joint, then one for each motor of the actuator's that turns with several; in rad or m."""
    rows = coordinates(model.actuator)
    scale = np.where((np.abs(rows) @ model.robot.tree.revolute) > 0, 1.0, SLIDING)
    candidates = np.outer(LENGTHS, scale)
    columns = _Columns.of(model, tracks, weight, candidates)
    choice = [0] * len(rows)
    for _ in range(ROUNDS):
        for k in range(len(rows)):
            errors = [columns.left([*choice[:k], other, *choice[k + 1 :]]) for other in range(len(LENGTHS))]
            best = int(np.argmin(errors))
            choice[k] = best if errors[best] < (1 - MARGIN) * errors[0] else 0
    return candidates[choice, range(len(rows))]


@dataclass(frozen=True)
class _Columns:
    """Products of all columns with one another: those always there, then those of each coordinate and length.

    The last column is what they are to add up to.
    """

    products: Float[np.ndarray, "c c"]
    always: int
    coordinates: int

    @classmethod
    def of(
        cls,
        model: Model,
        tracks: Sequence[Track],
        weight: Float[np.ndarray, " n"],
        candidates: Float[np.ndarray, "lengths m"],
    ) -> "_Columns":
        turns = coordinates(model.actuator)
        several = [equations(known(tracks, model.actuator, each), 0, weight) for each in candidates]
        total = sum(_products(model, turns, rows) for rows in zip(*several, strict=True))
        size = np.sqrt(np.diagonal(total))
        size = np.where(size > 0, size, 1.0)
        # Ten inertial numbers and a constant a joint, rotor and viscous friction a coordinate.
        return cls(total / np.outer(size, size), 11 * turns.shape[1] + 2 * len(turns), len(turns))

    def left(self, choice: Sequence[int]) -> float:
        """What these lengths leave of the torques, a share of their squares."""
        dry = [self.always + 2 * (self.coordinates * length + k) for k, length in enumerate(choice)]
        chosen = [*range(self.always), *dry, *(k + 1 for k in dry)]
        matrix, wanted = self.products[np.ix_(chosen, chosen)], self.products[chosen, -1]
        found = np.linalg.solve(matrix + RIDGE * np.eye(len(chosen)), wanted)
        return float(self.products[-1, -1] - 2 * found @ wanted + found @ matrix @ found)


def _products(model: Model, turns: Float[np.ndarray, "m n"], rows: Sequence[Rows]) -> Float[np.ndarray, "c c"]:
    """Of one recording, or of those filtered together; the rows differ in the lengths only."""
    pieces = list(zip(*(each.pieces(PIECE) for each in rows), strict=True))
    total = np.zeros(())
    for several in [pieces[i] for i in np.unique(np.linspace(0, len(pieces) - 1, PIECES).astype(int))]:
        (batch, low_pass), rubbing = several[0], [_rubbing(each, turns) for each, _ in several]
        columns = [_always(model, batch, turns), *rubbing, batch.u[:, 0, :, None]]
        weighted = np.concatenate(columns, axis=2) * batch.weight[:, :, None]
        found = np.asarray(through(low_pass, jnp.asarray(weighted))).reshape(-1, weighted.shape[2])
        total = total + found.T @ found
    return total


def _always(model: Model, batch: Batch, turns: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "sample n c"]:
    """Inertias, constant torques, and for each coordinate rotor and viscous friction."""
    q, qd, qdd = batch[:3]
    inertia = np.asarray(regressor(model.robot, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)))
    rates = [(signal @ turns.T)[:, None, :] * turns.T for signal in (qdd, qd)]
    return np.concatenate([inertia, np.tile(np.eye(q.shape[1]), (len(q), 1, 1)), *rates], axis=2)


def _rubbing(batch: Batch, turns: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "sample n c"]:
    """For each coordinate dry friction, and friction that grows with the root of speed."""
    way, speed = batch.way, np.abs(batch.qd @ turns.T)
    both = np.stack([way, way * np.sqrt(speed)], axis=2)  # (sample, m, 2)
    return (both[:, None] * turns.T[:, :, None]).reshape(len(way), turns.shape[1], -1)
