"""Thrust, tilt and drag from measured velocities and attitudes: a linear regression at each lag and battery exponent.

Velocities differ over short windows by `∫ R (thrust + drag) + g`: linear in the thrust's curve, its tilt and the drag.
Lag and exponent are those that leave least. Intervals come from leaving flights out in turn (jackknife): flights differ
by more than samples within one do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from diffnea.flight import Flight, Flyer, Rotor
from diffnea.flight.rotations import rotated, rotated_back
from diffnea.robot import Robot

LAGS = (0.0, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1)
EXPONENTS = (0.0, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
WINDOW = 0.1  # s
NAMES = ("linear", "quadratic", "tilt x", "tilt y", "drag across", "drag along")


@dataclass(frozen=True)
class Forces:
    """The regression: six coefficients with standard deviations, and the lag and exponent that they are of."""

    values: Float[np.ndarray, "6"]
    std: Float[np.ndarray, "6"]
    covariance: Float[np.ndarray, "6 6"]
    quantile: float  # standard deviations to the ends of a 95 % interval
    rotor: Rotor
    left: float  # m/s², root mean square of accelerations over a window
    hover: float  # thrust by mass over Σ y², which tilts are shares of, on average

    def flyer(self, robot: Robot, count: int) -> Flyer:
        """The body under these forces."""
        tilt, drag = self.values[2:4] / self.hover, self.values[4:]
        return Flyer(robot, self.rotor, jnp.asarray(tilt), jnp.asarray(drag), None, count)


def regress(flights: Sequence[Flight], gravity: Float[np.ndarray, "3"]) -> Forces:
    """From several flights, whose on-board streams are moved to where they belong first."""
    aligned = [flight.aligned() for flight in flights]
    nominal = float(np.median(np.concatenate([flight.battery[flight.flying] for flight in aligned])))
    best = min(
        ((lag, exponent) for lag in LAGS for exponent in EXPONENTS),
        key=lambda each: _left(_sums(aligned, _rotor(*each, nominal), gravity)),
    )
    rotor = _rotor(*best, nominal)
    sums = _sums(aligned, rotor, gravity)
    total = np.sum(sums, axis=0)
    values = _solved(total)
    parts = [_solved(total - own) for own in sums] if len(sums) > 1 else [values]
    count = len(parts)
    away = np.stack(parts) - np.mean(parts, axis=0)
    covariance = (count - 1) / count * away.T @ away if count > 1 else np.full((6, 6), np.inf)
    hover = _per_square(aligned, rotor, values)
    found = Rotor(jnp.asarray(values[0]), jnp.asarray(values[1]), rotor.exponent, rotor.nominal, rotor.lag)
    quantile = float(stdtrit(max(count - 1, 1), 0.975))
    return Forces(values, np.sqrt(np.diag(covariance)), covariance, quantile, found, _left(sums), hover)


def _per_square(flights: Sequence[Flight], rotor: Rotor, values: Float[np.ndarray, "6"]) -> float:
    """Thrust by mass over the sum of squared commands, where it flies."""
    y = np.concatenate([rotor.driven(f.time, f.rotors, f.battery)[f.flying] for f in flights])
    thrust, square = values[0] * y.sum() + values[1] * np.sum(y**2), np.sum(y**2)
    return float(thrust / max(square, 1e-9))


def _rotor(lag: float, exponent: float, nominal: float) -> Rotor:
    return Rotor(*(jnp.asarray(x) for x in (1.0, 0.0, exponent, nominal, lag)))


def _sums(flights: Sequence[Flight], rotor: Rotor, gravity: np.ndarray) -> list[np.ndarray]:
    """Products of the columns, of how many rows there are, and of what is wanted; a matrix a flight."""
    found = []
    for flight in flights:
        columns, wanted = _columns(flight, rotor, gravity)
        ones = np.ones((len(wanted), 1))
        whole = np.concatenate([columns, np.zeros_like(ones), wanted[:, None]], axis=1)
        gram = whole.T @ whole
        gram[-2, -2] = len(wanted)
        found.append(gram)
    return found


def _columns(flight: Flight, rotor: Rotor, gravity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean accelerations over windows, in the world's axes: of each coefficient, and as measured less gravity."""
    y = rotor.driven(flight.time, flight.rotors, flight.battery)
    first, second = y.sum(axis=1, keepdims=True), (y**2).sum(axis=1, keepdims=True)
    axes = [rotated(flight.attitude, np.broadcast_to(axis, (len(flight), 3))) for axis in np.eye(3)]
    v = rotated_back(flight.attitude, flight.velocity)
    across = -(axes[0] * v[:, :1] + axes[1] * v[:, 1:2])
    terms = [axes[2] * first, axes[2] * second, axes[0] * second, axes[1] * second, across, -axes[2] * v[:, 2:]]
    sums = [np.concatenate([np.zeros((1, 3)), np.cumsum(term * flight.steps[:, None], axis=0)]) for term in terms]
    every = max(2, round(WINDOW / float(np.median(flight.steps))))
    pairs = np.array(flight.windows(WINDOW, every), int).reshape(-1, 2)
    a, b = pairs.T
    span = (flight.time[b] - flight.time[a])[:, None]
    columns = np.stack([(each[b] - each[a]) / span for each in sums], axis=2)
    wanted = (flight.velocity[b] - flight.velocity[a]) / span - gravity
    return columns.reshape(-1, len(terms)), wanted.reshape(-1)


def _solved(gram: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(gram[:6, :6], gram[:6, -1], rcond=1e-12)[0]


def _left(sums: Sequence[np.ndarray]) -> float:
    """Root mean square of what is left."""
    gram = np.sum(sums, axis=0)
    x = _solved(gram)
    square = gram[-1, -1] - 2 * x @ gram[:6, -1] + x @ gram[:6, :6] @ x
    return float(np.sqrt(max(square, 0.0) / max(gram[-2, -2], 1.0)))
