"""What a command passes on its way to torque: delay, gain and saturation, a DC motor."""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from diffnea.actuators.base import AbstractActuator, EnergyClass, Quantity, Resistance, Role, Stage
from diffnea.actuators.coefficients import LEAST, counted, limited, per_joint, positive, raw_of, raw_per_joint
from diffnea.arrays import Numbers

# Added to a winding's resistance, in ohms, and a bound on gear ratios: torque per volt stays finite.
LEAST_RESISTANCE = 1e-4
MOST_GEAR = 1e4
# How near a learned delay starts to its ends, as a share of its range: at the ends themselves no gradient is left.
DELAY_MARGIN = 1e-3
# Which joints the command reaches, None for all: as given, and as kept.
Truths = Sequence[bool] | np.ndarray | None
Driven = tuple[bool, ...] | None


@final
class Delay(AbstractActuator):
    """A command that comes late: `delay` samples, learned, between 0 and `most_delay`; one for all joints or each."""

    raw: Float[Array, " k"]
    joints: int = eqx.field(static=True)
    samples: int = eqx.field(static=True)

    @classmethod
    def of(cls, delay: Numbers, num_joints: int, most: int = 8) -> "Delay":
        """A delay, in samples.

        Args:
            delay: one number is one delay that all joints share, several are one for each joint.
            num_joints: how many joints.
            most: the longest delay that can be learned, in samples.
        """
        if most < 1:
            raise ValueError(f"delay: the most is {most} samples; give a whole number from 1 on")
        array = per_joint("delay", delay, None if np.ndim(delay) == 0 else num_joints)
        if not isinstance(array, Tracer) and not np.all((np.asarray(array) >= 0) & (np.asarray(array) <= most)):
            raise ValueError(f"delay is {np.asarray(array).tolist()} samples; give from 0 to {most}")
        share = jnp.clip(array / most, DELAY_MARGIN, 1 - DELAY_MARGIN)
        return cls(jnp.log(share / (1 - share)), num_joints, int(most))

    @property
    def num_joints(self) -> int:
        return self.joints

    @property
    def stage(self) -> Stage:
        return Stage.DELAY

    @property
    def delay(self) -> Float[Array, " n"]:
        return jnp.broadcast_to(self.samples * jax.nn.sigmoid(self.raw), (self.joints,))

    @property
    def most_delay(self) -> int:
        return self.samples

    def physical(self) -> list[Quantity]:
        return [Quantity("input delay", "samples", self.delay, Role.DELAY, positive=True)]


@final
class Gain(AbstractActuator):
    """`u → g u`, and smoothly no more than a limit where one is given."""

    gain: Float[Array, " n"]
    raw_limit: Float[Array, " n"] | None = None
    driven: Driven = eqx.field(static=True, default=None)

    @classmethod
    def of(
        cls, gain: Numbers, limit: Numbers | None = None, driven: Truths = None, num_joints: int | None = None
    ) -> "Gain":
        """Gains, each one for all joints or one for each.

        Args:
            gain: torque a unit of command, of either sign.
            limit: the most torque that comes out; None: no limit.
            driven: which joints the command reaches; None: all.
            num_joints: how many joints; by default as many as there are numbers.
        """
        gains = per_joint("gain", gain, num_joints)
        count = gains.shape[0]
        return cls(gains, None if limit is None else raw_per_joint("limit", limit, count), checked(driven, count))

    @property
    def num_joints(self) -> int:
        return self.gain.shape[-1]

    @property
    def stage(self) -> Stage:
        return Stage.GAIN

    @property
    def limit(self) -> Float[Array, " n"]:
        """What comes out at most; infinite without saturation."""
        return jnp.full_like(self.gain, jnp.inf) if self.raw_limit is None else LEAST + positive(self.raw_limit)

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        raised = limited(self.gain) * u
        return only(self.driven, raised if self.raw_limit is None else self.limit * _saturate(raised / self.limit))

    def physical(self) -> list[Quantity]:
        rows = [Quantity("command gain", "per unit", only(self.driven, limited(self.gain)), Role.GAIN)]
        return (
            rows
            if self.raw_limit is None
            else [*rows, Quantity("saturation", "command", self.limit, Role.SATURATION, positive=True)]
        )


@final
class Motor(AbstractActuator):
    """A DC motor, voltage in: `τ = (N k_t / R) u − (N² k_t k_e / R) q̇`.

    The second term, back-EMF, is viscous resistance. Recordings of u and q determine only the two products,
    `torque_per_volt` and `back_emf`; their factors follow when some are known and not learned. The gear ratio N takes
    either sign, and for a joint that slides it is in rad/m.
    """

    raw_torque_constant: Float[Array, " n"]
    raw_emf_constant: Float[Array, " n"]
    raw_resistance: Float[Array, " n"]
    gear: Float[Array, " n"]
    driven: Driven = eqx.field(static=True, default=None)

    @classmethod
    def of(
        cls,
        torque_constant: Numbers,
        winding: Numbers,
        gear: Numbers = 1.0,
        emf_constant: Numbers | None = None,
        driven: Truths = None,
        num_joints: int | None = None,
    ) -> "Motor":
        """Motors, each number one for all joints or one for each.

        Args:
            torque_constant: k_t in N·m/A.
            winding: R in Ω.
            gear: N, of either sign.
            emf_constant: k_e in V·s/rad; k_t unless given.
            driven: which joints have a motor; None: all.
            num_joints: how many joints; by default as many as there are numbers.
        """
        emf = torque_constant if emf_constant is None else emf_constant
        count = counted(num_joints, torque_constant, winding, gear, emf)
        raw_per_joint("winding", winding, count)
        return cls(
            raw_per_joint("torque_constant", torque_constant, count),
            raw_per_joint("emf_constant", emf, count),
            raw_of(per_joint("winding", winding, count) - LEAST_RESISTANCE),
            per_joint("gear", gear, count),
            checked(driven, count),
        )

    @property
    def num_joints(self) -> int:
        return self.gear.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def stage(self) -> Stage:
        return Stage.MOTOR

    @property
    def torque_constant(self) -> Float[Array, " n"]:
        """k_t, in N·m/A."""
        return positive(self.raw_torque_constant)

    @property
    def emf_constant(self) -> Float[Array, " n"]:
        """k_e, in V·s/rad."""
        return positive(self.raw_emf_constant)

    @property
    def winding(self) -> Float[Array, " n"]:
        """R, the winding's resistance in Ω."""
        return LEAST_RESISTANCE + positive(self.raw_resistance)

    @property
    def torque_per_volt(self) -> Float[Array, " n"]:
        """`N k_t / R`, 0 where nothing drives the joint."""
        return only(self.driven, limited(self.gear, MOST_GEAR) * self.torque_constant / self.winding)

    @property
    def back_emf(self) -> Float[Array, " n"]:
        """`N² k_t k_e / R`, 0 where nothing drives the joint."""
        gear = limited(self.gear, MOST_GEAR)
        return only(self.driven, gear**2 * self.torque_constant * self.emf_constant / self.winding)

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        return only(self.driven, self.torque_per_volt * u)

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        return Resistance(jnp.zeros_like(qd), self.back_emf)

    def physical(self) -> list[Quantity]:
        return [
            Quantity("torque per volt", "N·m/V", self.torque_per_volt, Role.GAIN),
            Quantity("back-EMF damping", "N·m·s/rad", self.back_emf, Role.FORCE, positive=True),
            Quantity("torque constant", "N·m/A", self.torque_constant, Role.FORCE, positive=True),
            Quantity("back-EMF constant", "V·s/rad", self.emf_constant, positive=True),
            Quantity("winding resistance", "Ω", self.winding, positive=True),
            Quantity("gear ratio", "1", self.gear),
        ]


def checked(driven: Truths, count: int) -> Driven:
    """Which joints are driven, one truth a joint; None where all are."""
    if driven is None:
        return None
    truths = tuple(bool(truth) for truth in np.asarray(driven).ravel())
    if len(truths) != count:
        raise ValueError(f"driven has {len(truths)} entries; give {count}, one a joint")
    return None if all(truths) else truths


def only(driven: Driven, values: Float[Array, " n"]) -> Float[Array, " n"]:
    """The values where a joint is driven, exactly 0 elsewhere, whatever stands there."""
    return values if driven is None else jnp.where(np.array(driven), values, jnp.zeros_like(values))


def _saturate(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """`x / (1 + x⁸)^⅛`: x within 4 % up to 0.9, then smoothly to 1."""
    x = jnp.clip(x, -1e4, 1e4)  # keeps the power finite in single precision; there the result is ±1
    return x / jnp.sqrt(jnp.sqrt(jnp.sqrt(1 + x**8)))
