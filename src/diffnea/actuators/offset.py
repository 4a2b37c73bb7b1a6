"""Torque that a joint feels at rest: constant and position-dependent, as the slope of a potential."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators.base import AbstractActuator, Quantity, Role
from diffnea.actuators.coefficients import limited, static


@final
class Offset(AbstractActuator):
    """`τ(q) = c + Σ_k a_k cos(k ω q) + b_k sin(k ω q)`: a tilted rail, a cable, cogging.

    It is `−∂V/∂q` and V is part of the model's own energy, so it can neither create nor lose any. A constant torque on
    a joint that turns on and on is a potential that falls on and on: it keeps the account, not the speed. ω is 1 for
    angles; elsewhere the series repeats after `period`, best twice the range, so that both ends are free.
    """

    constant: Float[Array, " n"]
    cosine: Float[Array, "n h"]
    sine: Float[Array, "n h"]
    period: tuple[float, ...] = eqx.field(static=True)

    @classmethod
    def none(cls, num_joints: int, harmonics: int = 3, period: float | tuple[float, ...] = 2 * np.pi) -> "Offset":
        """No torque yet.

        Args:
            num_joints: how many joints.
            harmonics: how many waves a period are learned; 0 for a constant torque only.
            period: after which position it repeats, in rad or m, one for all joints or one for each.
        """
        if harmonics < 0:
            raise ValueError(f"offset: {harmonics} harmonics; give a whole number from 0 on")
        waves = jnp.zeros((num_joints, harmonics))
        return cls(jnp.zeros(num_joints), waves, waves, static("period", period, num_joints))

    @property
    def num_joints(self) -> int:
        return self.constant.shape[-1]

    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        rates = 2 * np.pi / np.array(self.period)[:, None] * np.arange(1, self.cosine.shape[-1] + 1)  # k ω
        rates = jnp.asarray(rates, q.dtype)
        waves = limited(self.sine) * jnp.cos(rates * q[:, None]) - limited(self.cosine) * jnp.sin(rates * q[:, None])
        return jnp.sum(waves / rates) - jnp.sum(limited(self.constant) * q)

    def physical(self) -> list[Quantity]:
        rows = [Quantity("constant torque", "N·m", self.constant, Role.FORCE)]
        for k in range(self.cosine.shape[-1]):
            rows.append(Quantity(f"torque of cosine {k + 1}", "N·m", self.cosine[:, k], Role.FORCE))
            rows.append(Quantity(f"torque of sine {k + 1}", "N·m", self.sine[:, k], Role.FORCE))
        return rows
