"""Linear regression (NEA): inertial parameters and friction by least squares on the regressor.

Torques are linear in the inertial parameters, in viscous and in Coulomb friction. Data determine fewer sums of them
than there are; along the rest the given robot stays as it is. What comes out need not be a body: its nearest
consistent robot is given beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import parameters
from diffnea.actuators import AbstractActuator, Ideal, Stribeck, Viscous
from diffnea.batches import inertial_parameters, regressor
from diffnea.coupled import felt_damping, felt_friction
from diffnea.identify.problem.besides_bodies import besides_bodies
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.rows import Rows, through
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import Model
from diffnea.robot import Robot
from diffnea.spatial import Inertia

# Singular values below this share of the largest, of scaled columns, are rounding.
NEGLIGIBLE = 1e-9
# Which columns stand for an actuator; Coulomb friction is Stribeck's with static and kinetic friction alike.
LINEAR_FRICTION = {"ideal": (), "viscous": ("viscous",), "stribeck": ("viscous", "dry")}


@dataclass(frozen=True)
class Regression:
    """The solution: the model as regression has it, the nearest consistent one, and the problem for its analysis."""

    model: Model
    consistent: Model
    physical: bool
    loss: float
    rank: int
    linearised: Linearised


def regress(
    robot: Robot, name: str, tracks: Sequence[Track], weight: Float[np.ndarray, " n"], learned: tuple[str, ...]
) -> Regression:
    """Least squares over all rows; passive joints take part with torque zero."""
    theta, rows = _start(robot, name), equations(tracks, 0, weight)
    bodies = 10 * robot.num_links
    scaled, wanted = map(np.concatenate, zip(*(_equations(robot, name, each) for each in rows), strict=True))
    change, rank = _least_change(scaled, wanted - scaled @ theta)
    theta = theta + change
    theta[bodies:] = np.maximum(theta[bodies:], 0.0)  # friction does not drive
    residual = scaled @ theta - wanted
    unpack = _unpack(robot, name)
    model = unpack(jnp.asarray(theta))
    consistent = parameters.decode(parameters.encode(model.robot, nearest=True))
    return Regression(
        model=model,
        consistent=Model(consistent, model.actuator),
        physical=_is_physical(model.robot),
        loss=float(np.mean(residual**2)),
        rank=rank,
        linearised=_linearised(theta, scaled, residual, rows, _labels(robot, name), unpack, learned),
    )


def _equations(robot: Robot, name: str, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Columns (row, p) and what they are to add up to, weighted, and filtered where the rows are."""
    q, qd, qdd, u, weight, way = rows.batch
    overcome = np.sign(qd) if way is None else way[:, : robot.num_joints]
    columns = [np.asarray(regressor(robot, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)))]
    for kind in LINEAR_FRICTION[name]:
        rate = qd if kind == "viscous" else overcome
        columns.append(rate[:, :, None] * np.eye(robot.num_joints))
    wanted = u[:, 0] - besides_bodies(robot, q, qd, qdd)
    both = np.concatenate([*columns, wanted[:, :, None]], axis=2) * weight[:, :, None]
    both = np.asarray(through(rows.low_pass, jnp.asarray(both)))[np.nonzero(rows.weight)]
    return both[:, :-1], both[:, -1]


def _start(robot: Robot, name: str) -> Float[np.ndarray, " p"]:
    friction = {"viscous": felt_damping(robot), "dry": felt_friction(robot)}
    parts = [inertial_parameters(robot), *(friction[kind] for kind in LINEAR_FRICTION[name])]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])


def _least_change(columns: Float[np.ndarray, "rows p"], wanted: Float[np.ndarray, " rows"]) -> tuple[np.ndarray, int]:
    """The smallest change, in units of each column's size, that explains what is wanted."""
    size = np.linalg.norm(columns, axis=0)
    size = np.where(size > NEGLIGIBLE * size.max(initial=0.0), size, np.inf)
    triangle = np.asarray(np.linalg.qr(np.column_stack([columns / size, wanted]), mode="r"))  # as good as all rows
    left, values, right = np.linalg.svd(triangle[:, :-1], full_matrices=False)
    known = values > NEGLIGIBLE * values.max(initial=0.0)
    along = np.where(known, (left.T @ triangle[:, -1]) / np.where(known, values, 1.0), 0.0)
    return (right.T @ along) / size, int(known.sum())


def _unpack(robot: Robot, name: str) -> Callable[[Float[Array, " p"]], Model]:
    bodies, n = 10 * robot.num_links, robot.num_joints

    def model(theta: Float[Array, " p"]) -> Model:
        inertia = Inertia.from_parameters(theta[:bodies].reshape(-1, 10))
        return Model(replace(robot, inertia=inertia), _actuator(name, theta[bodies:], n))

    return model


def _actuator(name: str, friction: Float[Array, " f"], n: int) -> AbstractActuator:
    if name == "ideal":
        return Ideal(n)
    if name == "viscous":
        return Viscous.of(friction)
    return Stribeck.of(friction[n:], friction[n:], friction[:n], num_joints=n)


def _labels(robot: Robot, name: str) -> tuple[str, ...]:
    numbers = ("m", "mx", "my", "mz", "Jxx", "Jxy", "Jyy", "Jxz", "Jyz", "Jzz")
    labels = [f"{link} {number}" for link in robot.link_names for number in numbers]
    return tuple(labels + [f"{joint} {kind}" for kind in LINEAR_FRICTION[name] for joint in robot.joint_names])


def _is_physical(robot: Robot) -> bool:
    """Whether every link is a body: its pseudo-inertia has no negative eigenvalue, up to rounding."""
    J, h, m = (np.asarray(x) for x in (robot.inertia.rotational, robot.inertia.first_moment, robot.inertia.mass))
    for row, first, mass in zip(J, h, m, strict=True):
        xx, xy, yy, xz, yz, zz = row
        full = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        second = np.trace(full) / 2 * np.eye(3) - full
        values = np.linalg.eigvalsh(np.block([[second, first[:, None]], [first[None], np.array([[mass]])]]))
        if values[0] < -1e-9 * abs(values[-1]):
            return False
    return True


def _linearised(
    theta, jacobian, residual, rows: Sequence[Rows], labels, unpack: Callable[[Array], Model], learned
) -> Linearised:
    before, places = 0, []
    for each in rows:
        row, joint = np.nonzero(each.weight)
        places.append((joint, each.sample[row], each.segment[row] + before))
        before += int(each.segment[-1]) + 1
    joint, sample, segment = map(np.concatenate, zip(*places, strict=True))
    return Linearised(
        theta=theta,
        jacobian=jacobian,
        residuals=residual,
        joint=joint,
        sample=sample,
        segment=segment,
        labels=labels,
        unpack=unpack,
        learned=learned,
        dt=rows[0].dt,
    )
