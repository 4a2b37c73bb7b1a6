"""Mistakes: what is wrong with a robot file or a log, each undone and tried by one linear solve of torques."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from diffnea.identify.judge.mistakes import torque_map
from diffnea.identify.judge.mistakes.hypotheses import GRAVITY, ROTORS, Hypothesis, hypotheses
from diffnea.identify.judge.mistakes.motion_rows import MotionRows
from diffnea.identify.judge.mistakes.torque_map import Columns, Explained, Motion
from diffnea.identify.notes import Note, note
from diffnea.identify.options import JudgeOptions
from diffnea.robot import Robot

# Delays that are tried, s: a log may also be ahead. The best is looked for between its neighbours so often.
DELAYS, FINER = np.r_[-np.geomspace(0.05, 0.002, 8), np.geomspace(0.001, 0.4, 40)], 3
# Inputs larger or smaller than what the file's bodies take by this factor may be in another unit.
MOST_SCALE = 3.0
# Less than this share of what was left is decisive by itself; this share of all is enough where one joint decides; a
# joint is not worse up to this factor.
DECISIVE, TELLING, SAME = 1 / 3, 0.7, 1.2


class Tried(NamedTuple):
    """A hypothesis and what it leaves of the torques."""

    hypothesis: Hypothesis
    found: Explained

    def said(self, given: Explained) -> Note:
        """In words, beside what is left of the torques as given."""
        found = self.hypothesis
        return note(found.code, found.subject, before=given.error, after=self.found.error, **found.values)

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


class Case(NamedTuple):
    """The rows of all recordings, the robot as given, and what is left of the torques as given."""

    robot: Robot
    rows: MotionRows
    motion: Motion
    columns: Columns
    given: Explained

    @classmethod
    def of(cls, robot: Robot, rows: MotionRows, late: float = 0.0) -> "Case":
        """`late`: seconds by which inputs are known to act late."""
        motion = rows.motion._replace(u=rows.late(late)) if late else rows.motion
        columns = torque_map.columns(robot, motion)
        return cls(robot, rows, motion, columns, torque_map.explained(robot, motion, columns))

    @property
    def driven(self) -> Bool[np.ndarray, " n"]:
        return self.motion.u.std(0) > 0

    def tried(self, each: Hypothesis) -> Tried:
        """One solve."""
        robot, motion = each.robot(self.robot), each.motion(self.motion)
        found = torque_map.columns(robot, motion) if each.columns is None else each.columns(self.columns)
        return Tried(each, torque_map.explained(robot, motion, found, each.rotors))


# Hypotheses ------------------------------------------------------------------------------------------------------


def mistake(case: Case, options: JudgeOptions, fitted: bool = False) -> Tried | None:
    """The one that explains the data best, if it does.

    Of a model that was `fitted` to them rotors, delay and scale of the inputs are no mistakes any more.
    """
    if case.given.error < options.hint_fine:
        return None
    timed = case.rows.dt is not None
    every = hypotheses(case.robot, case.driven, timed)
    tried = [case.tried(each) for each in every if not (fitted and each.code == ROTORS)]
    tried.append(_best_gravity(case))
    if not fitted:
        tried += [*_best_scale(case), *([_best_delay(case)] if timed and case.driven.any() else [])]
    return best(case, tried, options)


def best(case: Case, tried: Sequence[Tried], options: JudgeOptions) -> Tried | None:
    """Of these, if it convinces."""
    found = min(tried, key=lambda each: each.rank, default=None)
    return found if found is not None and found.convinces(case.given, options) else None


def _best_delay(case: Case) -> Tried:
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
    return Tried(Hypothesis(code, "", values=values), least)


def _best_scale(case: Case) -> list[Tried]:
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


def _best_gravity(case: Case) -> Tried:
    """Its direction from the data; its length stays."""
    strength = float(np.linalg.norm(case.robot.gravity)) or 9.81
    units = [replace(case.robot, gravity=jnp.asarray(each)) for each in np.eye(3)]
    held = [torque_map.columns(each, case.motion).held for each in units]
    found = torque_map.free_gravity(case.robot, case.motion, case.columns.moved, held)
    gravity = strength * found / max(float(np.linalg.norm(found)), 1e-9)
    changed = Hypothesis(
        GRAVITY,
        "",
        robot=lambda robot: replace(robot, gravity=jnp.asarray(gravity)),
        values={"gravity": " ".join(f"{value:.3g}" for value in gravity)},
        free=True,
    )
    return case.tried(changed)
