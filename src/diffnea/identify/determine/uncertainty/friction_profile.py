"""Profile likelihood of a joint's friction: intervals of coefficients that are not quadratic.

The friction `sign(v) (f_k + d exp(−(v/v_s)²)) + μ v` with d = f_s − f_k is linear in f_k, d and μ once the Stribeck
velocity v_s is given. So for every v_s of a grid all other numbers, inertias included, are solved for exactly, and the
misfit is a parabola in f_k, d and μ. A coefficient's interval is where the misfit stays below the threshold for some
v_s. An expected law has d ≥ 0 and a peak at low speed; it is given up only where the data refuse it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.actuators.base import Role
from diffnea.identify.determine.uncertainty.covariance import NORMAL_QUANTILE, Noise, noise, uncertainty
from diffnea.identify.determine.uncertainty.friction_curves import INDEPENDENT, Curves, FrictionProfile
from diffnea.identify.determine.uncertainty.input_timing import with_timing
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.torque_effect import TorqueEffect

# Stribeck velocities that are tried, from a third of the lowest speed seen (a narrower peak is not seen at all) to the
# highest. A peak is expected to be over at half of it (e⁻⁴ is left): a wider one is a bend of viscous friction.
_GRID, _NARROWEST, _WIDEST = 32, 1 / 3, 1 / 4
# The coefficients of the curve.
CURVE_ROLES = (Role.STATIC, Role.KINETIC, Role.STRIBECK_VELOCITY, Role.VISCOUS)
# Joints are gone through this many times at most, and the grid made finer until so many points lie inside.
_SWEEPS, _REFINEMENTS, _POINTS = 5, 5, 6
# The data refuse an expected law beyond this many thresholds: by chance once in 2000 times (χ² of 11.5).
_REFUSED = 3
# At this share of the Stribeck velocity half of the peak is left, √ln 2; so many rows have to be slower.
_HALF_DROP, _SLOW_ROWS = 0.8326, 5


def profiles_of(problem: Linearised, held: Float[np.ndarray, " p"] | None = None) -> list[FrictionProfile]:
    """Of all joints whose whole curve is learned; by the torque equations of the data.

    `held`, where the scale of forces is not known: the slopes in θ of the number that stays as it is, so that others
    are known beside it.
    """
    places = problem.curve
    joints = (
        [j for j in range(len(places[CURVE_ROLES[0]])) if all(places[r][j] >= 0 for r in CURVE_ROLES)] if places else []
    )
    equations = problem.equations if joints else problem
    if equations.effect is None or not joints:
        return []
    own = np.zeros(len(equations.theta), bool)
    own[[places[role][j] for role in CURVE_ROLES for j in joints]] = True
    rest = equations.jacobian[:, ~own]
    if held is not None:
        if np.any(np.abs(held[own]) > INDEPENDENT * np.abs(held).max()):  # forces are divided by a friction itself
            return []
        rest = rest @ np.linalg.svd(held[~own][None])[2][1:].T
    actuator = equations.effect.model.actuator
    fitted = {each.role: np.asarray(each.values, float) for each in actuator.physical() if each.role in CURVE_ROLES}
    where = equations.residuals, equations.joint, equations.sample, equations.segment
    found = noise(*where, equations.jacobian.shape[1], equations.dt is not None)
    profiles = friction_profiles(equations, equations.effect, rest, fitted, joints, found)
    return with_timing(profiles, equations, found)


def friction_profiles(
    problem: Linearised,
    effect: TorqueEffect,
    rest: Float[np.ndarray, "rows k"],
    fitted: Mapping[Role, Float[np.ndarray, " n"]],
    joints: Sequence[int],
    found: Noise,
    level: float = NORMAL_QUANTILE**2,
) -> list[FrictionProfile]:
    """Of these joints; `rest` are the slopes in all that is learned beside their friction, `fitted` its coefficients.

    Joints are gone through again as long as one finds another curve: the misfit of each depends on the others'. The
    grid of Stribeck velocities is made finer about the best until it resolves the interval.
    """
    grids, curves = _coarse(problem, effect, joints), [_GRID // 3] * len(joints)
    found_profiles = []
    for _ in range(_REFINEMENTS):
        data = _Columns.of(problem, effect, rest, fitted, joints, grids)
        curves = data.settled(curves, found, level)
        found_profiles = [data.profile(k, curves, found, level) for k in range(len(joints))]
        if all(each.points >= _POINTS for each in found_profiles):
            break
        values = [grid[g] for grid, g in zip(grids, curves, strict=True)]
        rows = zip(grids, curves, found_profiles, strict=True)
        grids = np.array([grid if each.points >= _POINTS else _finer(grid, g) for grid, g, each in rows])
        curves = [int(np.argmin(np.abs(grid - value))) for grid, value in zip(grids, values, strict=True)]
    found_profiles = [_without_peak(each) if effect.crowded[each.joint] else each for each in found_profiles]
    return [each if _reaches_peak(each, problem, effect) else _without_top(each) for each in found_profiles]


def _reaches_peak(found: FrictionProfile, problem: Linearised, effect: TorqueEffect) -> bool:
    """Whether rows are slow enough to see the upper half of the peak, and not its foot alone."""
    speed = np.abs(effect.seen[problem.joint == found.joint, found.joint])
    return int(np.sum(speed < _HALF_DROP * found.best[Role.STRIBECK_VELOCITY])) >= _SLOW_ROWS


def _without_top(found: FrictionProfile) -> FrictionProfile:
    """From the foot of a peak its height follows by the form of the curve alone: static friction is no less."""
    return replace(found, intervals=found.intervals | {Role.STATIC: (found.intervals[Role.STATIC][0], np.inf)})


def _without_peak(found: FrictionProfile) -> FrictionProfile:
    """What rows near reversals would tell of a peak is their bias: static friction is no less than kinetic, no more."""
    bounds = {Role.STATIC: (found.intervals[Role.KINETIC][0], np.inf), Role.STRIBECK_VELOCITY: (0.0, np.inf)}
    return replace(found, intervals=found.intervals | bounds)


def _coarse(problem: Linearised, effect: TorqueEffect, joints: Sequence[int]) -> Float[np.ndarray, "m g"]:
    """Stribeck velocities to try first."""
    seen, grids = np.abs(effect.seen), []
    for j in joints:
        speeds = seen[problem.joint == j, j]
        top = speeds.max(initial=0.0) or 1.0
        grids.append(np.geomspace(_NARROWEST * max(speeds.min(initial=top), 1e-3 * top), top, _GRID))
    return np.array(grids)


def _finer(grid: Float[np.ndarray, " g"], best: int) -> Float[np.ndarray, " g"]:
    """Half of the points from end to end, the other half about the best."""
    wide = np.geomspace(grid[0], grid[-1], _GRID // 2)
    ends = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
    near = np.geomspace(*ends, _GRID - _GRID // 2 + 2)[1:-1]
    return np.sort(np.concatenate([wide, near]))


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
        velocities: Float[np.ndarray, "m g"],
    ) -> "_Columns":
        scale = 1 / _spread(problem, rest.shape[1])[problem.joint]
        velocity, way = effect.velocity, effect.way
        columns, now = [], np.zeros(len(scale))
        for j, grid in zip(joints, velocities, strict=True):
            tried = np.append(grid, fitted[Role.STRIBECK_VELOCITY][j])
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
        return cls(
            problem, tuple(joints), velocities, rows, rows.T @ rows, size, basis.shape[1], float(residuals @ residuals)
        )

    def settled(self, curves: Sequence[int], noisy: Noise, level: float) -> list[int]:
        """The curve of each joint that is best beside the others', from these."""
        found = list(curves)
        for _ in range(_SWEEPS):
            before = list(found)
            for k in range(len(self.joints)):
                found[k] = int(np.argmin(self.believed(k, found, noisy, level).misfit))
            if found == before:
                break
        return found

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
        size = np.where(size > INDEPENDENT * size.max(initial=0.0), size, np.inf)
        inverse = np.linalg.pinv(matrix / np.outer(size, size), INDEPENDENT, hermitian=True) / np.outer(size, size)
        return others @ inverse @ others.T @ self.products

    def curves(self, k: int, curves: Sequence[int]) -> "Curves":
        """The misfit of one joint's curves beside those of the others."""
        own = np.append(self._own(k), len(self.products) - 1)
        left = self.products - self.products @ self._explained(k, curves)
        return Curves.of(left[np.ix_(own, own)], self.size[own], self.velocities[k], _WIDEST * self.velocities[k][-1])

    def believed(self, k: int, curves: Sequence[int], found: Noise, level: float) -> Curves:
        """One joint's curves: the expected law, or any where the data refuse it, judged by the best curve's noise."""
        mine = self.curves(k, curves)
        any_ = replace(mine, expected=False)
        margin = _REFUSED * level * any_.lowest / self.freedom
        if any_.lowest + margin >= mine.lowest:  # not even if residuals were white
            return mine
        return any_ if any_.lowest + margin * max(self._inflation(k, curves, any_, found)) < mine.lowest else mine

    def profile(self, k: int, curves: Sequence[int], found: Noise, level: float) -> FrictionProfile:
        """The intervals of one joint beside the others' curves."""
        mine = self.believed(k, curves, found, level)
        kinetic, viscous, *peak = self._inflation(k, curves, mine, found) * level * mine.lowest / self.freedom
        most = max(kinetic, viscous, *peak)  # a peak rests on few moments of the motion: the widest of its joint counts
        thresholds = {Role.KINETIC: kinetic, Role.VISCOUS: viscous, Role.STATIC: most, Role.STRIBECK_VELOCITY: most}
        return mine.profile(self.joints[k], thresholds, self.fitted)

    @property
    def freedom(self) -> int:
        """Residuals beyond the numbers that are solved for."""
        return max(len(self.rows) - self.others - 4 * len(self.joints), 1)

    def _inflation(self, k: int, curves: Sequence[int], mine: Curves, found: Noise) -> Float[np.ndarray, " c"]:
        """By how much correlated residuals widen the variances of kinetic, viscous and the peak, beside white ones."""
        own = np.append(self._own(k), len(self.products) - 1)
        rows, chosen = self.rows[:, own] - self.rows @ self._explained(k, curves)[:, own], mine.chosen
        slopes = rows[:, chosen]
        if np.linalg.matrix_rank(slopes) < len(chosen):  # as of a joint that stands still: nothing to widen
            return np.ones(len(chosen))
        residuals = slopes @ np.linalg.lstsq(slopes, rows[:, -1], rcond=None)[0] - rows[:, -1]
        places = self.problem.joint, self.problem.sample, self.problem.segment
        spread = uncertainty(slopes, residuals, *places, found, self.problem.dt is not None)
        white = np.diag(np.linalg.pinv(slopes.T @ slopes)) * float(residuals @ residuals) / max(len(residuals), 1)
        ratio = spread.std(np.eye(len(chosen))) ** 2 / white
        return np.maximum(ratio, 1.0) * (spread.quantile() / NORMAL_QUANTILE) ** 2


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
    kept = slopes[:, size > INDEPENDENT * size.max(initial=0.0)]
    orthogonal, triangle = np.linalg.qr(kept / np.linalg.norm(kept, axis=0))
    left, values, _ = np.linalg.svd(triangle)
    return orthogonal @ left[:, values > INDEPENDENT * values.max(initial=0.0)]
