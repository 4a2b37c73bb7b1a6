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
    joints: with its own alone, unless motors are coupled. `orders` are the k of each motor, 1, 2, 3 … unless given; one
    of 0 is no wave.
    """

    cosine: Float[Array, "n h"]
    sine: Float[Array, "n h"]
    reduction: tuple[float, ...] = eqx.field(static=True)
    rows: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    orders: tuple[tuple[float, ...], ...] = eqx.field(static=True, default=())

    @classmethod
    def none(
        cls, reduction: Numbers | Sequence[Sequence[float | int]], num_joints: int, harmonics: int = 3
    ) -> "Ripple":
        """No ripple yet.

        Args:
            reduction: how often the motor turns with its joint, one for all joints or one for each; or a row a joint of
                how often each of its waves comes again with a turn of it, 0 for no wave more.
            num_joints: how many joints.
            harmonics: how many waves a turn of the motor are learned, unless each is given.
        """
        turns = np.abs(np.asarray(reduction, float))
        rows = tuple(map(tuple, np.eye(num_joints).tolist()))
        if turns.ndim == 2:
            return cls._of_waves(turns, num_joints, rows)
        if turns.shape not in ((), (1,), (num_joints,)) or not np.all(np.isfinite(turns) & (turns > 0)):
            raise ValueError(
                f"ripple: reduction is {np.asarray(reduction).tolist()}; give a ratio other than 0 a joint"
            )
        if harmonics < 1:
            raise ValueError(f"ripple: {harmonics} harmonics; give a whole number from 1 on")
        waves = jnp.zeros((num_joints, harmonics))
        return cls(waves, waves, tuple(np.broadcast_to(turns, num_joints).tolist()), rows)

    @classmethod
    def _of_waves(
        cls, often: Float[np.ndarray, "joint h"], num_joints: int, rows: tuple[tuple[float, ...], ...]
    ) -> "Ripple":
        if len(often) != num_joints or not often.shape[1] or not np.all(np.isfinite(often)):
            raise ValueError(f"ripple: reduction is {often.tolist()}; give a row of finite numbers a joint")
        first = np.where(often[:, 0] > 0, often[:, 0], 1.0)
        waves, orders = jnp.zeros(often.shape), (often / first[:, None]).tolist()
        return cls(waves, waves, tuple(first.tolist()), rows, tuple(map(tuple, orders)))

    def turning_with(self, coupled: Sequence[Sequence[float | int]]) -> "Ripple":
        """With motors that turn with several joints, each in the place of the last joint it turns with."""
        rows = list(self.rows)
        for row in coupled:
            rows[int(np.flatnonzero(row)[-1])] = tuple(map(float, row))
        return Ripple(self.cosine, self.sine, self.reduction, tuple(rows), self.orders)

    def learned(self) -> "Ripple":
        """What is no wave is not learned."""
        there = self.often > 0
        return eqx.tree_at(lambda part: (part.cosine, part.sine), self, (there, there))

    @property
    def often(self) -> Float[np.ndarray, "n h"]:
        """How often each wave comes again with a turn of the joint, k N; 0 where there is none."""
        count = self.cosine.shape[-1]
        orders = np.array(self.orders) if self.orders else np.arange(1, count + 1) * np.ones((self.num_joints, 1))
        return np.array(self.reduction)[:, None] * orders

    @property
    def num_joints(self) -> int:
        return self.cosine.shape[-2]

    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        rates = jnp.asarray(self.often, q.dtype)
        turned = rates * (jnp.asarray(np.array(self.rows), q.dtype) @ q)[:, None]
        share = jnp.asarray(np.where(self.often > 0, 1 / np.where(self.often > 0, self.often, 1.0), 0.0), q.dtype)
        return jnp.sum((limited(self.sine) * jnp.cos(turned) - limited(self.cosine) * jnp.sin(turned)) * share)

    def physical(self) -> list[Quantity]:
        rows = []
        for k in range(self.cosine.shape[-1]):
            rows.append(Quantity(f"ripple of cosine {k + 1}", "N·m", self.cosine[:, k], Role.FORCE))
            rows.append(Quantity(f"ripple of sine {k + 1}", "N·m", self.sine[:, k], Role.FORCE))
        return rows
