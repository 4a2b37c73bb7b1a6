"""Linear least squares with numbers bounded below, from normal equations."""

import numpy as np
from jaxtyping import Float


def bounded_minimum(
    matrix: Float[np.ndarray, "p p"], gradient: Float[np.ndarray, " p"], lower: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"]:
    """The x ≥ lower of least `½ xᵀ matrix x + gradientᵀ x`, columns of any unit."""
    from scipy.optimize import lsq_linear  # slow to import

    size = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    values = np.maximum(values, 1e-12 * max(values[-1], 1e-300))
    root, wanted = np.sqrt(values)[:, None] * vectors.T, -(vectors.T @ (gradient / size)) / np.sqrt(values)
    free = vectors @ (wanted / np.sqrt(values))
    if np.all(free >= lower * size):
        return free / size
    return lsq_linear(root, wanted, bounds=(lower * size, np.inf), method="bvls").x / size
