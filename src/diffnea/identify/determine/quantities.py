"""Quantities with intervals: first what an engineer reads, then base parameters; and the reasons for the rest."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from diffnea.identify.determine.combinations import LEAK, Combination, Estimate
from diffnea.identify.determine.data_notes import data_notes
from diffnea.identify.determine.friction_rows import friction_rows
from diffnea.identify.determine.parts import Parts, with_interval
from diffnea.identify.determine.servo_ratios import scaled_by_kp, servo_ratios
from diffnea.identify.determine.structure.coordinates import (
    Coordinate,
    Coordinates,
)
from diffnea.identify.determine.structure.formulas import formula, listed
from diffnea.identify.determine.structure.observables import Observable, observables, readable
from diffnea.identify.determine.structure.structural_notes import structural_notes
from diffnea.identify.determine.zero_positions import zero_positions
from diffnea.identify.notes import Note, note
from diffnea.models import Model

# A quantity adds to those chosen if it leaves their span by this angle, in units of the noise.
_NEW = 1e-2
# What moves by less than this share of itself is a constant: a number divided by itself.
_UNCHANGED_SHARE = 1e-9


def quantities(parts: Parts) -> tuple[tuple[Combination, ...], tuple[Note, ...]]:
    """What the data determine, what an engineer reads first, and notes on all that they do not."""
    first = _read(parts)
    rubbing, open_ = friction_rows(parts)
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
        constant = size <= _UNCHANGED_SHARE * abs(each.value)
        if interval.determined and not constant and interval.tells(size, each.positive):
            found.append(with_interval(each, interval))
    return found


def _sums(parts: Parts) -> tuple[list[Combination], list[Note]]:
    """The structure's sums as these data have them; those that say nothing, or mix units, as notes."""
    joints = parts.problem.scaled_by_inertia
    found, notes = servo_ratios(parts.view.coordinates, parts.estimate, joints)
    ratios = scaled_by_kp(parts.entries, joints)
    seen = parts.divided(observables(parts.model.robot, parts.view.coordinates.robot_slopes, False))
    for row, own in enumerate(parts.estimate.own):
        entry = parts.entries[own]
        if entry.kind == "other" or own == parts.view.reference or parts.is_profiled(entry) or own in ratios:
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
    sums = [row for row, own in enumerate(estimate.own) if not parts.is_profiled(parts.entries[own])]
    candidates += [_local(coordinates, estimate, row, parts.model) for row in sums]
    basis, chosen = np.zeros((len(estimate.own), 0)), []
    for each in candidates:
        found = estimate.interval(each.value, each.slopes, each.positive)
        effect = estimate.uncertainty.root.T @ each.slopes[list(estimate.own)]
        rest = effect - basis @ (basis.T @ effect)
        if found.determined and np.linalg.norm(rest) > _NEW * np.linalg.norm(effect):
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            if found.tells(float(np.max(np.abs(each.slopes) * coordinates.scales)), each.positive):
                chosen.append(with_interval(each, found, base=each.kind in ("inertia", "gravity", "armature")))
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
    driven = np.asarray(parts.model.robot.joint_limits.effort) != 0
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
