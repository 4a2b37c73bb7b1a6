"""Small smooth networks as actuators: friction that only dissipates, a residual torque, the torque itself."""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from diffnea.actuators.base import AbstractActuator, EnergyClass, Resistance, Stage
from diffnea.actuators.coefficients import MOST, limited, positive, raw_of

# Bounds weights, so that no sum of products overflows.
MOST_WEIGHT = 1e6
# How large a new network's output is beside a full one: a start is near the ideal actuator.
SMALL = 0.01
# An effort is a positive size, whatever number stands for it, and a command is divided by it.
LEAST_EFFORT = 1e-12


@final
class Network(eqx.Module):
    """A perceptron with tanh layers: `depth` hidden ones of `width` units; its output starts small."""

    weights: tuple[Float[Array, "*joint _ _"], ...]
    biases: tuple[Float[Array, "*joint _"], ...]

    @classmethod
    def random(cls, key: PRNGKeyArray, inputs: int, outputs: int, width: int, depth: int) -> "Network":
        """Normal weights that keep the size of what passes, the last ones `SMALL` of that."""
        if width < 1 or depth < 1:
            raise ValueError(f"network: width {width} and depth {depth}; give whole numbers from 1 on")
        sizes = [inputs, *[width] * depth, outputs]
        scales = [1.0] * depth + [SMALL]
        keys = jax.random.split(key, len(scales))
        layers = zip(keys, sizes[:-1], sizes[1:], scales, strict=True)
        weights = [jax.random.normal(k, (out, n)) * (scale / np.sqrt(n)) for k, n, out, scale in layers]
        return cls(tuple(weights), tuple(jnp.zeros(size) for size in sizes[1:]))

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The outputs of one sample."""
        layers = zip(self.weights, self.biases, strict=True)
        *hidden, (weight, bias) = [(limited(w, MOST_WEIGHT), limited(b, MOST_WEIGHT)) for w, b in layers]
        for w, b in hidden:
            x = jnp.tanh(w @ x + b)
        return weight @ x + bias


@dataclass(frozen=True)
class Scales:
    """What joints look like to a network, one entry a joint: which turn, and usual sizes in the joint's units."""

    turns: tuple[bool, ...]
    reach: tuple[float, ...]
    speed: tuple[float, ...]

    def columns(self, dtype) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Reach and speed as arrays."""
        reach, speed = (jnp.asarray(np.array(row), dtype) for row in (self.reach, self.speed))
        return reach, speed


def features(scales: Scales, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, "n 3"]:
    """Sine and cosine of each position, and the velocity; a position that is no angle enters by its arctangent."""
    reach, speed = scales.columns(q.dtype)
    turns = np.array(scales.turns)
    angle = jnp.where(turns, q, 0.0)
    length = q / reach
    hypotenuse = jnp.sqrt(1 + length**2)
    sine = jnp.where(turns, jnp.sin(angle), length / hypotenuse)
    cosine = jnp.where(turns, jnp.cos(angle), 1 / hypotenuse)
    return jnp.stack([sine, cosine, qd / speed], -1)


def joint_networks(key: PRNGKeyArray, num_joints: int, inputs: int, width: int, depth: int) -> Network:
    """One network a joint, of one output each, stacked."""
    return jax.vmap(lambda k: Network.random(k, inputs, 1, width, depth))(jax.random.split(key, num_joints))


def _size(effort: Float[Array, " n"]) -> Float[Array, " n"]:
    """A usual effort, positive."""
    return jnp.clip(jnp.abs(effort), LEAST_EFFORT, MOST)


def without_effort(actuator: Any) -> Any:
    """Which leaves of a network are learned: all but its scale."""
    return eqx.tree_at(lambda part: part.effort, jax.tree.map(lambda _: True, actuator), False)


def _outputs(networks: Network, inputs: Float[Array, "n k"]) -> Float[Array, " n"]:
    return jax.vmap(lambda network, x: network(x)[0])(networks, inputs)


@final
class NetworkFriction(AbstractActuator):
    """`τ = u − sign(q̇) f(q, q̇)` with f ≥ 0 the softplus of a network, joint by joint.

    Softplus where the paper takes the absolute value: smooth where the network's output passes zero.
    """

    networks: Network
    effort: Float[
        Array, " n"
    ]  # what is usual: not learned, and no constant, so that robots of one shape share programs
    scales: Scales = eqx.field(static=True)

    @classmethod
    def random(
        cls,
        key: PRNGKeyArray,
        scales: Scales,
        effort: Float[Array, " n"],
        dry: Float[Array, " n"],
        width: int = 8,
        depth: int = 2,
    ) -> "NetworkFriction":
        """Networks whose friction starts near `dry` everywhere.

        Args:
            key: of the random weights, as `jax.random.key(0)`.
            scales: which joints turn, and what is usual of them: their reach and speed.
            effort: the torque of an output of 1, one a joint.
            dry: friction to start from, in N·m or N, one a joint.
            width: units of a layer.
            depth: hidden layers.
        """
        networks = joint_networks(key, len(scales.turns), 3, width, depth)
        level = raw_of(dry / effort)[:, None]
        biases = (*networks.biases[:-1], level.astype(networks.biases[-1].dtype))
        return cls(Network(networks.weights, biases), effort, scales)

    def learned(self) -> "NetworkFriction":
        return without_effort(self)

    @property
    def num_joints(self) -> int:
        return len(self.scales.turns)

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        share = positive(_outputs(self.networks, features(self.scales, q, qd)))
        return Resistance(_size(self.effort) * share, jnp.zeros_like(qd))


@final
class NetworkResidual(AbstractActuator):
    """`τ = u + f(q, q̇)` with f a network, joint by joint."""

    networks: Network
    effort: Float[Array, " n"]
    scales: Scales = eqx.field(static=True)

    @classmethod
    def random(
        cls, key: PRNGKeyArray, scales: Scales, effort: Float[Array, " n"], width: int = 8, depth: int = 2
    ) -> "NetworkResidual":
        """Networks whose torque starts near zero.

        Args:
            key: of the random weights, as `jax.random.key(0)`.
            scales: which joints turn, and what is usual of them: their reach and speed.
            effort: the torque of an output of 1, one a joint.
            width: units of a layer.
            depth: hidden layers.
        """
        return cls(joint_networks(key, len(scales.turns), 3, width, depth), effort, scales)

    def learned(self) -> "NetworkResidual":
        return without_effort(self)

    @property
    def num_joints(self) -> int:
        return len(self.scales.turns)

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    def residual(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        return _size(self.effort) * _outputs(self.networks, features(self.scales, q, qd))


@final
class NetworkTorque(AbstractActuator):
    """`τ = f(u, q, q̇)` with f a network, joint by joint; a direct path from u, learned too, starts it near ideal."""

    networks: Network
    direct: Float[Array, " n"]
    effort: Float[Array, " n"]
    scales: Scales = eqx.field(static=True)

    @classmethod
    def random(
        cls, key: PRNGKeyArray, scales: Scales, effort: Float[Array, " n"], width: int = 8, depth: int = 2
    ) -> "NetworkTorque":
        """Networks whose torque starts near the command.

        Args:
            key: of the random weights, as `jax.random.key(0)`.
            scales: which joints turn, and what is usual of them: their reach and speed.
            effort: the torque of an output of 1, one a joint.
            width: units of a layer.
            depth: hidden layers.
        """
        count = len(scales.turns)
        return cls(joint_networks(key, count, 4, width, depth), jnp.ones(count), effort, scales)

    def learned(self) -> "NetworkTorque":
        return without_effort(self)

    @property
    def num_joints(self) -> int:
        return len(self.scales.turns)

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    @property
    def stage(self) -> Stage:
        return Stage.NETWORK

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.zeros_like(u)  # the command goes through the network

    def residual(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        effort = _size(self.effort)
        inputs = jnp.concatenate([features(self.scales, q, qd), (u / effort)[:, None]], -1)
        return limited(self.direct) * u + effort * _outputs(self.networks, inputs)
