"""Suspicions: what looks like a wrong unit in a log, said before anything is concluded from it."""

from collections.abc import Sequence

from diffnea.recordings import Recording, RecordingError
from diffnea.recordings.diagnosis.goal_signs import goal_signs, misread_goals
from diffnea.recordings.diagnosis.unit_signs import in_other_units, unit_signs
from diffnea.robot import Robot

# Fewer samples a second tell nothing of a machine that moves; times of a log may be in milliseconds.
SLOWEST = 5.0


def suspicions(recordings: Sequence[Recording], robot: Robot) -> list[str]:
    """A sentence each, the same one once."""
    said = [sentence for recording in recordings for sentence in _signs(recording, robot)]
    return list(dict.fromkeys(said))


def unit_suspicions(recordings: Sequence[Recording], robot: Robot) -> list[str]:
    """Those after which nothing else means anything: times or positions in another unit."""
    said = []
    for recording in recordings:
        said += [*_slow(recording), *(unit_signs(recording, robot) if in_other_units(recording, robot) else ())]
    return list(dict.fromkeys(said))


def refuse_wrong_goals(recordings: Sequence[Recording], robot: Robot) -> None:
    """Raise for goals and positions that a fit could only be misled by: in another unit, or swapped."""
    for recording in recordings:
        if recording.input_kind == "goal":
            units = unit_signs(recording, robot) if in_other_units(recording, robot) else misread_goals(recording)
            if units:
                raise RecordingError(f"{recording.name}: {units[0]}")


def _signs(recording: Recording, robot: Robot) -> list[str]:
    units = unit_signs(recording, robot)
    # Distances between goals and positions mean something once their unit is right.
    goals = [] if units and recording.input_kind == "goal" else goal_signs(recording)
    return [*_slow(recording), *units, *goals]


def timing(recordings: Sequence[Recording]) -> list[str]:
    """For fits of torques: most logs have measured ones, but nothing in a file says so."""
    torques = [recording for recording in recordings if recording.input_kind != "goal"]
    if all(recording.measured or recording.qdd is not None for recording in torques):
        return []
    return ["inputs are treated as commands with zero-order hold; if they are measured torques, pass --measured"]


def _slow(recording: Recording) -> list[str]:
    if recording.rate >= SLOWEST:
        return []
    remedy = 'if its times are milliseconds, say so in a column map: time = { column = "time", unit = "ms" }'
    return [f"{recording.rate:.3g} samples a second are too few to see a motion; {remedy}"]
