"""Identifiability of a fitted problem: structure first, then these data, then quantities and words."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from diffnea.identify.determine import sentences as words
from diffnea.identify.determine.base_parameters import Echelon, echelon, unscaled
from diffnea.identify.determine.combinations import LEAK, LEAK_IN_NOISE, Combination, Estimate, Identifiability
from diffnea.identify.determine.coordinates import Coordinate, Coordinates, physical_coordinates, plain_coordinates
from diffnea.identify.determine.covariance import Noise, noise, uncertainty
from diffnea.identify.determine.observables import Observable, observables
from diffnea.identify.determine.ratios import divided, divided_observable, reference_force
from diffnea.identify.determine.structure import structural_jacobian
from diffnea.identify.determine.zero_positions import zero_positions
from diffnea.identify.problem.linearised import Linearised
from diffnea.models import Model

# Columns closer than this to a sum of others are that sum: exact derivatives differ from it by rounding only.
_EXACT = {"float64": 1e-7, "float32": 3e-3}
# A quantity adds to those chosen if it leaves their span by this angle, in units of the noise.
_NEW = 1e-2
# A parameter with less effect than this share of the largest has none.
_SILENT = 1e-10


def analyse(problem: Linearised) -> Identifiability:
    """What a fit's data determine, with intervals, and what they do not, in words."""
    model = problem.unpack(jnp.asarray(problem.theta))
    view = _physical_view(problem, model) if isinstance(model, Model) else _plain_view(problem)
    found = _noise(problem, len(view.structure.independent))
    data, silent = _excited(view, found)
    data, estimate = _estimate(problem, view, data, found)
    physical = isinstance(model, Model)
    return Identifiability(
        combinations=tuple(_combinations(problem, view, model, estimate)) if physical else (),
        unknown=tuple(_unknown(view, data, silent, model)) if physical else (),
        rank=len(estimate.own),
        structural_rank=len(view.structure.independent),
        unknowns=len(problem.theta),
        noise_variance=found.variance,
        effective_samples=found.effective_samples,
        estimate=estimate,
        theta=problem.theta,
        unpack=problem.unpack,
    )


@dataclass(frozen=True)
class _View:
    """A problem in physical coordinates, and which sums of them some recording could determine."""

    coordinates: Coordinates
    jacobian: np.ndarray  # of the residuals in the structure's sums
    structure: Echelon
    exact: float
    reference: int | None = None  # what forces are divided by, where their scale is not known
    commanded: bool = True


def _plain_view(problem: Linearised) -> _View:
    coordinates = plain_coordinates(problem.theta, problem.labels)
    exact = _EXACT[str(jnp.asarray(problem.theta).dtype)]
    found = unscaled(echelon(problem.jacobian * coordinates.scales, exact), coordinates.scales)
    return _View(coordinates, problem.jacobian[:, list(found.independent)], found, exact)


def _physical_view(problem: Linearised, model: Model) -> _View:
    exact = _EXACT[str(jnp.asarray(problem.theta).dtype)]
    coordinates = physical_coordinates(problem.unpack, model, problem.theta, problem.labels, exact)
    jacobian = problem.jacobian @ coordinates.inverse
    kinematics = "kinematics" in problem.learned
    rows = structural_jacobian(problem.unpack, model, problem.theta, coordinates, kinematics)
    rows = _with_late_effects(rows, jacobian, coordinates)
    structure = unscaled(echelon(rows * coordinates.scales, exact), coordinates.scales)
    reference, commanded = reference_force(coordinates, rows, exact, structure), True
    if reference is None:
        reference, commanded = reference_force(coordinates, jacobian, exact, structure), False
    if reference is not None:
        coordinates, change = divided(coordinates, reference)
        rows = rows @ change
        structure = unscaled(echelon(rows * coordinates.scales, exact), coordinates.scales)
    return _View(coordinates, _in_sums(problem, coordinates, structure), structure, exact, reference, commanded)


def _in_sums(problem: Linearised, coordinates: Coordinates, structure: Echelon) -> np.ndarray:
    """The Jacobian in the structure's sums: `J = J_sums ∂sums/∂θ`.

    A body without extent in some direction makes ∂θ/∂x large, but what it makes so enters no sum.
    """
    slopes = structure.rows @ coordinates.slopes
    left, right = (np.linalg.norm(slopes, axis=axis) for axis in (1, 0))
    left[left == 0], right[right == 0] = 1.0, 1.0
    inverse = np.linalg.pinv(slopes / left[:, None] / right, rcond=1e-10) / right[:, None] / left
    return problem.jacobian @ inverse


def _with_late_effects(rows: np.ndarray, jacobian: np.ndarray, coordinates: Coordinates) -> np.ndarray:
    """A delay changes residuals, but no torque at one instant: what the data see of it is added as a row."""
    known, seen = (np.linalg.norm(slopes * coordinates.scales, axis=0) for slopes in (rows, jacobian))
    late = (known <= _SILENT * known.max(initial=0.0)) & (seen > _SILENT * seen.max(initial=0.0))
    late &= np.array([entry.kind in ("actuator", "other") for entry in coordinates.entries], bool)
    return np.concatenate([rows, np.eye(len(late))[late] / coordinates.scales])


def _noise(problem: Linearised, unknowns: int) -> Noise:
    ordered = problem.dt is not None
    return noise(problem.residuals, problem.joint, problem.sample, problem.segment, unknowns, ordered)


def _excited(view: _View, found: Noise) -> tuple[Echelon, np.ndarray]:
    """Which of the structure's sums these data determine better than to their own size, and which had no effect."""
    sizes = _sizes(view)
    columns = view.jacobian * sizes
    spread = len(columns) / max(found.effective_samples, 1.0)
    least = np.sqrt(found.variance * spread)
    lengths = np.linalg.norm(columns, axis=0)
    silent = lengths <= _SILENT * lengths.max(initial=0.0)
    return unscaled(echelon(columns, view.exact, least, pivoted=True), sizes), silent


def _estimate(problem: Linearised, view: _View, data: Echelon, found: Noise) -> tuple[Echelon, Estimate]:
    """The sums that are determined and their covariance; what is lost in their noise is left out of them."""
    own = tuple(view.structure.independent[i] for i in data.independent)
    slopes = view.jacobian[:, list(data.independent)]
    places = problem.joint, problem.sample, problem.segment
    spread = uncertainty(slopes, problem.residuals, *places, found, problem.dt is not None)
    std = spread.std(np.eye(len(own)))[:, None]
    effect = np.abs(data.mixing) * _sizes(view)[list(data.dependent)]
    data = replace(data, mixing=np.where(effect < LEAK_IN_NOISE * std, 0.0, data.mixing))
    sums = data.rows @ view.structure.rows
    shares = np.abs(sums) * view.coordinates.scales
    sums = np.where(shares < _SILENT * shares.max(axis=1, keepdims=True, initial=0.0), 0.0, sums)
    return data, Estimate(view.coordinates.scales, view.coordinates.inverse, sums, own, spread)


def _sizes(view: _View) -> np.ndarray:
    """The natural size of each of the structure's sums."""
    return np.max(np.abs(view.structure.rows) * view.coordinates.scales, axis=1, initial=0.0)


def _combinations(problem: Linearised, view: _View, model: Model, estimate: Estimate) -> list[Combination]:
    coordinates, kinematics = view.coordinates, "kinematics" in problem.learned
    seen = observables(model.robot, coordinates.robot_slopes, kinematics)
    if view.reference is not None:
        seen = [divided_observable(each, coordinates, view.reference) for each in seen]
    if kinematics:
        return _chosen(coordinates, [*zero_positions(problem, coordinates, model), *seen], estimate, model)
    rows = [row for row, i in enumerate(estimate.own) if _named(coordinates.entries[i])]
    return [_sum(coordinates, estimate, row, seen, model) for row in rows]


def _named(entry: Coordinate) -> bool:
    return entry.kind != "other"


def _sum(coordinates: Coordinates, estimate: Estimate, row: int, seen: list[Observable], origin: Model) -> Combination:
    """One of the sums, and the observable that it is."""
    own, slopes = coordinates.entries[estimate.own[row]], estimate.sums[row]
    part = [entry for entry, weight in zip(coordinates.entries, slopes, strict=True) if weight]
    positive = all(entry.positive for entry in part) and bool(np.all(slopes >= 0))
    found = estimate.interval(float(slopes @ coordinates.values), slopes, positive)
    text = words.formula(coordinates.entries, slopes, estimate.own[row])
    meaning = _meaning(slopes * coordinates.scales, seen, coordinates.scales)
    numbers = found.value, found.std, found.lower, found.upper
    return Combination(text, own.unit, own.kind, *numbers, meaning, _weighted(coordinates, slopes, origin))


def _weighted(coordinates: Coordinates, weights: np.ndarray, origin: Model) -> Callable[[Model], float]:
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


def _chosen(coordinates: Coordinates, seen: list[Observable], estimate: Estimate, origin: Model) -> list[Combination]:
    """Independent quantities in order of simplicity, until there are as many as the data determine."""
    singles = [_single(coordinates, i, origin) for i, entry in enumerate(coordinates.entries) if _named(entry)]
    candidates = [each for each in singles if each.kind == "actuator"] + seen
    candidates += [each for each in singles if each.kind != "actuator"]
    candidates += [_local(coordinates, estimate, row, origin) for row in range(len(estimate.own))]
    basis, chosen = np.zeros((len(estimate.own), 0)), []
    for each in candidates:
        found = estimate.interval(each.value, each.slopes, each.positive)
        effect = estimate.uncertainty.root.T @ each.slopes[list(estimate.own)]
        rest = effect - basis @ (basis.T @ effect)
        if found.determined and np.linalg.norm(rest) > _NEW * np.linalg.norm(effect):
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
            numbers = found.value, found.std, found.lower, found.upper
            chosen.append(Combination(each.name, each.unit, each.kind, *numbers, "", each.measure))
    return chosen


def _single(coordinates: Coordinates, i: int, origin: Model) -> Observable:
    entry = coordinates.entries[i]
    slopes = np.eye(len(coordinates.entries))[i]
    name, value = words.formula(coordinates.entries, slopes, i), float(coordinates.values[i])
    measure = _weighted(coordinates, slopes, origin)
    return Observable(name, entry.unit, entry.kind, value, slopes, measure, entry.positive)


def _local(coordinates: Coordinates, estimate: Estimate, row: int, origin: Model) -> Observable:
    """A sum that has no simpler form, by its largest terms."""
    slopes, own = estimate.sums[row], estimate.own[row]
    sizes = np.abs(slopes) * coordinates.scales
    large = np.where(sizes >= np.sort(sizes)[-min(3, len(sizes))], slopes, 0.0)
    entry = coordinates.entries[own]
    name = words.formula(coordinates.entries, np.where(np.arange(len(slopes)) == own, 1.0, large), own)
    more = "" if np.count_nonzero(large) >= np.count_nonzero(slopes) else " + …"
    value, measure = float(slopes @ coordinates.values), _weighted(coordinates, slopes, origin)
    return Observable(f"{name}{more}", entry.unit, entry.kind, value, slopes, measure)


def _unknown(view: _View, data: Echelon, silent: np.ndarray, model: Model) -> list[str]:
    """What cannot be known from any recording, then what these do not tell."""
    entries, structure = view.coordinates.entries, view.structure
    scale, skip = [], view.reference
    if skip is not None:
        scale = [words.scale_sentence(entries[skip], view.commanded)]
    rows = [words.formula(entries, row, own) for row, own in zip(structure.rows, structure.independent, strict=True)]
    owners = [entries[i] for i in structure.independent]
    # A joint without a motor has no gain to speak of.
    driven = np.asarray(model.robot.limits.effort) != 0
    known = [
        i == skip or (words.of_a_command(entries[i]) and not driven[entries[i].index]) for i in structure.independent
    ]
    return (
        scale
        + words.structural_sentences(entries, structure, model.robot, skip)
        + words.data_sentences(rows, owners, data, silent, known)
    )
