"""The parts that quantities are made of: a problem at its solution, its view, its estimate and friction profiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from diffnea.actuators.base import Role
from diffnea.identify.determine.combinations import Combination, Estimate, Interval
from diffnea.identify.determine.structure.base_parameters import Echelon
from diffnea.identify.determine.structure.coordinates import Coordinate
from diffnea.identify.determine.structure.observables import Observable
from diffnea.identify.determine.structure.ratios import divided_observable
from diffnea.identify.determine.structure.view import View
from diffnea.identify.determine.uncertainty.friction_curves import FrictionProfile
from diffnea.identify.problem.linearised import Linearised
from diffnea.models import Model


@dataclass(frozen=True)
class Parts:
    """A problem, what its data determine, and what had no effect on them."""

    problem: Linearised
    view: View
    model: Model
    estimate: Estimate
    data: Echelon
    silent: Bool[np.ndarray, " r"]
    friction: tuple[FrictionProfile, ...]

    @property
    def kinematics(self) -> bool:
        """Whether placements are learned."""
        return "kinematics" in self.problem.learned

    @property
    def entries(self) -> tuple[Coordinate, ...]:
        """The physical numbers."""
        return self.view.coordinates.entries

    @property
    def profiled(self) -> set[tuple[Role, int]]:
        """Coefficients that have an interval from a profile."""
        return {(role, each.joint) for each in self.friction for role in each.intervals}

    def is_profiled(self, entry: Coordinate) -> bool:
        """Whether a number has its interval from a profile, or is the entry of θ behind such a one."""
        if entry.kind == "other":
            return any(entry.index in places for places in self.problem.curve.values()) and bool(self.friction)
        return entry.kind == "actuator" and (entry.role, entry.index) in self.profiled

    @property
    def force(self) -> float:
        """What forces are divided by: 1 where their scale is known."""
        return 1.0 if self.view.reference is None else float(self.view.coordinates.values[self.view.reference])

    def coefficient(self, entry: Coordinate, value: float, measure: Callable[[Model], float]) -> Observable:
        """One of the actuator's numbers, a force in units of the reference."""
        slopes = np.zeros(len(self.entries))
        seen = Observable(entry.name, entry.unit, entry.kind, value, slopes, measure, entry.positive)
        return self.divided([seen])[0] if entry.is_force else seen

    def divided(self, seen: Sequence[Observable]) -> list[Observable]:
        """In units of the reference, where the scale of forces is not known."""
        by = self.view.reference
        return list(seen) if by is None else [divided_observable(each, self.view.coordinates, by) for each in seen]


def with_interval(each: Observable, interval: Interval, base: bool = False) -> Combination:
    """A quantity with its interval, as it is handed out."""
    numbers = interval.value, interval.std, interval.lower, interval.upper
    return Combination(each.name, each.unit, each.kind, *numbers, each.meaning, base, each.measure)
