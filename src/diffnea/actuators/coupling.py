"""Coupled motors: friction and rotor of one that turns with several joints at once, as in wrists of industrial arms."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators.base import AbstractActuator, EnergyClass, Quantity, Role
from diffnea.actuators.coefficients import positive, raw_per_joint
from diffnea.arrays import Numbers


@final
class Coupling(AbstractActuator):
    """`τ = u − Sᵀ (f tanh(v / v₀) + c v / √|v| + μ v)` with `v = S q̇`, f, c and μ ≥ 0.

    A row of S says how fast a motor turns with each joint. What it takes is v times the bracket, which is never
    negative, so that energy is only ever lost, whatever the joints do one by one. Below v₀ the root is rounded off. Its
    rotor adds `Sᵀ J S` to the model's mass matrix, J ≥ 0.
    """

    raw_dry: Float[Array, " k"]
    raw_viscous: Float[Array, " k"]
    raw_root: Float[Array, " k"]
    raw_rotor: Float[Array, " k"]
    rows: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    slow: float = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        dry: Numbers,
        viscous: Numbers,
        rows: Sequence[Sequence[float | int]],
        slow: float | int = 0.05,
        root: Numbers = 0.0,
        rotor: Numbers = 0.0,
    ) -> "Coupling":
        """Motors that turn with several joints, each number one for all motors or one for each.

        Args:
            dry: f in N·m.
            viscous: μ in N·m·s/rad.
            rows: S, one row a motor: how often it turns with each joint.
            slow: v₀ in rad/s, the speed at which dry friction is reached.
            root: c in N·m/√(rad/s).
            rotor: J in kg·m², the motor's inertia as a joint feels it.
        """
        given = tuple(tuple(map(float, row)) for row in rows)
        if not given or len({len(row) for row in given}) != 1 or not all(map(any, given)):
            raise ValueError(f"coupling: rows are {list(map(list, given))}; give one row a motor, one number a joint")
        if not 0 < slow < np.inf:
            raise ValueError(f"coupling: slow is {slow:g}; give a finite speed above zero")
        count = len(given)
        return cls(
            raw_per_joint("dry", dry, count),
            raw_per_joint("viscous", viscous, count),
            raw_per_joint("root", root, count),
            raw_per_joint("rotor", rotor, count),
            given,
            float(slow),
        )

    @property
    def num_joints(self) -> int:
        return len(self.rows[0])

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def dry(self) -> Float[Array, " k"]:
        """f of each motor, in N·m."""
        return positive(self.raw_dry)

    @property
    def viscous(self) -> Float[Array, " k"]:
        """μ of each motor, in N·m·s/rad."""
        return positive(self.raw_viscous)

    @property
    def root(self) -> Float[Array, " k"]:
        """c of each motor, in N·m·√(s/rad)."""
        return positive(self.raw_root)

    @property
    def rotors(self) -> Float[Array, " k"]:
        """J of each motor, in kg·m²."""
        return positive(self.raw_rotor)

    @property
    def turning(self) -> tuple[tuple[float, ...], ...]:
        return self.rows

    def shared(
        self, q: Float[Array, " n"], qd: Float[Array, " n"], way: Float[Array, " k"] | None = None
    ) -> Float[Array, " n"]:
        turns = jnp.asarray(np.array(self.rows), qd.dtype)
        speed = turns @ qd
        rounded = jnp.sqrt(jnp.sqrt(speed**2 + self.slow**2))
        overcome = jnp.tanh(speed / self.slow) if way is None else way
        return -turns.T @ (self.dry * overcome + self.root * speed / rounded + self.viscous * speed)

    def physical(self) -> list[Quantity]:
        felt = jnp.asarray(np.abs(np.array(self.rows)).T, self.raw_dry.dtype)  # what a joint feels that moves alone
        rows = (
            ("coupled dry friction", "N·m", felt @ self.dry),
            ("coupled viscous friction", "N·m·s/rad", felt @ self.viscous),
            ("coupled friction of grease", "N·m·√(s/rad)", felt @ self.root),
            ("coupled rotor", "kg·m²", felt**2 @ self.rotors),
        )
        return [Quantity(*row, Role.FORCE, positive=True) for row in rows]
