"""Small smooth networks as actuators: friction that only dissipates, a residual torque, the torque itself."""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from diffnea.actuators.base import AbstractActuator, EnergyClass, Resistance, Stage
from diffnea.actuators.coefficients import limited, positive, raw_of

# Bounds weights, so that no sum of products overflows.
MOST_WEIGHT = 1e6
# How large a new network's output is beside a full one: a start is near the ideal actuator.
SMALL = 0.01


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
    effort: tuple[float, ...]

    def columns(self, dtype) -> tuple[Float[Array, " n"], Float[Array, " n"], Float[Array, " n"]]:
        """Reach, speed and effort as arrays."""
        reach, speed, effort = (jnp.asarray(np.array(row), dtype) for row in (self.reach, self.speed, self.effort))
        return reach, speed, effort


def features(scales: Scales, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, "n 3"]:
    """Sine and cosine of each position, and the velocity; a position that is no angle enters by its arctangent."""
    reach, speed, _ = scales.columns(q.dtype)
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


def _outputs(networks: Network, inputs: Float[Array, "n k"]) -> Float[Array, " n"]:
    return jax.vmap(lambda network, x: network(x)[0])(networks, inputs)


@final
class NetworkFriction(AbstractActuator):
    """`τ = u − sign(q̇) f(q, q̇)` with f ≥ 0 the softplus of a network, joint by joint.

    Softplus where the paper takes the absolute value: smooth where the network's output passes zero.
    """

    networks: Network
    scales: Scales = eqx.field(static=True)

    @classmethod
    def random(
        cls, key: PRNGKeyArray, scales: Scales, dry: Float[Array, " n"], width: int = 8, depth: int = 2
    ) -> "NetworkFriction":
        """Networks whose friction starts near `dry` everywhere."""
        networks = joint_networks(key, len(scales.turns), 3, width, depth)
        level = raw_of(dry / scales.columns(dry.dtype)[2])[:, None]
        biases = (*networks.biases[:-1], level.astype(networks.biases[-1].dtype))
        return cls(Network(networks.weights, biases), scales)

    @property
    def num_joints(self) -> int:
        return len(self.scales.turns)

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        share = positive(_outputs(self.networks, features(self.scales, q, qd)))
        return Resistance(self.scales.columns(q.dtype)[2] * share, jnp.zeros_like(qd))


@final
class NetworkResidual(AbstractActuator):
    """`τ = u + f(q, q̇)` with f a network, joint by joint."""

    networks: Network
    scales: Scales = eqx.field(static=True)

    @classmethod
    def random(cls, key: PRNGKeyArray, scales: Scales, width: int = 8, depth: int = 2) -> "NetworkResidual":
        """Networks whose torque starts near zero."""
        return cls(joint_networks(key, len(scales.turns), 3, width, depth), scales)

    @property
    def num_joints(self) -> int:
        return len(self.scales.turns)

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    def residual(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.scales.columns(q.dtype)[2] * _outputs(self.networks, features(self.scales, q, qd))


@final
class NetworkTorque(AbstractActuator):
    """`τ = f(u, q, q̇)` with f a network, joint by joint; a direct path from u, learned too, starts it near ideal."""

    networks: Network
    direct: Float[Array, " n"]
    scales: Scales = eqx.field(static=True)

    @classmethod
    def random(cls, key: PRNGKeyArray, scales: Scales, width: int = 8, depth: int = 2) -> "NetworkTorque":
        """Networks whose torque starts near the command."""
        count = len(scales.turns)
        return cls(joint_networks(key, count, 4, width, depth), jnp.ones(count), scales)

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
        effort = self.scales.columns(q.dtype)[2]
        inputs = jnp.concatenate([features(self.scales, q, qd), (u / effort)[:, None]], -1)
        return limited(self.direct) * u + effort * _outputs(self.networks, inputs)
