"""What an actuator is: command, position and velocity in, joint torque out, split by what it does to the energy."""

from abc import abstractmethod
from enum import Enum, IntEnum
from typing import Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from diffnea.actuators.goals.goal_profile import GoalProfile
from diffnea.actuators.goals.position_loop import PositionLoop

EnergyClass = Literal["conserving", "bounded", "unbounded"]
# From the strongest promise to none; a model keeps the weakest of its parts'.
ENERGY_CLASSES: tuple[EnergyClass, ...] = ("conserving", "bounded", "unbounded")


class Stage(IntEnum):
    """The way of a command, in order; parts that leave it alone stand at `TORQUE`."""

    DELAY = 0
    GAIN = 1
    MOTOR = 2
    SERVO = 3
    LIMIT = 4
    TORQUE = 5
    NETWORK = 6


class Resistance(NamedTuple):
    """What opposes motion, both non-negative: `dry`, a force of that size, and `viscous`, a force per velocity."""

    dry: Float[Array, " n"]
    viscous: Float[Array, " n"]


class Role(Enum):
    """What a coefficient does, for whoever has to decide: names and units are for readers."""

    GAIN = "gain"  # torque a unit of command
    SATURATION = "saturation"  # the most torque a command brings
    DELAY = "delay"
    STATIC = "static"
    KINETIC = "kinetic"
    STRIBECK_VELOCITY = "stribeck-velocity"
    VISCOUS = "viscous"
    FORCE = "force"  # any other in proportion to forces
    OTHER = "other"

    @property
    def of_command(self) -> bool:
        """Whether it belongs to what turns a command into torque."""
        return self in (Role.GAIN, Role.SATURATION, Role.DELAY)

    @property
    def is_force(self) -> bool:
        """Whether it is in proportion to forces, at given motion and command."""
        return self not in (Role.DELAY, Role.STRIBECK_VELOCITY, Role.OTHER)


class Quantity(NamedTuple):
    """A physical quantity for tables, one value a joint; the unit is that of a joint that turns."""

    name: str
    unit: str
    values: Float[Array, " n"]
    role: Role = Role.OTHER
    positive: bool = False  # it cannot be negative

    def unit_of(self, revolute: bool) -> str:
        """The unit at a joint that turns, or slides."""
        return self.unit if revolute else self.unit.replace("N·m", "N").replace("rad", "m")


class AbstractActuator(eqx.Module):
    """How a joint's command becomes torque: `τ = drive − ∂potential/∂q − dry·sign(q̇) − viscous·q̇ + shared + residual`.

    What is not overridden is absent: the command is the torque, and nothing is stored or lost. Concrete actuators are
    final. All functions are for one sample.
    """

    @property
    @abstractmethod
    def num_joints(self) -> int:
        """How many joints it drives."""

    @property
    def energy_class(self) -> EnergyClass:
        """Without command the model's energy stays ("conserving"), never rises ("bounded"), or may ("unbounded")."""
        return "conserving"

    def learned(self) -> "AbstractActuator":
        """Which leaves are learned: a tree like this one, of truths; parts say it of theirs."""

        def is_part(node) -> bool:
            return isinstance(node, AbstractActuator) and node is not self

        return jax.tree.map(lambda node: node.learned() if is_part(node) else True, self, is_leaf=is_part)

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        """The torque that the command brings; exactly 0 at u = 0 unless the actuator is unbounded."""
        return u

    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        """The energy stored in the actuator; its torque is `−∂potential/∂q`."""
        return jnp.zeros((), q.dtype)

    def restoring(self, q: Float[Array, " n"]) -> Float[Array, " n"]:
        """`∂potential/∂q`: the torque that holds what is stored, the negative of what it exerts."""
        return jax.grad(self.potential)(q)

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        """What opposes motion, non-negative by construction, smooth in q and in each direction of q̇."""
        return Resistance(jnp.zeros_like(qd), jnp.zeros_like(qd))

    @property
    def turning(self) -> tuple[tuple[float, ...], ...]:
        """How fast each motor that turns with several joints does so with each, one row a motor."""
        return ()

    @property
    def rotors(self) -> Float[Array, " k"]:
        """The inertia of each motor of `turning`, as a joint feels it, in kg·m²; the model adds what it takes."""
        return jnp.zeros(len(self.turning))

    def shared(
        self, q: Float[Array, " n"], qd: Float[Array, " n"], way: Float[Array, " k"] | None = None
    ) -> Float[Array, " n"]:
        """Friction of motors that turn with several joints, smooth; it only takes energy: `q̇ · shared ≤ 0`.

        `way` says which way each motor's dry friction is overcome, from −1 to 1; None: by its speed.
        """
        return jnp.zeros_like(qd)

    def residual(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        """Torque without any promise."""
        return jnp.zeros_like(u)

    @property
    def loop(self) -> PositionLoop | None:
        """The position loop of a servo, whose commands are goals; None where commands are torques, voltages or such.

        Such an actuator's energy class is meant for goals that are held, and its energy with what they store.
        """
        return None

    @property
    def inner_steps(self) -> int:
        """Steps that a roll-out makes for each sample, where there is a position loop."""
        return 1

    def at_gain(self, gain: Float[ArrayLike, " n"]) -> "AbstractActuator":
        """The same with the servo set to another gain, in the unit of a log's; 0: torque is off."""
        return self

    @property
    def bounds(self) -> tuple[Float[Array, " n"], Float[Array, " n"] | None] | None:
        """The most torque of a servo at rest, and the speed at which none is left; None: at any speed the same."""
        return None

    @property
    def profile(self) -> GoalProfile | None:
        """How fast goals are approached; roll-outs apply it, since it goes on from one sample to the next."""
        return None

    @property
    def integral(self) -> Float[Array, " n"] | None:
        """ki of a servo, in N·m/(rad·s); roll-outs apply it. None: it has no integral term."""
        return None

    @property
    def slack(self) -> Float[Array, " n"] | None:
        """How far a joint can be off its goal before its servo pulls, beside the servo's own dead band."""
        return None

    @property
    def grows_with_load(self) -> bool:
        """Whether friction depends on the torque that gears transmit (`loaded`)."""
        return False

    def loaded(
        self, motor: Float[Array, " n"], outside: Float[Array, " n"], qd: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """Dry friction, ≥ 0, under the torque of the motor and that of everything outside the joint."""
        return jnp.zeros_like(qd)

    @property
    def lead(self) -> Float[Array, " n"] | None:
        """Seconds by which commands are led ahead by their own rate; roll-outs apply it."""
        return None

    @property
    def delay(self) -> Float[Array, " n"]:
        """Samples by which the command comes late, fractions allowed; roll-outs and losses apply it."""
        return jnp.zeros(self.num_joints)

    @property
    def most_delay(self) -> int:
        """The samples that `delay` never exceeds, whatever is learned: how much of the past has to be kept."""
        return 0

    @property
    def stage(self) -> Stage:
        """Where its `drive` stands among those of other parts: each takes what the one before it gives."""
        return Stage.TORQUE

    def physical(self) -> list[Quantity]:
        """The coefficients as physical quantities."""
        return []

    def __call__(
        self,
        u: Float[Array, " joints"],
        q: Float[Array, " nq"],
        qd: Float[Array, " n"],
        way: Float[Array, " m"] | None = None,
    ) -> Float[Array, " n"]:
        """The torque on each joint.

        `way` says which way dry friction is overcome, from −1 to 1, at each joint and at each motor of `turning`, where
        the past of a motion tells; None: by the velocities.
        """
        lost, n = self.resistance(q, qd), self.num_joints
        stored = self.restoring(q)
        joints, motors = (jnp.sign(qd), None) if way is None else (way[:n], way[n:])
        rubbed = self.shared(q, qd, motors) - lost.dry * joints - lost.viscous * qd
        return self.drive(u, q, qd) - stored + rubbed + self.residual(u, q, qd)


@final
class Ideal(AbstractActuator):
    """The command is the torque: `τ = u`."""

    joints: int = eqx.field(static=True)

    @property
    def num_joints(self) -> int:
        return self.joints
