"""The fit of a payload on a robot with a free base: what its trunk, or another link, carries beyond its model.

The equations of `floating` are linear in the payload's ten numbers. With them move what may have changed since the
earlier model: friction a little, the inertial sensor, and how deep feet sink in. All of it has a width that it is
expected within, `W`; in units of that, `x = W z`, the estimate is the mode of the posterior, and its covariance

    C Jᵀ Σ J C + C C,    C = (Jᵀ J + 1)⁻¹,

with `Jᵀ Σ J` by the residuals, correlated in time and between equations (`determine.covariance`). The earlier model's
own numbers φ are not sure either: `S Σ_φ Sᵀ` is added, with `S = −W C Wᵀ G` what they do to the estimate.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from diffnea.files import Json
from diffnea.identify.determine.structure.observables import ALL_LINKS
from diffnea.identify.determine.uncertainty.covariance import noise, uncertainty
from diffnea.identify.floating.judging import assess, balance, torque_rows
from diffnea.identify.floating.linear_equations import products
from diffnea.identify.floating.linear_rows import LinearRows, stacked
from diffnea.identify.floating.motion_columns import BASE_ROWS, WANDERS, Beside, numbers, sizes
from diffnea.identify.floating.stretches import Parts
from diffnea.identify.floating_fit import FloatingPlan, check_request
from diffnea.identify.judge.verdict import judge
from diffnea.identify.notes import note
from diffnea.identify.payloads.body import (
    EARLIER,
    REACH,
    Solved,
    findings,
    friction,
    lightness,
    loaded,
    moved,
    nearest_body,
    payload_of,
    widths,
)
from diffnea.identify.progress import stage
from diffnea.identify.request import Request
from diffnea.identify.result import Fit
from diffnea.identify.solve.evidence import MOST_RATIO, noise_of
from diffnea.identify.solve.solution import Status
from diffnea.models import Model
from diffnea.robot import Robot

PASSES = 5
# Directions of which data tell less than this share of what is expected anyway.
NOTHING_TOLD = 1e-8
# What is mounted may have moved since the earlier model by this share of how far off it may be at all.
SHIFTED = 0.05


def fit_floating_payload(request: Request, robot: Robot, earlier: Fit | None) -> Fit:
    """What the base, or the one link that `links` names, carries beyond the robot or the earlier fit."""
    if request.learn != ("payload",):
        raise ValueError('fit: a payload is learned alone, of a robot; give learn=("payload",)')
    before = Model(robot, friction(request, robot))
    plan = FloatingPlan(replace(request, learn=None, links=None, actuator="auto"), robot)
    check_request(plan.request, robot)
    link = _link(request, robot)
    parts = plan.prepared()
    scale = sizes(robot, parts.fitted)
    rows, test = plan.rows(parts, scale)
    with stage("solving for the payload"):
        task = _Task.of(
            before,
            link,
            rows,
            _known(plan.beside(parts), {} if earlier is None else earlier.config.get("beside") or {}),
            parts,
        )
        found, without = task.solved(), replace(task, carries=False).solved()
    name = robot.link_names[link]
    payload = payload_of(_with_earlier(found, earlier), name)
    model = Model(loaded(robot, task.move @ nearest_body(found.payload.body), link), before.actuator)
    ours, theirs = (torque_rows(test, each.phi) for each in (found, without))
    metrics, judged = assess(ours, theirs, True, request.options.judge)
    names = (*BASE_ROWS, *robot.joint_names)
    return Fit(
        model=model,
        metrics=metrics,
        verdict=judge(metrics, judged, names, plan.problems(parts), lightness(payload), (), request.options.judge),
        loss=found.payload.loss,
        history=(found.payload.loss,),
        notes=(*parts.notes, note("kept-back", said=parts.kept_back), note("payload-link", name)),
        config={
            "robot": robot.name,
            "learn": ["payload"],
            "links": [name],
            "actuator": type(before.actuator).__name__,
            "loss": "torque",
            "method": "linear",
            "seed": request.seed,
            "from_fit": earlier is not None,
            "samples": sum(map(len, (*parts.fitted, *parts.test))),
            "recordings": list(dict.fromkeys(each.name for each in (*parts.fitted, *parts.test))),
        },
        consistent=model,
        knowledge=lambda: findings(payload, found.payload.quantile),
        options=request.options,
        outcome=Status.CONVERGED,
        payload=payload,
        balance=balance(test[0], parts.test[0], names, scale, (found.phi, without.phi), bool(request.feet)),
    )


def _link(request: Request, robot: Robot) -> int:
    names = request.links or robot.link_names[:1]
    if len(names) != 1 or names[0] not in robot.link_names:
        raise ValueError(
            f"fit: a payload is on one link, not on {', '.join(names)}; the robot has {', '.join(robot.link_names)}"
        )
    return robot.link_names.index(names[0])


def _known(beside: Beside, before: Json) -> Float[np.ndarray, "k 2"]:
    """What is expected of the sensor and of feet, and how surely: where they are mounted stays, biases wander."""
    found = [[0.0, width] for width in beside.expected]
    for k, label in enumerate(beside.labels):
        if label in before and not label.startswith(WANDERS):
            value, std = before[label]
            found[k] = [value, min(found[k][1], max(std, SHIFTED * found[k][1]))]
    return np.array(found, float).reshape(-1, 2)


class _Estimated(NamedTuple):
    payload: Solved
    phi: Float[np.ndarray, " m"]
    slopes: Float[np.ndarray, "10 m"]  # of the payload's ten numbers in φ as given


def _with_earlier(found: _Estimated, earlier: Fit | None) -> Solved:
    """Wider by what the earlier fit does not know, where that is more than `EARLIER` has.

    By its whole mass at least, as if that were the payload's, and, where it was kept, by the covariance of all numbers.
    """
    masses = [each.std for each in earlier.identifiable if each.formula == ALL_LINKS] if earlier is not None else []
    payload, own = found.payload, float(found.payload.covariance[0, 0])
    if earlier is None or not masses or not own > 0:
        return payload
    both, least = EARLIER**2 * payload.covariance, max(EARLIER**2 * own, own + masses[0] ** 2)
    kept = None if earlier.balance is None else earlier.balance.covariance
    if kept is not None and len(kept) == len(found.phi):
        spread, links = np.asarray(kept, float), slice(0, 10 * earlier.robot.num_links, 10)
        coloured = max(1.0, masses[0] ** 2 / float(np.sum(spread[links, links])))  # noise is not white
        both = payload.covariance + coloured * found.slopes @ spread @ found.slopes.T
    return payload._replace(covariance=both * max(1.0, least / float(both[0, 0])) / EARLIER**2)


@dataclass(frozen=True)
class _Task:
    """Rows about an earlier model's φ, and which directions of φ may move how far."""

    rows: tuple[LinearRows, ...]
    phi: Float[np.ndarray, " m"]
    directions: Float[np.ndarray, "m k"]  # the payload's ten first
    width: Float[np.ndarray, " k"]
    move: Float[np.ndarray, "10 10"]  # from the file's frame of the link to the link's own
    carries: bool = True

    @classmethod
    def of(
        cls, model: Model, link: int, rows: tuple[LinearRows, ...], beside: Float[np.ndarray, "k 2"], parts: Parts
    ) -> "_Task":
        """`beside`: value and width of what stands beside robot and friction."""
        robot, n = model.robot, model.num_joints
        pose = np.eye(4)
        pose[:3, 3] = np.asarray(robot.frame_offset, float)[link]
        move = moved(pose)
        own = np.asarray(numbers(model), float)
        phi = np.concatenate([own, beside[:, 0]])
        usual = np.sqrt(np.mean(np.concatenate([each.u for each in parts.fitted]) ** 2, axis=0)) + 1e-9
        rubs = np.arange(len(own) - 2 * n, len(phi))  # viscous and dry friction, and what stands beside
        directions = np.zeros((len(phi), 10 + len(rubs)))
        directions[10 * link : 10 * link + 10, :10] = move
        directions[rubs, 10 + np.arange(len(rubs))] = 1.0
        mass = float(np.sum(np.asarray(robot.inertia.mass)))  # no payload is expected to be heavier than the robot
        width = np.concatenate([_expected(mass), widths(model.actuator, usual), beside[:, 1]])
        return cls(rows, phi, directions, width, move)

    def solved(self) -> _Estimated:
        """Noise of each equation and estimate in turn; second moments go with the mass that was found."""
        width = self.width if self.carries else np.where(np.arange(len(self.width)) < 10, 0.0, self.width)
        z, rows, C, G = np.zeros(len(width)), self.rows, np.eye(len(width)), np.eye(len(self.phi) + 1)
        for k in range(PASSES):
            rows = self._weighted(self.phi + self.directions @ (width * z))
            W = self.directions * width
            G = products(rows)
            C = np.linalg.inv(W.T @ G[:-1, :-1] @ W + np.eye(len(z)))
            z = -C @ (W.T @ (G[:-1] @ np.append(self.phi, -1.0)))
            if self.carries and k < PASSES - 1:
                x = width * z
                width = np.concatenate([_expected(float(x[0]), self.width[0]), width[10:]])
                z = np.where(width > 0, x / np.where(width > 0, width, 1.0), 0.0)
        return self._with_intervals(rows, width, z, C, G)

    def _weighted(self, phi: Float[np.ndarray, " m"]) -> tuple[LinearRows, ...]:
        """Each equation divided by its noise."""
        level = noise_of(self.rows, [each.left(phi) for each in self.rows], False)
        level = np.maximum(level, max(float(level.max()) / MOST_RATIO, 1e-12))
        return tuple(each.rescaled(1 / level) for each in self.rows)

    def _with_intervals(
        self, rows: tuple[LinearRows, ...], width: np.ndarray, z: np.ndarray, C: np.ndarray, G: np.ndarray
    ) -> _Estimated:
        W, x = self.directions * width, width * z
        left, jacobian, equation, sample, segment = stacked(rows, self.phi + self.directions @ x, W)
        told, turn = np.linalg.eigh(jacobian.T @ jacobian)
        told, turn = (each[..., told > NOTHING_TOLD] for each in (told, turn))
        place = equation, sample, segment
        found = noise(left, *place, len(told), True)
        spread = uncertainty(jacobian @ turn, left, *place, found, True)
        quantile = spread.quantile()
        slopes = (width[:, None] * C)[:10] @ turn * told
        both = [spread.covariance, spread.stationary * (1.96 / quantile) ** 2]
        wider = max((slopes @ each @ slopes.T for each in both), key=np.trace)
        expected = (width[:, None] * C)[:10]
        loss = float(np.mean(left**2))
        payload = Solved(x[:10], wider + expected @ expected.T, loss, quantile)
        return _Estimated(payload, self.phi + self.directions @ x, -expected @ W.T @ G[:-1, :-1])


def _expected(mass: float, heaviest: float | None = None) -> Float[np.ndarray, "10"]:
    """How large the ten numbers of a payload may be: it is no larger than `REACH`."""
    size = max(abs(mass), 1e-3)
    first = size if heaviest is None else heaviest
    return np.concatenate([[first], np.full(3, size * REACH), np.full(6, size * REACH**2)])
