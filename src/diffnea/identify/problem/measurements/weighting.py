"""How much a residual counts: one over the usual size of what is compared, joint by joint."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators import AbstractActuator, Combined
from diffnea.actuators.base import Stage
from diffnea.batches import gravity_torque, mass_matrix
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import AbstractModel, Model


def scales(loss: str, model: AbstractModel, tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """What residuals are multiplied with."""
    qdd = np.concatenate([track.qdd for track in tracks])
    usual = _torques(model, tracks, qdd) if loss == "torque" and isinstance(model, Model) else qdd.std(0)
    largest = float(usual.max(initial=0.0))
    # A joint that never moves still takes part, like the one that moves most.
    return 1 / np.where(usual > 1e-9 * largest, usual, largest or 1.0)


def _torques(model: Model, tracks: Sequence[Track], qdd: np.ndarray) -> Float[np.ndarray, " n"]:
    """What is commanded, where commands are torques; elsewhere what the start takes."""
    own = _torque(model, np.concatenate([track.q for track in tracks]), qdd)
    given = np.sqrt(np.mean(np.concatenate([track.u for track in tracks]) ** 2, axis=0))
    return np.where((given > 0) & _commands_are_torques(model.actuator), given, own)


def _commands_are_torques(actuator: AbstractActuator) -> bool:
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    return all(part.stage in (Stage.DELAY, Stage.TORQUE) for part in parts)


def _torque(model: Model, q: np.ndarray, qdd: np.ndarray) -> Float[np.ndarray, " n"]:
    """What it takes to move each joint by itself and to hold it; a passive joint too has such a size."""
    q, qdd = q[:: max(1, len(q) // 1000)], qdd[:: max(1, len(qdd) // 1000)]
    own = np.einsum("skk->sk", np.asarray(mass_matrix(model.robot, jnp.asarray(q)))) * qdd
    held = np.asarray(gravity_torque(model.robot, jnp.asarray(q)))
    return np.sqrt(np.mean(own**2 + held**2, axis=0))
