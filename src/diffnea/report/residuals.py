"""What a model leaves unexplained: its spectrum, and how much of it goes with velocity, direction or position."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

BINS = 24
# A bin with fewer samples says nothing.
LEAST_IN_BIN = 5
# Shorter stretches have no spectrum worth drawing.
LEAST_FOR_SPECTRUM, PIECE = 64, 1024


@dataclass(frozen=True)
class Binned:
    """The middle of what is left over even bins of a signal, and the share of its variance that bins explain."""

    centre: Float[np.ndarray, " bin"]
    middle: Float[np.ndarray, " bin"]
    explained: float


def binned(x: Float[np.ndarray, " sample"], y: Float[np.ndarray, " sample"]) -> Binned:
    """y over x; the share is corrected for what bins explain of pure noise."""
    low, high = np.quantile(x, (0.005, 0.995)) if len(x) else (0.0, 0.0)
    edges = np.linspace(low, high, BINS + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, BINS - 1)
    groups = [(k, y[place == k]) for k in range(BINS)]
    full = [(k, group) for k, group in groups if len(group) >= LEAST_IN_BIN]
    centre = np.array([(edges[k] + edges[k + 1]) / 2 for k, _ in full])
    middle = np.array([np.median(group) for _, group in full])
    kept = np.concatenate([group for _, group in full]) if full else np.zeros(0)
    total = float(np.sum((kept - kept.mean()) ** 2)) if len(kept) else 0.0
    within = sum(float(np.sum((group - group.mean()) ** 2)) for _, group in full)
    left = len(kept) - len(full)
    if total <= 0 or left < 1 or high <= low:
        return Binned(centre, middle, 0.0)
    return Binned(centre, middle, max(0.0, 1 - (within / left) / (total / (len(kept) - 1))))


def spectrum(
    stretches: Sequence[np.ndarray], dt: float
) -> tuple[Float[np.ndarray, " f"], Float[np.ndarray, " f"]] | None:
    """Frequencies in Hz and amplitude density, by Welch's method over all stretches; None where all are too short."""
    longest = max(map(len, stretches), default=0)
    if longest < LEAST_FOR_SPECTRUM:
        return None
    size = min(PIECE, 2 ** int(np.log2(longest)))
    window = np.hanning(size + 1)[:-1]
    pieces = [values[k : k + size] for values in stretches for k in range(0, len(values) - size + 1, max(1, size // 2))]
    rows = np.stack([piece - piece.mean() for piece in pieces])
    power = np.mean(np.abs(np.fft.rfft(rows * window, axis=1)) ** 2, axis=0) * 2 * dt / np.sum(window**2)
    return np.fft.rfftfreq(size, dt)[1:], np.sqrt(power)[1:]
