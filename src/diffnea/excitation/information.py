"""Information: how much a motion tells of what is learned, as a function of the motion that can be differentiated."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import dynamics, kernels
from diffnea.identify.problem.residuals import Form
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.models import Model, inverse
from diffnea.models import torques as brought

CRITERIA = ("D", "E")
# Directions with less than this share of the most that random states tell are taken for unknowable.
_UNKNOWABLE = 1e-9
# The softened smallest eigenvalue: the mean of λ⁻ᵖ to the power −1/p.
_SOFTNESS = 4
# Rounds until friction by load agrees with the torque that overcomes it; each divides what is missing by several.
LOAD_ROUNDS = 3


class Torques(NamedTuple):
    """What a motion takes of the drives, and how the torque balance changes with θ."""

    slopes: Float[Array, "*time v p"]
    drive: Float[Array, "*time n"]
    joints: tuple[Array, Array, Array] | None = None  # q, q̇ and q̈, where other coordinates were planned
    beyond: Float[Array, "time k"] | None = None  # what else must not be above zero
    goals: Float[Array, "*time n"] | None = None  # under which servos bring it


@lru_cache(maxsize=64)
def _kernel(form: Form) -> Callable[..., Torques]:
    def torques(theta, leaves, q, qd, qdd) -> Torques:
        model = form.model(theta, leaves)
        needed = inverse(model, q, qd, qdd)
        servo = model.actuator.loop is not None
        u = goal(model, needed, q, qd) if servo else command(model, needed, q, qd)

        def balance(theta):
            model = form.model(theta, leaves)
            given = brought(model, q, qd, u) if servo else model.actuator(u, q, qd)
            return inverse(model, q, qd, qdd) - given

        _, pull = jax.vjp(balance, theta)
        slopes = jax.vmap(lambda unit: pull(unit)[0])(jnp.eye(len(q), dtype=q.dtype))
        if servo:
            return Torques(slopes, model.actuator.drive(u, q, qd), goals=u)
        return Torques(slopes, needed - model.actuator(jnp.zeros_like(u), q, qd))

    return kernels.compile(torques)


def command(
    model: Model, needed: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The command that brings the needed torque; drives are straight lines in it."""
    nothing = jnp.zeros_like(q)
    idle, slope = jax.jvp(lambda u: model.actuator(u, q, qd), (nothing,), (jnp.ones_like(q),))
    driven = slope != 0
    return jnp.where(driven, (needed - idle) / jnp.where(driven, slope, jnp.ones_like(slope)), nothing)


def goal(model: Model, needed: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
    """The goal under which a servo brings the needed torque; friction by load follows the torque itself."""
    loop = model.actuator.loop
    assert loop is not None
    rest = model.actuator(q, q, qd) - model.actuator.drive(q, q, qd)
    motor = bare = needed - rest
    for _ in range(LOAD_ROUNDS):
        motor = bare + model.actuator.loaded(motor, -dynamics.bias(model.robot, q, qd), qd) * jnp.sign(qd)
    driven = loop.stiffness > 0
    error = (motor + loop.damping * qd) / jnp.where(driven, loop.stiffness, jnp.ones_like(q))
    slack = jnp.zeros_like(q) if loop.slack is None else loop.slack
    return jnp.where(driven, q + error + jnp.sign(error) * slack, jnp.zeros_like(q))


@dataclass(frozen=True)
class Information:
    """The information of motions about θ; rows are divided by the torque's usual noise."""

    free: Unknowns
    theta: Float[np.ndarray, " p"]  # where it is looked at
    noise: Float[np.ndarray, " n"]  # standard deviation of the torque of each joint
    directions: Float[np.ndarray, "p r"]  # those of θ that some motion tells

    @property
    def smooth(self) -> bool:
        """Whether torques have derivatives in the motion."""
        return True

    def torques(self, q, qd, qdd) -> Torques:
        """Slopes and torques of many samples."""
        leaves, structure, masks = self.free.nameless()
        function = _kernel(Form.of("torque", structure, masks))
        return jax.vmap(function, (None, None, 0, 0, 0))(jnp.asarray(self.theta), leaves, q, qd, qdd)

    def matrix(self, slopes: Float[Array, "time n p"]) -> Float[Array, "r r"]:
        """The information matrix in the directions that can be told."""
        rows = (slopes / jnp.asarray(self.noise)[None, :, None]) @ jnp.asarray(self.directions)
        flat = rows.reshape(-1, rows.shape[-1])
        return flat.T @ flat

    def score(self, slopes: Float[Array, "time n p"], criterion: str) -> Float[Array, ""]:
        """Mean logarithm of the eigenvalues (D), or of the smallest, softened (E): larger is better."""
        matrix = self.matrix(slopes)
        count = len(matrix)
        tiny = 1e-12 * jnp.trace(matrix) / count
        values = jnp.maximum(jnp.linalg.eigvalsh(matrix), tiny)
        if criterion == "D":
            return jnp.mean(jnp.log(values))
        smallest = jnp.log(values)
        return -jax.nn.logsumexp(-_SOFTNESS * smallest) / _SOFTNESS


def information(
    free: Unknowns, noise: Float[np.ndarray, " n"], states: Float[np.ndarray, "three sample n"]
) -> Information:
    """Of these unknowns; what can be told at all is read off `states`, random q, q̇ and q̈ over the joints' limits."""
    whole = Information(free, free.start, noise, np.eye(free.size))
    return replace(whole, directions=knowable(whole, states))


def knowable(whole: Information, states: Float[np.ndarray, "three sample n"]) -> Float[np.ndarray, "p r"]:
    """Directions of θ that some of these states tell."""
    torques = whole.torques(*(jnp.asarray(array) for array in states))
    values, vectors = np.linalg.eigh(np.asarray(whole.matrix(torques.slopes)))
    return vectors[:, values > _UNKNOWABLE * values[-1]]
