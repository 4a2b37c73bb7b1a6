"""Commands in ROS 2 bags: efforts, plain numbers, or position goals, as messages or as trajectories of points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea.recordings.recording import InputKind, RecordingError
from diffnea.recordings.ros import cdr

KINDS = (cdr.JOINT_STATE, cdr.FLOATS, cdr.TRAJECTORY)


@dataclass(frozen=True)
class Command:
    """What a message asks of some joints (None: of all, in order): a row a point, `after` so many ns; a goal or not."""

    start: int
    joints: tuple[str, ...] | None
    after: Int[np.ndarray, " point"]
    values: Float[np.ndarray, "point m"]
    goal: bool

    def commands(self, joint: str) -> bool:
        """Whether it says something of a joint."""
        return self.joints is None or joint in self.joints


def choose_command(topics: Mapping[str, str], asked: str | None, input_kind: InputKind | None) -> str | None:
    """The topic of commands: the one asked for, or the only one of trajectories."""
    if asked is not None and topics.get(asked) not in KINDS:
        found = topics.get(asked, "not there")
        raise RecordingError(f'command_topic "{asked}" is {found}; use one with {", ".join(KINDS)}')
    goals = [topic for topic, kind in topics.items() if kind == cdr.TRAJECTORY]
    return goals[0] if asked is None and len(goals) == 1 and input_kind != "command" else asked


def decode(data: bytes, kind: str, logged: int, input_kind: InputKind | None) -> list[Command]:
    """The command of a message; none where it says nothing."""
    if kind == cdr.TRAJECTORY:
        path = cdr.joint_trajectory(data)
        found = Command(path.stamp or logged, path.names, path.after, path.positions, True)
        return [found] if len(path.after) else []
    if kind == cdr.FLOATS:
        return [Command(logged, None, np.zeros(1, np.int64), cdr.floats(data)[None], input_kind == "goal")]
    message = cdr.joint_state(data)
    given = {"command": message.effort, "speed": message.velocity, "goal": message.position}
    if input_kind is not None:
        given = {input_kind: given[input_kind]}
    which = next((key for key, values in given.items() if len(values)), None)
    if which is None:
        return []
    return [Command(logged, message.names, np.zeros(1, np.int64), given[which][None], which == "goal")]


def in_force(
    stamps: Int[np.ndarray, " time"], commands: Sequence[Command], names: Sequence[str], topic: str
) -> tuple[Float[np.ndarray, "time n"], Bool[np.ndarray, " time"]]:
    """The command at each stamp, zero where there is none, and which stamps have one for every joint commanded.

    One message is held until the next. Between the points of a trajectory goals go along straight lines, from where
    the message found them, as ROS's joint_trajectory_controller has it.
    """
    if not commands:
        raise RecordingError(f'command_topic "{topic}" has no messages')
    if len({command.goal for command in commands}) > 1:
        raise RecordingError(f'{topic} has goals and other commands; say input = "goal" or "command" in columns')
    commands = sorted(commands, key=lambda command: command.start)
    ends = np.searchsorted(stamps, [*(command.start for command in commands[1:]), np.iinfo(np.int64).max])
    begins = np.searchsorted(stamps, [command.start for command in commands])
    values, now = np.full((len(stamps), len(names)), np.nan), np.full(len(names), np.nan)
    places = {name: k for k, name in enumerate(names)}
    for k, command in enumerate(commands):
        joints = tuple(names) if command.joints is None else command.joints
        if command.values.shape[1] != len(joints):
            count = command.values.shape[1]
            raise RecordingError(f"{topic} commands {count} numbers for {len(joints)} joints; give one a joint")
        here = [(places[name], m) for m, name in enumerate(joints) if name in places]
        later = commands[k + 1].start if k + 1 < len(commands) else command.start
        at = np.append(stamps[begins[k] : ends[k]], later) - command.start
        rows = np.tile(now, (len(at), 1))
        for place, m in here:
            rows[:, place] = _along(at, command.after, command.values[:, m], now[place])
        values[begins[k] : ends[k]], now = rows[:-1], rows[-1]
    commanded = np.isfinite(values).any(0)
    return np.nan_to_num(values), np.all(np.isfinite(values[:, commanded]), axis=1)


def _along(at: np.ndarray, after: np.ndarray, values: np.ndarray, before: float) -> np.ndarray:
    """A joint's goal on its way through the points of a message."""
    if after[0] > 0:
        after, values = np.append(0, after), np.append(values[0] if np.isnan(before) else before, values)
    return np.interp(at.astype(float), after.astype(float), values)
