"""Noise in the regressors: what drawn noise, as that of the readings, adds to the products of the columns.

Masses multiply accelerations that were measured with noise. Least squares then find masses that are too small (errors
in variables), all of them where no wrench acts on the base: nothing at all meets `Y π = 0` best. So noise as that of
the readings is drawn, passed through the same filters and added to the motion; by as much as it changes the products of
the columns, the noise that is there has changed them, and that is taken away again (SIMEX: Cook and Stefanski 1994).
Draws come in pairs of opposite sign, which leave only what is of second order.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.floating.linear_rows import LinearRows, rows_of
from diffnea.identify.floating.stretches import Stretch
from diffnea.recordings.signal.smoothing import low_pass_gain

PAIRS = 2
# Of what a direction of the columns shows at most this share is noise: beyond, nothing is known of it anyway.
MOST = 0.8


def shaken(stretch: Stretch, seed: int, sign: float) -> Stretch:
    """The stretch with more noise of the same kind."""
    rng = np.random.default_rng(seed)
    q, qd, qdd = (sign * each for each in _drawn(stretch, stretch.joint_noise, rng))
    first, second = stretch.base_noise[:3], stretch.base_noise[3:]
    if stretch.imu:
        proper = sign * _drawn(stretch, first, rng)[0]
        rates, turning = (sign * each for each in _drawn(stretch, second, rng)[:2])
        proper = proper - np.cross(turning, stretch.arm)
    else:
        proper = sign * _drawn(stretch, first, rng)[2]
        rates, turning = (sign * each for each in _drawn(stretch, second, rng)[1:])
    moved = {"q": q, "qd": qd, "qdd": qdd, "proper": proper, "rates": rates, "turning": turning}
    return replace(stretch, **{key: getattr(stretch, key) + more for key, more in moved.items()})


def _drawn(stretch: Stretch, level: Float[np.ndarray, " k"], rng: np.random.Generator) -> list[np.ndarray]:
    """White noise as it passes the smoothing, and its first two derivatives."""
    count, dt = len(stretch), stretch.dt
    omega = 2 * np.pi * np.fft.rfftfreq(count)[:, None]
    corner = min(2 * np.pi * stretch.wide * dt, 0.99 * np.pi)
    passed = np.fft.rfft(rng.standard_normal((count, len(level))) * level, axis=0) * low_pass_gain(omega, corner)
    return [np.fft.irfft(passed * (1j * omega / dt) ** k, count, axis=0) for k in range(3)]


def with_noise(
    rows: Sequence[LinearRows],
    stretches: Sequence[Stretch],
    columns: Callable[[Stretch], np.ndarray],
    bandwidth: float,
) -> tuple[LinearRows, ...]:
    """The rows with what noise has added to their products."""
    found = [np.zeros((each.table.shape[1], *2 * each.table.shape[2:])) for each in rows]
    for seed in range(PAIRS):
        for sign in (1.0, -1.0):
            moved = rows_of([shaken(each, seed, sign) for each in stretches], columns, bandwidth)
            for k, (more, own) in enumerate(zip(moved, rows, strict=True)):
                found[k] += (more.grams - own.grams) / (2 * PAIRS)
    return tuple(replace(each, noise=noise) for each, noise in zip(rows, found, strict=True))


def without_noise(gram: Float[np.ndarray, "m m"], noise: Float[np.ndarray, "m m"]) -> Float[np.ndarray, "m m"]:
    """The products less what noise has added: in no direction more than a share of all, so that they stay products."""
    size = np.sqrt(np.maximum(np.diagonal(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    kept = values > 1e-13 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    inverse = vectors[:, kept] / np.sqrt(values[kept])
    shares, turns = np.linalg.eigh(inverse.T @ (noise / np.outer(size, size)) @ inverse)
    half = root @ turns * np.sqrt(1 - np.clip(shares, -MOST, MOST))
    return half @ half.T * np.outer(size, size)
