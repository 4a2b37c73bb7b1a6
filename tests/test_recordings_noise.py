"""Noise of positions is told from motion."""

import numpy as np
import pytest

from diffnea.recordings.smoothing import derivatives


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_accelerations_that_are_white_over_decades_are_not_taken_for_noise(seed):
    """As friction that jumps makes them: by chance they are lowest at some place or another, far below the noise."""
    rng, count, dt, noise = np.random.default_rng(seed), 4000, 1 / 250, 4e-6
    f = np.fft.rfftfreq(count, dt)[1:]
    size = (1 + 10 / (1 + (f / 1.2) ** 6)) * np.where(np.abs(f - 4.0) < 0.6, 0.8, 1.0)  # motion below 2 Hz, a plateau
    lines = size * (rng.standard_normal((2, len(f))).T @ [1, 1j]) / (2 * np.pi * f) ** 2
    q = np.fft.irfft(np.concatenate([[0], lines]), count)
    found = derivatives(q / q.std() + noise * rng.standard_normal(count), dt)
    assert found.noise < 6 * noise and found.bandwidth > 20  # 50 to 120 times too much was found before, and 5 Hz
