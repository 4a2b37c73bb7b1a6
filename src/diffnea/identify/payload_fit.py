"""The fit of a payload: a linear solve of the torques that an earlier model leaves, in the flange's frame."""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator, Combined, for_robot
from diffnea.batches import regressor
from diffnea.formats import flange
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import Row, Table
from diffnea.identify.judge.assess import assess
from diffnea.identify.judge.held_out import held_out
from diffnea.identify.judge.verdict import judge
from diffnea.identify.notes import note
from diffnea.identify.payload import Estimate, Payload
from diffnea.identify.problem.equations import equations
from diffnea.identify.problem.noise import correlation_time
from diffnea.identify.problem.preparation_notes import about_data
from diffnea.identify.problem.residuals import residuals
from diffnea.identify.problem.reversals import without_reversals
from diffnea.identify.problem.rows import Rows, through
from diffnea.identify.problem.tracks import Split, spread_of
from diffnea.identify.problem.unknowns import late, unknowns
from diffnea.identify.progress import stage
from diffnea.identify.request import Request
from diffnea.identify.result import Fit
from diffnea.identify.solve.solution import Status
from diffnea.models import Model
from diffnea.robot import Robot
from diffnea.spatial import Inertia

# Passes over noise and estimate.
FRICTION_PASSES = 5
# Friction of the earlier model may have changed by this share, and by this share of a joint's usual torque.
FRICTION_SHARE, FRICTION_LEAST = 0.1, 0.02
# A payload is no larger than this, in metres: its second moments are expected within mass times the square.
REACH = 0.3
# Half-width of a 95 % interval in standard deviations: twice the variance, since the earlier model was estimated from
# such data too, and is off by as much.
HALF_WIDTH = 1.96 * np.sqrt(2)
_SECOND = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])  # where xx, xy, yy, xz, yz, zz stand in a symmetric matrix


class _Solved(NamedTuple):
    body: Float[np.ndarray, "10"]
    covariance: Float[np.ndarray, "10 10"]
    loss: float


def fit_payload(request: Request, earlier: Fit | None) -> Fit:
    """What the last link of a robot, or of an earlier fit, carries beyond its model."""
    if not isinstance(request.given, Robot) or request.learn != ("payload",):
        raise ValueError('fit: a payload is learned alone, of a robot; give learn=("payload",)')
    robot, parts = request.given, request.prepared()
    before = Model(robot, _friction(request, robot))
    marked = without_reversals(parts, before, "torque", 10, request.options.problem)
    frame, pose = flange(robot, robot.link_names[-1])
    with stage("solving for the payload"):
        solved = _solve(before, marked, _moved(pose))
    payload = _payload(solved, frame)
    model = Model(_loaded(robot, _moved(pose) @ _body(solved.body)), before.actuator)
    return _result(request, parts, before, model, payload, solved, earlier)


def _friction(request: Request, robot: Robot) -> AbstractActuator:
    """As given, or as the file has it; by default the file's damping and dry friction."""
    if isinstance(request.actuator, AbstractActuator):
        return request.actuator
    if request.actuator != "auto":
        return for_robot(request.actuator, robot, key=jax.random.key(request.seed))
    has = bool(np.any(np.asarray(robot.friction) > 0)), bool(np.any(np.asarray(robot.damping) > 0))
    name = {(True, True): "viscous+coulomb", (True, False): "coulomb", (False, True): "viscous"}.get(has, "ideal")
    return for_robot(name, robot)


def _solve(model: Model, parts: Split, move: Float[np.ndarray, "10 10"]) -> _Solved:
    """The body in the flange's frame, friction as a nuisance that stays near what it is."""
    free = unknowns(model.robot, ("inertia",), model.actuator, jax.random.key(0))
    n = model.num_joints
    several = equations(parts.fitted, late(free), np.ones(n))
    left = [residuals("torque", free, rows, free.start) for rows in several]
    A = np.concatenate([_columns(model, rows, move) for rows in several])
    y = -np.concatenate(left)
    kept = np.concatenate([rows.weight > 0 for rows in several])
    segment = np.concatenate([1000 * k + rows.segment for k, rows in enumerate(several)])
    usual = np.sqrt(np.mean(np.concatenate([track.u for track in parts.fitted]) ** 2, axis=0)) + 1e-9
    width = _widths(model.actuator, usual)
    noise, x, covariance = np.maximum(0.02 * usual, 1e-9), np.zeros(A.shape[2]), np.eye(A.shape[2])
    loss = np.nan
    for k in range(FRICTION_PASSES):
        scale = kept / noise
        rows, wanted = (A * scale[..., None]).reshape(-1, A.shape[2]), (y * scale).ravel()
        precision = np.concatenate([_expected(x[:10]) if k else np.zeros(10), 1 / width**2])
        covariance = np.linalg.pinv(rows.T @ rows + np.diag(precision), hermitian=True)
        x = covariance @ (rows.T @ wanted)
        noise, loss = _noise(y - A @ x, kept, segment, len(x), parts.timed), float(np.mean((rows @ x - wanted) ** 2))
    return _Solved(x[:10], covariance[:10, :10], loss)


def _columns(model: Model, rows: Rows, move: np.ndarray) -> Float[np.ndarray, "row n k"]:
    """Of the payload's ten numbers, and of viscous and dry friction."""
    q, qd, qdd = (np.asarray(array) for array in rows.batch[:3])
    n = q.shape[1]
    way = np.sign(qd) if rows.batch.way is None else np.asarray(rows.batch.way)[:, :n]
    inertia = np.asarray(regressor(model.robot, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)))[..., -10:] @ move
    both = np.concatenate([inertia, qd[:, :, None] * np.eye(n), way[:, :, None] * np.eye(n)], axis=2)
    clear = None if rows.low_pass is None else rows.low_pass._replace(weight=np.ones_like(rows.low_pass.weight))
    return np.asarray(through(clear, jnp.asarray(both)))


def _widths(actuator: AbstractActuator, usual: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """How far viscous and dry friction may have changed since the earlier model."""
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    still = jnp.zeros(len(usual))
    found = [part.resistance(still, still + 1.0) for part in parts]
    sizes = [sum(np.asarray(getattr(each, name), float) for each in found) for name in ("viscous", "dry")]
    known = any(np.any(size > 0) for size in sizes)
    share = FRICTION_SHARE if known else 1.0  # a model without friction says nothing of it
    least = FRICTION_LEAST if known else 1.0
    return np.concatenate([np.maximum(share * np.broadcast_to(size, usual.shape), least * usual) for size in sizes])


def _expected(body: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10"]:
    """Precisions: a payload has no more extent than `REACH`."""
    size = max(abs(float(body[0])), 1e-3)
    return np.concatenate([np.zeros(1), np.full(3, 1 / (size * REACH) ** 2), np.full(6, 1 / (size * REACH**2) ** 2)])


def _noise(wrong: np.ndarray, kept: np.ndarray, segment: np.ndarray, unknowns: int, ordered: bool) -> np.ndarray:
    """Each joint's, times the root of its correlation time."""
    found = []
    for j in range(wrong.shape[1]):
        series = [wrong[kept[:, j] & (segment == k), j] for k in np.unique(segment)]
        series = [each for each in series if len(each)]
        count = sum(map(len, series))
        square = sum(float(each @ each) for each in series) / max(count - unknowns / wrong.shape[1], 1)
        found.append(np.sqrt(square * (correlation_time(series) if ordered else 1.0)))
    return np.maximum(np.array(found), 1e-12)


def _moved(pose: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "10 10"]:
    """Inertial parameters in a frame → those in the frame it is placed in: `T P Tᵀ` of pseudo-inertias, as a matrix."""
    return np.stack([_parameters(pose @ _pseudo(unit) @ pose.T) for unit in np.eye(10)], axis=1)


def _pseudo(body: Float[np.ndarray, "10"]) -> Float[np.ndarray, "4 4"]:
    inertia = body[4:][_SECOND]
    second = np.trace(inertia) / 2 * np.eye(3) - inertia
    return np.block([[second, body[1:4, None]], [body[None, 1:4], body[None, :1]]])


def _parameters(pseudo: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "10"]:
    second = pseudo[:3, :3]
    inertia = np.trace(second) * np.eye(3) - second
    return np.concatenate([pseudo[3, 3:], pseudo[:3, 3], inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def _body(numbers: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10"]:
    """The same mass and centre, and the nearest second moments about it that a body can have."""
    mass = max(float(numbers[0]), 1e-6)
    centre = numbers[1:4] / mass
    pseudo = _pseudo(numbers)
    values, axes = np.linalg.eigh(pseudo[:3, :3] - mass * np.outer(centre, centre))
    second = (axes * np.maximum(values, 1e-6 * mass * REACH**2)) @ axes.T + mass * np.outer(centre, centre)
    return _parameters(np.block([[second, mass * centre[:, None]], [mass * centre[None], np.array([[mass]])]]))


def _payload(solved: _Solved, frame: str) -> Payload:
    """Mass, centre and inertia about it, with intervals by the delta method."""
    value, slopes = _central(solved.body), np.zeros((10, 10))
    step = np.maximum(1e-6 * np.abs(solved.body), 1e-9)
    for k in range(10):
        up, down = (_central(solved.body + sign * step[k] * np.eye(10)[k]) for sign in (1, -1))
        slopes[:, k] = (up - down) / (2 * step[k])
    half = HALF_WIDTH * np.sqrt(np.maximum(np.diagonal(slopes @ solved.covariance @ slopes.T), 0.0))
    low, high = value - half, value + half
    parts = [Estimate(value[which], low[which], high[which]) for which in (0, slice(1, 4), slice(4, 10))]
    return Payload(*parts, frame=frame)


def _central(body: Float[np.ndarray, "10"]) -> Float[np.ndarray, "10"]:
    mass = body[0]
    centre = body[1:4] / mass
    inertia = body[4:][_SECOND] - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    return np.concatenate([[mass], centre, inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def _loaded(robot: Robot, body: Float[np.ndarray, "10"]) -> Robot:
    total = np.array(robot.inertia.parameters, float)
    total[-1] += body
    return replace(robot, inertia=Inertia.from_parameters(jnp.asarray(total)))


def _result(
    request: Request,
    parts: Split,
    before: Model,
    model: Model,
    payload: Payload,
    solved: _Solved,
    earlier: Fit | None,
) -> Fit:
    spread, options = spread_of(parts.fitted), request.options
    metrics, judged = assess(model, before, parts, spread, True, True, options.judge)
    light = (
        []
        if payload.mass.lower > 0
        else [note("payload-none", mass=float(payload.mass), upper=float(payload.mass.upper))]
    )
    names = ("mass [kg]", *(f"centre {axis} [m]" for axis in "xyz"), *(f"inertia {each} [kg·m²]" for each in _AXES))
    values = np.concatenate([np.ravel(each.value) for each in (payload.mass, payload.com, payload.inertia)])
    highs = np.concatenate([np.ravel(each.upper) for each in (payload.mass, payload.com, payload.inertia)])
    rows = []
    for k, (name, value, high) in enumerate(zip(names, values.tolist(), highs.tolist(), strict=True)):
        what, unit = name.split(" [")
        known = bool(high - value < (REACH / 10 if 1 <= k < 4 else abs(value)))  # else the interval says nothing
        std = (high - value) / HALF_WIDTH if known else None
        rows.append(Row(f"payload {what}", unit.rstrip("]"), 0.0, value, std, known))
    findings = Knowledge(Table(tuple(rows)), (), ())
    return Fit(
        model=model,
        metrics=metrics,
        verdict=judge(metrics, judged, request.joint_names, [], light, ()),
        loss=solved.loss,
        history=(solved.loss,),
        notes=(*about_data(request.given, parts), note("payload-frame", frame=payload.frame)),
        config={
            "robot": request.given.name if isinstance(request.given, Robot) else "",
            "learn": ["payload"],
            "actuator": type(before.actuator).__name__,
            "loss": "torque",
            "method": "linear",
            "seed": request.seed,
            "from_fit": earlier is not None,
            "recordings": list(dict.fromkeys(track.name for track in (*parts.fitted, *parts.test))),
        },
        consistent=model,
        knowledge=lambda: findings,
        held_out=held_out(before, parts, spread),
        options=options,
        outcome=Status.CONVERGED,
        payload=payload,
    )


_AXES = ("xx", "xy", "yy", "xz", "yz", "zz")
