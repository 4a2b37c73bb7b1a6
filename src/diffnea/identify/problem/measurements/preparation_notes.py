"""Notes on robot and data before a fit: what was done to them, and which joints stand still."""

from collections.abc import Sequence

import numpy as np

from diffnea.identify.notes import Note, note
from diffnea.identify.problem.measurements.tracks import VIBRATION, Split
from diffnea.models import FeedForward
from diffnea.robot import Robot


def still_joints(parts: Split, names: Sequence[str]) -> list[Note]:
    """Joints that the fitted data say nothing of."""
    moved = np.ptp(np.concatenate([track.q for track in parts.fitted]), axis=0) > 0
    return [note("still", name) for name, moves in zip(names, moved, strict=True) if not moves]


def about_data(given: Robot | FeedForward, parts: Split) -> tuple[Note, ...]:
    """What was done to robot and data before the fit; what limits its use stands with the verdict."""
    locked = given.source.locked if isinstance(given, Robot) and given.source is not None else ()
    words = ", ".join(f"{name} at {value:g}" for name, value in locked)
    held = (note("locked", said=words),) if locked else ()
    done = (each for each in parts.notes if each.code != VIBRATION)
    return (*held, *done, *parts.said, note("kept-back", said=parts.kept_back))
