"""Profile likelihood of a joint's friction: intervals of coefficients that are not quadratic.

The friction `sign(v) (f_k + d exp(−(v/v_s)²)) + μ v` with d = f_s − f_k is linear in f_k, d and μ once the Stribeck
velocity v_s is given. So for every v_s of a grid all other numbers, inertias included, are solved for exactly, and the
misfit is a parabola in f_k, d and μ. A coefficient's interval is where the misfit stays below the threshold for some
v_s. An expected law has d ≥ 0; only where the data refuse it, it is given up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.actuators.base import Role
from diffnea.identify.determine.covariance import Noise, uncertainty
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.torque_effect import TorqueEffect

# Stribeck velocities that are tried, from a third of the lowest speed seen (a narrower peak is not seen at all) to the
# highest (a wider one is no peak).
_GRID, _NARROWEST = 32, 1 / 3
# The coefficients of the curve.
CURVE = (Role.STATIC, Role.KINETIC, Role.STRIBECK_VELOCITY, Role.VISCOUS)
# Joints are gone through this many times at most.
_SWEEPS = 5
# Half a 95 % interval of a normal variable, in standard deviations.
_NORMAL = 1.959964
# What is left of a column beside the others, as a share of its length, is rounding below this.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class FrictionProfile:
    """The 95 % intervals of one joint's friction, and the best curve where it beats the fitted one."""

    joint: int
    intervals: dict[Role, tuple[float, float]]
    best: dict[Role, float]
    better: float  # how far the best curves' misfit lies below the fitted one's, in units of the threshold
    slack: float  # the threshold as a share of the misfit


def friction_profiles(
    problem: Linearised,
    effect: TorqueEffect,
    rest: Float[np.ndarray, "rows k"],
    fitted: Mapping[Role, Float[np.ndarray, " n"]],
    joints: Sequence[int],
    found: Noise,
    level: float = _NORMAL**2,
) -> list[FrictionProfile]:
    """Of these joints; `rest` are the slopes in all that is learned beside their friction, `fitted` its coefficients.

    Joints are gone through again as long as one finds another curve: the misfit of each depends on the others'.
    """
    data = _Columns.of(problem, effect, rest, fitted, joints)
    curves = [_GRID // 2] * len(joints)
    for _ in range(_SWEEPS):
        before = list(curves)
        for k in range(len(joints)):
            curves[k] = int(np.argmin(data.curves(k, curves).misfit))
        if curves == before:
            break
    return [data.profile(k, curves, found, level) for k in range(len(joints))]


@dataclass(frozen=True)
class _Columns:
    """What each joint's friction does to the residuals, beside all other numbers: sign, v, then a peak a velocity.

    Each joint's residuals are divided by their own standard deviation, so that squares add up to a misfit.
    """

    problem: Linearised
    joints: tuple[int, ...]
    velocities: Float[np.ndarray, "m g"]
    rows: Float[np.ndarray, "rows c"]  # all joints' columns, and last what they are to explain
    products: Float[np.ndarray, "c c"]
    size: Float[np.ndarray, " c"]  # of the columns before the rest was taken out
    others: int  # how many other numbers there are
    fitted: float  # the misfit of the fit

    @classmethod
    def of(
        cls,
        problem: Linearised,
        effect: TorqueEffect,
        rest: np.ndarray,
        fitted: Mapping[Role, np.ndarray],
        joints: Sequence[int],
    ) -> "_Columns":
        scale = 1 / _spread(problem, rest.shape[1])[problem.joint]
        velocity, way, seen = effect.velocity, effect.way, np.abs(effect.seen)
        columns, velocities, now = [], [], np.zeros(len(scale))
        for j in joints:
            speeds = seen[problem.joint == j, j]
            top = speeds.max(initial=0.0) or 1.0
            velocities.append(np.geomspace(_NARROWEST * max(speeds.min(initial=top), 1e-3 * top), top, _GRID))
            tried = np.append(velocities[-1], fitted[Role.STRIBECK_VELOCITY][j])
            peaks = way[:, j, None] * np.exp(-((velocity[:, j, None] / tried) ** 2))
            raw = effect.of_joint(j, np.column_stack([way[:, j], velocity[:, j], peaks])) * scale[:, None]
            kinetic, static, viscous = (fitted[role][j] for role in (Role.KINETIC, Role.STATIC, Role.VISCOUS))
            now += raw[:, 0] * kinetic + raw[:, 1] * viscous + raw[:, -1] * (static - kinetic)
            columns.append(raw[:, :-1])
        residuals = problem.residuals * scale
        rows = np.column_stack([*columns, now - residuals])
        basis = _basis(rest * scale[:, None])
        size = np.linalg.norm(rows, axis=0)
        rows -= basis @ (basis.T @ rows)
        places = tuple(joints), np.array(velocities)
        return cls(problem, *places, rows, rows.T @ rows, size, basis.shape[1], float(residuals @ residuals))

    def _own(self, k: int) -> np.ndarray:
        """The columns of one joint."""
        return np.arange(k * (2 + _GRID), (k + 1) * (2 + _GRID))

    def _nuisance(self, k: int, curves: Sequence[int]) -> Float[np.ndarray, "c s"]:
        """The other joints' friction at their curves, as sums of columns: sign, v, the peak, and its slope in v_s."""
        found = np.zeros((len(self.products), 4 * (len(self.joints) - 1)))
        for place, i in enumerate(i for i in range(len(self.joints)) if i != k):
            own, g = self._own(i), curves[i]
            found[own[[0, 1, 2 + g]], 4 * place + np.arange(3)] = 1.0
            found[own[2 + min(g + 1, _GRID - 1)], 4 * place + 3] += 1.0
            found[own[2 + max(g - 1, 0)], 4 * place + 3] -= 1.0
        return found

    def _explained(self, k: int, curves: Sequence[int]) -> Float[np.ndarray, "c c"]:
        """How much of each column the other joints' friction explains, as sums of columns."""
        others = self._nuisance(k, curves)
        matrix = others.T @ self.products @ others
        size = np.sqrt(np.diagonal(matrix))
        size = np.where(size > _ROUNDING * size.max(initial=0.0), size, np.inf)
        inverse = np.linalg.pinv(matrix / np.outer(size, size), _ROUNDING, hermitian=True) / np.outer(size, size)
        return others @ inverse @ others.T @ self.products

    def curves(self, k: int, curves: Sequence[int]) -> "_Curves":
        """The misfit of one joint's curves beside those of the others."""
        own = np.append(self._own(k), len(self.products) - 1)
        left = self.products - self.products @ self._explained(k, curves)
        return _Curves.of(left[np.ix_(own, own)], self.size[own], self.velocities[k])

    def profile(self, k: int, curves: Sequence[int], found: Noise, level: float) -> FrictionProfile:
        """The intervals of one joint beside the others' curves."""
        mine = self.curves(k, curves)
        own = np.append(self._own(k), len(self.products) - 1)
        rows = self.rows[:, own] - self.rows @ self._explained(k, curves)[:, own]
        freedom = len(rows) - self.others - 4 * len(self.joints)
        threshold = level * self._inflation(rows, mine.chosen, found) * mine.lowest / max(freedom, 1)
        if np.min(mine.any_sign) + threshold < mine.lowest:
            mine = replace(mine, expected=False)
        return mine.profile(self.joints[k], threshold, self.fitted)

    def _inflation(self, rows: Float[np.ndarray, "rows c"], chosen: list[int], found: Noise) -> float:
        """By how much correlated residuals widen the variances of a joint's friction beyond those of white ones."""
        slopes = rows[:, chosen]
        residuals = slopes @ np.linalg.lstsq(slopes, rows[:, -1], rcond=None)[0] - rows[:, -1]
        places = self.problem.joint, self.problem.sample, self.problem.segment
        spread = uncertainty(slopes, residuals, *places, found, self.problem.dt is not None)
        white = np.diag(np.linalg.pinv(slopes.T @ slopes)) * float(residuals @ residuals) / max(len(residuals), 1)
        ratio = spread.std(np.eye(len(chosen))) ** 2 / white
        return float(max(1.0, np.max(ratio))) * (spread.quantile() / _NORMAL) ** 2


def _spread(problem: Linearised, unknowns: int) -> Float[np.ndarray, " n"]:
    """The standard deviation of each joint's residuals."""
    joints = int(problem.joint.max(initial=0)) + 1
    squares, count = (np.bincount(problem.joint, weights, joints) for weights in (problem.residuals**2, None))
    share = max(1 - unknowns / max(len(problem.residuals), 1), 1 / max(len(problem.residuals), 1))
    std = np.sqrt(squares / np.maximum(share * count, 1.0))
    return np.where(std > 0, std, std.max(initial=0.0) or 1.0)


def _basis(slopes: Float[np.ndarray, "rows k"]) -> Float[np.ndarray, "rows r"]:
    """An orthonormal basis of the columns, without those that are rounding."""
    size = np.linalg.norm(slopes, axis=0)
    kept = slopes[:, size > _ROUNDING * size.max(initial=0.0)]
    orthogonal, triangle = np.linalg.qr(kept / np.linalg.norm(kept, axis=0))
    left, values, _ = np.linalg.svd(triangle)
    return orthogonal @ left[:, values > _ROUNDING * values.max(initial=0.0)]


@dataclass(frozen=True)
class _Curves:
    """The misfit of every Stribeck velocity: products of the columns sign, v, one peak each, and the target."""

    products: Float[np.ndarray, "c c"]
    velocities: Float[np.ndarray, " g"]
    visible: Bool[np.ndarray, " g"]  # whether a peak is seen beside the other columns
    any_sign: Float[np.ndarray, " g"]  # the misfit
    falling: Float[np.ndarray, " g"]  # the same where static friction is not below kinetic
    flat: float  # the same without a peak
    expected: bool = True  # static friction is not below kinetic

    @classmethod
    def of(cls, products: np.ndarray, size: np.ndarray, velocities: np.ndarray) -> "_Curves":
        count = len(velocities)
        flat = _solved(products, [0, 1])[1]
        solved = [_solved(products, [0, 1, 2 + g]) for g in range(count)]
        visible = np.array([_is_seen(products, size, 2 + g) for g in range(count)], bool)
        misfit = np.where(visible, [cost for _, cost in solved], flat)
        falls = np.array([value[2] >= 0 for value, _ in solved], bool)
        return cls(products, velocities, visible, misfit, np.where(falls, misfit, flat), flat)

    @property
    def misfit(self) -> Float[np.ndarray, " g"]:
        """Of every Stribeck velocity."""
        return self.falling if self.expected else self.any_sign

    @property
    def lowest(self) -> float:
        """The best curve's misfit."""
        return float(np.min(self.misfit))

    @property
    def chosen(self) -> list[int]:
        """The columns of the best curve."""
        return [0, 1, 2 + int(np.argmin(self.misfit))] if self.lowest < self.flat else [0, 1]

    def profile(self, joint: int, threshold: float, fitted: float) -> FrictionProfile:
        """The intervals: where the misfit is below the lowest plus the threshold."""
        level = self.lowest + threshold
        inside = np.flatnonzero(self.visible & (self.misfit <= level)).tolist()
        intervals = {}
        for role, weights in _WEIGHTS.items():
            edge = [0, 1] if self.expected else None
            ends = [_extent(self.products, [0, 1, 2 + g], level, weights, edge) for g in inside]
            if self.flat <= level:
                lower, upper = _extent(self.products, [0, 1], level, weights[:2])
                ends.append((lower, np.inf if weights[2] else upper))  # a peak not seen may have any height
            intervals[role] = max(0.0, min(a for a, _ in ends)), max(b for _, b in ends)
        intervals[Role.STRIBECK_VELOCITY] = self._velocity(level)
        value = np.append(_solved(self.products, self.chosen)[0], 0.0)[:3]
        best = {role: float(weights @ value) for role, weights in _WEIGHTS.items()}
        best[Role.STRIBECK_VELOCITY] = float(self.velocities[int(np.argmin(self.misfit))])
        better = (fitted - self.lowest) / threshold if threshold > 0 else 0.0
        return FrictionProfile(joint, intervals, best, better, threshold / max(self.lowest, 1e-300))

    def _velocity(self, level: float) -> tuple[float, float]:
        """The Stribeck velocities below the level; open where the grid ends, and where no peak is as good."""
        inside = np.flatnonzero(self.misfit <= level)
        low, high, last = int(inside.min()), int(inside.max()), len(self.velocities) - 1
        lower = 0.0 if low == 0 or self.flat <= level else self._crossing(low - 1, low, level)
        upper = np.inf if high == last or self.flat <= level else self._crossing(high, high + 1, level)
        return lower, upper

    def _crossing(self, a: int, b: int, level: float) -> float:
        """Between two neighbours of the grid, by a line in the logarithm."""
        share = (level - self.misfit[a]) / (self.misfit[b] - self.misfit[a])
        return float(self.velocities[a] * (self.velocities[b] / self.velocities[a]) ** share)


# What each coefficient is of (kinetic, viscous, peak).
_WEIGHTS = {
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
    return bool(left > (_ROUNDING * size[0]) ** 2)


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
