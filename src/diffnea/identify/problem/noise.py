"""Noise of residuals: how large it is at each joint, and over how many rows it is correlated."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

# Sokal's window: correlations are summed up to this many correlation times.
WINDOW = 5.0


def correlation_time(series: Sequence[Float[np.ndarray, " _"]]) -> float:
    """Rows that tell as much as one independent row: `1 + 2 Σ ρ_k`, at least 1, over several stretches of residuals."""
    longest = max((len(each) for each in series), default=0)
    products = np.zeros(max(longest, 1))
    for each in series:
        power = np.abs(np.fft.rfft(each, 2 * len(each))) ** 2
        products[: len(each)] += np.fft.irfft(power, 2 * len(each))[: len(each)]
    if not products[0] > 0:
        return 1.0
    times = 1 + 2 * np.cumsum(products[1:]) / products[0]
    within = np.arange(1, len(times) + 1) >= WINDOW * times
    return float(max(times[np.argmax(within)] if within.any() else 1.0, 1.0)) if len(times) else 1.0
