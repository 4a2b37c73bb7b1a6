"""Combinations that data determine, each with an interval, and the list of what they cannot tell: the result."""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.files import Json
from diffnea.identify.determine.structure.coordinates import value_and_slopes
from diffnea.identify.determine.uncertainty.covariance import Uncertainty
from diffnea.identify.determine.uncertainty.friction_curves import FrictionProfile
from diffnea.identify.notes import Note
from diffnea.models import Model

# A quantity is determined when directions that are not move it by less than this share of its size: rounding.
LEAK = 1e-6
_KINDS = {
    "inertia": "inertial",
    "gravity": "of gravity",
    "armature": "of rotors",
    "kinematics": "of placements",
    "actuator": "of actuators",
}


@dataclass(frozen=True)
class Interval:
    """A quantity's value, standard deviation and 95 % interval; not determined means that these are no bounds."""

    value: float
    std: float
    lower: float
    upper: float
    determined: bool = True

    def tells(self, size: float, positive: bool) -> bool:
        """Whether it says something: narrower than the number's natural size, and off zero where it has to be."""
        half = (self.upper - self.lower) / 2
        off_zero = self.lower > 0 or not positive
        return bool(np.isfinite(half) and half <= max(abs(self.value), size) and off_zero)


@dataclass(frozen=True)
class Combination:
    """A quantity that the data determine, as a formula of physical numbers."""

    formula: str
    unit: str
    kind: str  # "inertia", "gravity", "armature", "kinematics" or "actuator"
    value: float
    std: float
    lower: float
    upper: float
    meaning: str = ""  # what it is otherwise, as an entry of the mass matrix
    base: bool = False  # a base parameter: a sum of links' numbers, for calculations more than for reading
    measure: Callable[[Model], float] = field(default=lambda model: float("nan"), repr=False, compare=False)

    @property
    def interval(self) -> Interval:
        """The numbers alone."""
        return Interval(self.value, self.std, self.lower, self.upper)

    def of(self, model: Model) -> float:
        """The same quantity of another model, as the one the fit started from."""
        return self.measure(model)

    def to_dict(self) -> Json:
        """For JSON; what is not finite is None."""
        numbers = {name: _finite(getattr(self, name)) for name in ("value", "std", "lower", "upper")}
        words = {"formula": self.formula, "unit": self.unit, "kind": self.kind}
        return {**words, **numbers, "meaning": self.meaning, "base": self.base}


@dataclass(frozen=True)
class Estimate:
    """The linear theory at the solution: coordinates, the sums of them that are determined, and their covariance."""

    scales: Float[np.ndarray, " k"]
    inverse: Float[np.ndarray, "p k"]  # ∂θ/∂x
    sums: Float[np.ndarray, "r k"]  # 1 at their own column, 0 at each other's
    own: tuple[int, ...]  # their own columns
    uncertainty: Uncertainty
    leak: float  # what is not determined may move a quantity by this share of its standard deviation
    bias: Float[np.ndarray, " r"]  # of the sums, by noise in the regressors

    def interval(self, value: float, slopes: Float[np.ndarray, " k"], positive: bool = False) -> Interval:
        """By the delta method, of a quantity with these slopes in the coordinates."""
        weights = slopes[list(self.own)]
        std = float(self.uncertainty.std(weights))
        leak = float(np.linalg.norm((slopes - weights @ self.sums) * self.scales))
        size = float(np.linalg.norm(slopes * self.scales))
        half, centre = self.uncertainty.quantile() * std, value - float(weights @ self.bias)
        lower, upper = min(centre - half, value), max(centre + half, value)
        # What cannot be negative has an interval that ends at zero: as honest, since the truth is not beyond it.
        lower = max(lower, 0.0) if positive and value >= 0 else lower
        # An estimate that has ended at zero: what noise has done to it is not linear there, and zero is not excluded.
        lower = 0.0 if positive and 0 <= value <= half else lower
        return Interval(value, std, lower, upper, leak <= max(LEAK * size, self.leak * std))

    @property
    def directions(self) -> Float[np.ndarray, "d p"]:
        """Orthonormal directions of θ along which the data do not change."""
        others = [i for i in range(len(self.scales)) if i not in self.own]
        null = np.eye(len(self.scales))[:, others]
        null[list(self.own)] = -self.sums[:, others]
        return np.linalg.qr(self.inverse @ null)[0].T if others else np.zeros((0, len(self.inverse)))


@dataclass(frozen=True)
class Identifiability:
    """What the data determine and what they do not; `print` it for a table."""

    combinations: tuple[Combination, ...]
    unknown: tuple[Note, ...]  # what cannot be known, and why
    rank: int  # how many independent numbers these data determine
    structural_rank: int  # how many any recording of the joints could
    unknowns: int  # how many are learned
    noise_variance: float  # of a normalised residual
    effective_samples: float
    estimate: Estimate = field(repr=False)
    theta: Float[np.ndarray, " p"] = field(repr=False)
    unpack: Callable[[Float[Array, " p"]], Model] = field(repr=False)
    friction: tuple[FrictionProfile, ...] = field(default=(), repr=False)  # by profiles, one a joint that has some

    @property
    def directions(self) -> Float[np.ndarray, "d p"]:
        """Orthonormal directions of θ along which the data do not change."""
        return self.estimate.directions

    def interval(self, quantity: Callable[[Model], Array], positive: bool = False) -> Interval:
        """A differentiable quantity of the model, `quantity(model) -> number`, with its interval."""

        def value(theta):
            return jnp.asarray(quantity(self.unpack(theta))).reshape(1)

        found, slopes = value_and_slopes(value, jnp.asarray(self.theta))
        return self.estimate.interval(float(found[0]), slopes[0] @ self.estimate.inverse, positive)

    def to_dict(self) -> Json:
        """For JSON."""
        return {
            "rank": self.rank,
            "structural_rank": self.structural_rank,
            "unknowns": self.unknowns,
            "noise_variance": _finite(self.noise_variance),
            "effective_samples": _finite(self.effective_samples),
            "combinations": [combination.to_dict() for combination in self.combinations],
            "unknown": list(map(str, self.unknown)),
        }

    def __str__(self) -> str:
        return "\n".join([*_table(self), *_list(self)])


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _table(found: Identifiability) -> list[str]:
    kinds = [each.kind for each in found.combinations if each.base or each.kind in ("actuator", "kinematics")]
    counted = [f"{kinds.count(kind)} {word}" for kind, word in _KINDS.items() if kind in kinds]
    head = f"{found.rank} of {found.unknowns} learned numbers are determined"
    head += f": {', '.join(counted)}" if counted else ""
    if found.rank < found.structural_rank:
        head += f" ({found.structural_rank} could be by other recordings)"
    rows = [("quantity", "value", "95 % interval", "unit", "")]
    for each in found.combinations:
        meaning = f"= {each.meaning}" if each.meaning else ""
        interval = f"{_number(each.lower)} … {_number(each.upper)}"
        rows.append((each.formula, _number(each.value), interval, each.unit, meaning))
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [head, "", *lines] if found.combinations else [head]


def _list(found: Identifiability) -> list[str]:
    if not found.unknown:
        return []
    return ["", "Not determined:", *(f"- {sentence}" for sentence in found.unknown)]


def _number(value: float) -> str:
    return f"−{-value:.4g}" if value < 0 else f"{abs(value):.4g}"
