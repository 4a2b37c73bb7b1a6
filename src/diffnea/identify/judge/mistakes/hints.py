"""Hints: which mistake explains data that a fit does not: each is tried, by one linear solve of torques."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.judge.mistakes import torque_map
from diffnea.identify.judge.mistakes.hypotheses import Hypothesis, hypotheses
from diffnea.identify.judge.mistakes.motion_rows import LEAST_ROWS, MotionRows, motion_rows
from diffnea.identify.judge.mistakes.torque_map import Columns, Explained, Motion
from diffnea.identify.judge.windows import without_delay
from diffnea.identify.notes import Note, note
from diffnea.identify.options import JudgeOptions
from diffnea.identify.problem.measurements.goals import followed
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import AbstractModel, Model
from diffnea.robot import Robot

# Delays that are tried, s: a log may also be ahead. The best is looked for between its neighbours so often.
DELAYS, FINER = np.r_[-np.geomspace(0.05, 0.002, 8), np.geomspace(0.001, 0.4, 40)], 3
# Inputs larger or smaller than what the file's bodies take by this factor may be in another unit.
MOST_SCALE = 3.0
# Samples in order differ by less than this share of their spread from one to the next; shuffled ones by 1.4.
JUMPS = 1.0
# Of a joint that swings freely, gravity and motion cancel up to this share of both, by the bodies of its file.
NOT_FREE = 0.7
# Less than this share of what was left is decisive by itself; this share of all is enough where one joint decides; a
# joint is not worse up to this factor.
DECISIVE, TELLING, SAME = 1 / 3, 0.7, 1.2


def hints(
    robot: Robot, tracks: Sequence[Track], model: AbstractModel | None = None, options: JudgeOptions | None = None
) -> tuple[Note, ...]:
    """What would explain these data better, most likely first; () where nothing does.

    `robot` as its file gives it; `model` is what a fit has made of it, where there was one. Inputs are taken as torques
    first, since a motor or gain that was fitted to a mistake hides it, and then as what the model makes of them.
    """
    options = options or JudgeOptions()
    if isinstance(model, Model) and model.actuator.loop is not None:
        return tuple(_shuffled(tracks))  # nothing else is about torques
    plain = (*_shuffled(tracks), *_goals(robot, tracks))
    rows = None if plain else motion_rows(tracks, model)
    if rows is None:
        return plain
    given = motion_rows(tracks) if isinstance(model, Model) else None
    if given is not None and not np.allclose(given.motion.u, rows.motion.u):
        found = _mistakes(_Case.of(robot, given), options)
        if found and found[0].code != "hint-scale":
            return found
    case = _Case.of(robot, rows)
    return (
        _mistakes(case, options)
        or _drifting(case, model, options)
        or _lacking(case, model, options)
        or _one_joint(case, options)
    )


class _Tried(NamedTuple):
    """A hypothesis and what it leaves of the torques."""

    hypothesis: Hypothesis
    found: Explained

    @property
    def rank(self) -> float:
        """Of two that explain the data alike, the one that leaves the file's bodies as they are is better."""
        return self.found.error * (1 + self.found.change) ** 2

    def convinces(self, given: Explained, options: JudgeOptions) -> bool:
        """All joints together are explained far better; or one joint is, and none worse."""
        left, free = self.found.left, self.hypothesis.free
        share, error = self.found.error / given.error, self.found.error
        if left.max() > max(options.unexplained, SAME * given.left.max()):
            return False
        if error < options.hint_below and share < (options.hint_better**2 if free else options.hint_better):
            return True
        if free or np.any(left > SAME * given.left):
            return False
        gain = float(np.max(np.where(left < SAME * options.hint_below, given.left / left, 0.0)))
        return (share < DECISIVE and error < options.unexplained) or (share < TELLING and gain > 1 / DECISIVE)


class _Case(NamedTuple):
    """The rows of all recordings, the robot as given, and what is left of the torques as given."""

    robot: Robot
    rows: MotionRows
    motion: Motion
    columns: Columns
    given: Explained

    @classmethod
    def of(cls, robot: Robot, rows: MotionRows) -> "_Case":
        motion = rows.motion
        columns = torque_map.columns(robot, motion)
        return cls(robot, rows, motion, columns, torque_map.explained(robot, motion, columns))

    @property
    def driven(self) -> Bool[np.ndarray, " n"]:
        return self.motion.u.std(0) > 0

    def tried(self, each: Hypothesis) -> _Tried:
        """One solve."""
        robot, motion = each.robot(self.robot), each.motion(self.motion)
        found = torque_map.columns(robot, motion) if each.columns is None else each.columns(self.columns)
        return _Tried(each, torque_map.explained(robot, motion, found, each.rotors))


# Hypotheses ------------------------------------------------------------------------------------------------------


def _mistakes(case: _Case, options: JudgeOptions) -> tuple[Note, ...]:
    """What is wrong with file or log."""
    missing = _missing_inputs(case)
    if missing:
        swaps = [each for each in hypotheses(case.robot, case.driven, False) if each.code == "hint-swapped"]
        return _named(case, list(map(case.tried, swaps)), options) or missing
    return _hypotheses(case, options)


def _hypotheses(case: _Case, options: JudgeOptions) -> tuple[Note, ...]:
    """The one that explains the data best, if it does."""
    if case.given.error < options.hint_fine:
        return ()
    timed = case.rows.dt is not None
    tried = [case.tried(each) for each in hypotheses(case.robot, case.driven, timed)]
    tried += [_best_gravity(case), *_best_scale(case)]
    tried += [_best_delay(case)] if timed and case.driven.any() else []
    return _named(case, tried, options)


def _named(case: _Case, tried: Sequence[_Tried], options: JudgeOptions) -> tuple[Note, ...]:
    best = min(tried, key=lambda each: each.rank, default=None)
    if best is None or not best.convinces(case.given, options):
        return ()
    found = best.hypothesis
    return (note(found.code, found.subject, before=case.given.error, after=best.found.error, **found.values),)


def _best_delay(case: _Case) -> _Tried:
    """Scanned, then between the neighbours of the best: regressors stay, inputs move."""
    problem = torque_map.normal(case.robot, case.motion, case.columns)

    def at(seconds: float) -> Explained:
        motion = case.motion._replace(u=case.rows.late(seconds))
        return torque_map.solved(torque_map.with_inputs(problem, case.robot, motion, case.columns))

    grid, seconds, least = DELAYS, 0.0, case.given
    for _ in range(FINER):
        found = [at(each) for each in grid]
        k = int(np.argmin([each.error for each in found]))
        seconds, least = float(grid[k]), found[k]
        grid = np.linspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 9)
    code = "hint-delay" if seconds > 0 else "hint-early"
    values = {"milliseconds": 1e3 * abs(seconds), "samples": abs(seconds) / (case.rows.dt or 1.0)}
    return _Tried(Hypothesis(code, "", values=values), least)


def _best_scale(case: _Case) -> list[_Tried]:
    """Inputs in another unit: their slope over what the file's bodies take, beside friction; the same at all joints."""
    takes = (case.columns.held + case.columns.moved) @ torque_map.file_parameters(case.robot).ravel()
    slopes = []
    for j in np.flatnonzero(case.driven):
        x = np.column_stack([takes[:, j], case.motion.qd[:, j], case.motion.way[:, j], np.ones(len(takes))])
        slopes.append(np.linalg.lstsq(x, case.motion.u[:, j], rcond=None)[0][0])
    factor = float(np.median(slopes)) if slopes else 1.0
    if not (factor > MOST_SCALE or 0 < factor < 1 / MOST_SCALE):
        return []
    scaled = Hypothesis(
        "hint-scale",
        "",
        lambda motion: motion._replace(u=motion.u / factor),
        columns=lambda found: found,
        values={"scale": 1 / factor},
    )
    return [case.tried(scaled)]


def _best_gravity(case: _Case) -> _Tried:
    """Its direction from the data; its length stays."""
    strength = float(np.linalg.norm(case.robot.gravity)) or 9.81
    units = [replace(case.robot, gravity=jnp.asarray(each)) for each in np.eye(3)]
    held = [torque_map.columns(each, case.motion).held for each in units]
    found = torque_map.free_gravity(case.robot, case.motion, case.columns.moved, held)
    gravity = strength * found / max(float(np.linalg.norm(found)), 1e-9)
    changed = Hypothesis(
        "hint-gravity",
        "",
        robot=lambda robot: replace(robot, gravity=jnp.asarray(gravity)),
        values={"gravity": " ".join(f"{value:.3g}" for value in gravity)},
        free=True,
    )
    return case.tried(changed)


# What the model or the log lacks ---------------------------------------------------------------------------------


def _lacking(case: _Case, model: AbstractModel | None, options: JudgeOptions) -> tuple[Note, ...]:
    """Data that a regression explains, and the fit did not: friction that it has not, or a loss that misled it."""
    if not isinstance(model, Model) or case.given.error > options.hint_below:
        return ()
    own = _own_error(case, model)
    if not case.given.error < options.hint_better * own:
        return ()
    lost = model.actuator.resistance(jnp.asarray(case.motion.q[0]), jnp.asarray(case.motion.qd.std(0)))
    rubs = float(np.sum(np.asarray(lost.dry)) + np.sum(np.asarray(lost.viscous))) > 0
    return (note("hint-loss" if rubs else "hint-friction", before=own, after=case.given.error),)


def _drifting(case: _Case, model: AbstractModel | None, options: JudgeOptions) -> tuple[Note, ...]:
    """Joints whose friction grows or falls in the course of each recording: what is left goes with that."""
    if not isinstance(model, Model) or case.rows.dt is None:
        return ()
    left, motion, found = _own_left(case, model), case.motion, []
    course = np.concatenate([np.linspace(-1, 1, len(each.signals.q))[each.chosen] for each in case.rows.stretches])
    for j, name in enumerate(case.robot.joint_names):
        columns = np.column_stack([motion.way[:, j], motion.qd[:, j]])
        both = np.column_stack([columns, course[:, None] * columns])
        before, after = (_left_beside(left[:, j], each) for each in (columns, both))
        if after < options.hint_better * before:
            found.append(note("hint-friction-drift", name, before=before, after=after))
    return tuple(found)


def _left_beside(values: Float[np.ndarray, " row"], columns: Float[np.ndarray, "row k"]) -> float:
    """The RMS of what columns do not explain."""
    solved = np.linalg.lstsq(columns, values, rcond=None)[0]
    return float(np.sqrt(np.mean(np.square(values - columns @ solved))))


def _own_left(case: _Case, model: Model) -> Float[np.ndarray, "row n"]:
    """The torques that the model itself leaves; rows have what its drives make of the inputs."""
    prompt, _ = without_delay(model)
    assert isinstance(prompt, Model)
    motion = case.motion
    idle = torques(prompt, motion.q, motion.qd, motion.qdd, np.zeros_like(motion.u))
    return np.asarray(idle.left + idle.driven - motion.u)


def _own_error(case: _Case, model: Model) -> float:
    """What the model itself leaves of the torques, as a share."""
    left, motion = _own_left(case, model), case.motion
    size = torque_map.sizes(motion, case.columns, torque_map.file_parameters(case.robot))
    shares: Float[np.ndarray, " n"] = np.sqrt(np.mean(np.square(left / size), axis=0))
    return Explained(np.maximum(shares, torque_map.LEAST_SHARE), 0.0).error


def _missing_inputs(case: _Case) -> tuple[Note, ...]:
    """Joints with a motor and without input whose motion takes torque: gravity and motion do not cancel there."""
    phi = torque_map.file_parameters(case.robot).ravel()
    held, moved = case.columns.held @ phi, case.columns.moved @ phi + np.asarray(case.robot.armature) * case.motion.qdd
    takes = (held + moved).std(0) / np.maximum(np.sqrt(held.var(0) + moved.var(0)), 1e-300)
    motors = np.asarray(case.robot.limits.effort) > 0
    found = np.flatnonzero(~case.driven & motors & (takes > NOT_FREE)) if case.driven.any() else ()
    return tuple(note("hint-input-missing", case.robot.joint_names[j], takes=float(takes[j])) for j in found)


def _one_joint(case: _Case, options: JudgeOptions) -> tuple[Note, ...]:
    """A single joint that nothing explains, where all others are."""
    left = case.given.left
    wrong = np.flatnonzero(left > options.unexplained)
    if len(wrong) != 1 or np.delete(left, wrong).max(initial=0.0) > options.hint_below:
        return ()
    return (note("hint-joint", case.robot.joint_names[int(wrong[0])], before=float(left[wrong[0]])),)


# Without any physics ---------------------------------------------------------------------------------------------


def _shuffled(tracks: Sequence[Track]) -> Iterator[Note]:
    """Positions that jump about."""
    timed = [track.measured for track in tracks if track.dt is not None and len(track) > LEAST_ROWS]
    jumps = [np.diff(q, axis=0).std(0) / np.maximum(q.std(0), 1e-300) for q in timed]
    jump = float(np.median(np.mean(jumps, axis=0))) if jumps else 0.0
    if jump > JUMPS:
        yield note("hint-shuffled", jump=jump)


def _goals(robot: Robot, tracks: Sequence[Track]) -> Iterator[Note]:
    """Inputs that are positions."""
    follows, alike = followed(tracks)
    if follows.any():
        names = ", ".join(name for name, yes in zip(robot.joint_names, follows, strict=True) if yes)
        yield note("hint-position-goal", names, alike=float(alike[follows].min()))
