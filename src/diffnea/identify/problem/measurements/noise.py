"""Noise: how large that of readings is, and over how many rows that of residuals is correlated."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.measurements.rows import Rows
from diffnea.recordings.signal.smoothing import low_pass_gain

# Fourth differences leave of a smooth motion next to nothing, and of white noise this many times its variance.
DIFFERENCES, OF_NOISE = 4, 70.0
# Sokal's window: correlations are summed up to this many correlation times.
SOKAL_WINDOW = 5.0


def white_noise(measured: Float[np.ndarray, "time m"]) -> Float[np.ndarray, " m"]:
    """The standard deviation of readings of smooth motions; 0 of too few."""
    quick = np.diff(measured, DIFFERENCES, axis=0)
    return np.sqrt(np.mean(quick**2, axis=0) / OF_NOISE) if len(quick) else np.zeros(measured.shape[1])


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
    within = np.arange(1, len(times) + 1) >= SOKAL_WINDOW * times
    return float(max(times[np.argmax(within)] if within.any() else 1.0, 1.0)) if len(times) else 1.0


def is_noisy(rows: Rows) -> bool:
    """Whether states come from positions that were read with noise."""
    return rows.noise is not None and rows.density > 0 and bool(np.any(rows.noise > 0))


def drawn_noise(rows: Rows, count: int, seed: int) -> tuple[Float[np.ndarray, "count n"], ...]:
    """What noise as that of the readings makes of so many positions, velocities and accelerations."""
    assert rows.noise is not None and rows.low_pass is not None and rows.dt is not None
    white = np.random.default_rng(seed).standard_normal((count, len(rows.noise))) * rows.noise * np.sqrt(rows.density)
    dt = rows.dt / rows.low_pass.taps.shape[1]
    omega = 2 * np.pi * np.fft.rfftfreq(count)[:, None]
    passed = np.fft.rfft(white, axis=0) * low_pass_gain(omega, min(rows.wide, 0.99 * np.pi))
    return tuple(np.fft.irfft(passed * (1j * omega / dt) ** k, count, axis=0) for k in range(3))
