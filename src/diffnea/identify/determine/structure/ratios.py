"""Scale: where no force is known, only ratios of masses, frictions and gains can be; the coordinates become these."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from diffnea.actuators.base import Role
from diffnea.identify.determine.structure.base_parameters import Echelon
from diffnea.identify.determine.structure.coordinates import Coordinates, physical_vector
from diffnea.identify.determine.structure.observables import Observable
from diffnea.models import Model


def reference_force(
    coordinates: Coordinates, rows: Float[np.ndarray, "rows k"], exact: float, structure: Echelon
) -> int | None:
    """The number that the others are to be divided by, if a common factor on all forces changes no row; else None.

    It is a gain, or a number that enters alone and cannot change its sign.
    """
    shares = np.where(_forces(coordinates), coordinates.values, 0.0)
    together = np.linalg.norm(rows @ shares)
    apart = np.linalg.norm(rows * shares, axis=0)
    if not np.any(apart) or together > exact * apart.max():
        return None
    terms = zip(structure.independent, np.count_nonzero(structure.rows, axis=1), strict=True)
    alone = np.isin(np.arange(len(apart)), [i for i, count in terms if count == 1])
    gains = np.array([each.role is Role.GAIN for each in coordinates.entries], bool)
    positive = np.array([each.positive for each in coordinates.entries], bool)
    eligible = next((kind for kind in (gains, alone & positive, alone) if np.any(apart * kind)), None)
    return None if eligible is None else int(np.argmax(apart * eligible))


def fixed_scale(coordinates: Coordinates, model: Model, learned: tuple[str, ...]) -> tuple[int | None, tuple[str, ...]]:
    """A gain to divide by where only numbers of the robot file set the scale of forces, and their names.

    With all gains, inertias and friction learned, a common factor on them changes nothing but what is not learned
    weighs more or less: the rotors of the file.
    """
    entries, robot = coordinates.entries, model.robot
    gains = {entry.index: i for i, entry in enumerate(entries) if entry.role is Role.GAIN}
    masses = {entry.index for entry in entries if entry.moment == 0}
    driven = np.flatnonzero(np.asarray(robot.joint_limits.effort) != 0)
    rotors = np.flatnonzero(np.asarray(robot.armature, float) > 0)
    if "armature" in learned or not len(rotors) or len(masses) < robot.num_links:
        return None, ()
    if not gains or not set(map(int, driven)) <= set(gains):
        return None, ()
    sizes = [abs(coordinates.values[i]) for i in gains.values()]
    names = tuple(f"the armature of {robot.tree.joint_names[j]}" for j in rotors)
    return list(gains.values())[int(np.argmax(sizes))], names


def _forces(coordinates: Coordinates) -> np.ndarray:
    """Which numbers are proportional to forces at given motion and command."""
    return np.array([entry.is_force for entry in coordinates.entries], bool)


def divided(coordinates: Coordinates, reference: int) -> tuple[Coordinates, Float[np.ndarray, "k k"]]:
    """The same with forces in units of the reference, `x_i / x_ref`, and the slopes of the old ones in these."""
    values, by = coordinates.values, coordinates.values[reference]
    forces = _forces(coordinates)
    forces[reference] = False
    change = np.diag(np.where(forces, by, 1.0))  # ∂x/∂y
    change[:, reference] = np.where(forces, values / by, change[:, reference])
    name = coordinates.entries[reference].name
    unit = coordinates.entries[reference].unit
    new = Coordinates(
        tuple(
            replace(entry, per=name, unit=per(entry.unit, unit)) if force else entry
            for entry, force in zip(coordinates.entries, forces, strict=True)
        ),
        np.where(forces, values / by, values),
        np.where(forces, coordinates.scales / abs(by), coordinates.scales),
        np.linalg.solve(change, coordinates.slopes),
        coordinates.inverse @ change,
        coordinates.robot_slopes @ change,
        coordinates.places,
        reference,
    )
    return new, change


def divided_observable(seen: Observable, coordinates: Coordinates, reference: int) -> Observable:
    """The same of a mass matrix entry or gravity torque; coordinates already divided."""
    by, entry = coordinates.values[reference], coordinates.entries[reference]
    slopes = seen.slopes / by
    slopes[reference] -= seen.value / by**2
    unit = per(seen.unit, entry.unit)
    measure = ratio(seen.measure, coordinates.places[reference])
    name = f"{seen.name} / {entry.name}"
    return replace(seen, name=name, unit=unit, value=seen.value / by, slopes=slopes, measure=measure)


def ratio(measure: Callable[[Model], float], place: int) -> Callable[[Model], float]:
    """A measure divided by the physical number at a place."""
    return lambda model: measure(model) / float(physical_vector(model, model.robot)[place])


def per(unit: str, by: str) -> str:
    """The unit of a ratio."""
    return "1" if unit == by else unit if by == "per unit" else f"{unit} / ({by})"
