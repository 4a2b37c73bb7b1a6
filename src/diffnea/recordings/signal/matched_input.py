"""The input as smoothed accelerations see it: held between samples, late by a delay, and through the same low-pass.

Filtering one side of an equation of motion and not the other shows as a delay and as noise where there is none. A held
input is its samples through `sinc(ω/2) e^(−iω/2)`: on average half a sample late. A measured input is there as the mean
of two samples, `cos(ω/2) e^(iω/2)` of what was measured, and that is undone.
"""

import math

import numpy as np
from jaxtyping import Float
from scipy.fft import next_fast_len

from diffnea.recordings.recording import Recording
from diffnea.recordings.signal.smoothing import low_pass_gain

# A mean of two samples leaves nothing at the Nyquist frequency, and the low-pass neither: no less is divided by.
LEAST_MEAN = 1e-3


def matched_input(
    recording: Recording, bandwidth: float | int, delay: float | int = 0.0
) -> Float[np.ndarray, "time n"]:
    """`u` held, delayed (s) and low-passed at `bandwidth` (Hz), to stand beside accelerations smoothed to it.

    Args:
        recording: the recording.
        bandwidth: Hz.
        delay: seconds by which the input acts late.
    """
    columns = [held(u, recording.dt, bandwidth, delay, recording.measured) for u in recording.u.T]
    return np.column_stack(columns).astype(recording.u.dtype)


def held(
    u: Float[np.ndarray, " time"], dt: float, bandwidth: float | int, delay: float | int, measured: bool = False
) -> Float[np.ndarray, " time"]:
    """The same for one input, sampled every `dt`; or what was `measured`, as `as_held` has it."""
    corner = min(2 * math.pi * bandwidth * dt, 0.99 * math.pi)
    reach = math.ceil(16 * math.pi / corner + abs(delay) / dt) + 8
    size = int(next_fast_len(len(u) + 3 * reach, real=True) or 0)
    # Beyond its ends the input stays what it was; far out it turns smoothly into the other end, to be periodic.
    turn = 0.5 - 0.5 * np.cos(np.pi * (np.arange(reach) + 0.5) / reach)
    after = np.concatenate([np.zeros(reach), turn, np.ones(size - len(u) - 2 * reach)])
    around = np.concatenate([u, u[-1] + (u[0] - u[-1]) * after])
    omega = 2 * np.pi * np.fft.rfftfreq(size)
    seen = 1 / np.maximum(np.cos(omega / 2), LEAST_MEAN) if measured else np.sinc(omega / (2 * np.pi))
    late = seen * np.exp(-1j * omega * (0.5 + delay / dt))
    return np.fft.irfft(np.fft.rfft(around) * low_pass_gain(omega, corner) * late, size)[: len(u)]
