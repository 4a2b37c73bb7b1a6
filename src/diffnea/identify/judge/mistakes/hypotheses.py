"""Hypotheses: mistakes in a robot file or a log that happen, each as what undoes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.files import Json
from diffnea.identify.judge.mistakes.torque_map import Columns, Motion
from diffnea.robot import Robot

DEGREE = np.pi / 180
# How many true seconds a second of a log may be: round factors, since another size of the machine looks like another
# clock.
CLOCKS = tuple(factor for n in (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0, 10.0) for factor in (n, 1 / n))
UNITS_OF_TIME = {1e-3: "ms", 1e-6: "us", 1e-9: "ns"}
ROTORS = "hint-armature"  # the code of rotors that the file lacks
GRAVITY = "hint-gravity"  # of gravity that points elsewhere
# Other zeros of angles: by quarters of a turn, and those of a home pose in which a link stands upright and the next is
# level.
QUARTERS, HOME = (90.0, -90.0, 180.0), ((-90.0, 90.0), (90.0, -90.0))


@dataclass(frozen=True)
class Hypothesis:
    """One mistake: its code, whose it is, and data and robot without it."""

    code: str
    subject: str
    motion: Callable[[Motion], Motion] = lambda motion: motion
    robot: Callable[[Robot], Robot] = lambda robot: robot
    columns: Callable[[Columns], Columns] | None = None  # where regressors need not be worked out again
    values: Json = field(default_factory=dict)
    rotors: bool = False
    free: bool = False  # whether it has numbers of its own that fit the data


def hypotheses(robot: Robot, driven: np.ndarray, timed: bool) -> Iterator[Hypothesis]:
    """All of this robot, `driven` by inputs at these joints, but delays and gravity, which are searched for."""
    names = robot.joint_names
    for j, name in enumerate(names):
        yield from _turned(j, name, robot, bool(driven[j]))
    for i in range(len(names)):
        for j in range(i + 1, len(names)):
            yield Hypothesis(
                "hint-swapped", names[i], _swapped(i, j, "q", "qd", "qdd", "way", "u"), values={"other": names[j]}
            )
            if driven[i] and driven[j]:
                yield Hypothesis("hint-inputs-swapped", names[i], _swapped(i, j, "u"), values={"other": names[j]})
                states = _swapped(i, j, "q", "qd", "qdd", "way")
                yield Hypothesis("hint-positions-swapped", names[i], states, values={"other": names[j]})
    yield from _zeros(robot)
    if robot.turning.any():
        factor = np.where(robot.turning, DEGREE, 1.0)
        yield Hypothesis("hint-degrees", "", _scaled(factor))
    for factor in CLOCKS if timed else ():
        yield _clock(factor)
    for factor, unit in UNITS_OF_TIME.items() if timed else ():
        yield Hypothesis("hint-time-unit", "", _clocked(factor), columns=_slowed(factor), values={"unit": unit})
    yield Hypothesis(ROTORS, "", columns=lambda found: found, rotors=True, free=True)


def _clock(factor: float) -> Hypothesis:
    return Hypothesis(
        "hint-clock", "", _clocked(factor), columns=_slowed(factor), values={"factor": float(factor)}, free=True
    )


def _turned(j: int, name: str, robot: Robot, driven: bool) -> Iterator[Hypothesis]:
    """Signs and axes of one joint."""
    link = int(robot.joint_links[j])
    axis = np.asarray(robot.axis[link], float)
    states, turned = ("q", "qd", "qdd", "way"), {"axis": _text(-axis)}
    if driven:
        yield Hypothesis("hint-position-sign", name, _flipped(j, *states))
        yield Hypothesis("hint-input-sign", name, _flipped(j, "u"), columns=lambda found: found)
    yield Hypothesis("hint-axis-turned", name, _flipped(j, *states, "u"), values=turned)
    for sign in (1, -1):
        for places in (1, 2):
            other = sign * np.roll(axis, places)
            if not np.allclose(np.abs(other), np.abs(axis)):
                yield Hypothesis("hint-axis", name, robot=_with_axis(link, other), values={"axis": _text(other)})


def _zeros(robot: Robot) -> Iterator[Hypothesis]:
    """Angles that are counted from elsewhere; at the base that is another direction of gravity, or nothing."""
    places = {link: j for j, link in enumerate(robot.joint_links.tolist())}
    parents = {j: places.get(robot.tree.parents[link]) for link, j in places.items()}
    for j, parent in parents.items():
        if parent is None or not robot.turning[j]:
            continue
        for quarter in QUARTERS:
            yield _counted(robot, {j: quarter})
        if parents[parent] is not None and robot.turning[parent]:
            for first, second in HOME:
                yield _counted(robot, {parent: first, j: second})


def _counted(robot: Robot, degrees: dict[int, float]) -> Hypothesis:
    """Angles with so much added."""
    shift = np.zeros(robot.num_joints)
    shift[list(degrees)] = np.deg2rad(list(degrees.values()))
    named = [(robot.joint_names[j], by) for j, by in degrees.items()]
    cure = " and ".join(f"{np.deg2rad(by):.6g} under [joints.{name}]" for name, by in named)
    values = {"degrees": " and ".join(f"{by:g}°" for _, by in named), "cure": cure}
    subject = '", "'.join(name for name, _ in named)
    return Hypothesis("hint-zero", subject, lambda motion: motion._replace(q=motion.q + shift), values=values)


def _text(axis: Float[np.ndarray, "3"]) -> str:
    return " ".join(f"{value + 0.0:.6g}" for value in axis)


def _with_axis(link: int, axis: Float[np.ndarray, "3"]) -> Callable[[Robot], Robot]:
    return lambda robot: replace(robot, axis=robot.axis.at[link].set(jnp.asarray(axis, robot.axis.dtype)))


def _flipped(j: int, *keys: str) -> Callable[[Motion], Motion]:
    def change(motion: Motion) -> Motion:
        sign = np.where(np.arange(motion.q.shape[1]) == j, -1.0, 1.0)
        return motion._replace(**{key: sign * getattr(motion, key) for key in keys})

    return change


def _swapped(i: int, j: int, *keys: str) -> Callable[[Motion], Motion]:
    def change(motion: Motion) -> Motion:
        order = np.arange(motion.q.shape[1])
        order[[i, j]] = j, i
        return motion._replace(**{key: getattr(motion, key)[:, order] for key in keys})

    return change


def _scaled(factor: Float[np.ndarray, " n"]) -> Callable[[Motion], Motion]:
    return lambda motion: motion._replace(**{key: factor * getattr(motion, key) for key in ("q", "qd", "qdd")})


def _clocked(factor: float) -> Callable[[Motion], Motion]:
    """The same with a clock whose second is so many true ones."""
    return lambda motion: motion._replace(qd=motion.qd / factor, qdd=motion.qdd / factor**2)


def _slowed(factor: float) -> Callable[[Columns], Columns]:
    """Of torques, all but gravity goes with one over time squared."""
    return lambda found: found._replace(moved=found.moved / factor**2)
