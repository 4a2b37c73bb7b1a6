"""The fit of a payload: a linear solve of the torques that an earlier model leaves, in the flange's frame."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.batches import regressor
from diffnea.formats import flange
from diffnea.identify.judge.assess import assess
from diffnea.identify.judge.held_out import held_out
from diffnea.identify.judge.quick_motion import beyond_the_model
from diffnea.identify.judge.verdict import judge
from diffnea.identify.notes import note
from diffnea.identify.payload import Payload
from diffnea.identify.payloads.body import (
    Solved,
    expected,
    findings,
    friction,
    lightness,
    loaded,
    moved,
    nearest_body,
    payload_of,
    widths,
)
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.noise import correlation_time
from diffnea.identify.problem.measurements.preparation_notes import about_data
from diffnea.identify.problem.measurements.reversals import without_reversals
from diffnea.identify.problem.measurements.rows import Rows, through
from diffnea.identify.problem.measurements.tracks import Split, spread_of
from diffnea.identify.problem.residuals import residuals
from diffnea.identify.problem.unknowns import late, unknowns
from diffnea.identify.progress import stage
from diffnea.identify.request import Request
from diffnea.identify.result import Fit
from diffnea.identify.solve.solution import Status
from diffnea.models import Model
from diffnea.robot import Robot

# Passes over noise and estimate.
FRICTION_PASSES = 5


def fit_payload(request: Request, earlier: Fit | None) -> Fit:
    """What the last link of a robot, or of an earlier fit, carries beyond its model."""
    if not isinstance(request.given, Robot) or request.learn != ("payload",):
        raise ValueError('fit: a payload is learned alone, of a robot; give learn=("payload",)')
    robot, parts = request.given, request.prepared()
    before = Model(robot, friction(request, robot))
    marked = without_reversals(parts, before, "torque", 10, request.options.problem)
    frame, pose = flange(robot, robot.link_names[-1])
    with stage("solving for the payload"):
        solved = _solve(before, marked, moved(pose))
    payload = payload_of(solved, frame)
    model = Model(loaded(robot, moved(pose) @ nearest_body(solved.body)), before.actuator)
    return _result(request, parts, before, model, payload, solved, earlier)


def _solve(model: Model, parts: Split, move: Float[np.ndarray, "10 10"]) -> Solved:
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
    width = widths(model.actuator, usual)
    noise, x, covariance = np.maximum(0.02 * usual, 1e-9), np.zeros(A.shape[2]), np.eye(A.shape[2])
    loss = np.nan
    for k in range(FRICTION_PASSES):
        scale = kept / noise
        rows, wanted = (A * scale[..., None]).reshape(-1, A.shape[2]), (y * scale).ravel()
        precision = np.concatenate([expected(x[:10]) if k else np.zeros(10), 1 / width**2])
        covariance = np.linalg.pinv(rows.T @ rows + np.diag(precision), hermitian=True)
        x = covariance @ (rows.T @ wanted)
        noise, loss = _noise(y - A @ x, kept, segment, len(x), parts.timed), float(np.mean((rows @ x - wanted) ** 2))
    return Solved(x[:10], covariance[:10, :10], loss)


def _columns(model: Model, rows: Rows, move: np.ndarray) -> Float[np.ndarray, "row n k"]:
    """Of the payload's ten numbers, and of viscous and dry friction."""
    q, qd, qdd = (np.asarray(array) for array in rows.batch[:3])
    n = q.shape[1]
    way = rows.batch.joints_way
    inertia = np.asarray(regressor(model.robot, jnp.asarray(q), jnp.asarray(qd), jnp.asarray(qdd)))[..., -10:] @ move
    both = np.concatenate([inertia, qd[:, :, None] * np.eye(n), way[:, :, None] * np.eye(n)], axis=2)
    clear = None if rows.low_pass is None else rows.low_pass._replace(weight=np.ones_like(rows.low_pass.weight))
    return np.asarray(through(clear, jnp.asarray(both)))


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


def _result(
    request: Request,
    parts: Split,
    before: Model,
    model: Model,
    payload: Payload,
    solved: Solved,
    earlier: Fit | None,
) -> Fit:
    spread, options = spread_of(parts.fitted), request.options
    metrics, judged = assess(model, before, parts, spread, True, True, options.judge)
    limits = beyond_the_model(parts.limits, model, parts.fitted, metrics.fit, request.joint_names, options.judge)
    return Fit(
        model=model,
        metrics=metrics,
        verdict=judge(metrics, judged, request.joint_names, [], lightness(payload), (), options.judge, limits),
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
        knowledge=lambda: findings(payload),
        held_out=held_out(before, parts, spread),
        options=options,
        outcome=Status.CONVERGED,
        payload=payload,
    )
