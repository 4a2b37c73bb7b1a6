"""What to learn, chosen by evidence: parts of the actuator, armatures, zero positions, and which loss.

Each part is a few columns of a regression of torques. A part is taken where it lowers the squared residuals, in units
of their noise, by more than its number of coefficients times the logarithm of the number of independent rows: Schwarz's
approximation of the evidence. The best part goes first, until none is worth it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator, for_robot
from diffnea.identify.notes import Note, note
from diffnea.identify.options import Options
from diffnea.identify.problem.noise import correlation_time
from diffnea.identify.problem.reversals import without_reversals
from diffnea.identify.problem.tracks import Split, equations
from diffnea.identify.solve.bounded import bounded_minimum
from diffnea.identify.solve.columns import Columns, columns
from diffnea.models import Model
from diffnea.robot import Robot

# Coefficients that cannot be negative.
_POSITIVE = ("armature", "viscous", "coulomb", "grease")
# What is tried, and what each needs to be there before.
_PARTS = ("viscous", "coulomb", "stribeck", "grease", "armature", "constant", "offset", "calibration")
# A command by whose size torques differ from the file's more than this factor is no torque: its gain is learned.
_SAME_UNIT = 1.5
# Columns in the unit of torques, which a gain divides.
_PHYSICAL = ("file", "bodies", "calibration")
_NEEDS = {"stribeck": "coulomb", "offset": "constant", "grease": "coulomb"}
MOST_DELAY = 8  # samples
# Of torques: what explains less is of no use, however exact the data.
_LEAST_NOISE = 1e-3


@dataclass(frozen=True)
class Choice:
    """What was chosen, and by how much, in notes."""

    actuator: str | AbstractActuator
    loss: str
    learn: tuple[str, ...] | None
    notes: tuple[Note, ...] = ()


def choose(
    robot: Robot,
    parts: Split,
    actuator: str | AbstractActuator,
    loss: str,
    learn: Sequence[str] | None,
    method: str,
    options: Options,
    scaled: bool = True,
) -> Choice:
    """Of what is "auto" the best by the data that are fitted; what is not stays.

    `scaled` says whether the robot's masses are known at all, so that the unit of commands can be told.
    """
    named = None if learn is None else tuple(learn)
    if actuator != "auto":
        chosen, notes = _loss(loss, parts, method, actuator)
        return Choice(actuator, chosen, named, notes)
    if method == "linear":
        return Choice("stribeck", "torque" if loss == "auto" else loss, named, ())
    late = MOST_DELAY if parts.timed else 0
    rubbing = Model(robot, for_robot("stribeck", robot))  # rows that dry friction spoils tell nothing of it
    clear = without_reversals(parts, rubbing, "torque", 20 * robot.num_joints, options.problem)
    table = columns(robot, equations(clear.fitted, late, np.ones(robot.num_joints)))
    if not all(np.isfinite(part).all() for part in (*table.parts.values(), table.wanted)):
        chosen, notes = _loss(loss, parts, method, actuator)
        return Choice("ideal", chosen, named, notes)  # the fit will say so
    table, gain = _in_commands(table) if scaled else (table, 0.0)
    found = _Regression(table).greedy()
    chosen, notes = _loss(loss, parts, method, actuator)
    words = [each for each in found.names if each not in ("armature", "calibration")] + (["gain"] if gain else [])
    name = _actuator(words, found.delay)
    more = tuple(each for each in ("armature", "calibration") if each in found.names)
    kept = ("inertia", "actuator", *more) if named is None else named
    said = [note("chosen-part", part, gain=more) for part, more in found.gains]
    said += [note("chosen-gain", factor=gain)] if gain else []
    none = [] if said else [note("chosen-nothing")]
    late_words = [note("chosen-delay", samples=found.delay)] if found.delay else []
    return Choice(name, chosen, kept, (note("chosen", actuator=name), *said, *none, *late_words, *notes))


def _in_commands(table: Columns) -> tuple[Columns, float]:
    """The columns in the unit of the commands, and torque by command where these are no torques; 0 where they are.

    Each driven joint's commands are regressed on the file's torque, friction and a constant.
    """
    slopes = np.ones(table.wanted.shape[1])
    for j in np.flatnonzero(table.driven):
        kept = table.kept[:, j]
        own = [table.parts[name][kept, j, j] for name in ("armature", "viscous", "coulomb", "constant")]
        rows = np.column_stack([table.parts["file"][kept, j, 0], *own])
        size = np.linalg.norm(rows, axis=0) + 1e-300
        slopes[j] = np.linalg.lstsq(rows / size, table.wanted[kept, j, 0], rcond=1e-9)[0][0] / size[0]
    driven = np.abs(slopes[table.driven])
    middle = float(np.exp(np.median(np.log(np.maximum(driven, 1e-12))))) if len(driven) else 1.0
    if abs(np.log(middle)) < np.log(_SAME_UNIT):
        return table, 0.0
    scale = np.where(table.driven, slopes, 1.0)[None, :, None]
    parts = {name: part * scale if name in _PHYSICAL else part for name, part in table.parts.items()}
    return replace(table, parts=parts), 1 / middle


def _loss(loss: str, parts: Split, method: str, actuator: str | AbstractActuator) -> tuple[str, tuple[Note, ...]]:
    """Torques where every joint is driven; else trajectories, or accelerations where there is no order in time."""
    if loss != "auto":
        return loss, ()
    if method in ("linear", "adam"):
        return ("torque" if method == "linear" else "acceleration"), ()
    driven = np.any([np.any(track.u != 0, axis=0) for track in parts.fitted], axis=0)
    if isinstance(actuator, str) and "nn-" in actuator:
        return "acceleration", (note("loss-for-networks"),)
    if driven.all():
        return "torque", (note("loss-torque"),)
    if parts.timed:
        return "trajectory", (note("loss-trajectory", count=int((~driven).sum())),)
    return "acceleration", (note("loss-acceleration"),)


def _actuator(parts: Sequence[str], delay: float) -> str:
    """The name of an actuator of these parts."""
    names = [each for each in parts if each in ("gain", "grease", "offset")]
    names += ["constant"] if "constant" in parts and "offset" not in parts else []
    if "stribeck" in parts:
        names.append("stribeck")
    else:
        names += [each for each in ("viscous", "coulomb") if each in parts]
    names += ["delay"] if delay else []
    return "+".join(names) if names else "ideal"


@dataclass(frozen=True)
class _Found:
    names: tuple[str, ...]
    gains: tuple[tuple[str, float], ...]  # log evidence that each brought
    delay: float  # samples


class _Regression:
    """Regressions of some of the columns, each joint weighted by the noise that all of them leave."""

    def __init__(self, table: Columns):
        self.table = table
        self.weight = np.ones(table.wanted.shape[1])
        everything = [name for name in table.parts if name not in ("file", "bodies")]
        for _ in range(3):
            wrong = self._residual(everything, 0)
            self.weight = 1 / self._noise(wrong)
        count = int(table.kept.sum())
        self.price = np.log(max(count, 2))

    def greedy(self) -> _Found:
        """Part by part."""
        have: list[str] = []
        gains: list[tuple[str, float]] = []
        least = self._left(have, 0)
        while True:
            trials = [
                (self._gain(have, least, name), name) for name in _PARTS if name not in have and self._ready(name, have)
            ]
            best = max(trials, default=(0.0, ""))
            if not best[0] > 0:
                break
            have.append(best[1])
            gains.append((best[1], best[0]))
            least = self._left(have, 0)
        return _Found(tuple(have), tuple(gains), self._delay(have))

    def _ready(self, name: str, have: Sequence[str]) -> bool:
        return name not in _NEEDS or _NEEDS[name] in have

    def _gain(self, have: Sequence[str], least: float, name: str) -> float:
        """By how much the evidence rises, a logarithm."""
        count = sum(self._columns(part).shape[2] for part in self._named([name]))
        count += self.table.wanted.shape[1] if name == "stribeck" else 0  # its velocity was chosen too
        return 0.5 * (least - self._left([*have, name], 0) - count * self.price)

    def _delay(self, have: Sequence[str]) -> float:
        """In samples, where that is worth its coefficient; 0 else."""
        if self.table.wanted.shape[2] < 2 or not self.table.driven.any():
            return 0.0
        left = np.array([self._left(have, k) for k in range(self.table.wanted.shape[2])])
        best = int(np.argmin(left))
        return float(best) if left[0] - left[best] > self.price and best > 0 else 0.0

    def _named(self, names: Sequence[str]) -> list[str]:
        """Columns of these parts; of several Stribeck velocities the best one is found when it is looked at."""
        return [f"stribeck {self._curve}" if name == "stribeck" else name for name in names]

    _curve: int = 0

    def _left(self, have: Sequence[str], delay: int) -> float:
        """Squared residuals in units of their noise, and what bodies pay for leaving the file."""
        if "stribeck" not in have:
            return self._squares(self._named(have), delay)
        found = []
        for k in range(len([name for name in self.table.parts if name.startswith("stribeck")])):
            self._curve = k
            found.append(self._squares(self._named(have), delay))
        self._curve = int(np.argmin(found))
        return float(min(found))

    def _columns(self, name: str) -> Float[np.ndarray, "row n k"]:
        return self.table.parts[name]

    def _solved(self, names: Sequence[str], delay: int) -> tuple[np.ndarray, np.ndarray]:
        parts = [self._columns("bodies"), *(self._columns(name) for name in names)]
        A = np.concatenate(parts, axis=2)
        y = self.table.wanted[..., delay] - self._columns("file")[..., 0]
        scale = (self.table.kept * self.weight)[..., None]
        rows, wanted = (A * scale).reshape(-1, A.shape[2]), (y * scale[..., 0]).ravel()
        size = np.linalg.norm(rows, axis=0) + 1e-300
        prior = np.concatenate([np.ones(parts[0].shape[2]), np.full(A.shape[2] - parts[0].shape[2], 0.0)])
        prior = prior + 1e-10 * size**2
        positive = [np.zeros(parts[0].shape[2], bool)]
        positive += [np.full(p.shape[2], name in _POSITIVE) for name, p in zip(names, parts[1:], strict=True)]
        lower = np.where(np.concatenate(positive), 0.0, -np.inf)
        x = bounded_minimum(rows.T @ rows + np.diag(prior), -(rows.T @ wanted), lower)
        return x, np.append((wanted - rows @ x), np.sqrt(prior[: parts[0].shape[2]]) * x[: parts[0].shape[2]])

    def _squares(self, names: Sequence[str], delay: int) -> float:
        return float(np.sum(self._solved(names, delay)[1] ** 2))

    def _residual(self, names: Sequence[str], delay: int) -> Float[np.ndarray, "row n"]:
        rest = self._solved(names, delay)[1][: self.table.kept.size].reshape(self.table.kept.shape)
        return rest / self.weight

    def _noise(self, wrong: Float[np.ndarray, "row n"]) -> Float[np.ndarray, " n"]:
        """Standard deviation of each joint's residuals, times the root of their correlation time."""
        found = []
        for j in range(wrong.shape[1]):
            kept = self.table.kept[:, j]
            series = [wrong[kept & (self.table.segment == k), j] for k in np.unique(self.table.segment)]
            series = [each for each in series if len(each)]
            square = sum(float(each @ each) for each in series) / max(sum(map(len, series)), 1)
            found.append(np.sqrt(square * (correlation_time(series) if self.table.ordered else 1.0)))
        size = np.sqrt(np.mean(self.table.wanted[..., 0] ** 2 + self.table.parts["file"][..., 0] ** 2, axis=0))
        return np.maximum(np.array(found), np.maximum(_LEAST_NOISE * size, 1e-12))
