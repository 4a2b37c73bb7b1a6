"""Several parts as one actuator: their drives follow one another, the rest adds up."""

from typing import final

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from diffnea.actuators.base import ENERGY_CLASSES, AbstractActuator, EnergyClass, Quantity, Resistance
from diffnea.actuators.goals.goal_profile import GoalProfile
from diffnea.actuators.goals.position_loop import PositionLoop
from diffnea.actuators.servo import Integral


@final
class Combined(AbstractActuator):
    """Parts in the order in which they act on a command: delay, gain, motor, then the rest.

    Potentials, resistances, residuals and delays add. The energy class is the weakest of the parts'.
    """

    parts: tuple[AbstractActuator, ...]

    def __check_init__(self):
        if not self.parts:
            raise ValueError("Combined: no parts; give at least one")
        counts = {part.num_joints for part in self.parts}
        if len(counts) > 1:
            raise ValueError(f"Combined: parts for {sorted(counts)} joints; make all for the same robot")
        stages = [part.stage for part in self.parts]
        if stages != sorted(stages):
            raise ValueError("Combined: parts are not in the order in which they act; use combine(*parts)")
        summing = [isinstance(part, Integral) for part in self.parts if part.energy_class == "unbounded"]
        if any(summing) and not all(summing):
            raise ValueError("Combined: a servo with an integral term beside a part without any promise; leave out one")

    @property
    def num_joints(self) -> int:
        return self.parts[0].num_joints

    @property
    def energy_class(self) -> EnergyClass:
        return ENERGY_CLASSES[max(ENERGY_CLASSES.index(part.energy_class) for part in self.parts)]

    @property
    def delay(self) -> Float[Array, " n"]:
        late = [part.delay for part in self.parts if part.most_delay]
        return sum(late[1:], late[0]) if late else jnp.zeros(self.num_joints)

    @property
    def most_delay(self) -> int:
        return sum(part.most_delay for part in self.parts)

    @property
    def loop(self) -> PositionLoop | None:
        for part in self.parts:
            if part.loop is not None:
                several = [each for each in (part.loop.slack, self.slack) if each is not None]
                loop = part.loop._replace(slack=sum(several[1:], several[0]) if several else None)
                return loop if self.bounds is None else loop._replace(limit=self.bounds[0], speed=self.bounds[1])
        return None

    @property
    def inner_steps(self) -> int:
        return max(part.inner_steps for part in self.parts)

    def at_gain(self, gain: Float[ArrayLike, " n"]) -> "Combined":
        return Combined(tuple(part.at_gain(gain) for part in self.parts))

    @property
    def bounds(self) -> tuple[Float[Array, " n"], Float[Array, " n"] | None] | None:
        return next((part.bounds for part in self.parts if part.bounds is not None), None)

    @property
    def profile(self) -> GoalProfile | None:
        return next((part.profile for part in self.parts if part.profile is not None), None)

    @property
    def integral(self) -> Float[Array, " n"] | None:
        return next((part.integral for part in self.parts if part.integral is not None), None)

    @property
    def slack(self) -> Float[Array, " n"] | None:
        several = [part.slack for part in self.parts if part.slack is not None]
        return sum(several[1:], several[0]) if several else None

    @property
    def grows_with_load(self) -> bool:
        return any(part.grows_with_load for part in self.parts)

    def loaded(
        self, motor: Float[Array, " n"], outside: Float[Array, " n"], qd: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        several = [part.loaded(motor, outside, qd) for part in self.parts if part.grows_with_load]
        return sum(several, jnp.zeros_like(qd))

    @property
    def lead(self) -> Float[Array, " n"] | None:
        several = [part.lead for part in self.parts if part.lead is not None]
        return sum(several[1:], several[0]) if several else None

    def drive(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        for part in self.parts:
            u = part.drive(u, q, qd)
        return u

    def potential(self, q: Float[Array, " n"]) -> Float[Array, ""]:
        return sum((part.potential(q) for part in self.parts), jnp.zeros((), q.dtype))

    def resistance(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Resistance:
        lost = [part.resistance(q, qd) for part in self.parts]
        zero = jnp.zeros_like(qd)
        return Resistance(sum((one.dry for one in lost), zero), sum((one.viscous for one in lost), zero))

    @property
    def turning(self) -> tuple[tuple[float, ...], ...]:
        return tuple(row for part in self.parts for row in part.turning)

    @property
    def rotors(self) -> Float[Array, " k"]:
        turning = [part.rotors for part in self.parts if part.turning]
        return jnp.concatenate(turning) if turning else jnp.zeros(0)

    def shared(
        self, q: Float[Array, " n"], qd: Float[Array, " n"], way: Float[Array, " k"] | None = None
    ) -> Float[Array, " n"]:
        total, first = jnp.zeros_like(qd), 0
        for part in self.parts:
            last = first + len(part.turning)
            total = total + part.shared(q, qd, None if way is None else way[first:last])
            first = last
        return total

    def residual(self, u: Float[Array, " n"], q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
        total = jnp.zeros_like(u)
        for part in self.parts:  # a network that makes torque of a command sees it behind gain and motor
            total, u = total + part.residual(u, q, qd), part.drive(u, q, qd)
        return total

    def physical(self) -> list[Quantity]:
        return [quantity for part in self.parts for quantity in part.physical()]


def combine(*parts: AbstractActuator) -> AbstractActuator:
    """Several actuators as one.

    Args:
        parts: actuators of as many joints each, in any order; what is combined already is taken apart first.
    """
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, Combined) else (part,))]
    return flat[0] if len(flat) == 1 else Combined(tuple(sorted(flat, key=lambda part: part.stage)))
