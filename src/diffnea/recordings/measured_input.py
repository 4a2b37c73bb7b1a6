"""Inputs that were measured, as torques at each sample are, in place of commands that are held until the next."""

import numpy as np
from jaxtyping import Float

from diffnea.recordings.recording import Recording, RecordingError

NOTE = "inputs are measured: between two samples their mean acts"


def as_held(recording: Recording) -> Recording:
    """The commands that act like the measured inputs: between two samples their mean, which is neither late nor early.

    A recording that brings `qd` and `qdd` stays as it is: fits compare what it has at the same instant.

    Args:
        recording: the recording.
    """
    if recording.input_kind == "goal":
        raise RecordingError("inputs are position goals, which are commands; leave measured out")
    if recording.qd is not None and recording.qdd is not None:
        return recording
    return recording.replace(u=_means(recording.u), notes=(*recording.notes, NOTE), measured=True)


def _means(u: Float[np.ndarray, "time n"]) -> Float[np.ndarray, "time n"]:
    return np.concatenate([(u[:-1] + u[1:]) / 2, u[-1:]])
