"""Torque ripple: what a motor's poles and its gear's teeth add, again with every turn of the motor."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators.base import AbstractActuator, Quantity, Role
from diffnea.actuators.coefficients import limited
from diffnea.arrays import Numbers


@final
class Ripple(AbstractActuator):
    """`τ = u + Sᵀ Σ_k (a_k cos(k N s) + b_k sin(k N s))` with `s = S q`; N is how often the motor turns with a joint.

    It is `−∂V/∂q` and V is part of the model's own energy, as for `Offset`. A row of S says how a motor turns with the
    joints: with its own alone, unless motors are coupled.
    """

    cosine: Float[Array, "n h"]
    sine: Float[Array, "n h"]
    reduction: tuple[float, ...] = eqx.field(static=True)
    rows: tuple[tuple[float, ...], ...] = eqx.field(static=True)

    @classmethod
    def none(cls, reduction: Numbers, num_joints: int, harmonics: int = 3) -> "Ripple":
        """No ripple yet.

        Args:
            reduction: how often the motor turns with its joint, one for all joints or one for each.
            num_joints: how many joints.
            harmonics: how many waves a turn of the motor are learned.
        """
        turns = np.abs(np.asarray(reduction, float))
        if turns.shape not in ((), (1,), (num_joints,)) or not np.all(np.isfinite(turns) & (turns > 0)):
            raise ValueError(
                f"ripple: reduction is {np.asarray(reduction).tolist()}; give a ratio other than 0 a joint"
            )
        if harmonics < 1:
            raise ValueError(f"ripple: {harmonics} harmonics; give a whole number from 1 on")
        waves = jnp.zeros((num_joints, harmonics))
        rows = tuple(map(tuple, np.eye(num_joints).tolist()))
        return cls(waves, waves, tuple(np.broadcast_to(turns, num_joints).tolist()), rows)

    def turning_with(self, coupled: Sequence[Sequence[float | int]]) -> "Ripple":
        """With motors that turn with several joints, each in the place of the last joint it turns with."""
        rows = list(self.rows)
        for row in coupled:
            rows[int(np.flatnonzero(row)[-1])] = tuple(map(float, row))
        return Ripple(self.cosine, self.sine, self.reduction, tuple(rows))

    @property
    def num_joints(self) -> int:
        return self.cosine.shape[-2]

    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        rates = jnp.asarray(np.array(self.reduction)[:, None] * np.arange(1, self.cosine.shape[-1] + 1), q.dtype)  # k N
        turned = rates * (jnp.asarray(np.array(self.rows), q.dtype) @ q)[:, None]
        return jnp.sum((limited(self.sine) * jnp.cos(turned) - limited(self.cosine) * jnp.sin(turned)) / rates)

    def physical(self) -> list[Quantity]:
        rows = []
        for k in range(self.cosine.shape[-1]):
            rows.append(Quantity(f"ripple of cosine {k + 1}", "N·m", self.cosine[:, k], Role.FORCE))
            rows.append(Quantity(f"ripple of sine {k + 1}", "N·m", self.sine[:, k], Role.FORCE))
        return rows
