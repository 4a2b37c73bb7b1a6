"""The search for θ: several starts side by side, the best by validation, then all data, and no drift of the unknown."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.notes import Note, note
from diffnea.identify.problem.least_squares import Problem
from diffnea.identify.problem.measurements.rows import Batch, Rows
from diffnea.identify.problem.prior import Prior
from diffnea.identify.problem.residuals import problem, residuals
from diffnea.identify.solve import adam as gradient
from diffnea.identify.solve.evidence import HUBER, Compared, Posterior, best_of, weigh
from diffnea.identify.solve.friction_starts import with_given_friction, with_other_friction
from diffnea.identify.solve.levenberg_marquardt import FLOOR, HEAT_ITERATIONS, minimise
from diffnea.identify.solve.linear_start import linear_start
from diffnea.identify.solve.solution import Solution
from diffnea.identify.solve.task import Found as Found
from diffnea.identify.solve.task import Task as Task

# Starts race on so many samples at least, and on so many residuals for each number; the winner sees all.
RACE, RACE_ROWS = 400, 8
VALIDATED = 1024  # samples that choose between them
# With more numbers than this the normal equations cost more than they bring, and ADAM does the work.
MOST_FOR_NORMAL = 700
# A short ADAM run for starts that Levenberg-Marquardt cannot use.
SHORT_STEPS, SHORT_RATE, SHORT_SAMPLES = 1000, 2e-2, 256
# Weights of Huber's loss are found anew so often.
HUBER_ROUNDS = 4
# So many Stribeck curves are tried beside the one that the race found; of all starts so many go on to the end.
CURVES, FINALISTS = 4, 3
# A number has lost its effect when the squared slopes in it are this share of what they were.
LOST_EFFECT = 1e-4


def by_adam(task: Task, steps: int = gradient.MOST_STEPS_OF_ADAM, rate: float = gradient.RATE) -> Found:
    """The paper's way, from the first start."""
    run = gradient.descend(task.loss, task.free, task.whole, task.starts[:1], steps, rate, task.seed)
    notes = ()
    if any(rows.low_pass for rows in task.rows):
        notes = (note("adam-on-samples"),)
    if not run.converged[0]:
        notes = (*notes, note("adam-stopped", steps=steps))
    return _found(task, run, 0, notes)


def by_least_squares(task: Task) -> Found:
    """Levenberg-Marquardt from the first start."""
    if task.prior is not None:
        return _from_file(task, task.prior, task.starts[:1], (), ())
    return _finish(task, task.starts[:1], (), (), task.options.iterations)


def by_race(task: Task) -> Found:
    """Several starts, and all data from the best of them."""
    if task.free.size > MOST_FOR_NORMAL:
        return _by_long_adam(task)
    iterations = task.options.iterations
    if task.prior is None:
        return _finish(task, *_raced(task, iterations), iterations)
    curves = with_other_friction(task.free, task.free.start, CURVES, task.seed, task.whole.qd.std(0))
    starts = np.stack([task.free.start, *curves])
    if not _crooked(task):
        return _from_file(task, task.prior, starts, (), ())
    ends, history, notes = _raced(task, iterations)
    return _from_file(task, task.prior, np.concatenate([starts, ends]), history, notes)


def _crooked(task: Task) -> bool:
    """Whether what is learned enters torques in a way that misleads a search from the file alone."""
    return any(each.kind in ("placement", "network") for each in task.free.parameters)


def _raced(task: Task, iterations: int) -> tuple[np.ndarray, tuple[float, ...], tuple[Note, ...]]:
    """All starts at once on a part of the data, the best by validation kept."""
    iterations = min(iterations, HEAT_ITERATIONS) if task.rough else iterations
    most = max(RACE, RACE_ROWS * task.free.size // task.train.q.shape[1])
    small = task.train.take(_even(len(task.train.q), most))
    race = problem(task.loss, task.free, small, len(task.starts))
    run, notes = _with_adam(task, small, race, minimise(race, task.starts, iterations), iterations)
    if not np.isfinite(run.loss).any():
        return task.starts[:1], run.history, notes
    checked = problem(
        task.loss, task.free, task.validation.take(_even(len(task.validation.q), VALIDATED)), len(run.theta)
    )
    order = _ranked(run.loss, checked.loss(run.theta), task.options.behind)
    ends = run.theta[order[:1]]
    if any(rows.low_pass for rows in task.rows):  # another loss than that of the race: its minimum may be elsewhere
        revived = _revived(race, ends[0], task.starts[order[0]])
        ends = np.concatenate([ends, revived[None], run.theta[order[1:2]], *_other_curves(task, ends[0])])
    return ends, run.history, notes


def _ranked(loss: Float[np.ndarray, " starts"], validation: Float[np.ndarray, " starts"], behind: float) -> np.ndarray:
    """The starts from the best to the worst by validation; after them those that fit their own data far worse.

    The validation part may be short and calm. A model that explains nothing can look good there.
    """
    finite = np.isfinite(validation) & np.isfinite(loss)
    worse = ~(loss <= behind * np.nanmin(loss) + FLOOR)
    return np.lexsort((np.where(finite, validation, np.inf), worse, ~finite))


def _revived(problem: Problem, theta: Float[np.ndarray, " p"], start: Float[np.ndarray, " p"]) -> np.ndarray:
    """θ with those numbers back at the start that have lost all effect on the way, as the extent of a flat body.

    No slope leads out of there.
    """
    now, before = (np.einsum("spp->sp", problem.normal(each[None]).matrix)[0] for each in (theta, start))
    return np.where(now < LOST_EFFECT * before, start, theta)


def _other_curves(task: Task, theta: Float[np.ndarray, " p"]) -> list[Float[np.ndarray, "1 p"]]:
    """The same θ with other dry friction; the trajectory loss, which goes on from a rough fit, tries its own."""
    if task.rough:
        return []
    given, speed = with_given_friction(task.free, theta), task.whole.qd.std(0)
    return [each[None] for each in with_other_friction(task.free, given, CURVES, task.seed, speed)]


def _even(count: int, most: int) -> np.ndarray | slice:
    return slice(None) if count <= most else np.linspace(0, count - 1, most).astype(int)


def _agree(run: Solution) -> int:
    """How many starts came to the lowest loss."""
    return int(run.lowest(FLOOR).sum())


def _settled(run: Solution) -> bool:
    """Whether several starts came to the lowest loss, and not only because they were stopped on the way."""
    return _agree(run) > 1 and bool(run.converged[run.lowest(FLOOR)].any())


def _with_adam(
    task: Task, small: Batch, race: Problem, run: Solution, iterations: int
) -> tuple[Solution, tuple[Note, ...]]:
    """Where the starts do not agree, a short ADAM run may bring them into the valley."""
    count = len(task.starts)
    if task.rough or count < 2 or _settled(run) or run.loss.min() < FLOOR:
        return run, (note("starts-agree", agree=_agree(run), count=count),)
    few = small.take(_even(len(small.q), SHORT_SAMPLES))
    warm = gradient.descend(task.loss, task.free, few, task.starts, SHORT_STEPS, SHORT_RATE, task.seed, SHORT_SAMPLES)
    again = minimise(race, warm.theta, iterations)
    both = run.or_better(again)
    return both, (note("starts-agree-after-adam", agree=_agree(both), count=count),)


def _by_long_adam(task: Task) -> Found:
    """Many numbers, as of a network: ADAM from every start, the best by validation."""
    run = gradient.descend(task.loss, task.free, task.train, task.starts[:2], seed=task.seed)
    checked = problem(
        task.loss, task.free, task.validation.take(_even(len(task.validation.q), VALIDATED)), len(run.theta)
    )
    validation = np.where(np.isfinite(run.loss), checked.loss(run.theta), np.inf)
    return _found(task, run, int(np.argmin(validation)), ())


def _finish(task: Task, theta: np.ndarray, history: tuple, notes: tuple[Note, ...], iterations: int) -> Found:
    """All data, from the best θ; what they do not determine stays with the robot file."""
    rows, theta = task.rows, _with_torque(task, theta, iterations)
    if len(theta) > FINALISTS:
        heat = minimise(problem(task.loss, task.free, rows, len(theta)), theta, min(iterations, HEAT_ITERATIONS))
        theta, history = heat.theta[np.argsort(heat.loss)[:FINALISTS]], (*history, *heat.history)
    whole = problem(task.loss, task.free, rows, len(theta))
    run = minimise(whole, theta, iterations).only_best()
    for _ in range(HUBER_ROUNDS if task.robust and np.isfinite(run.loss[0]) else 0):
        rows = tuple(without_outliers(task, each, run.theta[0]) for each in task.rows)
        whole = problem(task.loss, task.free, rows, 1)
        run = minimise(whole, run.theta, iterations)
    arrived = bool(run.converged[0] or run.loss[0] < FLOOR)
    found = _found(task, run, 0, notes)
    return replace(found, history=(*history, *run.history), converged=arrived or task.rough, rows=rows)


def _from_file(task: Task, prior: Prior, starts: np.ndarray, history: tuple, notes: tuple[Note, ...]) -> Found:
    """The robot file as a prior: torques first, which are linear in the bodies, then the loss asked for.

    A rough fit, from which trajectories go on, is of one of them: of torques where their scale is known. Where no more
    than a few steps are asked for, they go to the loss asked for.
    """
    if task.rough:
        return _roughly(task, prior, starts, history, notes)
    few = task.options.iterations < HEAT_ITERATIONS
    if task.loss != "torque" and task.torque is not None and not few:
        rows = [each.scaled(task.torque) for each in task.rows]
        near = _weighed("torque", task, rows, prior, _linear_starts(task, rows, prior, starts))
        starts = starts if near is None else np.concatenate([near.theta[None], starts])
    elif task.loss == "torque":
        starts = _linear_starts(task, task.rows, prior, starts)
    found = _weighed(task.loss, task, task.rows, prior, starts)
    return _as_found(task, found, starts, history, notes)


def _roughly(task: Task, prior: Prior, starts: np.ndarray, history: tuple, notes: tuple[Note, ...]) -> Found:
    """Torques, or accelerations where a gain, or no drive at all, leaves the scale open: a robot without mass would
    take no torque."""
    loss, rows = task.loss, task.rows
    scaled = any(each.part in ("Gain", "Motor") for each in task.free.parameters) or not np.any(task.whole.u)
    if task.torque is not None and not scaled:
        loss, rows = "torque", tuple(each.scaled(task.torque) for each in task.rows)
        starts = _linear_starts(task, rows, prior, starts)
    found = _weighed(loss, task, rows, prior, starts)
    return _as_found(task, found, starts, history, notes)


def _linear_starts(task: Task, rows: Sequence[Rows], prior: Prior, starts: np.ndarray) -> np.ndarray:
    """The same after one linear solve of the torques each, the best few of them."""
    whole = problem("torque", task.free, rows, 1)
    curved = np.array([each.leaf == "raw_shape" or each.part == "Delay" for each in task.free.parameters], bool)
    moved = np.stack([linear_start(whole, prior, each, curved) for each in starts])
    losses = np.array([float(whole.loss(each[None])[0]) for each in moved])
    return moved[np.argsort(losses)[:FINALISTS]]


def _weighed(
    loss: str, task: Task, rows: Sequence[Rows], prior: Prior, starts: Float[np.ndarray, "starts p"]
) -> Posterior | None:
    """The estimate of one loss from the best of these starts; None where none is finite."""
    whole = problem(loss, task.free, rows, len(starts))
    values = whole.loss(starts)
    variance = float(np.min(values[np.isfinite(values)], initial=np.inf))
    if not np.isfinite(variance):
        return None
    best = best_of(whole, prior, variance, starts, task.options)
    return weigh(Compared(loss, task.free), rows, best, prior, task.options, task.robust)


def _as_found(
    task: Task, found: Posterior | None, starts: np.ndarray, history: tuple, notes: tuple[Note, ...]
) -> Found:
    """What was weighed; rows of the loss asked for, whatever a rough fit has compared."""
    if found is None:
        return Found(starts[0], np.nan, history, False, notes, task.rows)
    notes, history = (*notes, *_file_words(found)), (*history, *found.history)
    if task.rough:
        return Found(found.theta, found.loss, history, True, notes, task.rows)
    return Found(found.theta, found.loss, history, found.converged, notes, found.rows, found)


def _file_words(found: Posterior) -> tuple[Note, ...]:
    strength = found.prior.strength
    if not len(strength):
        return ()
    off = 100 / np.sqrt(strength)
    return (note("file-trust", least=float(off.min()), most=float(off.max())),)


def _with_torque(task: Task, theta: Float[np.ndarray, "starts p"], iterations: int) -> Float[np.ndarray, "more p"]:
    """For the accelerations of an arm one more start: where the torque loss leads from the first.

    Torques are linear in the inertias. Accelerations are not, and those of many joints have many minima.
    """
    if task.torque is None or task.loss != "acceleration" or len(task.torque) <= task.options.few_joints:
        return theta
    rows = [each.scaled(task.torque) for each in task.rows]
    near = minimise(problem("torque", task.free, rows, 1), task.starts[:1], iterations)
    return np.concatenate([theta, near.theta]) if np.isfinite(near.loss[0]) else theta


def _found(task: Task, run: Solution, which: int, notes: tuple[Note, ...]) -> Found:
    return Found(run.theta[which], float(run.loss[which]), run.history, bool(run.converged[which]), notes, task.rows)


def without_outliers(task: Task, rows: Rows, theta: Float[np.ndarray, " p"]) -> Rows:
    """The same rows with residuals beyond Huber's limit weighted down, by each joint's own spread."""
    wrong = residuals(task.loss, task.free, rows, theta)
    counted = np.where(rows.weight > 0, np.abs(wrong), np.nan)  # a joint without rows has no spread
    spread = 1.4826 * np.nan_to_num(np.nanmedian(counted, axis=0))
    share = HUBER * np.where(spread > 0, spread, np.inf) / np.maximum(np.abs(wrong), 1e-300)
    return rows.weighted(np.sqrt(np.minimum(share, 1.0)))
