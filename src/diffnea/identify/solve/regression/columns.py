"""Columns: what torques may be made of, linearly, part by part; regressions of them choose between models.

Bodies near the file's, armatures, friction of several forms, constant and position-dependent torques, drives with a
gain, zero positions. All pass the filter that the measured torques pass.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from diffnea.actuators import Offset, for_robot
from diffnea.batches import inertial_parameters, inverse_dynamics, regressor
from diffnea.identify.problem.besides_bodies import besides_bodies, file_rotors
from diffnea.identify.problem.measurements.rows import Batch, LowPass, Rows
from diffnea.identify.solve.regression.pieces import Piece, piece_of, pieces, through
from diffnea.robot import Robot

# Files are off by about so much where a part is chosen: bodies may take up what that explains.
FILE_WIDTH = 0.3
# Stribeck velocities that are tried, as shares of a joint's usual speed; harmonics of a position-dependent torque.
STRIBECK, HARMONICS = (0.05, 0.15, 0.4), 3
# Of less than a quarter of its period a wave is a line or a parabola, which says nothing of what comes after.
LEAST_WAVE = 0.5 * np.pi
# A zero position is moved by this, in rad or m, to see what it changes.
DIFFERENCE_STEP = 1e-4
# Samples by which torques are sized; gravity below this share of inertia does not act.
SIZED, FELT_GRAVITY = 500, 1e-2


@dataclass(frozen=True)
class Columns:
    """Filtered columns of every part, what they are to add up to for each delay, and where each row is from."""

    parts: dict[str, Float[np.ndarray, "row n k"]]
    wanted: Float[np.ndarray, "row n delay"]  # commands, late by 0, 1, 2 … samples
    kept: np.ndarray  # (row, n), False where a row is left out for a joint
    segment: Int[np.ndarray, " row"]
    ordered: bool
    size: Float[
        np.ndarray, " n"
    ]  # of each joint's torques: what inertia and gravity of the file ask for, each by itself
    sizes: Float[np.ndarray, "n ten_n"]  # the share by which each change of bodies moves that size, where gravity acts
    moving: Float[np.ndarray, " n"]  # of each joint's torques, what accelerations take
    rotors: Float[np.ndarray, " n"]  # what the file has at each joint
    root: Int[np.ndarray, " n"]  # the joint at the base that each hangs on
    far: np.ndarray  # (row, n), True where no filter reaches to a reversal of a joint

    @property
    def driven(self) -> np.ndarray:
        """Which joints have a command."""
        return np.asarray(np.any(self.wanted[..., 0] != 0, axis=0))


# Columns of more parts, (sample, n, k) each.
More = Callable[[Robot, Piece], Mapping[str, np.ndarray]]


def columns(robot: Robot, several: Sequence[Rows], more: More | None = None) -> Columns:
    """Of rows whose weights are 1; long logs in an even choice of pieces."""
    basis = body_basis(robot)
    speed = np.sqrt(np.mean(np.concatenate([rows.batch.qd for rows in several]) ** 2, axis=0)) + 1e-9
    rates = _rates(robot, np.concatenate([rows.batch.q for rows in several]))
    found, kept, segments, far = [], [], [], []
    for k, i, batch, low_pass in pieces(several):
        rows, weight = several[k], np.asarray(batch.weight if low_pass is None else low_pass.weight)
        first = i * len(weight)
        parts = _of_samples(robot, batch, basis, speed, rates)
        if more is not None:
            parts |= more(robot, piece_of(rows, batch, first))
        found.append(parts if low_pass is None else {n: through(low_pass.taps, p) for n, p in parts.items()})
        kept.append(weight > 0)
        place = np.minimum(first + np.arange(len(weight)), len(rows.segment) - 1)
        segments.append(1000 * k + rows.segment[place])
        far.append(np.ones(weight.shape, bool) if rows.far is None else rows.far[place])
    names = list(found[0])
    whole = {name: np.concatenate([each[name] for each in found]) for name in names}
    wanted = whole.pop("")
    return Columns(
        whole,
        wanted,
        np.concatenate(kept),
        np.concatenate(segments),
        several[0].dt is not None,
        *_sizes(robot, several, basis),
        rotors=file_rotors(robot),
        root=_roots(robot),
        far=np.concatenate(far),
    )


def of_signals(several: Sequence[Rows], signals: Callable[[Batch], np.ndarray]) -> Float[np.ndarray, "row n k"]:
    """Other columns of the same rows, from what they are before the filter, (sample, n, k)."""
    parts = [(signals(batch), low_pass) for _, _, batch, low_pass in pieces(several)]
    return np.concatenate([each if low_pass is None else through(low_pass.taps, each) for each, low_pass in parts])


def at_centre(several: Sequence[Rows], name: str) -> Float[np.ndarray, "row n"]:
    """Positions, or velocities, in the middle of each row's filter."""

    def middle(batch: Batch, low_pass: LowPass | None) -> np.ndarray:
        values = np.asarray(getattr(batch, name))
        if low_pass is None:
            return values
        blocks, size = low_pass.taps.shape
        return values[np.arange(len(low_pass.weight)) * size + (blocks * size - 1) // 2]

    return np.concatenate([middle(batch, low_pass) for _, _, batch, low_pass in pieces(several)])


def of_reference(robot: Robot, several: Sequence[Rows], batch: Batch) -> dict[str, Float[np.ndarray, "state n k"]]:
    """The columns of other motion, as `columns` of these rows have them, unfiltered."""
    q, qd = (np.concatenate([getattr(rows.batch, key) for rows in several]) for key in ("q", "qd"))
    speed = np.sqrt(np.mean(qd**2, axis=0)) + 1e-9
    return _of_samples(robot, batch, body_basis(robot), speed, _rates(robot, q))


def _roots(robot: Robot) -> Int[np.ndarray, " n"]:
    """The joint at the base that each joint hangs on."""
    found = np.arange(robot.num_links)
    for child, parent in enumerate(robot.tree.parents):
        found[child] = child if parent < 0 else found[parent]
    return found[robot.joint_links]


def _sizes(robot: Robot, several: Sequence[Rows], basis: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The size of each joint's torques, how bodies change that of gravity (where none acts, that of inertia), and the
    size of what accelerations take."""
    q, qdd = (np.concatenate([np.asarray(getattr(rows.batch, key)) for rows in several]) for key in ("q", "qdd"))
    some = np.unique(np.linspace(0, len(q) - 1, SIZED).astype(int))
    q, qdd, still = jnp.asarray(q[some]), jnp.asarray(qdd[some]), jnp.zeros_like(q[some])
    weights = np.asarray(regressor(robot, q, still, still))
    moving = np.asarray(regressor(robot, q, still, qdd)) - weights
    own = np.asarray(inertial_parameters(robot), float)
    both = [np.sqrt(np.mean((each @ own) ** 2, axis=0)) for each in (weights, moving)]
    acts = both[0] > FELT_GRAVITY * both[1]
    shares = []
    for each in (weights, moving):
        torque = each @ own
        square = np.sum(torque**2, axis=0) + 1e-300
        shares.append(np.einsum("sj,sjk->jk", torque, each @ basis) / square[:, None])
    return np.hypot(*both), np.where(acts[:, None], *shares), both[1]


def _rates(robot: Robot, q: Float[np.ndarray, "sample n"]) -> Float[np.ndarray, " n"]:
    """Of the first wave of each joint's position-dependent torque, rad a rad or m; 0 where too little of it is seen."""
    offset = for_robot("offset", robot)
    assert isinstance(offset, Offset)
    rates = 2 * np.pi / np.array(offset.period)
    return np.where(np.ptp(q, axis=0) * rates >= LEAST_WAVE, rates, 0.0)


def _of_samples(
    robot: Robot, batch: Batch, basis: np.ndarray, speed: np.ndarray, rates: np.ndarray
) -> dict[str, np.ndarray]:
    """(sample, n, k) of each part; the name "" stands for the commands, one column a delay."""
    q, qd, qdd, commands = (np.asarray(array) for array in batch[:4])
    each = np.eye(q.shape[1])
    way = batch.joints_way
    inertia = np.asarray(regressor(robot, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)))
    taken = inertia @ np.asarray(inertial_parameters(robot)) + besides_bodies(robot, q, qd, qdd)

    def own(signal: np.ndarray) -> np.ndarray:
        return signal[:, :, None] * each

    curves = [own(way * np.exp(-((qd / (share * speed)) ** 2))) for share in STRIBECK]
    waves = [own((rates > 0) * f((k + 1) * rates * q)) for k in range(HARMONICS) for f in (np.cos, np.sin)]
    return {
        "": np.swapaxes(commands, 1, 2),
        "file": taken[:, :, None],
        "bodies": inertia @ basis,
        "gain": own(taken),
        "armature": own(qdd),
        "viscous": own(qd),
        "coulomb": own(way),
        **{f"stribeck {k}": curve for k, curve in enumerate(curves)},
        "grease": own(way * np.sqrt(np.abs(qd))),
        "constant": own(np.ones_like(q)),
        "offset": np.concatenate(waves, axis=2),
        "calibration": _zeros(robot, q, qd, qdd),
        **{_name(row): _shared(np.array(row, float), qd, qdd, way) for row, way in _coupled(robot, batch)},
    }


def couplings(robot: Robot) -> list[tuple[float, ...]]:
    """Motors, or links in the air, that may turn with a joint and its parent's, the same way or the other way round."""
    found, places = [], {link: k for k, link in enumerate(robot.joint_links.tolist())}
    for child, parent in enumerate(robot.tree.parents):
        if child in places and parent in places and robot.tree.revolute[[child, parent]].all():
            for sign in (1.0, -1.0):
                row = np.zeros(robot.num_joints)
                row[places[parent]], row[places[child]] = 1.0, sign
                found.append(tuple(row.tolist()))
    return found


def _coupled(robot: Robot, batch: Batch) -> list[tuple[tuple[float, ...], np.ndarray]]:
    """With the way in which the dry friction of each is overcome: behind those of the joints, or as it turns."""
    rows, n = couplings(robot), robot.num_joints
    if batch.way is None or np.shape(batch.way)[1] == n:
        return [(row, np.sign(np.asarray(batch.qd) @ np.array(row))) for row in rows]
    return list(zip(rows, np.asarray(batch.way)[:, n:].T, strict=True))


def _name(row: tuple[float, ...]) -> str:
    return f"coupling {','.join(f'{each:g}' for each in row)}"


def coupled_row(name: str) -> tuple[float, ...]:
    """How fast what is coupled turns with each joint, from the name of its columns."""
    return tuple(map(float, name.split()[1].split(",")))


def _shared(
    row: Float[np.ndarray, " n"],
    qd: Float[np.ndarray, "sample n"],
    qdd: Float[np.ndarray, "sample n"],
    way: Float[np.ndarray, " sample"],
) -> Float[np.ndarray, "sample n 4"]:
    """Dry, root and viscous friction and the rotor of what turns with several joints."""
    speed = qd @ row
    signals = np.stack([way, way * np.sqrt(np.abs(speed)), speed, qdd @ row], axis=1)
    return signals[:, None, :] * row[:, None]


def _zeros(robot: Robot, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> np.ndarray:
    """How the file's torques change with the zero position of each joint."""
    sides = []
    for j in range(q.shape[1]):
        step = DIFFERENCE_STEP * np.eye(q.shape[1])[j]
        up, down = (np.asarray(inverse_dynamics(robot, q + sign * step, qd, qdd)) for sign in (1, -1))
        sides.append((up - down) / (2 * DIFFERENCE_STEP))
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
