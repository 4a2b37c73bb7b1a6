"""What commands read: a robot by its file or its name here, recordings by their files or as a public data set."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import jax
from rich.console import Console

from diffnea.actuators import AbstractActuator
from diffnea.cli.typed_names import robot_names
from diffnea.excitation.choosing import AUTO
from diffnea.formats import load_robot
from diffnea.identify import Fit, load_fit
from diffnea.identify.progress import Watch
from diffnea.models import Model
from diffnea.recordings import Recording, RecordingError, as_held, load_recordings, public
from diffnea.recordings.columns.column_map import read_map
from diffnea.robot import Robot, pulled, require_single
from diffnea.text import count

_PARTS = ("train", "test", "all")
FEWEST = 16  # samples of a recording: fewer have no derivatives worth having


def double_precision() -> None:
    """Programs choose their precision: commands compute in double."""
    jax.config.update("jax_enable_x64", True)


def read_robot(
    name: str,
    allow_unphysical: bool = False,
    lock: Sequence[str] = (),
    base: str | None = None,
    loose: bool = False,
) -> Robot:
    """A robot from its file, or one that comes with the package by its name; a file goes first."""
    said = {"lock": _held(lock), "base": base, "couplings": not loose, "allow_unphysical": allow_unphysical}
    if not Path(name).exists() and name in robot_names():
        with resources.as_file(resources.files("diffnea.systems") / f"{name}.urdf") as path:
            return load_robot(path, **said)
    return load_robot(name, **said)


def parts_to_learn(learn: tuple[str, ...]) -> tuple[str, ...] | None:
    """As `--learn` has them; None where that is left to evidence."""
    return None if learn == (AUTO,) else learn


@dataclass(frozen=True)
class Start:
    """What a fit starts from: a robot, or an earlier fit, with the actuator that was learned."""

    robot: Robot
    fit: Fit | None = None
    actuator: AbstractActuator | None = None


def read_start(
    name: str, lock: Sequence[str] = (), free: bool = False, base: str | None = None, loose: bool = False
) -> Start:
    """A robot as `read_robot` finds it, or the fit in a folder; `free`: whether its base may be."""
    if not Path(name).is_dir():
        robot = read_robot(name, lock=lock, base=base, loose=loose)
        if not free or robot.base == "fixed":
            require_single(robot, name)
        return Start(pulled(robot))
    for option, given in {"--lock": lock, "--base": base, "--loose": loose}.items():
        if given:
            raise ValueError(f"{name}: is a fit, and its joints are as they were; leave {option} out")
    found = load_fit(name)
    if not isinstance(found.model, Model):
        raise ValueError(f"{name}: its model is a network without a robot; give a robot file, or the fit of a robot")
    return Start(found.model.robot, found, found.model.actuator)


def _held(lock: Sequence[str]) -> dict[str, float | None]:
    """Joints to lock, as "finger" or "wrist=0.5"."""
    held: dict[str, float | None] = {}
    for word in lock:
        name, given, value = word.partition("=")
        try:
            held[name] = float(value) if given else None
        except ValueError:
            raise ValueError(f'--lock {word}: "{value}" is not a number; give rad or m, as {name}=0.5') from None
    return held


def read_recordings(
    names: Sequence[str], robot: Robot, columns: str | None = None, measured: bool = False, goals: bool = False
) -> list[Recording]:
    """Recordings from files, or of a public data set as "quanser_cartpole:train", ":test" or ":all"."""
    if not names:
        raise RecordingError("no recording; give at least one")
    found = []
    for name in names:
        data, _, part = name.partition(":")
        if not Path(name).exists() and data in public.names():
            here = _public(data, part or "all", robot)
            here = [as_held(each) for each in here] if measured else here
        else:
            said = ({"measured": True} if measured else {}) | ({"input": "goal"} if goals else {})
            here = load_recordings(name, robot, {**read_map(columns), **said} if said else columns)
        longest = max(map(len, here), default=0)  # of many episodes some may be short
        if longest < FEWEST:
            raise RecordingError(f"{name}: has {count(longest, 'sample')}; give at least {FEWEST}")
        found += here
    return found


def _public(name: str, part: str, robot: Robot) -> list[Recording]:
    if part not in _PARTS:
        raise RecordingError(f'{name}:{part}: there is no part "{part}"; use {", ".join(_PARTS)}')
    train, test = public.split(name)
    chosen = {"train": train, "test": test, "all": [*train, *test]}[part]
    joints = chosen[0].joint_names
    if joints != robot.joint_names:
        ours, theirs = ", ".join(robot.joint_names), ", ".join(joints or ())
        raise RecordingError(f"{name}: its joints are {theirs}, the robot's are {ours}; use the robot of this data set")
    return chosen


@contextmanager
def at_work(what: str, quiet: bool) -> Iterator[None]:
    """Say on stderr that work goes on: a clock that moves on a terminal, one plain line elsewhere."""
    console = Console(stderr=True)
    if quiet:
        yield
    elif console.is_terminal:
        with console.status(what):
            yield
    else:
        print(f"diffnea: {what} …", file=sys.stderr)
        yield


# Elsewhere than on a terminal a line is printed when the stage changes, and now and then within one.
_SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def watching(what: str, quiet: bool) -> Iterator[Watch | None]:
    """A fit's progress on stderr, with its current error: a bar on a terminal, plain lines elsewhere."""
    if quiet:
        yield None
    elif Console(stderr=True).is_terminal:
        with _bar(what) as watch:
            yield watch
    else:
        print(f"diffnea: {what} …", file=sys.stderr)
        yield _lines()


@contextmanager
def _bar(what: str) -> Iterator[Watch]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[error]}")
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, error="")

        def watch(stage: str, step: int, steps: int, error: float) -> None:
            told = f"error {error:.3g}" if math.isfinite(error) else ""
            bar.update(task, description=f"{what}: {stage}", completed=step, total=steps or None, error=told)

        yield watch


def _lines() -> Watch:
    last, when = "", 0.0

    def watch(stage: str, step: int, steps: int, error: float) -> None:
        nonlocal last, when
        now = time.monotonic()
        if stage == last and now - when < _SECONDS_BETWEEN_LINES:
            return
        told = f", step {step} of at most {steps}, error {error:.3g}" if steps and math.isfinite(error) else ""
        print(f"diffnea: {stage}{told}", file=sys.stderr, flush=True)
        last, when = stage, now

    return watch
