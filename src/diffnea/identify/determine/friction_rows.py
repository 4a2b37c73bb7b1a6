"""Friction by its profiles; one-sided where only a bound is known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from diffnea.actuators.base import Role
from diffnea.identify.determine.combinations import Combination, Interval
from diffnea.identify.determine.parts import Parts, with_interval
from diffnea.identify.determine.structure.coordinates import Coordinate, actuator_coordinates, actuator_vector
from diffnea.identify.determine.uncertainty.covariance import NORMAL_QUANTILE
from diffnea.identify.determine.uncertainty.friction_curves import with_fitted
from diffnea.identify.notes import Note, note
from diffnea.models import Model


def friction_rows(parts: Parts) -> tuple[list[Combination], list[Note]]:
    """Friction by its profiles; one-sided where only a bound is known."""
    found, notes, robot = [], [], parts.model.robot
    entries = actuator_coordinates(robot, parts.model.actuator)
    values = np.asarray(actuator_vector(parts.model.actuator), float)
    places = {(entry.role, entry.index): i for i, entry in enumerate(entries)}
    for profile in parts.friction:
        for role in (Role.VISCOUS, Role.KINETIC, Role.STATIC, Role.STRIBECK_VELOCITY):
            i = places[role, profile.joint]
            entry, ends = entries[i], with_fitted(float(values[i]), *profile.intervals[role])
            each = parts.coefficient(entry, float(values[i]), _coefficient(i))
            by = parts.force if entry.is_force else 1.0
            lower, upper = sorted(end / by for end in ends)
            if not np.isfinite(ends[1]) or ends[0] <= 0:
                peak = bool(np.isfinite(profile.intervals[Role.STRIBECK_VELOCITY][1]))
                notes.append(_open(replace(entry, unit=each.unit), lower, upper, peak))
                continue
            std = (upper - lower) / (2 * NORMAL_QUANTILE)
            found.append(with_interval(each, Interval(each.value, std, lower, upper, True)))
    return found, notes


def _coefficient(i: int) -> Callable[[Model], float]:
    return lambda model: float(actuator_vector(model.actuator)[i])


def _open(entry: Coordinate, lower: float, upper: float, peak: bool) -> Note:
    """A bound in words; `peak`: friction rises at low speed."""
    if np.isfinite(upper):
        return note("unknown-at-most", f"{entry.symbol} of {entry.owner}", upper=upper, unit=entry.unit)
    if entry.role is Role.STATIC and peak:
        return note("unknown-static-top", entry.owner, lower=lower, unit=entry.unit)
    if entry.role is Role.STATIC:
        return note("unknown-static-friction", entry.owner, lower=lower, unit=entry.unit)
    return note("unknown-stribeck-velocity", entry.owner)
