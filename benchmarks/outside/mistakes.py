"""Mistakes that people make with robot files and logs, one function each, and the names a good report has for them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.outside.robots import GRAVITY, Machine, draw, nominal
from benchmarks.outside.simulate import Experiment, Log

Arrays = dict[str, np.ndarray]  # time, q and u, as they are handed over
TILTED = (0.8 * 9.81, 0.0, -0.6 * 9.81)
OTHER = 50  # added to a machine's seed: another of the same family


@dataclass(frozen=True)
class Mistake:
    """What goes wrong: in the experiment, in the robot's file, or in the log; the rest is right."""

    experiment: Callable[[Experiment], Experiment] = lambda given: given
    file: Callable[[Machine, Experiment], Machine] = lambda given, _: given
    log: Callable[[Arrays, Machine, Log], Arrays] = lambda given, *_: given


class Cause(NamedTuple):
    """How a cause may be called: codes of notes, or words in what is said, as a regular expression."""

    codes: tuple[str, ...]
    words: str


def joint_of(machine: Machine) -> int:
    """The joint that mistakes are made at: the last with a motor that turns."""
    return int(np.flatnonzero(machine.driven & ~machine.slides)[-1])


def pair_of(machine: Machine) -> tuple[int, int]:
    """Two joints to mix up: the first and the last that turn."""
    turns = np.flatnonzero(machine.driven & ~machine.slides)
    return int(turns[0]), int(turns[-1])


# In the file -----------------------------------------------------------------------------------------------------


def _axis(change: Callable[[np.ndarray], np.ndarray]) -> Mistake:
    def file(machine: Machine, _: Experiment) -> Machine:
        axes = machine.axes.copy()
        axes[joint_of(machine)] = change(axes[joint_of(machine)])
        return replace(machine, axes=axes)

    return Mistake(file=file)


def _other_machine(machine: Machine, experiment: Experiment) -> Machine:
    other = draw(experiment.family, experiment.robot + OTHER)
    return replace(nominal(other, 0.1, experiment.robot), gravity=machine.gravity)


# In the log ------------------------------------------------------------------------------------------------------


def _log(change: Callable[..., Arrays]) -> Mistake:
    return Mistake(log=lambda arrays, machine, log: {**arrays, **change(arrays, machine, log)})


def _column(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Mistake:
    """One joint's column changed."""

    def changed(arrays: Arrays, machine: Machine, _: Log) -> Arrays:
        table, joint = arrays[name].copy(), joint_of(machine)
        table[:, joint] = change(table[:, joint])
        return {name: table}

    return _log(changed)


def _swapped(name: str) -> Mistake:
    def changed(arrays: Arrays, machine: Machine, _: Log) -> Arrays:
        order, (one, other) = np.arange(machine.count), pair_of(machine)
        order[[one, other]] = other, one
        return {name: arrays[name][:, order]}

    return _log(changed)


def _degrees(arrays: Arrays, machine: Machine, _: Log) -> Arrays:
    return {"q": np.where(machine.slides, arrays["q"], np.degrees(arrays["q"]))}


def _late(samples: int) -> Mistake:
    """The log has each command so much before it acts."""
    return _log(lambda arrays, *_: {"u": np.concatenate([arrays["u"][samples:], arrays["u"][-1:].repeat(samples, 0)])})


def _shuffled(arrays: Arrays, *_: Any) -> Arrays:
    order = np.random.default_rng(0).permutation(len(arrays["q"]))
    return {"q": arrays["q"][order], "u": arrays["u"][order]}


def _made(**changes: Any) -> Mistake:
    return Mistake(experiment=lambda given: replace(given, **changes))


MISTAKES: dict[str, Mistake] = {
    "axis_turned": _axis(lambda axis: -axis),
    "axis_rolled": _axis(lambda axis: np.roll(axis, 1)),
    "q_flipped": _column("q", np.negative),
    "u_flipped": _column("u", np.negative),
    "q_swapped": _swapped("q"),
    "u_swapped": _swapped("u"),
    "degrees": _log(_degrees),
    "milliseconds": _log(lambda arrays, *_: {"time": 1000 * arrays["time"]}),
    "clock_doubled": _log(lambda arrays, *_: {"time": 2 * arrays["time"]}),
    "late_20ms": _late(5),
    "late_200ms": _late(50),
    "u_times_5": _log(lambda arrays, *_: {"u": 5 * arrays["u"]}),
    "u_times_1000": _log(lambda arrays, *_: {"u": 1000 * arrays["u"]}),
    "gravity_tilted": replace(_made(gravity=TILTED), file=lambda machine, _: replace(machine, gravity=GRAVITY)),
    "gravity_sideways": Mistake(file=lambda machine, _: replace(machine, gravity=(0.0, -9.81, 0.0))),
    "other_machine": Mistake(file=_other_machine),
    "flexible_5": _made(flexible=5.0),
    "flexible_30": _made(flexible=30.0),
    "input_missing": _column("u", np.zeros_like),
    "shuffled": _log(_shuffled),
    "goals_as_u": _log(lambda arrays, machine, log: {"u": np.where(machine.driven, log.goal, 0.0)}),
    "friction_grows": _made(drift=3.0),
    "friction_falls": _made(drift=0.25),
    "small_motion": _made(amplitude=0.02),
    "slow_motion": _made(pace=0.05),
}

# Words that several causes share.
_AXIS = r"axis\b.*(turn|revers|opposite|other (way|sense))|sign of"
_SWAP = r"swap|exchang|mixed up"
_LATE = r"\b(late|delay)"
_UNIT = r"inputs? in another unit|scale of (the )?(u|inputs?)|times too large"
_GRAVITY = r"gravity\b.*(tilt|direction|along)|tilted|mounted"
_DRIFT = r"drift|friction\b.*(chang|grow|fall|warm)"
_LITTLE = r"small(er)? motion|larger motion|motion larger|moves? (too )?little"

# What is not here (other_machine, flexible, shuffled) has no name that a log could give: there it is enough to refuse.
NAMES: dict[str, Cause] = {
    "axis_turned": Cause(("axis-reversed", "axis-sign", "sign"), _AXIS),
    "axis_rolled": Cause(("axis-direction", "axis"), r"axis\b.*(direction|along)"),
    "q_flipped": Cause(("position-sign", "axis-reversed", "axis-sign", "sign"), _AXIS),
    "u_flipped": Cause(("input-sign", "sign"), r"sign of"),
    "q_swapped": Cause(("joints-swapped", "swapped"), _SWAP),
    "u_swapped": Cause(("inputs-swapped", "joints-swapped", "swapped"), _SWAP),
    "degrees": Cause(("degrees", "position-unit"), r"degree"),
    "milliseconds": Cause(("milliseconds", "time-unit"), r"millisecond"),
    "clock_doubled": Cause(("clock", "time-unit"), r"clock|times? (is|are|runs?)\b.*(twice|2|half)"),
    "late_20ms": Cause(("input-late", "delay"), _LATE),
    "late_200ms": Cause(("input-late", "delay"), _LATE),
    "u_times_5": Cause(("input-scale", "input-unit"), _UNIT),
    "u_times_1000": Cause(("input-scale", "input-unit"), _UNIT),
    "gravity_tilted": Cause(("gravity",), _GRAVITY),
    "gravity_sideways": Cause(("gravity",), _GRAVITY),
    "input_missing": Cause(("input-missing",), r"input\b.*(missing|never|zero|absent)|no input"),
    "goals_as_u": Cause(("position-goals", "goals"), r"\bgoals?\b|position command"),
    "friction_grows": Cause(("drift", "friction-drift"), _DRIFT),
    "friction_falls": Cause(("drift", "friction-drift"), _DRIFT),
    "small_motion": Cause(("small-motion", "excitation"), _LITTLE),
    "slow_motion": Cause(("slow-motion", "excitation"), rf"slow|faster motion|{_LITTLE}"),
}
