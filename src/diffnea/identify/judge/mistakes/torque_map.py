"""Torques explained by one linear solve around the robot file, cross-validated: the yardstick of hints.

Maximum a posteriori: bodies near those of the file, `J = U (1 + E) Uᵀ` with `U Uᵀ` the file's pseudo-inertia and E
small, beside viscous friction, dry friction and an offset at each joint. A regression without a prior would not do: it
takes a negative mass for a turned sign.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from diffnea import batches
from diffnea.identify.problem.besides_bodies import besides_bodies, file_rotors
from diffnea.parameters.bodies import scale
from diffnea.robot import Robot

# Prior standard deviation of a body's logarithms and of a rotor's share of the file's; precision of friction and offset
# in units of the torques.
BODY, FRICTION_PRIOR = 0.5, 1e-2
# Noise of a joint as a share of its torques: at first, and at least.
ASSUMED_NOISE, LEAST_SHARE_OF_NOISE, REWEIGHTINGS = 0.3, 1e-3, 3
# What is less is noise; at a joint without input, where everything may shrink together, less says nothing.
LEAST_SHARE, LEAST_PASSIVE = 2e-3, 0.03
NEVER = 1e12  # precision of what has to be zero
# Least eigenvalue of a pseudo-inertia as a share of the largest: rods and points have none.
FLATTEST = 1e-6
HALVES = 2
GRAVITY_ROUNDS, SETTLED = 12, 1e-3  # of the search for its direction; m/s²
UPPER = tuple((i, j) for i in range(4) for j in range(i, 4))  # of a 4 by 4 matrix

_regressor = eqx.filter_jit(batches.regressor)  # traced, so that one kernel serves every axis


class Motion(NamedTuple):
    """Rows of motion and torque, all through one low-pass; `way` is that of friction, from −1 to 1."""

    q: Float[np.ndarray, "row n"]
    qd: Float[np.ndarray, "row n"]
    qdd: Float[np.ndarray, "row n"]
    u: Float[np.ndarray, "row n"]
    way: Float[np.ndarray, "row n"]


class Columns(NamedTuple):
    """Regressors of a motion: of gravity, and of everything that moves."""

    held: Float[np.ndarray, "row n p"]
    moved: Float[np.ndarray, "row n p"]


class Normal(NamedTuple):
    """Normal equations of each fold and joint; columns are of bodies, the file's rotors, viscous and dry friction,
    offsets, other rotors."""

    x: Float[np.ndarray, "fold n half k"]
    gram: Float[np.ndarray, "fold n k k"]
    right: Float[np.ndarray, "fold n k"]
    squares: Float[np.ndarray, "fold n"]
    size: Float[np.ndarray, " n"]
    prior: Float[np.ndarray, " k"]
    passive: tuple[int, ...]  # joints without input
    terms: Float[np.ndarray, "2 row passive p"]  # of passive joints: what gravity and what motion take, by parameters
    phi: Float[np.ndarray, "links 10"]
    inertial: int  # columns of bodies and the file's rotors


def columns(robot: Robot, motion: Motion) -> Columns:
    """Of a robot, whatever its axes and gravity."""
    rest = np.zeros_like(motion.q)
    held, both = (
        np.asarray(_regressor(robot, *map(jnp.asarray, states)))
        for states in ((motion.q, rest, rest), (motion.q, motion.qd, motion.qdd))
    )
    return Columns(held, both - held)


class Explained(NamedTuple):
    """What is left of each joint's torques, as a share of their size, and how far bodies are from the file's, in σ."""

    left: Float[np.ndarray, " n"]
    change: float

    @property
    def error(self) -> float:
        """One number of all joints: their geometric mean."""
        return float(np.exp(np.mean(np.log(self.left))))


def explained(robot: Robot, motion: Motion, found: Columns, rotors: bool = False) -> Explained:
    """Each half of the rows by the other."""
    return solved(normal(robot, motion, found, rotors))


def normal(robot: Robot, motion: Motion, found: Columns, rotors: bool = False) -> Normal:
    """The least-squares problem; `rotors`: with a free inertia of each rotor too."""
    phi = file_parameters(robot)
    size = sizes(motion, found, phi)
    x, inertial = _unknowns(robot, motion, found.held + found.moved, phi, size, rotors)
    prior = np.where(np.arange(x.shape[2]) < inertial, 1.0, FRICTION_PRIOR)
    x, y = _folds(x), _folds(wanted(robot, motion, found.held + found.moved, phi)[:, :, None])
    gram, right = x.swapaxes(2, 3) @ x, (x.swapaxes(2, 3) @ y)[..., 0]
    passive = tuple(map(int, np.flatnonzero(motion.u.std(0) == 0)))
    terms = np.stack([each[:, list(passive)] for each in found])
    return Normal(x, gram, right, np.square(y).sum((2, 3)), size, prior, passive, terms, phi, inertial)


def with_inputs(problem: Normal, robot: Robot, motion: Motion, found: Columns) -> Normal:
    """The same motion with other inputs."""
    phi = file_parameters(robot)
    y = _folds(wanted(robot, motion, found.held + found.moved, phi)[:, :, None])
    right = (problem.x.swapaxes(2, 3) @ y)[..., 0]
    return problem._replace(right=right, squares=np.square(y).sum((2, 3)))


def _unknowns(
    robot: Robot,
    motion: Motion,
    inertial: Float[np.ndarray, "row n p"],
    phi: np.ndarray,
    size: np.ndarray,
    rotors: bool,
) -> tuple[Float[np.ndarray, "row n k"], int]:
    """A column for each unknown, and how many of them are of bodies and the file's rotors."""
    rows, n = motion.q.shape
    changes = np.matmul(inertial.reshape(rows, n, -1, 10).transpose(2, 0, 1, 3), BODY * body_changes(phi)[:, None])
    bodies = changes.transpose(1, 2, 0, 3).reshape(rows, n, -1)
    turning = (BODY * file_rotors(robot) * motion.qdd)[:, :, None] * np.eye(n)
    own = [motion.qd / _spread(motion.qd), motion.way, np.ones_like(motion.q)]
    own += [motion.qdd / _spread(motion.qdd)] if rotors else []
    beside = [(size * each)[:, :, None] * np.eye(n) for each in own]
    return np.concatenate([bodies, turning, *beside], axis=2), bodies.shape[2] + n


def _folds(values: Float[np.ndarray, "row n k"]) -> Float[np.ndarray, "fold n half k"]:
    half = len(values) // HALVES
    return values[: HALVES * half].reshape(HALVES, half, *values.shape[1:]).swapaxes(1, 2)


def free_gravity(
    robot: Robot,
    motion: Motion,
    moved: Float[np.ndarray, "row n p"],
    held: Sequence[Float[np.ndarray, "row n p"]],
) -> Float[np.ndarray, "3"]:
    """Gravity as three free numbers beside the bodies, by Gauss-Newton; `held`: columns of a unit along each axis."""
    phi0 = file_parameters(robot)
    gravity, phi = np.asarray(robot.gravity, float), phi0
    size = sizes(motion, Columns(np.tensordot(gravity, held, 1), moved), phi0)
    for _ in range(GRAVITY_ROUNDS):
        inertial = moved + np.tensordot(gravity, held, 1)
        x, count = _unknowns(robot, motion, inertial, phi0, size, False)
        pulls = np.stack([each @ phi.ravel() for each in held], axis=2)  # (row, n, 3)
        y = wanted(robot, motion, moved, phi0) - np.tensordot(gravity, held, 1) @ (phi0 - phi).ravel()
        scaled = np.concatenate([x, pulls], axis=2) / (ASSUMED_NOISE * size)[:, None]
        rows = scaled.reshape(-1, scaled.shape[2])
        prior = np.r_[np.ones(count), np.full(x.shape[2] - count, FRICTION_PRIOR), np.full(3, 1e-6)]
        solution = np.linalg.solve(rows.T @ rows + np.diag(prior), rows.T @ (y / (ASSUMED_NOISE * size)).ravel())
        changes = BODY * np.einsum("lkc,lc->lk", body_changes(phi0), solution[: phi0.size].reshape(phi0.shape))
        step = solution[-3:] - gravity
        phi, gravity = phi0 + changes, gravity + 0.7 * step
        if np.abs(step).max() < SETTLED:
            break
    return gravity


def wanted(robot: Robot, motion: Motion, inertial: np.ndarray, phi: np.ndarray) -> Float[np.ndarray, "row n"]:
    """What the file's bodies leave."""
    return motion.u - besides_bodies(robot, motion.q, motion.qd, motion.qdd) - inertial @ phi.ravel()


def solved(problem: Normal) -> Explained:
    """Each half explained by a solution of the other."""
    shares, changes, never = [], [], _never(problem)
    for fold in range(HALVES):
        x = _solution(problem, fold, np.where(never, NEVER, problem.prior))
        drives = _positive(problem) & (x < 0)  # what comes out negative is left out
        if drives.any():
            x = _solution(problem, fold, np.where(never | drives, NEVER, problem.prior))
        shares.append(_residual(problem, 1 - fold, x) / _size(problem, x))
        changes.append(np.mean(np.square(x[: problem.phi.size])))
    least = np.full(len(problem.size), LEAST_SHARE)
    least[list(problem.passive)] = LEAST_PASSIVE
    left = np.maximum(np.sqrt(np.mean(np.square(shares), axis=0)), least)
    return Explained(left, float(np.sqrt(np.mean(changes))))


def _solution(problem: Normal, fold: int, prior: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Noise of the joints and solution in turn."""
    noise, x = ASSUMED_NOISE * problem.size, np.zeros(len(prior))
    for _ in range(REWEIGHTINGS):
        weight = 1 / noise**2
        gram = np.tensordot(weight, problem.gram[fold], 1) + np.diag(prior)
        size = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))  # columns of no effect, and units of any size
        scaled = gram / np.outer(size, size) + 1e-12 * np.eye(len(size))
        x = np.linalg.solve(scaled, (weight @ problem.right[fold]) / size) / size
        noise = np.maximum(_residual(problem, fold, x), LEAST_SHARE_OF_NOISE * problem.size)
    return x


def _positive(problem: Normal) -> Bool[np.ndarray, " k"]:
    """Columns of friction, which only takes energy, and of rotors beside the file's."""
    n, place = len(problem.size), np.arange(len(problem.prior)) - problem.inertial
    return ((place >= 0) & (place < 2 * n)) | (place >= 3 * n)


def _never(problem: Normal) -> Bool[np.ndarray, " k"]:
    """Rotors of joints without a motor."""
    rotor = np.arange(len(problem.prior)) - problem.inertial - 3 * len(problem.size)
    return (rotor >= 0) & np.isin(rotor, problem.passive)


def _size(problem: Normal, x: Float[np.ndarray, " k"]) -> Float[np.ndarray, " n"]:
    """Of passive joints by the solution's own bodies: without input all of them could become nothing."""
    if not problem.passive:
        return problem.size
    changes = np.einsum(
        "lkc,lc->lk", BODY * body_changes(problem.phi), x[: problem.phi.size].reshape(problem.phi.shape)
    )
    own = np.sqrt((problem.terms @ (problem.phi + changes).ravel()).var(1).sum(0))
    size = problem.size.copy()
    size[list(problem.passive)] = np.maximum(own, 1e-12)
    return size


def _residual(problem: Normal, fold: int, x: Float[np.ndarray, " k"]) -> Float[np.ndarray, " n"]:
    """Root mean square, from the normal equations."""
    squares = problem.squares[fold] - 2 * problem.right[fold] @ x + np.einsum("npq,p,q->n", problem.gram[fold], x, x)
    return np.sqrt(np.maximum(squares, 0.0) / problem.x.shape[2])


def sizes(motion: Motion, found: Columns, phi: Float[np.ndarray, "links 10"]) -> Float[np.ndarray, " n"]:
    """How large each joint's torques are: what is commanded, and at passive joints what file and motion give."""
    driven = motion.u.std(0)
    own = np.sqrt((found.held @ phi.ravel()).var(0) + (found.moved @ phi.ravel()).var(0))
    found_size = np.where(driven > 0, driven, own)
    return np.where(found_size > 0, found_size, 1.0)


def _spread(values: np.ndarray) -> np.ndarray:
    spread = values.std(0)
    return np.where(spread > 0, spread, 1.0)


# Bodies ----------------------------------------------------------------------------------------------------------


def file_parameters(robot: Robot) -> Float[np.ndarray, "links 10"]:
    """Ten numbers a link; a link without mass gets that of a ball of the robot's typical mass and length."""
    phi = np.asarray(robot.inertia.parameters, float).copy()
    typical = scale(robot)
    second = 0.1 * typical.mass * typical.length**2
    phi[phi[:, 0] <= 0] = [typical.mass, 0, 0, 0, 2 * second, 0, 2 * second, 0, 0, 2 * second]
    return phi


def body_changes(phi: Float[np.ndarray, "links 10"]) -> Float[np.ndarray, "links 10 10"]:
    """How the ten numbers of each link change with `E`, each entry of its upper triangle a unit of the metric."""
    return _body_changes(phi.tobytes())


@lru_cache(maxsize=8)  # hypotheses differ in the motion, seldom in the bodies
def _body_changes(stored: bytes) -> Float[np.ndarray, "links 10 10"]:
    flip, phi = np.eye(4)[::-1], np.frombuffer(stored).reshape(-1, 10)
    found = np.zeros((len(phi), 10, 10))
    for k, J in enumerate(map(_pseudo_inertia, phi)):
        values, vectors = np.linalg.eigh(J)
        J = (vectors * np.maximum(values, FLATTEST * values.max())) @ vectors.T
        U = flip @ np.linalg.cholesky(flip @ J @ flip) @ flip
        for c, (i, j) in enumerate(UPPER):
            E = np.zeros((4, 4))
            E[i, j] += 0.5 if i == j else np.sqrt(0.5)
            found[k, :, c] = _parameters(U @ (E + E.T) @ U.T)
    found.setflags(write=False)
    return found


def _pseudo_inertia(p: Float[np.ndarray, "10"]) -> Float[np.ndarray, "4 4"]:
    xx, xy, yy, xz, yz, zz = p[4:]
    J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return np.block([[np.trace(J) / 2 * np.eye(3) - J, p[1:4, None]], [p[None, 1:4], p[None, :1]]])


def _parameters(pseudo: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "10"]:
    second = pseudo[:3, :3]
    J = np.trace(second) * np.eye(3) - second
    return np.r_[pseudo[3, 3], pseudo[:3, 3], J[0, 0], J[0, 1], J[1, 1], J[0, 2], J[1, 2], J[2, 2]]
