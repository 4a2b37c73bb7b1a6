"""How much each residual of a window counts: errors grow with time, and some windows are beyond any model."""

import numpy as np
from jaxtyping import Float

from diffnea.identify.options import TrajectoryOptions


def weights(
    wrong: Float[np.ndarray, "time window n"],
    spread: Float[np.ndarray, " n"],
    options: TrajectoryOptions,
) -> Float[np.ndarray, "time window n"] | None:
    """One over the usual size of an error that long after the start, less in unusual windows; None if all are lost.

    Errors grow along a window, so that without the first factor only its end would count. A window that passes an
    unstable pose multiplies every error; squared, a few of them would outweigh all others. The second factor makes the
    sum one of logarithms, `Σ log(1 + E / median E)`: like the median, it minds how many windows are well predicted.
    """
    lost = np.asarray(~np.isfinite(wrong).all(axis=(0, 2)) | (np.abs(wrong) > options.lost * spread).any(axis=(0, 2)))
    if lost.all():
        return None
    usual = _usual(wrong[:, ~lost], spread)
    size = np.mean(np.square(np.where(lost[None, :, None], 0.0, wrong) / usual[:, None]), axis=0)
    typical = np.median(size[~lost], axis=0)
    share = np.sqrt(2 / np.maximum(typical + size, 1e-300))
    return np.where(lost[:, None], 0.0, share) / usual[:, None]


def _usual(wrong: Float[np.ndarray, "time window n"], spread: Float[np.ndarray, " n"]) -> Float[np.ndarray, "time n"]:
    """The root mean square of a window's error until then, median over windows; it never falls.

    It is never less than after one step if it grew evenly: the start is estimated, and may fit by chance.
    """
    until = np.arange(1, len(wrong) + 1)[:, None, None]
    size = np.sqrt(np.median(np.cumsum(np.square(wrong), axis=0) / until, axis=1))
    size = np.maximum.accumulate(size, axis=0)
    return np.maximum(size, np.maximum(size[-1] / len(wrong), 1e-9 * spread))
