"""Curves of friction: the misfit of every Stribeck velocity, and the intervals where it stays below a threshold."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.actuators.base import Role

# What is left of a column beside the others, as a share of its length, is rounding below this.
INDEPENDENT = 1e-6


@dataclass(frozen=True)
class FrictionProfile:
    """The 95 % intervals of one joint's friction, and the best curve where it beats the fitted one."""

    joint: int
    intervals: dict[Role, tuple[float, float]]
    best: dict[Role, float]
    better: float  # how far the best curves' misfit lies below the fitted one's, in units of the threshold
    slack: float  # the threshold as a share of the misfit
    points: int  # Stribeck velocities that were tried and lie inside; all of them where no peak is needed

    def of_velocity(self) -> "FrictionProfile":
        """What stays of it where the scale of forces is not known."""
        kept = {role: ends for role, ends in self.intervals.items() if not role.is_force}
        return replace(self, intervals=kept)


def with_fitted(value: float, lower: float, upper: float) -> tuple[float, float]:
    """An interval by a profile, and one as wide about a fit that ended outside of it: both are possible."""
    if lower <= value <= upper:
        return lower, upper
    if not np.isfinite(upper):
        return min(lower, value), upper
    half = (upper - lower) / 2
    return max(0.0, min(lower, value - half)), max(upper, value + half)


@dataclass(frozen=True)
class Curves:
    """The misfit of every Stribeck velocity: products of the columns sign, v, one peak each, and the target."""

    products: Float[np.ndarray, "c c"]
    velocities: Float[np.ndarray, " g"]
    visible: Bool[np.ndarray, " g"]  # whether a peak is seen beside the other columns
    any_sign: Float[np.ndarray, " g"]  # the misfit
    falling: Float[np.ndarray, " g"]  # the same where static friction is not below kinetic
    flat: float  # the same without a peak
    narrow: Bool[np.ndarray, " g"]  # a peak at low speed, and no bend of viscous friction
    expected: bool = True  # the peak is narrow, and static friction is not below kinetic

    @classmethod
    def of(cls, products: np.ndarray, size: np.ndarray, velocities: np.ndarray, widest: float) -> "Curves":
        count = len(velocities)
        flat = _solved(products, [0, 1])[1]
        solved = [_solved(products, [0, 1, 2 + g]) for g in range(count)]
        visible = np.array([_is_seen(products, size, 2 + g) for g in range(count)], bool)
        misfit = np.where(visible, [cost for _, cost in solved], flat)
        falls = np.array([value[2] >= 0 for value, _ in solved], bool)
        return cls(products, velocities, visible, misfit, np.where(falls, misfit, flat), flat, velocities <= widest)

    @property
    def misfit(self) -> Float[np.ndarray, " g"]:
        """Of every Stribeck velocity."""
        return np.where(self.narrow, self.falling, np.inf) if self.expected else self.any_sign

    @property
    def lowest(self) -> float:
        """The best curve's misfit."""
        return float(np.min(self.misfit))

    @property
    def chosen(self) -> list[int]:
        """The columns of the best curve."""
        return [0, 1, 2 + int(np.argmin(self.misfit))] if self.lowest < self.flat else [0, 1]

    def profile(self, joint: int, thresholds: Mapping[Role, float], fitted: float) -> FrictionProfile:
        """The intervals: where the misfit is below the lowest plus the coefficient's threshold."""
        intervals = {}
        for role, weights in _OF_COEFFICIENTS.items():
            level = self.lowest + thresholds[role]
            inside = np.flatnonzero(self.visible & (self.misfit <= level)).tolist()
            edge = [0, 1] if self.expected else None
            ends = [_extent(self.products, [0, 1, 2 + g], level, weights, edge) for g in inside]
            if self.flat <= level:
                lower, upper = _extent(self.products, [0, 1], level, weights[:2])
                ends.append((lower, np.inf if weights[2] else upper))  # a peak not seen may have any height
            intervals[role] = max(0.0, min(a for a, _ in ends)), max(0.0, *(b for _, b in ends))
        threshold = thresholds[Role.STRIBECK_VELOCITY]
        level = self.lowest + threshold
        intervals[Role.STRIBECK_VELOCITY] = self._velocity(level)
        value = np.append(_solved(self.products, self.chosen)[0], 0.0)[:3]
        best = {role: float(weights @ value) for role, weights in _OF_COEFFICIENTS.items()}
        best[Role.STRIBECK_VELOCITY] = float(self.velocities[int(np.argmin(self.misfit))])
        better = (fitted - self.lowest) / threshold if threshold > 0 else 0.0
        points = len(self.velocities) if self.flat <= level else int(np.sum(self.visible & (self.misfit <= level)))
        return FrictionProfile(joint, intervals, best, better, threshold / max(self.lowest, 1e-300), points)

    def _velocity(self, level: float) -> tuple[float, float]:
        """The Stribeck velocities below the level; open where the grid ends, and where no peak is as good."""
        inside = np.flatnonzero(self.misfit <= level)
        low, high, last = int(inside.min()), int(inside.max()), len(self.velocities) - 1
        lower = 0.0 if low == 0 or self.flat <= level else self._crossing(low - 1, low, level)
        open_ = high == last or not np.isfinite(self.misfit[high + 1]) or self.flat <= level
        upper = np.inf if open_ else self._crossing(high, high + 1, level)
        return lower, upper

    def _crossing(self, a: int, b: int, level: float) -> float:
        """Between two neighbours of the grid, by a line in the logarithm."""
        share = (level - self.misfit[a]) / (self.misfit[b] - self.misfit[a])
        return float(self.velocities[a] * (self.velocities[b] / self.velocities[a]) ** share)


# What each coefficient is of (kinetic, viscous, peak).
_OF_COEFFICIENTS = {
    Role.KINETIC: np.array([1.0, 0.0, 0.0]),
    Role.VISCOUS: np.array([0.0, 1.0, 0.0]),
    Role.STATIC: np.array([1.0, 0.0, 1.0]),
}


def _solved(products: np.ndarray, columns: list[int]) -> tuple[np.ndarray, float]:
    """Coefficients and misfit of these columns."""
    matrix, wanted = products[np.ix_(columns, columns)], products[columns, -1]
    value = np.linalg.lstsq(matrix, wanted, rcond=1e-12)[0]
    return value, float(products[-1, -1] - value @ wanted)


def _is_seen(products: np.ndarray, size: np.ndarray, column: int) -> bool:
    """Whether a column is more than rounding beside the first two."""
    shares = np.linalg.lstsq(products[:2, :2], products[:2, column], rcond=1e-12)[0]
    left = products[column, column] - shares @ products[:2, column]
    return bool(left > (INDEPENDENT * size[0]) ** 2)


def _extent(
    products: np.ndarray, columns: list[int], level: float, weights: np.ndarray, edge: list[int] | None = None
) -> tuple[float, float]:
    """The least and most of a weighted sum of coefficients whose misfit is at most the level.

    With `edge` the last coefficient must not be negative: beyond, the extent is that of the columns of the edge.
    """
    value, cost = _solved(products, columns)
    spread = np.linalg.lstsq(products[np.ix_(columns, columns)], weights, rcond=1e-12)[0]
    step = np.sqrt(max(level - cost, 0.0) / max(weights @ spread, 1e-300)) * spread
    ends = []
    for way in (-1.0, 1.0):
        end = value + way * step
        if edge is not None and end[-1] < 0:
            ends.append(_extent(products, edge, level, weights[:-1])[0 if way < 0 else 1])
        else:
            ends.append(float(weights @ end))
    return ends[0], ends[1]
