"""Quantities with intervals: first what an engineer reads, then base parameters; and the reasons for the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from diffnea.actuators.base import Role
from diffnea.identify.determine.combinations import LEAK, Combination, Estimate, Interval
from diffnea.identify.determine.data_notes import data_notes
from diffnea.identify.determine.structure.base_parameters import Echelon
from diffnea.identify.determine.structure.coordinates import (
    Coordinate,
    Coordinates,
    actuator_coordinates,
    actuator_vector,
)
from diffnea.identify.determine.structure.formulas import formula, listed
from diffnea.identify.determine.structure.observables import Observable, observables, readable
from diffnea.identify.determine.structure.ratios import divided_observable
from diffnea.identify.determine.structure.structural_notes import structural_notes
from diffnea.identify.determine.structure.view import View
from diffnea.identify.determine.uncertainty.covariance import NORMAL_QUANTILE
from diffnea.identify.determine.uncertainty.friction_curves import FrictionProfile
from diffnea.identify.determine.zero_positions import zero_positions
from diffnea.identify.notes import Note, note
from diffnea.identify.problem.linearised import Linearised
from diffnea.models import Model

# A quantity adds to those chosen if it leaves their span by this angle, in units of the noise.
_NEW = 1e-2


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


def quantities(parts: Parts) -> tuple[tuple[Combination, ...], tuple[Note, ...]]:
    """What the data determine, what an engineer reads first, and notes on all that they do not."""
    first = _read(parts)
    rubbing, open_ = _rubbing(parts)
    if parts.kinematics:
        rest, vague = _chosen(parts), []
    else:
        rest, vague = _sums(parts)
    actuators = [each for each in rest if each.kind == "actuator"] + rubbing
    others = [each for each in rest if each.kind != "actuator"]
    return (*first, *actuators, *others), (*_unknown(parts), *open_, *vague)


def _read(parts: Parts) -> list[Combination]:
    """Inertia and gravity at the middle of the motion; what is not determined is told by the sums behind it."""
    if not any(entry.kind in ("inertia", "armature") for entry in parts.entries):
        return []
    motion, n = parts.problem.motion, parts.model.num_joints
    pose, label = (np.zeros(n), "zero pose") if motion is None else (motion.middle, "mid pose")
    seen = readable(parts.model.robot, parts.view.coordinates, parts.kinematics, pose, label)
    found = []
    for each in parts.divided(seen):
        interval = parts.estimate.interval(each.value, each.slopes, each.positive)
        size = float(np.max(np.abs(each.slopes) * parts.view.coordinates.scales, initial=0.0))
        if interval.determined and interval.tells(size, each.positive):
            found.append(_combination(each, interval))
    return found


def _combination(each: Observable, interval: Interval, base: bool = False) -> Combination:
    numbers = interval.value, interval.std, interval.lower, interval.upper
    return Combination(each.name, each.unit, each.kind, *numbers, each.meaning, base, each.measure)


def _rubbing(parts: Parts) -> tuple[list[Combination], list[Note]]:
    """Friction by its profiles; one-sided where only a bound is known."""
    found, notes, robot = [], [], parts.model.robot
    entries = actuator_coordinates(robot, parts.model.actuator)
    values = np.asarray(actuator_vector(parts.model.actuator), float)
    places = {(entry.role, entry.index): i for i, entry in enumerate(entries)}
    for profile in parts.friction:
        for role in (Role.VISCOUS, Role.KINETIC, Role.STATIC, Role.STRIBECK_VELOCITY):
            i = places[role, profile.joint]
            entry, ends = entries[i], profile.intervals[role]
            each = parts.coefficient(entry, float(values[i]), _coefficient(i))
            by = parts.force if entry.is_force else 1.0
            lower, upper = sorted(end / by for end in ends)
            if not np.isfinite(ends[1]) or ends[0] <= 0:
                peak = bool(np.isfinite(profile.intervals[Role.STRIBECK_VELOCITY][1]))
                notes.append(_open(replace(entry, unit=each.unit), lower, upper, peak))
                continue
            # A fit that ended elsewhere is no less possible for it.
            lower, upper = min(lower, each.value), max(upper, each.value)
            std = (upper - lower) / (2 * NORMAL_QUANTILE)
            found.append(_combination(each, Interval(each.value, std, lower, upper, True)))
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


def _sums(parts: Parts) -> tuple[list[Combination], list[Note]]:
    """The structure's sums as these data have them; those that say nothing, or mix units, as notes."""
    found, notes = [], []
    seen = parts.divided(observables(parts.model.robot, parts.view.coordinates.robot_slopes, False))
    for row, own in enumerate(parts.estimate.own):
        entry = parts.entries[own]
        if entry.kind == "other" or own == parts.view.reference or parts.is_profiled(entry):
            continue
        slopes = _led(parts.estimate.sums[row], own, parts.view.coordinates.scales)
        apart = [parts.entries[i] for i in np.flatnonzero(slopes) if not _goes_with(entry, parts.entries[i])]
        if apart:
            names = listed(each.name for each in apart)
            notes.append(note("unknown-not-separable", entry.name, partners=names))
            continue
        combination, size, positive = _sum(parts, slopes, own, seen)
        if combination.interval.tells(size, positive):
            found.append(combination)
        else:
            notes.append(_vague(combination, positive))
    return found, notes


def _led(slopes: Float[np.ndarray, " k"], own: int, scales: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """A sum whose own term is not dwarfed by another; else it is counted in units of that one."""
    shares = np.abs(slopes) * scales
    lead = int(np.argmax(shares))
    return slopes / slopes[lead] if shares[lead] > 10 * shares[own] else slopes


def _goes_with(entry: Coordinate, other: Coordinate) -> bool:
    """Whether a sum of two numbers means something: moments of bodies and rotors, or coefficients of one unit."""
    bodies = ("inertia", "armature")
    alike = entry.kind == other.kind == "actuator" and entry.unit == other.unit
    return (entry.kind in bodies and other.kind in bodies) or alike


def _sum(
    parts: Parts, slopes: Float[np.ndarray, " k"], own: int, seen: list[Observable]
) -> tuple[Combination, float, bool]:
    """One of the sums and the observable that it is; its natural size, and whether it cannot be negative."""
    coordinates, entries = parts.view.coordinates, parts.entries
    lead = own if slopes[own] == 1 else int(np.flatnonzero(slopes == 1)[0])
    part = [entry for entry, weight in zip(entries, slopes, strict=True) if weight]
    positive = all(entry.positive for entry in part) and bool(np.all(slopes >= 0))
    interval = parts.estimate.interval(float(slopes @ coordinates.values), slopes, positive)
    scaled = slopes * coordinates.scales
    numbers = interval.value, interval.std, interval.lower, interval.upper
    combination = Combination(
        formula(entries, slopes, lead),
        entries[lead].unit,
        entries[lead].kind,
        *numbers,
        _meaning(scaled, seen, coordinates.scales),
        entries[lead].kind != "actuator",
        _weighted(coordinates, slopes, parts.model),
    )
    return combination, float(np.max(np.abs(scaled))), positive


def _vague(each: Combination, positive: bool) -> Note:
    """An interval that says nothing, in words."""
    if positive:
        return note("unknown-at-most", each.formula, upper=each.upper, unit=each.unit)
    return note("unknown-too-wide", each.formula, lower=each.lower, upper=each.upper, unit=each.unit)


def _weighted(coordinates: Coordinates, weights: Float[np.ndarray, " k"], origin: Model) -> Callable[[Model], float]:
    """A sum of coordinates as a function of the model."""
    part = np.flatnonzero(weights)
    return lambda model: float(weights[part] @ coordinates.of(model, origin)[part])


def _meaning(slopes: np.ndarray, seen: list[Observable], scales: np.ndarray) -> str:
    """The first observable that is this sum, or a multiple of it."""
    for each in seen:
        other = each.slopes * scales
        factor = float(other @ slopes) / float(slopes @ slopes)
        if factor and np.linalg.norm(other - factor * slopes) <= LEAK * np.linalg.norm(other):
            sign = "−" if factor < 0 else ""
            return f"{sign}{each.name}" + ("" if abs(abs(factor) - 1) < LEAK else f" / {abs(factor):.4g}")
    return ""


def _chosen(parts: Parts) -> list[Combination]:
    """With learned placements: independent quantities in order of simplicity, as many as the data determine."""
    coordinates, estimate = parts.view.coordinates, parts.estimate
    named = [i for i, entry in enumerate(parts.entries) if entry.kind != "other" and not parts.is_profiled(entry)]
    singles = [_single(coordinates, i, parts.model) for i in named]
    candidates = [each for each in singles if each.kind == "actuator"]
    candidates += zero_positions(parts.problem, coordinates, parts.model)
    candidates += parts.divided(observables(parts.model.robot, coordinates.robot_slopes, True))
    candidates += [each for each in singles if each.kind != "actuator"]
    candidates += [_local(coordinates, estimate, row, parts.model) for row in range(len(estimate.own))]
    basis, chosen = np.zeros((len(estimate.own), 0)), []
    for each in candidates:
        found = estimate.interval(each.value, each.slopes, each.positive)
        effect = estimate.uncertainty.root.T @ each.slopes[list(estimate.own)]
        rest = effect - basis @ (basis.T @ effect)
        if found.determined and np.linalg.norm(rest) > _NEW * np.linalg.norm(effect):
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            if found.tells(float(np.max(np.abs(each.slopes) * coordinates.scales)), each.positive):
                chosen.append(_combination(each, found, base=each.kind in ("inertia", "gravity", "armature")))
    return chosen


def _single(coordinates: Coordinates, i: int, origin: Model) -> Observable:
    entry = coordinates.entries[i]
    slopes = np.eye(len(coordinates.entries))[i]
    name, value = formula(coordinates.entries, slopes, i), float(coordinates.values[i])
    measure = _weighted(coordinates, slopes, origin)
    return Observable(name, entry.unit, entry.kind, value, slopes, measure, entry.positive)


def _local(coordinates: Coordinates, estimate: Estimate, row: int, origin: Model) -> Observable:
    """A sum that has no simpler form, by its largest terms."""
    slopes, own = estimate.sums[row], estimate.own[row]
    sizes = np.abs(slopes) * coordinates.scales
    large = np.where(sizes >= np.sort(sizes)[-min(3, len(sizes))], slopes, 0.0)
    entry = coordinates.entries[own]
    name = formula(coordinates.entries, np.where(np.arange(len(slopes)) == own, 1.0, large), own)
    more = "" if np.count_nonzero(large) >= np.count_nonzero(slopes) else " + …"
    value, measure = float(slopes @ coordinates.values), _weighted(coordinates, slopes, origin)
    return Observable(f"{name}{more}", entry.unit, entry.kind, value, slopes, measure)


def _unknown(parts: Parts) -> list[Note]:
    """What cannot be known from any recording, then what these do not tell."""
    entries, structure, skip = parts.entries, parts.view.structure, parts.view.reference
    scale = []
    if skip is not None:
        values = {"what": listed(parts.view.fixed)} if parts.view.fixed else {}
        scale = [note(parts.view.why, entries[skip].name, **values)]
    rows = [formula(entries, row, own) for row, own in zip(structure.rows, structure.independent, strict=True)]
    owners = [entries[i] for i in structure.independent]
    # A joint without a motor has no gain to speak of.
    driven = np.asarray(parts.model.robot.limits.effort)[parts.model.robot.joint_links] != 0
    undriven = [entry.kind == "actuator" and entry.role.of_command and not driven[entry.index] for entry in owners]
    said = [
        i == skip or idle or parts.is_profiled(entry)
        for i, idle, entry in zip(structure.independent, undriven, owners, strict=True)
    ]
    skipped = {i for i, entry in enumerate(entries) if i == skip or parts.is_profiled(entry)}
    return [
        *scale,
        *structural_notes(entries, structure, parts.model.robot, skipped),
        *data_notes(rows, owners, parts.data, parts.silent, said, parts.problem.motion),
    ]
