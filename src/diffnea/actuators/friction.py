"""Friction in closed form: viscous, Coulomb, Stribeck's curve of dry friction, and grease, which thins with speed."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.actuators.base import AbstractActuator, EnergyClass, Quantity, Resistance, Role
from diffnea.actuators.coefficients import counted, positive, raw_per_joint
from diffnea.arrays import Numbers

DAMPING = "N·m·s/rad"
# Below this speed, in rad/s or m/s, the root is rounded off: its slope would be infinite at rest.
ROUNDED = 1e-4


@final
class Viscous(AbstractActuator):
    """`τ = u − μ q̇`; `raw` is what is learned, `viscous` is μ ≥ 0."""

    raw: Float[Array, " n"]

    @classmethod
    def of(cls, viscous: Numbers, num_joints: int | None = None) -> "Viscous":
        """Viscous friction with these coefficients.

        Args:
            viscous: μ in N·m·s/rad or N·s/m, not negative, one for all joints or one for each.
            num_joints: how many joints; by default as many as there are numbers.
        """
        return cls(raw_per_joint("viscous", viscous, num_joints))

    @property
    def num_joints(self) -> int:
        return self.raw.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def viscous(self) -> Float[Array, " n"]:
        """μ, in N·m·s/rad or N·s/m."""
        return positive(self.raw)

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        return Resistance(jnp.zeros_like(qd), self.viscous)

    def physical(self) -> list[Quantity]:
        return [Quantity("viscous friction", DAMPING, self.viscous, Role.VISCOUS, positive=True)]


@final
class Coulomb(AbstractActuator):
    """`τ = u − f sign(q̇)`; `raw` is what is learned, `coulomb` is f ≥ 0."""

    raw: Float[Array, " n"]

    @classmethod
    def of(cls, coulomb: Numbers, num_joints: int | None = None) -> "Coulomb":
        """Dry friction of these heights.

        Args:
            coulomb: f in N·m or N, not negative, one for all joints or one for each.
            num_joints: how many joints; by default as many as there are numbers.
        """
        return cls(raw_per_joint("coulomb", coulomb, num_joints))

    @property
    def num_joints(self) -> int:
        return self.raw.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def coulomb(self) -> Float[Array, " n"]:
        """f, in N·m or N."""
        return positive(self.raw)

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        return Resistance(self.coulomb, jnp.zeros_like(qd))

    def physical(self) -> list[Quantity]:
        return [Quantity("Coulomb friction", "N·m", self.coulomb, Role.FORCE, positive=True)]


@final
class Stribeck(AbstractActuator):
    """`τ = u − sign(q̇) (f_k + (f_s − f_k) exp(−ν q̇²)) − μ q̇`, with all four coefficients ≥ 0.

    In the paper's letters `f_s` is our kinetic friction f_k and `f_d` is f_s − f_k. Its dry friction is a mean of two
    non-negative numbers, so that it never drives. Static friction may be the smaller of the two: friction that rises
    with speed is as dissipative, and these are all the curves of the paper's form that are.
    """

    raw_static: Float[Array, " n"]
    raw_kinetic: Float[Array, " n"]
    raw_shape: Float[Array, " n"]
    raw_viscous: Float[Array, " n"]

    @classmethod
    def of(
        cls,
        static: Numbers,
        kinetic: Numbers,
        viscous: Numbers,
        shape: Numbers = 100.0,
        num_joints: int | None = None,
    ) -> "Stribeck":
        """Friction with these coefficients, none of them negative, each one for all joints or one for each.

        Args:
            static: f_s, dry friction at rest, in N·m or N.
            kinetic: f_k, dry friction at speed, in N·m or N.
            viscous: μ in N·m·s/rad or N·s/m.
            shape: ν in (s/rad)² or (s/m)²; `1/√ν` is the speed at which dry friction changes.
            num_joints: how many joints; by default as many as there are numbers.
        """
        given = {"static": static, "kinetic": kinetic, "shape": shape, "viscous": viscous}
        count = counted(num_joints, *given.values())
        return cls(*(raw_per_joint(name, value, count) for name, value in given.items()))

    @property
    def num_joints(self) -> int:
        return self.raw_viscous.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def static(self) -> Float[Array, " n"]:
        """f_s: dry friction at rest, in N·m or N."""
        return positive(self.raw_static)

    @property
    def kinetic(self) -> Float[Array, " n"]:
        """f_k: dry friction at speed, in N·m or N."""
        return positive(self.raw_kinetic)

    @property
    def shape(self) -> Float[Array, " n"]:
        """ν: how fast one goes over into the other, in s²/rad² or s²/m²."""
        return positive(self.raw_shape)

    @property
    def viscous(self) -> Float[Array, " n"]:
        """μ, in N·m·s/rad or N·s/m."""
        return positive(self.raw_viscous)

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        still = jnp.exp(-self.shape * qd**2)  # 1 at rest, 0 at speed
        return Resistance(self.kinetic * (1 - still) + self.static * still, self.viscous)

    def physical(self) -> list[Quantity]:
        return [
            Quantity("static friction", "N·m", self.static, Role.STATIC, positive=True),
            Quantity("kinetic friction", "N·m", self.kinetic, Role.KINETIC, positive=True),
            Quantity("Stribeck velocity", "rad/s", 1 / jnp.sqrt(self.shape), Role.STRIBECK_VELOCITY, positive=True),
            Quantity("viscous friction", DAMPING, self.viscous, Role.VISCOUS, positive=True),
        ]


@final
class Grease(AbstractActuator):
    """`τ = u − sign(q̇) c √|q̇|`, c ≥ 0: friction that grows ever more slowly with speed, as of grease in gears."""

    raw: Float[Array, " n"]

    @classmethod
    def of(cls, root: Numbers, num_joints: int | None = None) -> "Grease":
        """Friction of grease with these coefficients.

        Args:
            root: c in N·m/√(rad/s) or N/√(m/s), not negative, one for all joints or one for each.
            num_joints: how many joints; by default as many as there are numbers.
        """
        return cls(raw_per_joint("root", root, num_joints))

    @property
    def num_joints(self) -> int:
        return self.raw.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def root(self) -> Float[Array, " n"]:
        """c, in N·m·√(s/rad) or N·√(s/m)."""
        return positive(self.raw)

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        # As dry friction times q̇²/(q̇² + ε²)^¾, which is √|q̇| but for the slowest speeds, and 0 at rest.
        speed = jnp.sqrt(qd**2 + ROUNDED**2)
        return Resistance(self.root * qd**2 / (speed * jnp.sqrt(speed)), jnp.zeros_like(qd))

    def physical(self) -> list[Quantity]:
        return [Quantity("friction of grease", "N·m·√(s/rad)", self.root, Role.FORCE, positive=True)]
