"""`fit`: from recordings to a model, with what is known of it and a verdict on data that were not fitted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.actuators import AbstractActuator
from diffnea.identify.determine.combinations import Combination
from diffnea.identify.determine.findings import Knowledge, knowledge, linearised
from diffnea.identify.determine.table import Table
from diffnea.identify.friction.prandtl import known as with_ways
from diffnea.identify.friction.prandtl_fit import slipping
from diffnea.identify.judge.assess import Metrics, assess
from diffnea.identify.judge.held_out import HeldOut, held_out
from diffnea.identify.judge.verdict import Verdict, another_robot, judge
from diffnea.identify.notes import Note, note
from diffnea.identify.options import Options
from diffnea.identify.precision import double_precision, is_double
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.parameter import places
from diffnea.identify.problem.prior import Prior, prior
from diffnea.identify.problem.reversals import without_reversals
from diffnea.identify.problem.tracks import Data, Split, Track, batch, equations, split
from diffnea.identify.problem.unknowns import LEARN, Unknowns, late, unknowns
from diffnea.identify.problem.weighting import scales
from diffnea.identify.progress import Watch, stage, watched
from diffnea.identify.solve import multistart as search
from diffnea.identify.solve.linear import FRICTION, regress
from diffnea.identify.solve.starts import expected, near, random_starts, settled
from diffnea.identify.trajectory import chains as trajectory
from diffnea.models import FeedForward, Model
from diffnea.robot import Robot

METHODS = ("auto", "adam", "lm", "linear")
LOSSES = ("acceleration", "torque", "trajectory")
STARTS = ("nominal", "random")
# Starts side by side; fewer where there are many numbers, which take longer and mislead less.
STARTS_OF_FEW, STARTS_OF_MANY, MANY_NUMBERS = 8, 4, 64
# Residuals for each number to learn, at least.
LEAST_ROWS = 2


@dataclass(frozen=True)
class Fit:
    """A fitted model and what is known of it; `print(fit)` says the most of it."""

    model: Any
    metrics: Metrics
    verdict: Verdict
    loss: float
    history: tuple[float, ...]  # the lowest loss after each iteration
    notes: tuple[str, ...]
    config: dict[str, Any]
    consistent: Any = field(repr=False)  # the nearest physical model: the same but for method linear
    knowledge: Callable[[], Knowledge] = field(repr=False)
    held_out: HeldOut | None = field(default=None, repr=False)  # for the page

    @cached_property
    def known(self) -> Knowledge:
        """What the data determine; worked out when first asked for."""
        return self.knowledge()

    @property
    def table(self) -> Table:
        """One row a physical quantity: start, estimate, standard deviation, whether the data determine it."""
        return self.known.table

    @property
    def identifiable(self) -> tuple[Combination, ...]:
        """The combinations that the data determine, with intervals."""
        return self.known.identifiable

    @property
    def unknown(self) -> tuple[str, ...]:
        """What the data do not tell, in words."""
        return self.known.unknown

    @property
    def robot(self) -> Robot:
        """The robot that was learned."""
        if not isinstance(self.model, Model):
            raise AttributeError("a network has no robot; use fit.model")
        return self.model.robot

    def save(self, folder: Any) -> None:
        """Write the fit into a folder: fit.json, weights.npz, identified.urdf and identified.xml."""
        from diffnea.identify.io.store import save  # here, because files are of fits

        save(self, folder)

    def __str__(self) -> str:
        known = [f"  {each.formula} = {each.value:.5g} ± {each.std:.2g} {each.unit}" for each in self.identifiable]
        parts = [f"verdict: {self.verdict.status}", *(f"  {reason}" for reason in self.verdict.reasons)]
        parts += ["", str(self.metrics), "", "the data determine", *known]
        parts += ["the data do not tell", *(f"  {sentence}" for sentence in self.unknown)]
        return "\n".join(parts)


def fit(
    robot: Robot | FeedForward,
    data: Data,
    *,
    learn: Iterable[str] | None = None,
    actuator: str | AbstractActuator = "ideal",
    method: str = "auto",
    loss: str = "acceleration",
    start: str = "nominal",
    seed: int = 0,
    test: Data | None = None,
    robust: bool | None = None,
    starts: int | None = None,
    steps: int | None = None,
    links: Iterable[str] | None = None,
    joints: Iterable[str] | None = None,
    known: Mapping[str, Any] | None = None,
    options: Options | None = None,
    progress: Watch | None = None,
) -> Fit:
    """Learn a model from recordings or samples, and judge it on a part that is kept back, or on `test`.

    `learn`: any of inertia, kinematics, armature, calibration (zero positions of the joints), actuator; by default
    inertia and actuator. `links` names those whose inertia is learned, `joints` those whose placement, armature or zero
    is; by default all. An actuator given by name is always learned, but for those of its coefficients that are `known`,
    as `{"delay": 2, "torque_constant": 0.042}`.
    `start="nominal"` begins with the robot as given and perturbed copies of it, "random" with robots that share only
    its size and mass. `robust` weights outliers down. `steps` are iterations of the method. A network (`FeedForward`)
    in place of the robot is learned as it is. `progress(stage, step, steps, error)` is called on the way.
    """
    _check(method=(method, METHODS), loss=(loss, LOSSES), start=(start, STARTS))
    _check_kind(robot, method, loss)
    with double_precision(), np.errstate(all="ignore"), watched(progress):  # what is not finite ends in the verdict
        names = [None if given is None else tuple(given) for given in (links, joints)]
        chosen = _Chosen(names[0], names[1], dict(known or {}))
        plan = _Plan(
            robot,
            data,
            learn,
            actuator,
            method,
            loss,
            start,
            seed,
            test,
            robust,
            starts,
            steps,
            chosen,
            options or Options(),
        )
        found = plan.run()
    if not is_double():
        single_precision = partial(jax.tree.map, lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32))
        models = {name: single_precision(getattr(found, name)) for name in ("model", "consistent")}
        found = replace(found, **models)
    return found


def _check(**given: tuple[Any, tuple[str, ...]]) -> None:
    for name, (value, accepted) in given.items():
        if value not in accepted:
            raise ValueError(f'fit: {name} is "{value}"; use {", ".join(accepted)}')


def _check_kind(robot: Any, method: str, loss: str) -> None:
    if isinstance(robot, FeedForward):
        if loss == "torque" or method == "linear":
            what = f"loss {loss}" if loss == "torque" else "method linear"
            raise ValueError(f"fit: a network has no inverse dynamics for {what}; use acceleration or trajectory")
    elif not isinstance(robot, Robot):
        raise TypeError(f"fit: robot is a {type(robot).__name__}; give a Robot or a FeedForward")


@dataclass(frozen=True)
class _Outcome:
    """What a learner brings."""

    model: Any
    loss: float
    history: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()  # of the notes, what belongs to the verdict
    linearised: Callable[[], Linearised] | None = None
    consistent: Any = None


class _Chosen(NamedTuple):
    """The links and joints to learn, None for all, and what is known of the actuator."""

    links: tuple[str, ...] | None
    joints: tuple[str, ...] | None
    known: dict[str, Any]


@dataclass(frozen=True)
class _Plan:
    """One call of `fit`, step by step."""

    given: Any
    data: Data
    learn: Any
    actuator: Any
    method: str
    loss: str
    start: str
    seed: int
    test: Any
    robust: bool | None
    starts: int | None
    steps: int | None
    chosen: _Chosen
    options: Options

    def run(self) -> Fit:
        key = jax.random.key(self.seed)
        names = self.given.joint_names if isinstance(self.given, Robot) else None
        with stage("preparing data"):
            parts = split(self.data, self.test, names, self.given.num_joints, self.seed)
        if self.loss == "trajectory" and not parts.timed:
            raise ValueError("fit: loss trajectory needs recordings; Samples have no order in time")
        free = unknowns(self.given, self.learn, self.actuator, key, *self.chosen)
        before = free.model(jnp.asarray(free.start))
        problems = self._problems(free, parts)
        weight = scales("torque" if self.method == "linear" else self.loss, before, parts.fitted)
        if problems:
            return self._result(free, parts, before, None, weight, problems)
        parts = self._known(parts, before, weight)
        if self.loss != "trajectory":
            parts = without_reversals(parts, before, self.loss, free.size, self.options.problem)
        if self.method == "linear":
            return self._linear(free, parts, before, weight)
        with stage("searching"):
            found = self._search(self._task(free, parts, weight))
        if not found.finite:
            problems = ["the loss is not finite at any start; look at the data and at the start's numbers"]
        return self._result(free, parts, before, found, weight, problems)

    def _linear(self, free: Unknowns, parts: Split, before: Any, weight: np.ndarray) -> Fit:
        """Regression, which needs no search."""
        if not isinstance(self.actuator, str) or self.actuator not in FRICTION:
            raise ValueError(f"fit: method linear takes actuator {', '.join(FRICTION)} by name; use auto for others")
        if set(free.learned) - {"inertia", "actuator"} or self.chosen.links is not None or self.chosen.known:
            raise ValueError("fit: method linear learns all inertias and friction; leave kinematics and the like out")
        found = regress(before.robot, self.actuator, parts.fitted, weight, free.learned)
        notes = (f"regression: {found.rank} of {free.size} directions are determined",)
        if not found.physical:
            notes = (
                *notes,
                "the regression's inertias are those of no body; fit.consistent is the nearest that is one",
            )
        outcome = _Outcome(
            found.model, found.loss, (found.loss,), notes, (), lambda: found.linearised, found.consistent
        )
        return self._fit(free, parts, before, outcome, [])

    def _problems(self, free: Unknowns, parts: Split) -> list[str]:
        """What makes a fit pointless, before it starts."""
        if not free.size:
            raise ValueError(f"fit: nothing to learn; name a part in learn: {', '.join(LEARN)}")
        problems = []
        rows = sum(track.q.size for track in parts.fitted)
        if rows < LEAST_ROWS * free.size:
            need = -(-LEAST_ROWS * free.size // self.given.num_joints)
            problems.append(
                f"too few samples: {rows // self.given.num_joints} for {free.size} numbers; give at least {need}"
            )
        moved = np.concatenate([track.q for track in parts.fitted]).std(0), _all(parts, "qd").std(0)
        if all(np.all(spread <= 1e-12) for spread in moved):
            problems.append("nothing moves in these data; record motion")
        noisy = max((track.noise for track in parts.fitted), default=0.0)
        if noisy > self.options.judge.noise:
            problems.append(f"positions are noise: {noisy:.0%} of their spread; record motion larger than the noise")
        return problems

    def _task(self, free: Unknowns, parts: Split, weight: np.ndarray) -> search.Task:
        most = late(free)
        count = self.starts or (STARTS_OF_MANY if free.size > MANY_NUMBERS else STARTS_OF_FEW)
        draw = random_starts if self.start == "random" else near
        return search.Task(
            loss="acceleration" if self.loss == "trajectory" else self.loss,
            free=free,
            train=batch(parts.train, most, weight),
            validation=batch(parts.validation, most, weight),
            rows=equations(parts.fitted, most, weight),
            whole=batch(parts.fitted, most, weight),
            starts=draw(free, self.seed, count),
            prior=self._file_prior(free, parts),
            seed=self.seed,
            options=self.options.solve,
            robust=bool(self.robust),
            torque=self._torque_weight(free, parts),
            rough=self.loss == "trajectory" and self._prior(free) is not None,
        )

    def _known(self, parts: Split, before: Any, weight: np.ndarray) -> Split:
        """The motion as a loss may see it: inverse dynamics know how a joint came to where it is."""
        if not parts.timed or (self.loss != "torque" and self.method != "linear"):
            return parts
        with stage("looking where joints turn back"):
            slip = slipping(before, parts.fitted, weight)
        if slip is None:
            return parts
        names = ("train", "validation", "fitted", "test")
        motion = {name: with_ways(getattr(parts, name), before.actuator, slip) for name in names}
        return replace(parts, **motion, slip=tuple(slip.lengths.tolist()), hold=slip.hold)

    def _prior(self, free: Unknowns) -> np.ndarray | None:
        """The robot as given, where it may be known."""
        return free.start if self.start == "nominal" and isinstance(self.given, Robot) else None

    def _file_prior(self, free: Unknowns, parts: Split) -> Prior | None:
        """The robot file as a prior, where it may be known; a network has none."""
        torque = self._torque_weight(free, parts)
        if self._prior(free) is None or torque is None:
            return None
        width = self.options.solve.weak_width * expected(free, 1 / torque)
        width[places(free.parameters, kind="network")] = np.inf
        positive = np.array([each.positive for each in free.parameters], bool)
        body = places(free.parameters, kind="inertia").reshape(-1, 10)
        dry = [places(free.parameters, part="Stribeck", leaf=leaf) for leaf in ("raw_static", "raw_kinetic")]
        tied = np.stack(dry, axis=1) if len(dry[0]) == len(dry[1]) else np.zeros((0, 2), int)
        width[tied[:, 0]] = self.options.solve.ratio_width
        return prior(free.start, width, positive, tied, body, self.options.solve.strength)

    def _torque_weight(self, free: Unknowns, parts: Split) -> np.ndarray | None:
        """For a robot, what residuals of torque are multiplied with."""
        if not isinstance(self.given, Robot):
            return None
        return scales("torque", free.model(jnp.asarray(free.start)), parts.fitted)

    def _search(self, task: search.Task) -> search.Found:
        if self.method == "adam":
            return search.by_adam(task, **({} if self.steps is None else {"steps": self.steps}))
        ways = {"lm": search.by_least_squares, "auto": search.by_race}
        return ways[self.method](task, search.ITERATIONS if self.steps is None else self.steps)

    def _result(self, free, parts: Split, before, found: search.Found | None, weight, problems: list[str]) -> Fit:
        if found is None or not found.finite:
            return self._fit(free, parts, before, _Outcome(before, float("nan")), problems)
        told = () if found.converged else found.notes[-1:]
        problem = None
        if self.loss == "trajectory":
            given = () if self._prior(free) is None else (free.start,)
            with stage("following trajectories"):
                found, problem = trajectory.improve(found, free, parts, _spread(parts.fitted), given)
        found = replace(found, theta=settled(found.theta, free))
        model = free.model(jnp.asarray(found.theta))
        problem = problem or partial(linearised, free, found.rows, found.theta, self.loss)
        outcome = _Outcome(model, found.loss, found.history, found.notes, told, problem)
        return self._fit(free, parts, before, outcome, problems)

    def _fit(self, free: Unknowns, parts: Split, before: Any, outcome: "_Outcome", problems: list[str]) -> Fit:
        by_torque, known = self.loss == "torque" or self.method == "linear", _has_masses(self.given)
        with stage("judging"):
            metrics, judged = assess(outcome.model, before, parts, _spread(parts.fitted), by_torque, known)
        names, notes = _joint_names(self.given), (*outcome.told, *_still(parts, _joint_names(self.given)))
        strange = another_robot(before, outcome.model) if known and self._prior(free) is not None else ()
        return Fit(
            model=outcome.model,
            metrics=metrics,
            verdict=judge(metrics, judged, names, problems, notes, strange),
            loss=outcome.loss,
            history=outcome.history,
            notes=(
                *_held_still(self.given),
                *parts.notes,
                *map(str, parts.said),
                f"kept back: {parts.kept_back}",
                *outcome.notes,
            ),
            config=self._config(free, parts),
            consistent=outcome.consistent or outcome.model,
            knowledge=partial(knowledge, before, outcome.model, free.learned, outcome.linearised),
            held_out=held_out(before, parts, _spread(parts.fitted)),
        )

    def _config(self, free: Unknowns, parts: Split) -> dict[str, Any]:
        given = self.actuator if isinstance(self.actuator, str) else type(self.actuator).__name__
        return {
            "robot": getattr(self.given, "name", type(self.given).__name__),
            "learn": list(free.named),
            "links": self.chosen.links and list(self.chosen.links),
            "joints": self.chosen.joints and list(self.chosen.joints),
            "known": {name: np.asarray(value).tolist() for name, value in self.chosen.known.items()} or None,
            "actuator": given,
            "method": self.method,
            "loss": self.loss,
            "start": self.start,
            "seed": self.seed,
            "robust": self.robust,
            "starts": self.starts,
            "steps": self.steps,
            "slip": parts.slip and list(parts.slip),
            "hold": parts.hold,
            "samples": sum(map(len, (*parts.fitted, *parts.test))),
            "recordings": list(dict.fromkeys(track.name for track in (*parts.fitted, *parts.test))),
        }


def _all(parts: Split, key: str) -> np.ndarray:
    return np.concatenate([getattr(track, key) for track in parts.fitted])


def _spread(tracks: Sequence[Track]) -> np.ndarray:
    """How far each joint moves: the standard deviation of its position, or of all joints' where it stands still."""
    each = np.concatenate([track.q for track in tracks]).std(0)
    return np.where(each > 1e-9 * each.max(initial=0.0), each, each.max(initial=0.0) or 1.0)


def _still(parts: Split, names: Sequence[str]) -> list[Note]:
    """Joints that the fitted data say nothing of."""
    moved = np.ptp(np.concatenate([track.q for track in parts.fitted]), axis=0) > 0
    return [note("still", name) for name, moves in zip(names, moved, strict=True) if not moves]


def _held_still(given: Any) -> tuple[str, ...]:
    """Joints of the robot's file that are locked."""
    locked = given.source.locked if isinstance(given, Robot) and given.source is not None else ()
    return (f"held still: {', '.join(f'{name} at {value:g}' for name, value in locked)}",) if locked else ()


def _joint_names(given: Any) -> tuple[str, ...]:
    return given.joint_names if isinstance(given, Robot) else tuple(map(str, range(given.num_joints)))


def _has_masses(given: Any) -> bool:
    """Whether a start says anything that a fit could be compared with."""
    return not isinstance(given, Robot) or bool(np.any(np.asarray(given.inertia.mass) > 0))
