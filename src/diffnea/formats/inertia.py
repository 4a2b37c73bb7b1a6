"""Inertias of files: the 4 × 4 pseudo-inertia `P = [Σ, m·c; (m·c)ᵀ, m]`, which moves between frames as `T P Tᵀ`."""

import numpy as np

from diffnea.spatial import Inertia

# Files carry six or so digits: a moment that misses a bound by less than this share of the largest is rounding.
ROUNDING = 1e-4


def pseudo_inertia(mass: float, centre: np.ndarray, rotational: np.ndarray) -> np.ndarray:
    """P from the mass, the centre of mass, and the rotational inertia about it."""
    second = _flip(rotational) + mass * np.outer(centre, centre)
    first = mass * centre
    return np.block([[second, first[:, None]], [first[None], np.array([[mass]])]])


def central_moments(inertia: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass, and rotational inertia about it; a body without mass has its centre at the origin."""
    mass = float(inertia[3, 3])
    centre = inertia[:3, 3] / mass if mass else np.zeros(3)
    second = inertia[:3, :3] - mass * np.outer(centre, centre)
    return mass, centre, np.trace(second) * np.eye(3) - second


def _flip(rotational: np.ndarray) -> np.ndarray:
    """Second moments Σ from the rotational inertia J: `½ tr(J)·1 − J`."""
    return np.trace(rotational) / 2 * np.eye(3) - rotational


def impossible(inertia: np.ndarray) -> str | None:
    """Why no body has this inertia; None if one has."""
    mass, _, rotational = central_moments(inertia)
    if mass < 0:
        return f"its mass is {mass:g}; a mass is at least 0"
    moments = np.linalg.eigvalsh(rotational)
    slack = ROUNDING * np.abs(moments).max() + 1e-14 * np.abs(inertia).max()
    listed = ", ".join(f"{moment:.6g}" for moment in moments)
    if mass == 0 and np.any(inertia):
        return f"its mass is 0 but its principal moments are {listed}; give it a mass, or no inertia"
    if moments[0] < -slack:
        return f"its inertia has the eigenvalue {moments[0]:.6g} (of {listed}); a moment of inertia is at least 0"
    if moments[2] > moments[0] + moments[1] + slack:
        return (
            f"its principal moments break the triangle inequality: {moments[2]:.6g} > "
            f"{moments[0]:.6g} + {moments[1]:.6g}; no moment may exceed the sum of the other two"
        )
    return None


def moved(inertia: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """The inertia in the frame that the pose is given in."""
    return pose @ inertia @ pose.T


def parameters_of(inertia: np.ndarray) -> np.ndarray:
    """(n, 4, 4) pseudo-inertias → (n, 10) linear parameters."""
    second = inertia[:, :3, :3]
    rotational = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    unique = rotational[:, [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    return np.concatenate([inertia[:, 3, 3:], inertia[:, :3, 3], unique], axis=1)


def pseudo_of(inertia: Inertia) -> np.ndarray:
    """An `Inertia` of n bodies → (n, 4, 4) pseudo-inertias."""
    mass, first = np.asarray(inertia.mass, float), np.asarray(inertia.first_moment, float)
    second = [_flip(matrix) for matrix in np.asarray(inertia.rotational_matrix, float)]
    rows = zip(second, first, mass, strict=True)
    return np.array([np.block([[s, h[:, None]], [h[None], np.array([[m]])]]) for s, h, m in rows]).reshape(-1, 4, 4)
