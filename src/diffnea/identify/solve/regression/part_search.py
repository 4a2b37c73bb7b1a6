"""Which parts a model needs, by regressions of torques: hypotheses are weighed on blocks that were left out.

A part, a few columns of the regression, is taken where blocks in time that were left out are predicted better with it:
the logarithm of their error falls by more than one standard error over the folds. Of several parts alike, as the
couplings, the best must do so by as much more as makes it no likelier to be chance. What makes them the most probable
goes first, until none is worth it; then those go again that others have made superfluous. A gain and a delay, one
number a joint and one in all, are weighed by Schwarz's approximation of the evidence.

Equations of passive joints have nothing on their other side: they are met best by bodies that vanish. So they count
only where no joint is driven at all, and then with weights of the file's size on average.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import stdtr, stdtrit

from diffnea.identify.solve.regression.blocks import FOLDS, Regression
from diffnea.identify.solve.regression.columns import Columns, coupled_row

# Columns of a motion that takes such torques.
Reference = Callable[[Float[np.ndarray, " n"]], Mapping[str, np.ndarray]]
# What is tried of driven robots, and of those that swing freely; couplings come with it.
_DRIVEN = ("viscous", "coulomb", "stribeck", "grease", "armature", "constant", "offset", "calibration")
_FREE = ("viscous", "coulomb", "stribeck", "grease")
# What must hold where joints have not been.
_BY_POSITION = ("calibration",)
# What each contains.
_CONTAINS = {"stribeck": "coulomb", "offset": "constant"}
# Noise is first told with these parts, which few machines lack.
USUAL = ("viscous", "coulomb", "armature", "constant")
MOST_DELAY = 8  # samples
# Noise, scale and parts are found in turn.
_TURNS = 2
# A logarithm of evidence below the first is not worth mentioning, above the second it is strong (Jeffreys). Strong is
# what is wanted of parts that few machines have.
_MENTIONED, _STRONG = 0.5 * np.log(10), np.log(10)
_SELDOM = ("grease", "offset", "calibration", "coupling")
# Of a fold without rows nothing is left, with any part.
_EMPTY_FOLD = 1e-9


@dataclass(frozen=True)
class PartsFound:
    """What was found."""

    names: tuple[str, ...]
    gains: tuple[tuple[str, float], ...]  # log evidence that each brought
    delay: float  # samples; below zero where inputs are measured
    sooner: float  # log evidence that the delay brought
    gain: Float[np.ndarray, " n"] | None  # torque by command, where commands are no torques
    left: float  # of the torques, the worst driven joint's share
    lasting: float  # the same of what lasts over several rows, as noise does not
    driven: bool  # whether every joint is
    usual: tuple[str, ...] = ()  # parts that few machines lack, not taken, which would do no harm
    regression: Regression | None = None  # with their columns, for what is looked for after them
    error: Float[np.ndarray, " n"] | None = None  # of torques of the reference motion, as a share of their size
    accelerated: Float[np.ndarray, " n"] | None = None  # share of the recorded torques that accelerations take


def search(table: Columns, scaled: bool, timed: bool, reference: Reference | None = None) -> PartsFound:
    """Parts, scale and delay of the commands, and noise, in turn; `reference` has columns of other motion."""
    driven = table.driven
    if driven.any():
        table = replace(table, kept=table.kept & driven)
    if timed and driven.any():  # measured inputs are half a sample ahead of held ones
        ahead = 1.5 * table.wanted[..., :1] - 0.5 * table.wanted[..., 1:2]
        table = replace(table, wanted=np.concatenate([table.wanted, ahead], axis=2))
    weighed = Regression(table)
    both = driven if driven.any() else ~driven  # of what is coupled, every joint has equations
    couplings = [n for n in weighed.names if n.startswith("coupling") and both[np.flatnonzero(coupled_row(n))].all()]
    candidates = [*(_DRIVEN if driven.any() else _FREE), *couplings]
    have = [name for name in USUAL if name in candidates]
    gain, more, delay, sooner, gains = None, 0.0, 0.0, 0.0, []
    for _ in range(_TURNS):
        weighed.settle(named(weighed, have))
        if scaled and driven.any():
            gain, more = _gain(weighed, named(weighed, have))
        delay, sooner = _delay(weighed, have)
        weighed.settle(named(weighed, have))
        gains = _Greedy(weighed, candidates).run()
        have = [name for name, _ in gains]
    shares = weighed.share(named(weighed, have)), weighed.lasting(named(weighed, have))
    worst, lasting = (float(max(each[weighed.table.kept.any(0)], default=0.0)) for each in shares)
    brought = [*gains, *([("gain", more)] if gain is not None else [])]
    every = bool(driven.all())
    usual = _Greedy(weighed, candidates).harmless(have) if every else ()
    error = None if reference is None else _foretold(weighed, [*have, *usual], reference)
    taken = table.moving / (weighed.size() / weighed.scale)
    shared = worst, lasting, every, usual, weighed
    return PartsFound(tuple(have), tuple(brought), delay, sooner, gain, *shared, error, taken)


def _foretold(weighed: Regression, have: Sequence[str], reference: Reference) -> Float[np.ndarray, " n"]:
    """The standard error of torques of the reference motion, as a share of their size by the file."""
    parts = reference(weighed.size() / weighed.scale)
    size = np.sqrt(np.mean(parts["file"][..., 0] ** 2, axis=0)) * weighed.scale
    return weighed.foretold(named(weighed, have), parts) / np.maximum(size, 1e-300)


def _gain(weighed: Regression, have: Sequence[str]) -> tuple[np.ndarray | None, float]:
    """Torque by command of each joint where commands are no torques, and the log evidence of that.

    The regression keeps the scale that was found.
    """
    driven = weighed.table.driven
    rotorless = [name for name in have if name != "armature"]  # which would stand in for the file's inertia
    weighed.scale, factor = np.ones_like(weighed.scale), np.ones_like(weighed.scale)
    for _ in range(_GAIN_ROUNDS):
        factor = np.where(driven, 1 + weighed.coefficients([*rotorless, "gain"], "gain"), 1.0)
        weighed.scale = weighed.scale * np.clip(factor, 0.1, 10.0)
        weighed.settle([*rotorless, "gain"])
    scale, within = weighed.scale, weighed.left([*have, "gain"])
    weighed.scale = np.ones_like(scale)
    more = 0.5 * (weighed.left(have) - within - driven.sum() * np.log(weighed.rows))
    factors = np.log(scale[driven])
    # Another unit is one factor for all, or nearly so; a joint by itself may have a file that is wrong. Of a command of
    # the wrong sign, or of one that does nothing, less and less is taken.
    found = np.all((factor > 0.5) & (factor < 2.0))
    if not (found and more > _NO_TORQUES and abs(factors.mean()) > factors.std()):
        return None, 0.0
    weighed.scale = scale
    return np.where(driven, 1 / scale, 0.0), float(more)


# Rounds in which a gain, which multiplies what is learned, is found; what it must bring: of twenty logs whose commands
# are near the file's torques, in one they are something else.
_GAIN_ROUNDS, _NO_TORQUES = 8, 3.0


def _delay(weighed: Regression, have: Sequence[str]) -> tuple[float, float]:
    """In samples, and the log evidence against none; the regression keeps it. Measured inputs have no number more, and
    are the likelier where every joint has one: most logs of arms have measured torques.
    """
    count = weighed.table.wanted.shape[2]
    if count < 2 or not weighed.table.driven.any():
        return 0.0, 0.0
    left, names = [], named(weighed, have)
    for k in range(count):
        weighed.late = k
        left.append(weighed.left(names) + (np.log(weighed.rows) if 0 < k <= MOST_DELAY else 0.0))
    if count > MOST_DELAY + 1 and weighed.table.driven.all():
        left[-1] -= 2 * _MENTIONED
    weighed.late = int(np.argmin(left))
    return float(weighed.late if weighed.late <= MOST_DELAY else -0.5), 0.5 * (left[0] - min(left))


def named(weighed: Regression, names: Sequence[str]) -> list[str]:
    """Columns of these parts and of what they contain; of several Stribeck velocities the best one."""
    contained = [_CONTAINS[name] for name in names if name in _CONTAINS]
    whole = [*names, *(name for name in contained if name not in names)]
    if "stribeck" not in whole:
        return whole
    curves = [name for name in weighed.names if name.startswith("stribeck")]
    several = [[curve if name == "stribeck" else name for name in whole] for curve in curves]
    return min(several, key=weighed.left)


def best_of_several(count: int) -> float:
    """In standard errors over the folds, what the best of so many rises by as seldom by chance as a single one by one
    (Bonferroni, Student's distribution)."""
    freedom = FOLDS - 1
    return -float(stdtrit(freedom, stdtr(freedom, -1.0) / max(count, 1)))


def sure_gain(
    before: Float[np.ndarray, " fold"], after: Float[np.ndarray, " fold"], alike: int = 1, least: float = _MENTIONED
) -> float:
    """By how much folds that are left out become more probable, a logarithm; 0 where that may be chance, or less than
    counts."""
    gain, fall = float((before - after).sum()) / 2, np.log((before + _EMPTY_FOLD) / (after + _EMPTY_FOLD))
    sure = fall.mean() > best_of_several(alike) * np.std(fall, ddof=1) / np.sqrt(len(fall))
    return gain if sure and gain > least else 0.0


@dataclass(frozen=True)
class _Greedy:
    """The best part first, while it raises the evidence; then back."""

    weighed: Regression
    candidates: Sequence[str]

    def run(self) -> list[tuple[str, float]]:
        """What was taken, with the log evidence that it brought when it was."""
        have: list[tuple[str, float]] = []
        while True:
            names = [name for name, _ in have]
            alone, shared = self._next(names)
            best = self._best(names, alone)
            best = best if best[0] > 0 else self._best(names, shared)
            if not best[0] > 0:
                break
            have.append((best[1], best[0]))
        for name, brought in list(have):
            others = [each for each, _ in have if each != name]
            within = _CONTAINS.get(name)
            less = [*others, within] if within else others
            if self._gain(less, name) <= 0:  # superfluous, or all that it contains
                without = [pair for pair in have if pair[0] != name]
                have = [*without, (within, brought)] if within and self._gain(others, within) > 0 else without
        return have

    def harmless(self, have: Sequence[str]) -> tuple[str, ...]:
        """Usual parts that were not taken, and with which blocks left out are not surely predicted worse."""
        found = list(have)
        for name in self._next(have)[0]:
            if name in USUAL:
                before, after = self._left_out(found, name)
                gain = (before - after) / 2
                found += [name] if gain.sum() > -np.std(gain, ddof=1) * np.sqrt(len(gain)) else []
        return tuple(found[len(have) :])

    def _best(self, names: Sequence[str], more: Sequence[str]) -> tuple[float, str]:
        return max(((self._gain(names, name), name) for name in more), default=(0.0, ""))

    def _next(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """What may come next: of joints by themselves, and of several together once those rub."""
        there = [*names, *(_CONTAINS[name] for name in names if name in _CONTAINS)]
        ready = [each for each in self.candidates if each not in there]
        rubbing = {"viscous", "coulomb", "stribeck", "grease"} & set(names)
        shared = [each for each in ready if each.startswith("coupling")]
        return [each for each in ready if each not in shared], shared if rubbing else []

    def _gain(self, names: Sequence[str], name: str) -> float:
        """By how much blocks that are left out are predicted better, a logarithm; 0 where that may be chance.

        It is chance where the logarithm of their errors falls by less than one standard error over the folds, or where
        it is less than is wanted of such a part. What depends on positions must hold where joints have not been.
        """
        alike = [each for each in self.candidates if each.split()[0] == name.split()[0]]
        least = _STRONG if name.split()[0] in _SELDOM else _MENTIONED
        return sure_gain(*self._left_out(names, name), len(alike), least)

    def _left_out(self, names: Sequence[str], name: str) -> tuple[np.ndarray, np.ndarray]:
        """What is left of each fold without and with one more part."""
        both = (named(self.weighed, each) for each in (names, [*names, name]))
        before, after = (self.weighed.left_out(each, name in _BY_POSITION) for each in both)
        return before, after
