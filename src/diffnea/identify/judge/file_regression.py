"""The robot file's regression, with all parts that a fit takes and with plain ones, and whether a rival beats it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.actuators import for_robot
from diffnea.identify.judge.bootstrap import mean_bound
from diffnea.identify.judge.mistakes.undoing import SAME
from diffnea.identify.judge.torque_rows import torque_rows
from diffnea.identify.options import Options
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.reversals import without_reversals
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.measurements.tracks import Split, at_instants
from diffnea.identify.solve.regression.blocks import FOLDS, Regression
from diffnea.identify.solve.regression.columns import Columns, columns
from diffnea.identify.solve.regression.part_search import MOST_DELAY, USUAL, PartsFound, named, search
from diffnea.identify.solve.regression.rival_columns import (
    DRIFTING,
    PLACED,
    READ_NOISE,
    bending,
    rival_columns,
)
from diffnea.models import Model
from diffnea.robot import Robot

# Of a joint's torques: what explains less is of no use, however exact the data; and a fit that leaves less of all of
# them meets the data exactly, as no rival could better.
NO_USE, FULLY_MET = 1e-3, 1e-5
# A joint that has fewer of its rows left than this share turns back so often that they tell little without the others.
ENOUGH_CLEAR = 1 / 3
# Parts that may stand in for what is wrong with a file: where it is right few machines have them.
STAND_INS = ("coupling", "offset", "calibration")
FRICTION = ("viscous", "coulomb", "stribeck", "grease")


@dataclass(frozen=True)
class FileRegression:
    """The file with the parts that a fit takes, all of them and those that stand in for nothing."""

    robot: Robot
    rows: tuple[Rows, ...]
    table: Columns  # of everything that is tried
    weighed: Regression
    chosen: tuple[str, ...]
    plain: tuple[str, ...]
    noise: Float[np.ndarray, " n"]  # of the readings, as a share of each joint's torques
    own: Float[np.ndarray, " n"]  # what the fit itself leaves, likewise

    @classmethod
    def of(
        cls, robot: Robot, model: Model, parts: Split, found: PartsFound | None, options: Options
    ) -> "FileRegression | None":
        parts, found, rows = _searched(robot, parts, found, options)
        late = max(0, int(found.delay))
        table = columns(robot, rows, rival_columns(_driven(rows), late))
        if not all(np.isfinite(part).all() for part in (*table.parts.values(), table.wanted)):
            return None
        weighed = _regression(table, found, late)
        chosen, plain = _with_usual(found.names), _with_usual(_plain(found.names))
        weighed.settle(named(weighed, chosen))
        size, kept = weighed.size(), weighed.table.kept
        noise = weighed.scale * np.sqrt(_mean_squares(table.parts[READ_NOISE][..., 0], kept)) / size
        left = torque_rows(model, parts.fitted).left
        own = weighed.scale * np.sqrt(np.mean(np.square(left), axis=0)) / size
        return cls(robot, rows, table, weighed, chosen, plain, np.maximum(noise, NO_USE), own)

    def left(
        self, names: Sequence[str], weighed: Regression | None = None, in_one_piece: bool = False
    ) -> Float[np.ndarray, "fold n"]:
        """Of each joint's torques in each fold, as predicted from the others, at the noise that these parts leave."""
        found = weighed or self.weighed
        taken = named(found, names)
        found.settle(taken)
        return np.maximum(np.sqrt(found.left_by_joint(taken, in_one_piece)) / found.size(), self.noise)

    def brings(self, names: Sequence[str], kinds: Sequence[str]) -> Float[np.ndarray, " n"]:
        """RMS of the torques that parts of some kinds bring among all these, in the unit of commands."""
        weighed = self.weighed
        some = [(weighed.table.parts[n], weighed.coefficients(names, n)) for n in names if n.split()[0] in kinds]
        torque = sum((part @ x for part, x in some), np.zeros(weighed.table.kept.shape))
        return np.sqrt(_mean_squares(torque, weighed.table.kept))

    def clear_of(self, joint: int) -> "FileRegression":
        """The same of rows that no reversal of one joint reaches, and the columns of its bending."""
        inner, table = self.weighed.table, self.table
        far = table.far[:, [joint]]
        enough = (inner.kept & far).sum(0) >= ENOUGH_CLEAR * inner.kept.sum(0)
        parts = {**inner.parts, bending(joint): table.parts[bending(joint)]}
        cleared = replace(inner, parts=parts, kept=inner.kept & (far | ~enough))
        return replace(self, weighed=like(self.weighed, cleared))

    def open(self, options: Options) -> bool:
        """Whether the file leaves so much that something could leave less than half of it, and the fit something."""
        if np.all(self.own[self.driven] < FULLY_MET):
            return False
        left = _over_folds(self.left(self.plain))
        return bool(np.any(self.driven & (self.noise < options.judge.hint_better * left)))

    @property
    def driven(self) -> Bool[np.ndarray, " n"]:
        return self.weighed.table.driven

    def beaten(
        self,
        rival: Sequence[str],
        options: Options,
        weighed: Regression | None = None,
        by_position: bool = False,
        simpler: bool = False,
    ) -> "Beaten | None":
        """By columns beside plain parts, or beside all; `weighed`: by a regression of other rows.

        What depends on positions must hold where joints have not been. A rival that is `simpler` than the parts that
        stand in for it need only be as good as they are.
        """
        chosen = self.left(self.chosen, in_one_piece=by_position)
        for beside in dict.fromkeys((self.plain, self.chosen)):
            same = chosen if beside == self.chosen else self.left(beside, in_one_piece=by_position)
            after = self.left([*beside, *rival], weighed, by_position)
            found = self._beaten(chosen, same, after, options, simpler and beside != self.chosen)
            if found is not None:
                return replace(found, names=tuple(named(self.weighed, [*beside, *rival])))
        return None

    def _beaten(
        self,
        chosen: Float[np.ndarray, "fold n"],
        same: Float[np.ndarray, "fold n"],
        after: Float[np.ndarray, "fold n"],
        options: Options,
        as_good: bool,
    ) -> "Beaten | None":
        """Surely, or where it is enough to be as good, no joint made worse, and less than half left of what the same
        parts leave of one."""
        gain = np.log(chosen / after)[:, self.driven].sum(1)
        before, left, whole = (_over_folds(each) for each in (same, after, chosen))
        known = left <= SAME * np.maximum(self.own, self.noise)  # else the fit knows better than this regression
        share = np.where(self.driven & known, left / before, np.inf)
        j = int(np.argmin(share))
        sure = as_good or mean_bound(gain, np.arange(FOLDS), options.judge).lower > 0
        if not sure or np.any((left > SAME * whole)[self.driven]) or not share[j] < options.judge.hint_better:
            return None
        return Beaten(j, float(gain.mean()), before, left)


@dataclass(frozen=True)
class Beaten:
    """The joint whose torques a rival explains best, what file and rival leave of each joint's, and its columns."""

    joint: int
    gain: float  # of all joints, log
    before: Float[np.ndarray, " n"]
    after: Float[np.ndarray, " n"]
    names: tuple[str, ...] = ()


# Data ------------------------------------------------------------------------------------------------------------


def _searched(
    robot: Robot, parts: Split, found: PartsFound | None, options: Options
) -> tuple[Split, PartsFound, tuple[Rows, ...]]:
    """Rows clear of reversals, with inputs as they act, and the parts that they need where none were chosen yet."""
    rubbing = Model(robot, for_robot("stribeck", robot))
    clear = without_reversals(parts, rubbing, "torque", 20 * robot.num_joints, options.problem)
    rows = _equations(robot, clear, MOST_DELAY if parts.timed else 0)
    if found is not None:
        return clear, found, rows
    found = search(columns(robot, rows), True, parts.timed)
    if found.delay >= 0:
        return clear, found, rows
    clear = at_instants(clear)
    return clear, found, _equations(robot, clear, MOST_DELAY)


def _equations(robot: Robot, parts: Split, most_delay: int) -> tuple[Rows, ...]:
    """Rows of the fitted tracks without the ways of motors that the fitted model couples: others are compared here."""
    n = robot.num_joints
    tracks = [each if each.way is None else replace(each, way=each.way[:, :n]) for each in parts.fitted]
    return equations(tracks, most_delay, np.ones(n))


def _driven(rows: Sequence[Rows]) -> Bool[np.ndarray, " n"]:
    return np.any([np.any(each.batch.u != 0, axis=(0, 1)) for each in rows], axis=0)


def _plain(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name.split()[0] not in STAND_INS)


def _with_usual(names: Sequence[str]) -> tuple[str, ...]:
    """With parts that few machines lack."""
    there = {"coulomb"} if "stribeck" in names else set()
    there |= {"constant"} if "offset" in names else set()
    return (*names, *(each for each in USUAL if each not in names and each not in there))


def _regression(table: Columns, found: PartsFound, late: int) -> Regression:
    """Of driven joints, in the unit and with the delay that were found, of the columns that are compared."""
    wanted = {*_with_usual(found.names), *_with_usual(_plain(found.names)), "coulomb", "constant"}
    first = {"file", "bodies", PLACED, DRIFTING, *(("stribeck",) if "stribeck" in wanted else ())}
    parts = {name: part for name, part in table.parts.items() if name in wanted or name.split()[0] in first}
    weighed = Regression(replace(table, parts=parts, kept=table.kept & table.driven))
    if found.gain is not None:
        weighed.scale = np.where(found.gain != 0, 1 / np.where(found.gain != 0, found.gain, 1.0), 1.0)
    weighed.late = late
    return weighed


def like(weighed: Regression, table: Columns) -> Regression:
    """A regression of other rows, in the same unit and with the same delay."""
    found = Regression(replace(table, kept=table.kept & table.driven))
    found.scale, found.late = weighed.scale, weighed.late
    return found


def _mean_squares(values: Float[np.ndarray, "row n"], kept: Bool[np.ndarray, "row n"]) -> Float[np.ndarray, " n"]:
    return np.sum(values**2 * kept, axis=0) / np.maximum(kept.sum(0), 1)


def _over_folds(shares: Float[np.ndarray, "fold n"]) -> Float[np.ndarray, " n"]:
    return np.sqrt(np.mean(shares**2, axis=0))
