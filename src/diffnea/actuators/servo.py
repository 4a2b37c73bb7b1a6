"""Servos: position goals in, torque out; limits, play of the gear, friction that grows with its load, ways of goals."""

from dataclasses import replace
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from diffnea.actuators.base import AbstractActuator, EnergyClass, Quantity, Role, Stage
from diffnea.actuators.coefficients import LEAST, counted, per_joint, positive, raw_per_joint
from diffnea.actuators.drives import Driven, Truths, checked, only
from diffnea.actuators.goals.goal_profile import GoalProfile
from diffnea.actuators.goals.position_loop import PositionLoop
from diffnea.arrays import Numbers


@final
class Servo(AbstractActuator):
    """`τ = kp (g − q) − kd q̇`, where the command g is a position goal; `Limit` holds it back.

    Goals that are held add no energy, beside what is stored between goal and position (`PositionLoop`). `steps` inner
    steps are made for each sample: position loops are much faster than logs. Where logs say what gain a firmware was
    set to, kp is that of the gain `reference`, and `at_gain` is the servo of another: kp in proportion, kd the same,
    and neither at 0, where torque is off.
    """

    raw_stiffness: Float[Array, " n"]
    raw_damping: Float[Array, " n"]
    raw_dead_band: Float[Array, " n"] | None = None
    driven: Driven = eqx.field(static=True, default=None)
    steps: int = eqx.field(static=True, default=4)
    reference: tuple[float, ...] | None = eqx.field(static=True, default=None)
    share: Float[Array, " n"] | None = None  # of the reference's gain; None: all of it

    @classmethod
    def of(
        cls,
        stiffness: Numbers,
        damping: Numbers = 0.0,
        dead_band: Numbers | None = None,
        driven: Truths = None,
        num_joints: int | None = None,
        steps: int = 4,
    ) -> "Servo":
        """Servos, each number one for all joints or one for each.

        Args:
            stiffness: kp in N·m/rad.
            damping: kd in N·m·s/rad.
            dead_band: how far off its goal a joint rests without torque, in rad; None: nowhere.
            driven: which joints have a servo; None: all.
            num_joints: how many joints; by default as many as `stiffness` has numbers.
            steps: inner steps of a roll-out a sample.
        """
        if steps < 1:
            raise ValueError(f"servo: steps is {steps}; give a whole number from 1 on")
        count = per_joint("stiffness", stiffness, num_joints).shape[0]
        return cls(
            raw_per_joint("stiffness", stiffness, count),
            raw_per_joint("damping", damping, count),
            None if dead_band is None else raw_per_joint("dead_band", dead_band, count),
            checked(driven, count),
            int(steps),
        )

    @property
    def num_joints(self) -> int:
        return self.raw_stiffness.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def stage(self) -> Stage:
        return Stage.SERVO

    @property
    def inner_steps(self) -> int:
        return self.steps

    @property
    def stiffness(self) -> Float[Array, " n"]:
        """kp, in N·m/rad or N/m, 0 where nothing drives the joint."""
        found = only(self.driven, positive(self.raw_stiffness))
        return found if self.share is None else self.share * found

    @property
    def damping(self) -> Float[Array, " n"]:
        """kd, in N·m·s/rad or N·s/m, 0 where nothing drives the joint."""
        found = only(self.driven, positive(self.raw_damping))
        return found if self.share is None else jnp.where(self.share > 0, found, 0.0)

    def at_gain(self, gain: Float[ArrayLike, " n"]) -> "Servo":
        gain = jnp.asarray(gain)
        return replace(self, share=gain if self.reference is None else gain / jnp.asarray(self.reference, gain.dtype))

    def learned(self) -> "Servo":
        """All but what a log says of its gain."""
        every = jax.tree.map(lambda _: True, self)
        return every if self.share is None else replace(every, share=False)

    @property
    def loop(self) -> PositionLoop:
        slack = None if self.raw_dead_band is None else LEAST + positive(self.raw_dead_band)
        return PositionLoop(self.stiffness, self.damping, slack)

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        return only(self.driven, self.loop.torque(u - q, qd))

    def physical(self) -> list[Quantity]:
        loop = self.loop
        rows = [
            Quantity("servo stiffness kp", "N·m/rad", self.stiffness, Role.GAIN, positive=True),
            Quantity("servo damping kd", "N·m·s/rad", self.damping, Role.FORCE, positive=True),
        ]
        if loop.slack is not None:
            rows.append(Quantity("servo dead band", "rad", loop.slack, positive=True))
        return rows


@final
class Limit(AbstractActuator):
    """What a servo can give: torque within ±T (1 ∓ q̇ / ω), as of a motor on a given voltage; without ω within ±T."""

    raw_limit: Float[Array, " n"]
    raw_speed: Float[Array, " n"] | None = None

    @classmethod
    def of(cls, limit: Numbers, speed: Numbers | None = None, num_joints: int | None = None) -> "Limit":
        """Limits of servos, one for all joints or one for each.

        Args:
            limit: T in N·m, the most torque at rest.
            speed: ω in rad/s, at which no torque is left; None: T at any speed.
            num_joints: how many joints; by default as many as there are numbers.
        """
        count = counted(num_joints, limit, speed)
        raw_speed = None if speed is None else raw_per_joint("speed", speed, count)
        return cls(raw_per_joint("limit", limit, count), raw_speed)

    @property
    def num_joints(self) -> int:
        return self.raw_limit.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def stage(self) -> Stage:
        return Stage.LIMIT

    @property
    def bounds(self) -> tuple[Float[Array, " n"], Float[Array, " n"] | None]:
        limit = LEAST + positive(self.raw_limit)
        return limit, None if self.raw_speed is None else LEAST + positive(self.raw_speed)

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        limit, speed = self.bounds
        falling = jnp.zeros_like(qd) if speed is None else qd / speed
        return jnp.clip(u, -limit * (1 + falling), limit * (1 - falling))

    def physical(self) -> list[Quantity]:
        limit, speed = self.bounds
        rows = [Quantity("servo torque limit", "N·m", limit, Role.SATURATION, positive=True)]
        return rows if speed is None else [*rows, Quantity("servo free speed", "rad/s", speed, positive=True)]


@final
class Play(AbstractActuator):
    """Play of a servo's gear: within ±`play` of the goal nothing pulls, beyond it the servo's stiffness does."""

    raw: Float[Array, " n"]

    @classmethod
    def of(cls, play: Numbers, num_joints: int | None = None) -> "Play":
        """Play of gears.

        Args:
            play: half its width in rad or m, one for all joints or one for each.
            num_joints: how many joints; by default as many as there are numbers.
        """
        return cls(raw_per_joint("play", play, num_joints))

    @property
    def num_joints(self) -> int:
        return self.raw.shape[-1]

    @property
    def stage(self) -> Stage:
        return Stage.GAIN

    @property
    def slack(self) -> Float[Array, " n"]:
        return positive(self.raw)

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        play = positive(self.raw)
        return q + jnp.maximum(u - q - play, jnp.minimum(u - q + play, 0.0))

    def physical(self) -> list[Quantity]:
        return [Quantity("play of the gear", "rad", positive(self.raw), positive=True)]


@final
class Load(AbstractActuator):
    """Dry friction that grows with what a servo's gear transmits: `|μ_m τ_m − μ_e τ_e| + μ_s |τ_m − τ_e| exp(−ν q̇²)`.

    τ_m is the servo's torque and τ_e that of everything outside the joint, gravity first (Duclusaud, Passault and
    others 2025: models M3 to M6 of servos' friction). All coefficients are ≥ 0, so that it only ever opposes motion.
    """

    raw_motor: Float[Array, " n"]
    raw_outside: Float[Array, " n"]
    raw_static: Float[Array, " n"] | None = None
    raw_shape: Float[Array, " n"] | None = None

    @classmethod
    def of(
        cls,
        motor: Numbers,
        outside: Numbers,
        static: Numbers | None = None,
        shape: Numbers = 100.0,
        num_joints: int | None = None,
    ) -> "Load":
        """Friction that grows with load, each number one for all joints or one for each.

        Args:
            motor: μ_m, a share of the servo's torque.
            outside: μ_e, a share of the torque from outside.
            static: μ_s, a share of their difference, where friction at rest is higher; None: it is not.
            shape: ν in (s/rad)²; `1/√ν` is the speed at which that is over.
            num_joints: how many joints; by default as many as there are numbers.
        """
        count = counted(num_joints, motor, outside, static, shape)
        more = (None, None) if static is None else (raw_per_joint("static", static, count), None)
        more = more if static is None else (more[0], raw_per_joint("shape", shape, count))
        return cls(raw_per_joint("motor", motor, count), raw_per_joint("outside", outside, count), *more)

    @property
    def num_joints(self) -> int:
        return self.raw_motor.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "bounded"

    @property
    def grows_with_load(self) -> bool:
        return True

    def loaded(
        self, motor: Float[Array, " n"], outside: Float[Array, " n"], qd: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        dry = jnp.abs(positive(self.raw_motor) * motor - positive(self.raw_outside) * outside)
        if self.raw_static is None or self.raw_shape is None:
            return dry
        slow = jnp.exp(-positive(self.raw_shape) * qd**2)
        return dry + positive(self.raw_static) * jnp.abs(motor - outside) * slow

    def physical(self) -> list[Quantity]:
        rows = [
            Quantity("friction by the servo's torque", "1", positive(self.raw_motor), positive=True),
            Quantity("friction by the load", "1", positive(self.raw_outside), positive=True),
        ]
        if self.raw_static is not None and self.raw_shape is not None:
            rows += [
                Quantity("static friction by torque", "1", positive(self.raw_static), positive=True),
                Quantity("speed of its fall", "rad/s", 1 / jnp.sqrt(positive(self.raw_shape)), positive=True),
            ]
        return rows


@final
class Lead(AbstractActuator):
    """Goals led ahead by their own rate, `g + T ġ`: a loop that also follows the goal's velocity, T = kd / kp there."""

    raw: Float[Array, " n"]

    @classmethod
    def of(cls, lead: Numbers, num_joints: int | None = None) -> "Lead":
        """Goals led ahead.

        Args:
            lead: T in seconds, one for all joints or one for each.
            num_joints: how many joints; by default as many as there are numbers.
        """
        return cls(raw_per_joint("lead", lead, num_joints))

    @property
    def num_joints(self) -> int:
        return self.raw.shape[-1]

    @property
    def stage(self) -> Stage:
        return Stage.DELAY

    @property
    def lead(self) -> Float[Array, " n"]:
        return positive(self.raw)

    def physical(self) -> list[Quantity]:
        return [Quantity("lead of the goals", "s", self.lead, positive=True)]


@final
class Profile(AbstractActuator):
    """Goals approached at a limited speed and, where it is given, a limited acceleration, as servos' firmware does it.

    It goes on from one sample to the next: roll-outs carry it along (`GoalProfile`).
    """

    raw_speed: Float[Array, " n"]
    raw_acceleration: Float[Array, " n"] | None = None

    @classmethod
    def of(cls, speed: Numbers, acceleration: Numbers | None = None, num_joints: int | None = None) -> "Profile":
        """Limits on how goals are approached, one for all joints or one for each.

        Args:
            speed: the highest, in rad/s.
            acceleration: the highest, in rad/s²; None: at once.
            num_joints: how many joints; by default as many as there are numbers.
        """
        count = counted(num_joints, speed, acceleration)
        raw = None if acceleration is None else raw_per_joint("acceleration", acceleration, count)
        return cls(raw_per_joint("speed", speed, count), raw)

    @property
    def num_joints(self) -> int:
        return self.raw_speed.shape[-1]

    @property
    def stage(self) -> Stage:
        return Stage.DELAY

    @property
    def profile(self) -> GoalProfile:
        acceleration = None if self.raw_acceleration is None else LEAST + positive(self.raw_acceleration)
        return GoalProfile(LEAST + positive(self.raw_speed), acceleration)

    def physical(self) -> list[Quantity]:
        found = self.profile
        rows = [Quantity("speed limit of goals", "rad/s", found.speed, positive=True)]
        if found.acceleration is not None:
            rows.append(Quantity("acceleration limit of goals", "rad/s²", found.acceleration, positive=True))
        return rows


@final
class Integral(AbstractActuator):
    """A servo's integral term, `ki ∫ (g − q) dt`, which ends where its torque alone is the most that the servo gives.

    It adds energy under a goal that is held: nothing is promised of a model that has it. Roll-outs sum it.
    """

    raw: Float[Array, " n"]

    @classmethod
    def of(cls, integral: Numbers, num_joints: int | None = None) -> "Integral":
        """Integral terms.

        Args:
            integral: ki in N·m/(rad·s), one for all joints or one for each.
            num_joints: how many joints; by default as many as there are numbers.
        """
        return cls(raw_per_joint("integral", integral, num_joints))

    @property
    def num_joints(self) -> int:
        return self.raw.shape[-1]

    @property
    def energy_class(self) -> EnergyClass:
        return "unbounded"

    @property
    def stage(self) -> Stage:
        return Stage.GAIN

    @property
    def integral(self) -> Float[Array, " n"]:
        return positive(self.raw)

    def physical(self) -> list[Quantity]:
        return [Quantity("servo integral gain ki", "N·m/(rad·s)", self.integral, Role.FORCE, positive=True)]
