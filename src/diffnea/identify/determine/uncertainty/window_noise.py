"""Noise of windows that were rolled out: what their errors, which last as long as they do, do to a sum of scores.

Arrays are window by window: `slopes` of all windows together are orthonormal, `starts` span what the start of each
window, which was estimated too, could do to its rows, and are orthogonal to the slopes. Two estimates: each window's
errors in the place of every other's, which needs few windows and takes all for alike; and each window's own, which is
right whatever the noise within a window is, and however windows differ, but needs more windows than numbers.
"""

import numpy as np
from jaxtyping import Float

# What every window's start takes up altogether, but for rounding, tells nothing of noise.
_NOTHING_LEFT = 1e-9
# A window that alone tells a direction has no residuals there: its share counts as this at most.
_MOST_LEVERAGE = 0.9

Errors = Float[np.ndarray, "window row"]
Columns = Float[np.ndarray, "window row r"]


def exchanged(slopes: Columns, starts: Float[np.ndarray, "window row k"], errors: Errors) -> Float[np.ndarray, "r r"]:
    """The variance of the sum of scores if the noise of every window stood in the place of any, `Σ_wv / windows`."""
    noisy = _unfitted(errors, np.concatenate([starts, slopes], axis=2))
    meat = np.zeros((slopes.shape[2],) * 2)
    for own in slopes:
        scores = noisy @ own
        meat += scores.T @ scores / len(errors)
    return meat


def _unfitted(errors: Errors, spans: Float[np.ndarray, "window row s"]) -> Errors:
    """The noise of windows, of which the fit has left `errors` and has taken what `spans` of each window span.

    In its own window that does no harm, since slopes are orthogonal to what a start spans. In the place of another,
    whose start spans other motions, errors do too little: most of all in short windows, whose starts take up much of
    what is slow. They are multiplied by the inverse root of what is left on average, `I − Σ spans spansᵀ / windows`: so
    the variance is right if noise is white (Bell and McCaffrey 2002).
    """
    windows, rows = errors.shape
    columns = np.moveaxis(spans, 0, 1).reshape(rows, -1) / np.sqrt(windows)
    if columns.shape[1] > rows:
        values, vectors = np.linalg.eigh(columns @ columns.T)
    else:
        vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
        values = sizes**2
    left = 1 - values
    more = np.where(left > _NOTHING_LEFT, np.maximum(left, _NOTHING_LEFT) ** -0.5 - 1, 0.0)
    return errors + (errors @ vectors * more) @ vectors.T


def clustered(
    slopes: Columns, errors: Errors, directions: Float[np.ndarray, "d r"]
) -> tuple[Float[np.ndarray, "r r"], Float[np.ndarray, " d"]]:
    """The same from the score of each window by itself, and Student's degrees of freedom along directions.

    Scores are as large as they were before the fit took its share of them (CR2, Bell and McCaffrey 2002), if noise is
    white. Where few windows tell most of a direction, there are as few degrees of freedom.
    """
    shares = np.swapaxes(slopes, 1, 2) @ slopes
    values, vectors = np.linalg.eigh(shares)
    roots = (vectors / np.sqrt(1 - np.clip(values, 0.0, _MOST_LEVERAGE))[:, None]) @ np.swapaxes(vectors, 1, 2)
    scores = np.einsum("wij,wkj,wk->wi", roots, slopes, errors, optimize=True)
    degrees = []
    for along in directions:
        each = roots @ along
        fitted = np.einsum("wij,wj->wi", shares, each)
        products = np.diag(np.sum(each * fitted, axis=1)) - fitted @ fitted.T
        degrees.append(np.trace(products) ** 2 / max(float(np.sum(products**2)), 1e-300))
    return scores.T @ scores, np.maximum(degrees, 1.0)
