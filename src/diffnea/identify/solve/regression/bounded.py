"""Linear least squares with numbers bounded below, from normal equations."""

import numpy as np
from jaxtyping import Float

# Exchanges at most, before a slower way is taken that always ends.
_EXCHANGES = 30
# What is added to a matrix whose diagonal is 1: directions below are not determined.
_REGULARISED = 1e-12


def bounded_minimum(
    matrix: Float[np.ndarray, "p p"], gradient: Float[np.ndarray, " p"], lower: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """The x ≥ lower of least `½ xᵀ matrix x + gradientᵀ x`, columns of any unit."""
    size = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    unit = matrix / np.outer(size, size) + _REGULARISED * np.eye(len(size))
    found = _exchanged(unit, gradient / size, lower * size)
    return (_slowly(unit, gradient / size, lower * size) if found is None else found) / size


def _exchanged(
    matrix: Float[np.ndarray, "p p"], gradient: Float[np.ndarray, " p"], bound: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"] | None:
    """By exchanging what is at its bound and what is free, all at once; None where that goes on and on."""
    low, held = np.where(np.isfinite(bound), bound, 0.0), np.zeros(len(bound), bool)
    for _ in range(_EXCHANGES):
        x = np.where(held, low, 0.0)
        rest = gradient + matrix @ x
        try:
            x[~held] = -np.linalg.solve(matrix[np.ix_(~held, ~held)], rest[~held])
        except np.linalg.LinAlgError:
            return None
        slope = matrix @ x + gradient
        wrong = np.where(held, slope < -1e-9 * np.abs(gradient).max(initial=0.0), x < bound - 1e-12)
        if not wrong.any():
            return x
        held = held ^ wrong
    return None


def _slowly(
    matrix: Float[np.ndarray, "p p"], gradient: Float[np.ndarray, " p"], bound: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    from scipy.optimize import lsq_linear  # slow to import

    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _REGULARISED * max(values[-1], 1e-300))
    root, wanted = np.sqrt(values)[:, None] * vectors.T, -(vectors.T @ gradient) / np.sqrt(values)
    return lsq_linear(root, wanted, bounds=(bound, np.inf), method="bvls").x
