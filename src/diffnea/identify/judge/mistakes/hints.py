"""Hints: which mistake explains data that a fit does not: each is tried, by one linear solve of torques."""

from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.judge.mistakes import torque_map
from diffnea.identify.judge.mistakes.hypotheses import hypotheses
from diffnea.identify.judge.mistakes.motion_rows import LEAST_ROWS, motion_rows
from diffnea.identify.judge.mistakes.torque_map import Explained
from diffnea.identify.judge.mistakes.undoing import Case, best, mistake
from diffnea.identify.judge.windows import without_delay
from diffnea.identify.notes import Note, note
from diffnea.identify.options import JudgeOptions
from diffnea.identify.problem.besides_bodies import besides_bodies
from diffnea.identify.problem.measurements.goals import followed
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import AbstractModel, Model
from diffnea.robot import Robot

# Samples in order differ by less than this share of their spread from one to the next; shuffled ones by 1.4.
JUMPS = 1.0
# Of a joint that swings freely, gravity and motion cancel up to this share of both, by the bodies of its file.
NOT_FREE = 0.7


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
        found = _mistakes(Case.of(robot, given), options)
        if found and found[0].code != "hint-scale":
            return found
    case = Case.of(robot, rows)
    return (
        _mistakes(case, options)
        or _drifting(case, model, options)
        or _lacking(case, model, options)
        or _one_joint(case, options)
    )


# Mistakes --------------------------------------------------------------------------------------------------------


def _mistakes(case: Case, options: JudgeOptions) -> tuple[Note, ...]:
    """What is wrong with file or log."""
    missing = _missing_inputs(case)
    if not missing:
        found = mistake(case, options)
        return () if found is None else (found.said(case.given),)
    swaps = [each for each in hypotheses(case.robot, case.driven, False) if each.code == "hint-swapped"]
    found = best(case, list(map(case.tried, swaps)), options)
    return missing if found is None else (found.said(case.given),)


# What the model or the log lacks ---------------------------------------------------------------------------------


def _lacking(case: Case, model: AbstractModel | None, options: JudgeOptions) -> tuple[Note, ...]:
    """Data that a regression explains, and the fit did not: friction that it has not, or a loss that misled it."""
    if not isinstance(model, Model) or case.given.error > options.hint_below:
        return ()
    own = _own_error(case, model)
    if not case.given.error < options.hint_better * own:
        return ()
    lost = model.actuator.resistance(jnp.asarray(case.motion.q[0]), jnp.asarray(case.motion.qd.std(0)))
    rubs = float(np.sum(np.asarray(lost.dry)) + np.sum(np.asarray(lost.viscous))) > 0
    return (note("hint-loss" if rubs else "hint-friction", before=own, after=case.given.error),)


def _drifting(case: Case, model: AbstractModel | None, options: JudgeOptions) -> tuple[Note, ...]:
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


def _own_left(case: Case, model: Model) -> Float[np.ndarray, "row n"]:
    """The torques that the model itself leaves; rows have what its drives make of the inputs."""
    prompt, _ = without_delay(model)
    assert isinstance(prompt, Model)
    motion = case.motion
    idle = torques(prompt, motion.q, motion.qd, motion.qdd, np.zeros_like(motion.u))
    return np.asarray(idle.left + idle.driven - motion.u)


def _own_error(case: Case, model: Model) -> float:
    """What the model itself leaves of the torques, as a share."""
    left, motion = _own_left(case, model), case.motion
    size = torque_map.sizes(motion, case.columns, torque_map.file_parameters(case.robot))
    shares: Float[np.ndarray, " n"] = np.sqrt(np.mean(np.square(left / size), axis=0))
    return Explained(np.maximum(shares, torque_map.LEAST_SHARE), 0.0).error


def _missing_inputs(case: Case) -> tuple[Note, ...]:
    """Joints with a motor and without input whose motion takes torque: gravity and motion do not cancel there."""
    phi = torque_map.file_parameters(case.robot).ravel()
    beside = besides_bodies(case.robot, *case.motion[:3])
    held, moved = case.columns.held @ phi, case.columns.moved @ phi + beside
    takes = (held + moved).std(0) / np.maximum(np.sqrt(held.var(0) + moved.var(0)), 1e-300)
    motors = np.asarray(case.robot.joint_limits.effort) > 0
    found = np.flatnonzero(~case.driven & motors & (takes > NOT_FREE)) if case.driven.any() else ()
    return tuple(note("hint-input-missing", case.robot.joint_names[j], takes=float(takes[j])) for j in found)


def _one_joint(case: Case, options: JudgeOptions) -> tuple[Note, ...]:
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
