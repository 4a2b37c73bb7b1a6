"""Servos on joints without gravity: kp, kd and friction of such a joint are known only as ratios to its kp."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from diffnea.actuators.base import Role
from diffnea.identify.determine.combinations import Combination, Estimate
from diffnea.identify.determine.structure.coordinates import Coordinate, Coordinates
from diffnea.identify.determine.structure.ratios import per, ratio
from diffnea.identify.notes import Note, note


def scaled_by_kp(entries: Sequence[Coordinate], joints: Sequence[int]) -> dict[int, int]:
    """Where the forces of these joints' servos stand, each with the place of the kp that they are divided by."""
    of_joints = {i: e for i, e in enumerate(entries) if e.kind == "actuator" and e.index in joints and e.is_force}
    kp = {entry.index: i for i, entry in of_joints.items() if entry.role is Role.GAIN}
    return {i: kp[entry.index] for i, entry in of_joints.items() if entry.index in kp}


def servo_ratios(
    coordinates: Coordinates, estimate: Estimate, joints: Sequence[int]
) -> tuple[list[Combination], list[Note]]:
    """The ratios of these joints, x / kp, that the data determine, and what stays open.

    Nothing but the inertia of the file sets the scale of such a servo, and at the rates of such logs it is hardly seen:
    an interval of kp itself would hold only if that inertia were right.
    """
    found, notes, entries = [], [], coordinates.entries
    for i, by in scaled_by_kp(entries, joints).items():
        entry, reference = entries[i], entries[by]
        if i == by:
            notes.append(note("unknown-servo-scale", entry.owner))
            continue
        value, slopes = _ratio(coordinates.values, i, by)
        interval = estimate.interval(value, slopes, entry.positive)
        name, unit = f"{entry.symbol} / {reference.symbol}({entry.owner})", per(entry.unit, reference.unit)
        if interval.determined and interval.tells(abs(value), entry.positive):
            numbers = interval.value, interval.std, interval.lower, interval.upper
            measure = ratio(coordinates.measure(i), coordinates.places[by])
            found.append(Combination(name, unit, entry.kind, *numbers, measure=measure))
        elif entry.positive:
            notes.append(note("unknown-at-most", name, upper=interval.upper, unit=unit))
        else:
            notes.append(note("unknown-too-wide", name, lower=interval.lower, upper=interval.upper, unit=unit))
    return found, notes


def _ratio(values: Float[np.ndarray, " k"], i: int, by: int) -> tuple[float, Float[np.ndarray, " k"]]:
    """x_i / x_by and its slopes."""
    slopes = np.zeros(len(values))
    slopes[i], slopes[by] = 1 / values[by], -values[i] / values[by] ** 2
    return float(values[i] / values[by]), slopes
