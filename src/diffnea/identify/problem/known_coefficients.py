"""Coefficients of actuators that are known: set as given, and not learned."""

from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from diffnea.actuators import (
    AbstractActuator,
    Combined,
    Coulomb,
    Delay,
    Gain,
    Integral,
    Limit,
    Motor,
    Play,
    Profile,
    Servo,
    Stribeck,
    Viscous,
    combine,
)
from diffnea.actuators.coefficients import raw_of
from diffnea.actuators.drives import LEAST_RESISTANCE


def _late(part: Delay, value: Array) -> Array:
    shared = part.raw.shape[0] == 1 and value.size == 1
    return Delay.of(value.reshape(()) if shared else value, part.joints, part.samples).raw


def _positive(part: AbstractActuator, value: Array) -> Array:
    return raw_of(value)


def _winding(part: Motor, value: Array) -> Array:
    return raw_of(value - LEAST_RESISTANCE)


def _as_it_is(part: AbstractActuator, value: Array) -> Array:
    return value


# By name: which part has it, its leaf, the number that is stored, and whether it may be negative.
Coefficient = tuple[type[AbstractActuator], str, Callable[..., Array], bool]
COEFFICIENTS: dict[str, tuple[Coefficient, ...]] = {
    "delay": ((Delay, "raw", _late, False),),
    "gain": ((Gain, "gain", _as_it_is, True),),
    "torque_constant": ((Motor, "raw_torque_constant", _positive, False),),
    "emf_constant": ((Motor, "raw_emf_constant", _positive, False),),
    "winding": ((Motor, "raw_resistance", _winding, False),),
    "gear": ((Motor, "gear", _as_it_is, True),),
    "viscous": ((Viscous, "raw", _positive, False), (Stribeck, "raw_viscous", _positive, False)),
    "coulomb": ((Coulomb, "raw", _positive, False),),
    "static": ((Stribeck, "raw_static", _positive, False),),
    "kinetic": ((Stribeck, "raw_kinetic", _positive, False),),
    "kp": ((Servo, "raw_stiffness", _positive, False),),
    "kd": ((Servo, "raw_damping", _positive, False),),
    "ki": ((Integral, "raw", _positive, False),),
    "play": ((Play, "raw", _positive, False),),
    "torque_limit": ((Limit, "raw_limit", _positive, False),),
    "goal_speed": ((Profile, "raw_speed", _positive, False),),
    "goal_acceleration": ((Profile, "raw_acceleration", _positive, False),),
}


def with_known(actuator: AbstractActuator, known: Mapping[str, object]) -> tuple[AbstractActuator, PyTree]:
    """The actuator with these coefficients in it, and a tree like it with True where a number is still free.

    Values are in the units of the tables (delay in samples), one for all joints or one for each.
    """
    parts = list(actuator.parts) if isinstance(actuator, Combined) else [actuator]
    masks = [jax.tree.map(lambda leaf, free: np.full(np.shape(leaf), free), part, part.learned()) for part in parts]
    for name, value in known.items():
        k, (_, leaf, encode, signed) = _place(name, parts)
        stored = encode(parts[k], _checked(name, value, signed))
        shape = np.shape(getattr(parts[k], leaf))
        filled = jnp.broadcast_to(stored.astype(getattr(parts[k], leaf).dtype), shape)
        parts[k] = eqx.tree_at(lambda part, leaf=leaf: getattr(part, leaf), parts[k], filled)
        masks[k] = eqx.tree_at(lambda part, leaf=leaf: getattr(part, leaf), masks[k], np.zeros(shape, bool))
    return combine(*parts), combine(*masks) if len(masks) > 1 else masks[0]


def _place(name: str, parts: list[AbstractActuator]) -> tuple[int, Coefficient]:
    """Which part has the coefficient."""
    for coefficient in COEFFICIENTS.get(name, ()):
        for k, part in enumerate(parts):
            if isinstance(part, coefficient[0]):
                return k, coefficient
    there = [n for n, some in COEFFICIENTS.items() if any(isinstance(p, c[0]) for c in some for p in parts)]
    accepted = f"it has {', '.join(there)}" if there else "it has none that can be set"
    raise ValueError(f'fit: known has "{name}", which the actuator has not; {accepted}')


def _checked(name: str, value: object, signed: bool) -> Array:
    found = np.atleast_1d(np.asarray(value, float))
    if not np.all(np.isfinite(found)) or (not signed and np.any(found < 0)):
        raise ValueError(f"fit: known {name} is {found.tolist()}; give {'numbers' if signed else 'numbers from 0 on'}")
    return jnp.asarray(found)
