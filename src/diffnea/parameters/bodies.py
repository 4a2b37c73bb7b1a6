"""What a robot's inertias say about bodies: which ones no body can have, and the nearest that one can (numpy)."""

from typing import NamedTuple

import numpy as np

from diffnea.formats.inertia import ROUNDING
from diffnea.parameters.inertia import LIGHTEST, Body
from diffnea.robot import Robot

# Singular bodies (points, rods, discs) get an extent of this many roundings of the largest second moment.
SINGULAR = 64
_NO_MASS = 1e-9  # what a link without mass gets, as a share of the mean mass
_CLIPPED = 1e-6  # least eigenvalue of a projected pseudo-inertia, as a share of the largest


class Scale(NamedTuple):
    """A robot's typical mass and length of a link, in kg and m."""

    mass: float
    length: float


def scale(robot: Robot) -> Scale:
    """Mean mass of a link, and mean length: of the steps between joints, and of where each link's mass is.

    The step from the base to the first joint says where the robot stands, so it counts only if there is nothing else.
    """
    mass = np.abs(np.asarray(robot.inertia.mass, float))
    moments = np.asarray(robot.inertia.rotational, float)[:, [0, 2, 5]].sum(axis=1) / 2  # tr Σ = ½ tr J
    heavy = (mass > 0) & (moments > 0)
    steps = np.linalg.norm(np.asarray(robot.placement.translation, float), axis=1)
    inner = np.array([parent >= 0 for parent in robot.tree.parents], bool)
    lengths = np.concatenate([steps[inner], np.sqrt(moments[heavy] / mass[heavy])])
    for found in (lengths[lengths > 0], steps[steps > 0], np.ones(1)):
        if len(found) and np.all(np.isfinite(found)):
            return Scale(float(np.mean(mass)) if np.any(mass > 0) else 1.0, float(np.mean(found)))
    return Scale(1.0, 1.0)


def bodies(robot: Robot, nearest: bool) -> list[Body]:
    """A strictly consistent body a link; see `encode` for how near it is."""
    eps = float(np.finfo(robot.inertia.mass.dtype).eps)
    typical = scale(robot)
    found = []
    for name, parameters in zip(robot.link_names, np.asarray(robot.inertia.parameters, float), strict=True):
        where = f'robot "{robot.name}": link "{name}"'
        if not np.all(np.isfinite(parameters)):
            raise ValueError(f"{where}: its inertia is not finite; give it a physical one")
        reason = impossible(parameters, eps)
        if reason and not nearest:
            raise ValueError(f"{where}: {reason}; give it a physical inertia, or take the nearest with nearest=True")
        body = _projected(parameters, typical.length) if reason else _body(parameters)
        found.append(_strict(body, typical, eps))
    return found


def _second(parameters: np.ndarray) -> np.ndarray:
    """Second moments about the link's origin, `½ tr(J)·1 − J`."""
    xx, xy, yy, xz, yz, zz = parameters[4:]
    diagonal = np.diag([yy + zz - xx, xx + zz - yy, xx + yy - zz]) / 2
    return diagonal - np.array([[0, xy, xz], [xy, 0, yz], [xz, yz, 0]])


def _body(parameters: np.ndarray) -> Body:
    """A body without mass has its centre at the origin."""
    mass, first = parameters[0], parameters[1:4]
    centre = first / mass if mass else 0 * first
    return Body(mass, centre, _second(parameters) - np.outer(first, centre))


def impossible(parameters: np.ndarray, eps: float) -> str | None:
    """Why no body has this inertia; what a file's digits round off is forgiven, as when it is read."""
    mass, centre, second = _body(parameters)
    if mass < 0:
        return f"its mass is {mass:g} kg, and a mass is at least 0"
    if mass == 0 and np.any(parameters[1:4]):
        return "its mass is 0, but its first moment m·c is not"
    low, middle, high = np.linalg.eigvalsh(second)
    origin = np.abs([low, middle, high]).sum() + mass * centre @ centre
    if -2 * low <= ROUNDING * (middle + high) + SINGULAR * eps * origin:
        return None
    moments = ", ".join(f"{moment:.6g}" for moment in (low + middle, low + high, middle + high))
    return f"its principal moments {moments} kg·m² are negative, or one exceeds the sum of the others"


def _projected(parameters: np.ndarray, length: float) -> Body:
    """The pseudo-inertia, lengths in units of the robot's, with its eigenvalues clipped to be positive."""
    mass, first = parameters[:1], parameters[1:4]
    units = np.array([1 / length, 1 / length, 1 / length, 1.0])
    pseudo = np.block([[_second(parameters), first[:, None]], [first, mass]]) * np.outer(units, units)
    values, vectors = np.linalg.eigh(pseudo)
    clipped = (vectors * np.maximum(values, _CLIPPED * np.abs(values).max())) @ vectors.T / np.outer(units, units)
    centre = clipped[:3, 3] / clipped[3, 3]
    return Body(clipped[3, 3], centre, clipped[:3, :3] - np.outer(clipped[:3, 3], centre))


def _strict(body: Body, typical: Scale, eps: float) -> Body:
    """The body with mass, and with extent in every direction."""
    mass = body.mass if body.mass >= 2 * LIGHTEST else max(_NO_MASS * typical.mass, 2 * LIGHTEST)
    values, axes = np.linalg.eigh(body.second)
    trace = np.maximum(values, 0).sum() + mass * body.centre @ body.centre
    least = SINGULAR * eps * (trace if trace > 0 else mass * typical.length**2)
    if values[0] >= least:
        return body._replace(mass=mass)
    return Body(mass, body.centre, (axes * np.maximum(values, least)) @ axes.T)
