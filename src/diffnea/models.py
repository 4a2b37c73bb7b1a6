"""What predicts accelerations: a robot with actuators, or a plain network."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, Real

from diffnea import dynamics
from diffnea.actuators import AbstractActuator, EnergyClass, Ideal
from diffnea.actuators.networks import Network
from diffnea.batches import batched
from diffnea.robot import Robot


class AbstractModel(eqx.Module):
    """Predicts joint accelerations from positions, velocities and commands."""

    @property
    @abstractmethod
    def num_joints(self) -> int:
        """How many joints move."""

    @property
    @abstractmethod
    def energy_class(self) -> EnergyClass:
        """What is known of the model's own energy without command."""

    @abstractmethod
    def predict(self, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]) -> Float[Array, " n"]:
        """Joint accelerations of one sample."""

    def __call__(
        self, q: Real[ArrayLike, "*#batch n"], qd: Real[ArrayLike, "*#batch n"], u: Real[ArrayLike, "*#batch n"]
    ) -> Float[Array, "*batch n"]:
        """Joint accelerations under the commands `u`."""
        return batched(acceleration, self, q=q, qd=qd, u=u)


@final
class Model(AbstractModel):
    """A robot and the actuators that drive it: `q̈ = forward dynamics under actuator(u, q, q̇)`."""

    robot: Robot
    actuator: AbstractActuator

    def __init__(self, robot: Robot, actuator: AbstractActuator | None = None):
        self.robot = robot
        self.actuator = Ideal(robot.num_joints) if actuator is None else actuator
        if self.actuator.num_joints != robot.num_joints:
            raise ValueError(
                f'Model: the actuator is for {self.actuator.num_joints} joints, robot "{robot.name}" has '
                f"{robot.num_joints}; make both for the same"
            )

    @property
    def num_joints(self) -> int:
        return self.robot.num_joints

    @property
    def energy_class(self) -> EnergyClass:
        return self.actuator.energy_class  # a robot by itself conserves energy

    def predict(self, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]) -> Float[Array, " n"]:
        return constrained(self, q, qd, self.actuator(u, q, qd), jnp.ones_like(q))

    def energy(self, q: Real[ArrayLike, "*#batch n"], qd: Real[ArrayLike, "*#batch n"]) -> Float[Array, "*batch"]:
        """The model's own energy in joules: kinetic and potential, and what its actuators store."""
        return batched(own_energy, self, q=q, qd=qd)


@final
class FeedForward(AbstractModel):
    """A plain network from (q, q̇, u) to q̈; what goes in and comes out is normalised, by numbers that are not learned.

    Joints that turn without end (`wraps`) enter by sine and cosine, so that whole turns change nothing.
    """

    network: Network
    input_mean: Float[Array, " k"]
    input_scale: Float[Array, " k"]
    output_mean: Float[Array, " n"]
    output_scale: Float[Array, " n"]
    wraps: tuple[bool, ...] = eqx.field(static=True)

    @classmethod
    def for_samples(
        cls,
        q: Float[ArrayLike, "sample n"],
        qd: Float[ArrayLike, "sample n"],
        u: Float[ArrayLike, "sample n"],
        qdd: Float[ArrayLike, "sample n"],
        key: PRNGKeyArray,
        wraps: Sequence[bool] | np.ndarray | None = None,
        width: int = 32,
        depth: int = 2,
    ) -> "FeedForward":
        """A new network with the statistics of these samples; `wraps`: which joints turn without end, None for none."""
        q, qd, u, qdd = (jnp.asarray(array, dtype=float) for array in (q, qd, u, qdd))
        turns = _truths(wraps, q.shape[-1])
        inputs = jax.vmap(lambda *sample: _inputs(turns, *sample))(q, qd, u)
        network = Network.random(key, inputs.shape[-1], q.shape[-1], width, depth)
        return cls(network, *_statistics(inputs), *_statistics(qdd), turns)

    @property
    def num_joints(self) -> int:
        return len(self.wraps)

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    def predict(self, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]) -> Float[Array, " n"]:
        fixed = (self.input_mean, self.input_scale, self.output_mean, self.output_scale)
        input_mean, input_scale, output_mean, output_scale = map(_constant, fixed)
        normal = (_inputs(self.wraps, q, qd, u) - input_mean) / input_scale
        return output_mean + output_scale * self.network(normal)

    def learned(self) -> "FeedForward":
        """Which leaves are learned: True for the network, False for the statistics."""
        off = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda model: model.network, off, jax.tree.map(lambda _: True, self.network))


@jax.custom_jvp
def _constant(x: Float[Array, " k"]) -> Float[Array, " k"]:
    """What no gradient reaches; `stop_gradient` is a primitive that kernels do not have."""
    return x


_constant.defjvp(lambda primals, tangents: (primals[0], jnp.zeros_like(primals[0])))


def unlimited(robot: Robot) -> tuple[bool, ...]:
    """Which joints turn without end: continuous ones, and revolute ones without limits."""
    free = np.isinf(np.asarray(robot.limits.lower)) & np.isinf(np.asarray(robot.limits.upper))
    return tuple(
        kind == "continuous" or (kind == "revolute" and bool(open_))
        for kind, open_ in zip(robot.tree.kinds, free, strict=True)
    )


def _truths(wraps: Sequence[bool] | np.ndarray | None, count: int) -> tuple[bool, ...]:
    truths = (False,) * count if wraps is None else tuple(bool(truth) for truth in wraps)
    if len(truths) != count:
        raise ValueError(f"wraps has {len(truths)} entries; give {count}, one a joint")
    return truths


def _inputs(
    wraps: tuple[bool, ...], q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]
) -> Float[Array, " k"]:
    turning, others = np.flatnonzero(wraps), np.flatnonzero(np.logical_not(wraps))
    return jnp.concatenate([jnp.sin(q[turning]), jnp.cos(q[turning]), q[others], qd, u])


def _statistics(rows: Float[Array, "sample k"]) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
    """Mean and spread of each column; a column that does not vary, as a passive joint's command, is left as it is."""
    mean, spread = jnp.mean(rows, 0), jnp.std(rows, 0)
    return mean, jnp.where(spread > 1e-6 * (1e-6 + jnp.abs(mean)), spread, jnp.ones_like(spread))


def acceleration(
    model: AbstractModel, q: Float[Array, " n"], qd: Float[Array, " n"], u: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Joint accelerations of one sample."""
    return model.predict(q, qd, u)


def own_energy(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, ""]:
    """The model's own energy of one sample."""
    kinetic, potential = energies(model, q, qd)
    return kinetic + potential


# A robot's dynamics with the rotors of its actuators, which may turn with several joints: M + Sᵀ J S ------------------


def inverse(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], qdd: Float[Array, " n"]) -> Float[Array, " n"]:
    """The torques that a motion takes."""
    taken = dynamics.rnea(model.robot, q, qd, qdd)
    if not model.actuator.turning:
        return taken
    turns = _turns(model, q)
    return taken + turns.T @ (model.actuator.rotors * (turns @ qdd))


def mass(model: Model, q: Float[Array, " n"]) -> Float[Array, "n n"]:
    """The mass matrix."""
    if not model.actuator.turning:
        return dynamics.crba(model.robot, q)
    turns = _turns(model, q)
    return dynamics.crba(model.robot, q) + turns.T @ (model.actuator.rotors[:, None] * turns)


def energies(model: Model, q: Float[Array, " n"], qd: Float[Array, " n"]) -> dynamics.Energy:
    """Kinetic energy, and potential energy with what the actuators store."""
    kinetic, potential = dynamics.energies(model.robot, q, qd)
    if model.actuator.turning:
        kinetic = kinetic + jnp.sum(model.actuator.rotors * (_turns(model, q) @ qd) ** 2) / 2
    return dynamics.Energy(kinetic, potential + model.actuator.potential(q))


def constrained(
    model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], tau: Float[Array, " n"], free: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Accelerations under joint torques, with joints locked where `free` is 0.

    One rotor after the other (Sherman and Morrison): `x − W J (S x) / (1 + J S W)` with `W = M⁻¹ Sᵀ`.
    """
    qdd = dynamics.constrained(model.robot, q, qd, tau, free)
    if not model.actuator.turning:
        return qdd
    turns, rotors = _turns(model, q), model.actuator.rotors
    found = [qdd, *(dynamics.solve_mass(model.robot, q, row, free) for row in turns)]
    for k, row in enumerate(turns):
        pushed = found.pop(1)
        share = rotors[k] / (1 + rotors[k] * (row @ pushed))
        found = [x - share * (row @ x) * pushed for x in found]
    return found[0]


def _turns(model: Model, q: Float[Array, " n"]) -> Float[Array, "k n"]:
    return jnp.asarray(np.array(model.actuator.turning), q.dtype)
