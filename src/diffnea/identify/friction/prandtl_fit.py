"""How joints slip, from the data: how far they give before, and how much of their friction a long rest leaves.

Torques are linear in inertias, rotors and the size of friction, whatever the robot. So each length of a few is tried
for each joint and each coupled motor, with all other numbers free, and the one that explains the torques best is kept;
and then a few shares of friction at rest, first for all alike and then for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.batches import regressor
from diffnea.identify.friction.prandtl import Slip, coordinates, known
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.besides_bodies import besides_bodies
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.reversals import before_slipping
from diffnea.identify.problem.measurements.rows import Batch, Rows, through
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import Model

# In radians; joints that slide give by a tenth of it in metres. The first is taken where the data do not tell.
LENGTHS, SLIDING = (3e-5, 1e-4, 3e-4, 1e-3), 0.1
# Shares of friction that a long rest leaves. The first is taken where the data do not tell: creep lets go of any part
# of it, and half is off by half at most.
HOLDS = (0.5, 1.0, 0.75, 0.25, 0.0)
# Joints are gone through so many times.
SLIP_ROUNDS = 2
# Columns of length 1 that add less than this to the others are rounding.
RIDGE = 1e-7
# Looked at are so many pieces, of so many samples each.
SAMPLED, A_PIECE = 16, 4096


def slipping(
    model: Model, tracks: Sequence[Track], weight: Float[np.ndarray, " n"], options: SolveOptions
) -> Slip | None:
    """Lengths and shares for each joint, then for each motor of the actuator's that turns with several.

    None where the signs of velocities explain the torques better than any spring.
    """
    rows = coordinates(model.actuator)
    scale = np.where((np.abs(rows) @ model.robot.turning) > 0, 1.0, SLIDING)
    candidates = [Slip(length * scale, HOLDS[0]) for length in LENGTHS]
    tracks = [_slipped(track, model) for track in known(tracks, model.actuator, candidates[0])]
    columns, clearly = _Columns.of(model, tracks, weight, candidates), options.slips_clearly
    lengths = np.array(LENGTHS)[_each(columns, len(LENGTHS), 0, clearly)] * scale
    columns = _Columns.of(model, tracks, weight, [Slip(lengths, hold) for hold in HOLDS])
    common = _best([columns.left([k] * len(rows)) for k in range(len(HOLDS))], 0, clearly)
    best = Slip(lengths, np.array(HOLDS)[_each(columns, len(HOLDS), common, clearly)])
    columns = _Columns.of(model, tracks, weight, (best, None))
    return best if columns.left([0] * len(rows)) <= columns.left([1] * len(rows)) else None


def _slipped(track: Track, model: Model) -> Track:
    """Rows count where a joint has slipped before: ahead of that nothing tells how it is held."""
    if track.way is None:
        return track
    n = model.num_joints
    return replace(track, clear=~before_slipping(track.way[:, :n]), crowded=np.zeros(n, bool))


def _each(columns: "_Columns", count: int, usual: int, clearly: float) -> list[int]:
    """Which of so many ways to slip each coordinate takes; the usual one where the data do not tell."""
    choice = [usual] * columns.coordinates
    for _ in range(SLIP_ROUNDS):
        for k in range(len(choice)):
            errors = [columns.left([*choice[:k], other, *choice[k + 1 :]]) for other in range(count)]
            choice[k] = _best(errors, usual, clearly)
    return choice


def _best(errors: Sequence[float], usual: int, clearly: float) -> int:
    """The lowest, or the usual one unless that is clearly higher."""
    best = int(np.argmin(errors))
    return best if errors[best] < (1 - clearly) * errors[usual] else usual


@dataclass(frozen=True)
class _Columns:
    """Products of all columns with one another: those always there, then those of each way to slip and coordinate.

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
        candidates: Sequence[Slip | None],
    ) -> "_Columns":
        turns = coordinates(model.actuator)
        ways = [known(tracks, model.actuator, each) if each else _by_velocity(tracks, turns) for each in candidates]
        several = [equations(each, 0, weight) for each in ways]
        total = sum(_products(model, turns, rows) for rows in zip(*several, strict=True))
        size = np.sqrt(np.diagonal(total))
        size = np.where(size > 0, size, 1.0)
        # Ten inertial numbers a link, a constant a joint, rotor and viscous friction a coordinate.
        always = 10 * model.robot.num_links + turns.shape[1] + 2 * len(turns)
        return cls(total / np.outer(size, size), always, len(turns))

    def left(self, choice: Sequence[int]) -> float:
        """What these ways to slip, one a coordinate, leave of the torques, a share of their squares."""
        dry = [self.always + 2 * (self.coordinates * which + k) for k, which in enumerate(choice)]
        chosen = [*range(self.always), *dry, *(k + 1 for k in dry)]
        matrix, wanted = self.products[np.ix_(chosen, chosen)], self.products[chosen, -1]
        found = np.linalg.solve(matrix + RIDGE * np.eye(len(chosen)), wanted)
        return float(self.products[-1, -1] - 2 * found @ wanted + found @ matrix @ found)


def _by_velocity(tracks: Sequence[Track], turns: Float[np.ndarray, "m n"]) -> list[Track]:
    """The motion with friction that goes by the state alone."""
    return [replace(track, way=np.sign((track.terms or track).qd @ turns.T)) for track in tracks]


def _products(model: Model, turns: Float[np.ndarray, "m n"], rows: Sequence[Rows]) -> Float[np.ndarray, "c c"]:
    """Of one recording, or of those filtered together; the rows differ in how joints slip only."""
    pieces = list(zip(*(each.pieces(A_PIECE) for each in rows), strict=True))
    total = np.zeros(())
    for several in [pieces[i] for i in np.unique(np.linspace(0, len(pieces) - 1, SAMPLED).astype(int))]:
        (batch, low_pass), rubbing = several[0], [_rubbing(each, turns) for each, _ in several]
        columns = [_always(model, batch, turns), *rubbing, _wanted(model, batch)]
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


def _wanted(model: Model, batch: Batch) -> Float[np.ndarray, "sample n 1"]:
    """The torques, less what springs take."""
    robot = model.robot
    none = jnp.zeros_like(robot.armature)
    springs = besides_bodies(replace(robot, armature=none), *map(np.asarray, batch[:3])) if robot.stores else 0.0
    return (batch.u[:, 0] - springs)[:, :, None]


def _rubbing(batch: Batch, turns: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "sample n c"]:
    """For each coordinate dry friction, and friction that grows with the root of speed."""
    assert batch.way is not None  # asked for where ways are known
    way, speed = batch.way, np.abs(batch.qd @ turns.T)
    both = np.stack([way, way * np.sqrt(speed)], axis=2)  # (sample, m, 2)
    return (both[:, None] * turns.T[:, :, None]).reshape(len(way), turns.shape[1], -1)
