"""Mistakes that people make with robot files and logs, one function each, and the names a good report has for them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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


def joint_of(machine: Machine) -> int:
    """The joint that mistakes are made at: the last with a motor that turns."""
    return int(np.flatnonzero(machine.driven & ~machine.slides)[-1])


def inner_joint(machine: Machine) -> int:
    """The last that turns, has a motor and carries another joint; one at the base only where there is no other."""
    carries = {piece.parent for piece in machine.pieces}
    turns = [j for j in np.flatnonzero(machine.driven & ~machine.slides) if j in carries]
    return int(max(turns, key=lambda j: (machine.pieces[j].parent >= 0, j)))


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


def _column(
    name: str, change: Callable[[np.ndarray], np.ndarray], which: Callable[[Machine], int] = joint_of
) -> Mistake:
    """One joint's column changed."""

    def changed(arrays: Arrays, machine: Machine, _: Log) -> Arrays:
        table, joint = arrays[name].copy(), which(machine)
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
    "q_quarter": _column("q", lambda column: column + np.pi / 2, inner_joint),
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

# What changes nothing: the only joint of this family that turns and carries another stands upright at the base.
NO_MISTAKES = {("q_quarter", "rpr")}

# Codes of the notes that name each mistake. What is not here (other_machine, flexible, shuffled) need not be named by a
# log, though "hint-placement" and "hint-bending" often do: there it is enough to refuse.
NAMES: dict[str, tuple[str, ...]] = {
    "axis_turned": ("hint-axis-turned", "hint-position-sign"),
    "axis_rolled": ("hint-axis",),
    "q_flipped": ("hint-position-sign", "hint-axis-turned"),
    "u_flipped": ("hint-input-sign",),
    "q_swapped": ("hint-positions-swapped", "hint-swapped"),
    "u_swapped": ("hint-inputs-swapped", "hint-swapped"),
    "q_quarter": ("hint-zero", "hint-gravity", "far-zero"),
    "degrees": ("hint-degrees",),
    "milliseconds": ("hint-time-unit",),
    "clock_doubled": ("hint-clock",),
    "late_20ms": ("hint-delay", "chosen-delay"),
    "late_200ms": ("hint-delay", "chosen-delay"),
    "u_times_5": ("hint-scale", "chosen-gain", "another-robot"),
    "u_times_1000": ("hint-scale", "chosen-gain", "another-robot"),
    "gravity_tilted": ("hint-gravity",),
    "gravity_sideways": ("hint-gravity",),
    "input_missing": ("hint-input-missing",),
    "goals_as_u": ("hint-position-goal", "chosen-servo"),
    "friction_grows": ("hint-friction-drift",),
    "friction_falls": ("hint-friction-drift",),
    "small_motion": ("hint-small-motion", "positions-are-noise"),
    "slow_motion": ("hint-small-motion", "hint-slow-motion"),
}
