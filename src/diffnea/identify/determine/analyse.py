"""Identifiability of a fitted problem: structure first, then these data, then quantities and reasons."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from diffnea.identify.determine.combinations import Estimate, Identifiability
from diffnea.identify.determine.parts import Parts
from diffnea.identify.determine.quantities import quantities
from diffnea.identify.determine.structure.base_parameters import Echelon, echelon, unscaled
from diffnea.identify.determine.structure.coordinates import Coordinates, physical_coordinates, plain_coordinates
from diffnea.identify.determine.structure.ratios import divided, fixed_scale, reference_force
from diffnea.identify.determine.structure.slopes import structural_jacobian
from diffnea.identify.determine.structure.view import View
from diffnea.identify.determine.uncertainty.covariance import Noise, noise, roughened, uncertainty
from diffnea.identify.determine.uncertainty.friction_jumps import without_friction_jumps
from diffnea.identify.determine.uncertainty.friction_profile import profiles_of
from diffnea.identify.determine.uncertainty.input_timing import timing
from diffnea.identify.determine.uncertainty.regressor_noise import bias
from diffnea.identify.options import DetermineOptions
from diffnea.identify.problem.linearised import Linearised
from diffnea.models import Model

# Pairs of draws that show what noise of positions does to estimates: it is then known to some 10 %.
NOISE_PAIRS = 6
# Columns closer than this to a sum of others are that sum: exact derivatives differ from it by rounding only.
_EXACT = {"float64": 1e-7, "float32": 3e-3}
# A parameter with less effect than this share of the largest has none.
_SILENT = 1e-10


def analyse(
    problem: Linearised,
    options: DetermineOptions = DetermineOptions(),  # noqa: B008 (frozen)
) -> Identifiability:
    """What a fit's data determine, with intervals, and what they do not, in words."""
    model = problem.unpack(jnp.asarray(problem.theta))
    view = _physical_view(problem, model) if isinstance(model, Model) else _plain_view(problem)
    found = _noise(problem, len(view.structure.independent))
    data, silent = _excited(view, found)
    data, estimate = _estimate(problem, view, data, found, options)
    friction, combinations, unknown = (), (), ()
    if isinstance(model, Model):
        held = None if view.reference is None else view.coordinates.slopes[view.reference]
        friction = tuple(profiles_of(problem, held))
        parts = Parts(problem, view, model, estimate, data, silent, friction)
        combinations, unknown = quantities(parts)
    return Identifiability(
        combinations=combinations,
        unknown=unknown,
        rank=len(estimate.own),
        structural_rank=len(view.structure.independent),
        unknowns=len(problem.theta),
        noise_variance=found.variance,
        effective_samples=found.effective_samples,
        estimate=estimate,
        theta=problem.theta,
        unpack=problem.unpack,
        friction=friction if view.reference is None else tuple(each.of_velocity() for each in friction),
    )


def _plain_view(problem: Linearised) -> View:
    coordinates = plain_coordinates(problem.theta, problem.labels)
    exact = _EXACT[str(jnp.asarray(problem.theta).dtype)]
    found = unscaled(echelon(problem.jacobian * coordinates.scales, exact), coordinates.scales)
    steps = np.eye(len(problem.theta))[:, list(found.independent)]
    return View(coordinates, problem.jacobian @ steps, steps, found, exact)


def _physical_view(problem: Linearised, model: Model) -> View:
    exact = _EXACT[str(jnp.asarray(problem.theta).dtype)]
    coordinates = physical_coordinates(problem.unpack, model, problem.theta, problem.labels, exact)
    jacobian = problem.jacobian @ coordinates.inverse
    kinematics = "kinematics" in problem.learned
    rows = structural_jacobian(problem.unpack, model, problem.theta, coordinates, kinematics)
    rows = _with_late_effects(rows, jacobian, coordinates)
    structure = unscaled(echelon(rows * coordinates.scales, exact), coordinates.scales)
    reference, why = reference_force(coordinates, rows, exact, structure), "unknown-scale-gain"
    if reference is None:
        reference, why = reference_force(coordinates, jacobian, exact, structure), "unknown-scale-undriven"
    fixed = ()
    if reference is None:
        reference, fixed = fixed_scale(coordinates, model, problem.learned)
        why = "unknown-scale-file"
    if reference is not None:
        coordinates, change = divided(coordinates, reference)
        rows = rows @ change
        structure = unscaled(echelon(rows * coordinates.scales, exact), coordinates.scales)
    steps = _steps(coordinates, structure)
    return View(coordinates, problem.jacobian @ steps, steps, structure, exact, reference, why, fixed)


def _steps(coordinates: Coordinates, structure: Echelon) -> np.ndarray:
    """∂θ/∂sums, so that the Jacobian in the structure's sums is `J ∂θ/∂sums`.

    A body without extent in some direction makes ∂θ/∂x large, but what it makes so enters no sum.
    """
    slopes = structure.rows @ coordinates.slopes
    left, right = (np.linalg.norm(slopes, axis=axis) for axis in (1, 0))
    left[left == 0], right[right == 0] = 1.0, 1.0
    inverse = np.linalg.pinv(slopes / left[:, None] / right, rcond=1e-10) / right[:, None] / left
    return inverse


def _with_late_effects(rows: np.ndarray, jacobian: np.ndarray, coordinates: Coordinates) -> np.ndarray:
    """A delay changes residuals, but no torque at one instant: what the data see of it is added as a row."""
    known, seen = (np.linalg.norm(slopes * coordinates.scales, axis=0) for slopes in (rows, jacobian))
    late = (known <= _SILENT * known.max(initial=0.0)) & (seen > _SILENT * seen.max(initial=0.0))
    late &= np.array([entry.kind in ("actuator", "other") for entry in coordinates.entries], bool)
    return np.concatenate([rows, np.eye(len(late))[late] / coordinates.scales])


def _noise(problem: Linearised, unknowns: int) -> Noise:
    ordered = problem.dt is not None
    return noise(problem.residuals, problem.joint, problem.sample, problem.segment, unknowns, ordered)


def _excited(view: View, found: Noise) -> tuple[Echelon, np.ndarray]:
    """Which of the structure's sums these data determine better than to their own size, and which had no effect."""
    sizes = view.sizes
    columns = view.jacobian * sizes
    spread = len(columns) / max(found.effective_samples, 1.0)
    least = np.sqrt(found.variance * spread)
    # Residuals are normalised: a number that changes none by this share of the signal has no effect.
    silent = np.linalg.norm(columns, axis=0) <= _SILENT * np.sqrt(len(columns))
    return unscaled(echelon(columns, view.exact, least, pivoted=True), sizes), silent


def _estimate(
    problem: Linearised, view: View, data: Echelon, found: Noise, options: DetermineOptions
) -> tuple[Echelon, Estimate]:
    """The sums that are determined and their covariance; what is lost in their noise is left out of them."""
    own = tuple(view.structure.independent[i] for i in data.independent)
    problem, near = without_friction_jumps(problem, view.steps[:, list(data.independent)])
    slopes = problem.jacobian @ view.steps[:, list(data.independent)]
    places = problem.joint, problem.sample, problem.segment
    spread = uncertainty(slopes, problem.residuals, *places, found, problem.dt is not None, problem.starts)
    if problem.rough:
        spread = roughened(spread, slopes, problem.residuals, problem.segment)
    when = timing(problem, view.steps[:, list(data.independent)], found)
    spread = when.added(spread)
    std = spread.std(np.eye(len(own)))[:, None]
    effect = np.abs(data.mixing) * view.sizes[list(data.dependent)]
    data = replace(data, mixing=np.where(effect < options.leak * std, 0.0, data.mixing))
    sums = data.rows @ view.structure.rows
    shares = np.abs(sums) * view.coordinates.scales
    sums = np.where(shares < _SILENT * shares.max(axis=1, keepdims=True, initial=0.0), 0.0, sums)
    moved = bias(problem, view.steps[:, list(data.independent)], NOISE_PAIRS) + when.bias + near
    return data, Estimate(view.coordinates.scales, view.coordinates.inverse, sums, own, spread, options.leak, moved)
