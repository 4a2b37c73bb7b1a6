"""Errors of whole motions in steps half as long: what inner steps of finite length leave in an estimate.

Encoders are read to half a milliradian, and so far do inner steps go. What is missing bends play and friction by more
than the scatter of readings does, so that intervals have to know of it.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator, Combined, Delay
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.servo.lanes import Lanes, Predictor, lanes
from diffnea.models import Model


def finer_errors(model: Model, tracks: Sequence[Track], data: Lanes) -> Float[np.ndarray, "row n"]:
    """Errors of the rows of `data` that are compared, of samples that are halved: all of a step is, masses too."""
    prompt = Model(model.robot, _halved_delay(model.actuator), model.contact)
    halves = lanes([_halved(track) for track in tracks], prompt.actuator.most_delay)
    one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], prompt)
    came = Predictor(halves, prompt)(one)[0]
    errors = np.zeros_like(data.measured)
    for k in range(data.count):
        errors[data.motion == k] = came[halves.motion == k][::2] - data.measured[data.motion == k]
    return errors.reshape(-1, model.num_joints)[data.compared_rows]


def _halved(track: Track) -> Track:
    """Each sample twice, in half of its time."""
    q, u = (np.repeat(each, 2, axis=0) for each in track.from_start())
    gain = track.gains_from_start()
    twice = None if gain is None else np.repeat(gain, 2, axis=0)
    return Track(track.name, float(track.dt or 1.0) / 2, q, q, q, u, q, gain=twice)


def _halved_delay(actuator: AbstractActuator) -> AbstractActuator:
    """The same delays, counted in halves of samples."""

    def halved(part: AbstractActuator) -> AbstractActuator:
        if not isinstance(part, Delay):
            return part
        count = part.raw.shape[0]
        late = 2 * np.asarray(part.delay)
        return Delay.of(late if count > 1 else float(late[0]), part.joints, 2 * part.samples)

    if not isinstance(actuator, Combined):
        return halved(actuator)
    return eqx.tree_at(lambda whole: whole.parts, actuator, tuple(map(halved, actuator.parts)))
