"""Starting values of servos by regression: what a closed loop shows at once.

While a joint moves, goal and position differ by `g − q = T ġ + (F/kp) sign(ġ) + G(q)/kp + c`: lag and delay together
(T), friction, gravity. Each joint by itself, robustly; no derivative of positions is taken. The constant c is there for
actuators that have one alone: where gravity changes little it would take what tells the stiffness.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import batches
from diffnea.actuators import (
    AbstractActuator,
    Combined,
    Coulomb,
    Coupling,
    Delay,
    Integral,
    Offset,
    Profile,
    Servo,
    Stribeck,
)
from diffnea.actuators.coefficients import raw_of
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.robot import Robot

# A joint moves where its goal does, faster than this share of its usual speed.
MOVING = 0.1
# Of lag and delay, the part that is taken for delay, until whole motions tell them apart.
OF_DELAY = 0.5
# Of a joint's friction, the part that each motor of a pair of joints starts with.
OF_PAIRS = 0.25
# Rounds of weighting outliers down, and what is one, in standard deviations.
OUTLIER_ROUNDS, OUTLIER = 8, 1.5
# Gravity that explains less than this of a joint's error, in rad, tells nothing of its stiffness; nor does a gravity
# that is less than this share of what acts on another joint, as along an axis that stands upright.
LEAST_GRAVITY, LEAST_WEIGHT_SHARE = 2e-3, 1e-2
LEAST_LAG, LEAST_BAND, LEAST_SPEED = 5e-3, 1e-3, 1e-2
# Inner steps of a servo are about as long as this, s, and between so many in a sample: long ones show as lag.
INNER_SECONDS, LEAST_INNER, MOST_INNER = 2.5e-3, 4, 16
# Speeds are differences over this, s, and the highest is what this share of them is below: a reading may be off.
SPEED_SECONDS, HIGHEST_QUANTILE = 0.04, 0.999
# An integral term starts so weak that it takes this long, s, to bring what the stiffness does.
INTEGRAL_TIME = 1.0


@dataclass(frozen=True)
class Closed:
    """What each joint's loop shows: lag with delay in s, friction and stiffness; NaN where nothing shows the latter."""

    lag: Float[np.ndarray, " n"]
    band: Float[np.ndarray, " n"]  # F/kp, in rad or m
    stiffness: Float[np.ndarray, " n"]
    rest: Float[np.ndarray, " n"]  # what is left of g − q without all that, in rad or m
    speed: Float[np.ndarray, " n"]  # the highest that were seen, in rad/s and rad/s²
    acceleration: Float[np.ndarray, " n"]


def closed_loops(robot: Robot, tracks: Sequence[Track], constant: bool = False) -> Closed:
    """By regression, joint by joint; `constant` where goals may be of another zero, or a constant torque acts."""
    gravity = np.concatenate([np.asarray(batches.gravity_torque(robot, track.measured)) for track in tracks])
    rates = np.concatenate([np.gradient(track.u, float(track.dt or 1.0), axis=0) for track in tracks])
    errors = np.concatenate([track.u - track.measured for track in tracks])
    shares = np.ones_like(errors)
    if (usual := usual_gain(tracks)) is not None:
        shares = np.concatenate([track.gain for track in tracks if track.gain is not None]) / usual
    columns = zip(rates.T, errors.T, gravity.T, shares.T, strict=True)
    least = LEAST_WEIGHT_SHARE * float(np.sqrt(np.mean(gravity**2, axis=0)).max())
    found = np.array([_joint(*column, least, constant) for column in columns])
    fastest = np.array([_fastest(track) for track in tracks]).max(axis=0)
    return Closed(*found.T, *np.maximum(fastest, LEAST_SPEED))


def _fastest(track: Track) -> Float[np.ndarray, "2 n"]:
    """The highest speed and acceleration of a motion, joint by joint."""
    q, dt = track.measured, float(track.dt or 1.0)
    stride = max(round(SPEED_SECONDS / dt), 1)
    if len(q) < 2 * stride + 1:
        return np.zeros((2, q.shape[1]))
    speed = np.abs(q[stride:] - q[:-stride]) / (stride * dt)
    change = np.abs(q[2 * stride :] - 2 * q[stride:-stride] + q[: -2 * stride]) / (stride * dt) ** 2
    return np.stack([np.quantile(each, HIGHEST_QUANTILE, axis=0) for each in (speed, change)])


def usual_gain(tracks: Sequence[Track]) -> Float[np.ndarray, " n"] | None:
    """The gain that each servo was set to while torque was on, the median sample's; None where logs do not say."""
    if any(track.gain is None for track in tracks):
        return None
    every = np.concatenate([track.gain for track in tracks if track.gain is not None])
    return np.array([np.median(each[each > 0]) if (each > 0).any() else 1.0 for each in every.T])


def _joint(
    rate: np.ndarray, error: np.ndarray, gravity: np.ndarray, share: np.ndarray, least: float, constant: bool
) -> tuple[float, float, float, float]:
    moving = (np.abs(rate) > MOVING * np.sqrt(np.mean(rate**2))) & (share > 0)
    if moving.sum() < 20:
        return LEAST_LAG, LEAST_BAND, np.nan, 0.0
    rate, error, gravity, share = (each[moving] for each in (rate, error, gravity, share))
    size = float(np.std(gravity) if constant else np.sqrt(np.mean(gravity**2)))
    columns = [rate, np.sign(rate), gravity / max(size, 1e-12), *([np.ones_like(rate)] if constant else [])]
    # A servo of half the gain is twice as far off for the same torque.
    lag, band, droop, *rest = _robust(np.column_stack(columns) / share[:, None], error)
    stiffness = size / droop if droop > LEAST_GRAVITY and size > least else np.nan
    return max(lag, LEAST_LAG), max(band, LEAST_BAND), stiffness, rest[0] if constant else 0.0


def _robust(rows: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Least squares in which outliers count less and less."""
    weight, x = np.ones_like(error), np.zeros(rows.shape[1])
    for _ in range(OUTLIER_ROUNDS):
        x = np.linalg.lstsq(rows * weight[:, None], error * weight, rcond=1e-9)[0]
        left = np.abs(error - rows @ x)
        usual = OUTLIER * 1.48 * np.median(left) + 1e-12
        weight = np.sqrt(np.minimum(1.0, usual / np.maximum(left, 1e-12)))
    return x


def started(actuator: AbstractActuator, closed: Closed, dt: float) -> AbstractActuator:
    """The actuator with what its loops show; where nothing shows a stiffness, that of the other joints."""
    known = np.isfinite(closed.stiffness)
    own = _servo(actuator)
    usual = float(np.exp(np.mean(np.log(closed.stiffness[known])))) if known.any() else np.nan
    fallback = np.asarray(own.stiffness) if np.isnan(usual) else np.full(len(known), usual)
    stiffness = np.where(known, np.clip(closed.stiffness, fallback / 3, 3 * fallback), fallback)
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    made = tuple(_started(part, stiffness, closed, dt) for part in parts)
    return eqx.tree_at(lambda whole: whole.parts, actuator, made) if isinstance(actuator, Combined) else made[0]


def paced(actuator: AbstractActuator, dt: float) -> AbstractActuator:
    """The actuator with as many inner steps as a sample of its log asks for."""
    steps = int(np.clip(round(dt / INNER_SECONDS), LEAST_INNER, MOST_INNER))
    if not isinstance(actuator, Combined):
        return replace(actuator, steps=steps) if isinstance(actuator, Servo) else actuator
    parts = tuple(replace(part, steps=steps) if isinstance(part, Servo) else part for part in actuator.parts)
    return eqx.tree_at(lambda whole: whole.parts, actuator, parts)


def _servo(actuator: AbstractActuator) -> Servo:
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    return next(part for part in parts if isinstance(part, Servo))


def has_constant(actuator: AbstractActuator) -> bool:
    """Whether an actuator has a constant torque of its own."""
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    return any(isinstance(part, Offset) for part in parts)


def _started(part: AbstractActuator, stiffness: np.ndarray, closed: Closed, dt: float) -> AbstractActuator:
    dry = jnp.asarray(stiffness * closed.band)
    if isinstance(part, Servo):
        numbers = (raw_of(jnp.asarray(stiffness)), raw_of(jnp.asarray(stiffness * closed.lag * (1 - OF_DELAY))))
        return eqx.tree_at(lambda servo: (servo.raw_stiffness, servo.raw_damping), part, numbers)
    if isinstance(part, Stribeck):
        shape = raw_of(jnp.full(len(stiffness), 400.0))
        return eqx.tree_at(
            lambda dry: (dry.raw_static, dry.raw_kinetic, dry.raw_shape), part, (raw_of(1.1 * dry), raw_of(dry), shape)
        )
    if isinstance(part, Coulomb):
        return Coulomb.of(dry)
    if isinstance(part, Profile):
        return Profile.of(closed.speed, None if part.raw_acceleration is None else closed.acceleration)
    if isinstance(part, Integral):
        return Integral.of(stiffness / INTEGRAL_TIME)
    if isinstance(part, Offset):
        return eqx.tree_at(lambda each: each.constant, part, -jnp.asarray(stiffness * closed.rest))
    if isinstance(part, Coupling):
        turned = np.abs(np.array(part.rows))
        among = OF_PAIRS * (turned @ np.asarray(dry)) / turned.sum(1)
        return eqx.tree_at(lambda each: each.raw_dry, part, raw_of(jnp.asarray(among)))
    if isinstance(part, Delay):
        late = np.minimum(OF_DELAY * closed.lag / dt, 0.9 * part.samples)
        shared = part.raw.shape[0] == 1
        return Delay.of(float(np.median(late)) if shared else late, part.joints, part.samples)
    return part
