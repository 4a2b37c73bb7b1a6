"""One noisy signal: how noisy it is, how much to smooth it, and its derivatives after that.

The smoother is the zero-phase low-pass `H(ω) = 1 / (1 + (tan(ω/2) / tan(ω_c/2))⁸)`, ω in radians a sample: a smoothing
spline of order four seen from inside the record. Derivatives are `(iω)ᵏ H`, exact for what passes. The corner `ω_c`
minimises an unbiased estimate of the mean squared error of the acceleration (Mallows' C_p, weighted with ω⁴):

    risk(ω_c) = Σ ω⁴ [(1 − H)² (P − σ²) + H² σ²],   P: periodogram of the positions, σ²: white noise under it.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.fft import irfft, rfft, rfftfreq
from scipy.fft import next_fast_len
from scipy.special import fdtri

from diffnea.recordings.recording import RecordingError

ORDER = 4
# The highest corner, as a share of the Nyquist frequency, and how many corners are tried below it.
HIGHEST, CORNERS = 0.8, 160
# Noise is looked for at this share of the Nyquist frequency, or below. Motion shows as accelerations that rise again,
# towards lower frequencies, by this factor.
NOISE_BAND, MOTION, NOISE_LINES = 0.7, 10.0, 300
# Friction that jumps makes accelerations white over decades: they are lowest at several places, equal but for chance of
# this probability. Where the last of them has noise smaller by more than this factor, the first was motion.
EQUAL_CHANCE, MISREAD = 0.05, 10.0
# White noise of an encoder is as large in every band, up to chance and a little colour: this factor in power.
COLOUR = 2.0
# Its power may be this much larger than was found; what looks like motion because of that would be followed upwards.
UNSURE = 1.2
# Differences that leave nothing of slow motion, and the median size of normal noise of variance 1.
DIFFERENCES, NORMAL_MEDIAN = 6, 0.6744898
# A record shorter than this is not smoothed, it is refused.
FEWEST = 16
# The record is looked at in overlapping parts; a taper with side lobes at 1e-7 for each.
PARTS, SHORTEST_PART, TAPER = 3, 256, 14.0
# Data on a lattice: at least this share of the differences lies within this share of a step from a whole number.
ON_LATTICE, NEAR_WHOLE = 0.98, 0.05


@dataclass(frozen=True)
class Spectrum:
    """A periodogram gathered in bins: angular frequency (rad a sample), mean power, and how many lines are in each."""

    omega: np.ndarray
    power: np.ndarray
    lines: np.ndarray


@dataclass(frozen=True)
class Derivatives:
    """A smoothed signal, its first two derivatives, and how good they are."""

    q: Float[np.ndarray, " time"]
    qd: Float[np.ndarray, " time"]
    qdd: Float[np.ndarray, " time"]
    step: float  # encoder step, 0 where there is none
    noise: float  # standard deviation of a single position
    white: float  # of what is white at the top of the spectrum: where noise is far larger, it is not the encoder's
    white_from: float  # Hz
    bandwidth: float  # corner, Hz
    qd_std: float  # expected error of qd: noise that passes and motion that does not
    qdd_std: float
    edge: int  # samples at each end that lean on data outside the record
    independent: float  # how many independent values the errors of qdd are worth, per sample


def derivatives(y: Float[np.ndarray, " time"], dt: float, bandwidth: float | None = None) -> Derivatives:
    """Smooth one uniformly sampled signal and differentiate it twice; the corner in Hz is chosen unless given."""
    if len(y) < FEWEST:
        raise RecordingError(f"{len(y)} samples are too few to differentiate; give at least {FEWEST}")
    step, y = encoder_step(y), y.astype(np.float64)
    spectrum = _spectrum(y)
    noise = max(_floor(spectrum), step / math.sqrt(12))
    corner = _best_corner(spectrum, noise, len(y)) if bandwidth is None else 2 * math.pi * bandwidth * dt
    corner = min(corner, HIGHEST * math.pi)
    q, qd, qdd = _filter(y, dt, corner)
    white, lowest = _white(spectrum)
    qd_std, qdd_std = (_error(spectrum, noise, corner, k, bandwidth is None) / dt**k for k in (1, 2))
    return Derivatives(
        q=q,
        qd=qd,
        qdd=qdd,
        step=step,
        noise=noise,
        white=max(white, step / math.sqrt(12)),
        white_from=lowest / (2 * math.pi * dt),
        bandwidth=corner / (2 * math.pi * dt),
        qd_std=qd_std,
        qdd_std=qdd_std,
        edge=_edge(len(y), corner, qdd_std / max(float(np.sqrt(np.mean(qdd**2))), 1e-300)),
        independent=_independent_share(corner),
    )


def position_noise(y: Float[np.ndarray, " time"]) -> float:
    """The standard deviation of one reading of a uniformly sampled signal, that of its encoder's step at least."""
    return max(noise_level(y), encoder_step(y) / math.sqrt(12))


def noise_level(y: Float[np.ndarray, " time"]) -> float:
    """The standard deviation of the noise of a uniformly sampled signal, its encoder's step left aside."""
    return _floor(_spectrum(y.astype(np.float64)))


def noise_beside_jumps(y: Float[np.ndarray, " time"]) -> float:
    """The standard deviation of white noise of a signal that may jump, as accelerometers do where feet land.

    By the median size of its sixth differences, in which slow motion is gone and what is rare does not count.
    """
    bends = np.diff(y.astype(np.float64), DIFFERENCES)
    return float(np.median(np.abs(bends))) / (NORMAL_MEDIAN * math.sqrt(math.comb(2 * DIFFERENCES, DIFFERENCES)))


def encoder_step(y: Float[np.ndarray, " time"]) -> float:
    """The step of the encoder when all values lie on a lattice, else 0."""
    moves = np.abs(np.diff(y[:200_000]))
    rounding = 8 * np.finfo(y.dtype).eps * float(np.abs(y).max(initial=0.0))
    moves = moves[moves > rounding]
    if len(moves) < 4:
        return 0.0
    guess = float(moves.min())
    small = moves[moves < 1.5 * guess]
    guess = float(small.mean())
    for reach in (10, 1000):  # a longer baseline sharpens the estimate before it is held against large moves
        counts = np.round(moves / guess)
        near = (counts > 0) & (counts <= reach)
        guess = float((moves[near] * counts[near]).sum() / (counts[near] ** 2).sum())
    off = np.abs(moves / guess - np.round(moves / guess)) - rounding / guess
    return guess if np.mean(off < NEAR_WHOLE) >= ON_LATTICE else 0.0


# Noise and bandwidth ----------------------------------------------------------------------------------------------


def _spectrum(y: np.ndarray) -> Spectrum:
    """The periodogram, averaged over overlapping parts of the record; white noise of variance 1 has power 1.

    It is taken from second differences and divided back: they are all but white, so that no slow, large motion leaks
    into the band where the encoder's noise is seen.
    """
    bends = np.diff(y, 2)
    length = max(2 * len(bends) // (PARTS + 1), min(len(bends), SHORTEST_PART))
    taper = np.kaiser(length, TAPER)
    starts = np.linspace(0, len(bends) - length, PARTS if length < len(bends) else 1).astype(int)
    parts = [np.abs(rfft(bends[k : k + length] * taper)) ** 2 for k in starts]
    power = np.mean(parts, axis=0) / np.sum(taper**2)
    omega = 2 * np.pi * rfftfreq(length)
    power[1:] /= (2 * np.sin(omega[1:] / 2)) ** 4
    # Single lines at low frequencies, wider and wider bins above: a million samples cost as much as ten thousand.
    last = len(omega) - 1
    first = np.unique(np.geomspace(1, last, min(last, 4096)).astype(int))
    lines = np.diff(np.append(first, last + 1))
    return Spectrum(np.add.reduceat(omega, first) / lines, np.add.reduceat(power, first) / lines, lines)


def _floor(spectrum: Spectrum) -> float:
    """Standard deviation of the noise, from where it takes over.

    The forces that move a robot do not grow with frequency, so neither do its accelerations. Coming down from the
    top, the spectrum of the acceleration falls as long as it is noise; where it is lowest, motion takes over. Noise of
    real encoders is not quite white, so its level is read in an octave just above that point, or as many lines as it
    takes to know it, not at the top. Of several points that are as low, the first counts unless that is plainly wrong.
    """
    omega, power, lines = _bands(spectrum)
    acceleration = power * omega**4
    lowest = np.minimum.accumulate(acceleration[::-1])[::-1]
    moves = np.flatnonzero(acceleration > MOTION * lowest)
    valley = int(np.argmin(acceleration[moves[-1] :]) + moves[-1]) if len(moves) else len(omega) - 1
    found = _read(spectrum, omega[valley])
    chance = fdtri(2 * lines, 2 * lines[valley], 1 - EQUAL_CHANCE)  # of two means of so many lines
    last = int(np.flatnonzero(acceleration <= chance * acceleration[valley])[-1])
    later = _read(spectrum, omega[max(last, valley)])
    return later if MISREAD * later < found else found


def _white(spectrum: Spectrum) -> tuple[float, float]:
    """The level of the noise, and where it begins (rad a sample): from the top down, as long as bands are alike."""
    omega, power, lines = _bands(spectrum)
    totals, counts = np.cumsum((power * lines)[::-1])[::-1], np.cumsum(lines[::-1])[::-1]
    means = totals / counts
    louder = np.flatnonzero(power[:-1] > COLOUR * means[1:])
    first = int(louder[-1]) + 1 if len(louder) else 0
    return math.sqrt(float(means[first])), float(omega[first])


def _read(spectrum: Spectrum, valley: float) -> float:
    """The standard deviation of the noise just above this frequency, rad a sample."""
    start = min(1.2 * valley, NOISE_BAND * np.pi)
    beyond = np.cumsum(np.where(spectrum.omega >= start, spectrum.lines, 0))
    above = (spectrum.omega >= start) & ((spectrum.omega <= 2 * start) | (beyond <= NOISE_LINES))
    return math.sqrt(float(np.average(spectrum.power[above], weights=spectrum.lines[above])))


def _bands(spectrum: Spectrum) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The spectrum in bands of a quarter octave and at least eight lines: frequency, mean power, lines."""
    starts, last = [0], len(spectrum.omega)
    while True:
        here = starts[-1]
        lines = np.cumsum(spectrum.lines[here:])
        wide = np.searchsorted(spectrum.omega, spectrum.omega[here] * 2**0.25)
        stop = max(int(wide), here + int(np.searchsorted(lines, 8)) + 1)
        if stop >= last:
            break
        starts.append(stop)
    lines = np.add.reduceat(spectrum.lines, starts)
    omega = np.add.reduceat(spectrum.omega * spectrum.lines, starts) / lines
    return omega, np.add.reduceat(spectrum.power * spectrum.lines, starts) / lines, lines


def low_pass_gain(omega: np.ndarray, corner: float) -> np.ndarray:
    """H, zero to a high order at the Nyquist frequency, so that its impulse response dies out exponentially."""
    with np.errstate(over="ignore"):
        return 1 / (1 + (np.tan(omega / 2) / math.tan(corner / 2)) ** (2 * ORDER))


def _decay(corner: float) -> float:
    """How fast the impulse response of H dies out, per sample: by its slowest pole."""
    angle = math.pi / (2 * ORDER)
    pole = math.tan(corner / 2) * complex(-math.sin(angle), math.cos(angle))
    return -math.log(abs((1 + pole) / (1 - pole)))


def _best_corner(spectrum: Spectrum, noise: float, count: int) -> float:
    """The corner (rad a sample) of least risk; terms that do not depend on it are left out."""
    corners = np.geomspace(min(20 * math.pi / count, HIGHEST), HIGHEST * math.pi, CORNERS)
    weight = spectrum.lines * spectrum.omega**4
    motion = spectrum.power - UNSURE * noise**2

    def risk(corner):
        gain = low_pass_gain(spectrum.omega, corner)
        return np.sum(weight * gain * (gain * spectrum.power - 2 * motion))

    return float(corners[np.argmin([risk(corner) for corner in corners])])


def _error(spectrum: Spectrum, noise: float, corner: float, order: int, chosen: bool) -> float:
    """Expected root-mean-square error of a derivative, per `dt**order`: what noise passes, what motion does not.

    At the least risk the two are about equal (exactly where motion falls off as ω⁻¹⁰), so a corner that was chosen
    loses at least as much motion as it passes noise.
    """
    gain = low_pass_gain(spectrum.omega, corner)
    weight = spectrum.lines * spectrum.omega ** (2 * order) / spectrum.lines.sum()
    passed = np.sum(weight * gain**2) * noise**2
    # Far above the corner the power is noise, and its excess over the floor chance; near it, only what exceeds chance
    # is motion.
    weight = (weight * (1 - gain) ** 2)[spectrum.omega < 2 * corner]
    near = spectrum.omega < 2 * corner
    lost = np.sum(weight * (spectrum.power[near] - noise**2))
    chance = noise**2 * math.sqrt(np.sum(weight**2 / spectrum.lines[near]))
    lost = lost if lost > 3 * chance else 0.0
    return math.sqrt(passed + (max(lost, passed) if chosen else lost))


def _independent_share(corner: float) -> float:
    """(∫S)² / (π ∫S²) with S = ω⁴H² the spectrum of the noise left in the acceleration: 1 for white noise."""
    omega = np.linspace(0, np.pi, 20_001)[1:]
    power = omega**4 * low_pass_gain(omega, corner) ** 2
    return float(power.mean() ** 2 / np.mean(power**2))


def _edge(count: int, corner: float, ratio: float) -> int:
    """Samples at each end to drop: until what the ends add falls below the noise (`ratio`: noise to signal).

    At most a tenth of the record. Where noise is very small, a hundredth of the signal is good enough, unless more
    costs less than a fiftieth of the record.
    """

    def until(share):
        return math.ceil(math.log(1 / share) / _decay(corner))

    wanted = until(min(0.15, max(ratio, 1e-12)))
    return min(wanted, max(until(0.01), count // 50), count // 10)


# Filter -----------------------------------------------------------------------------------------------------------


def _filter(y: np.ndarray, dt: float, corner: float) -> list[np.ndarray]:
    """`H (iω)ᵏ` for k = 0, 1, 2, on the signal carried on beyond its ends."""
    count = len(y)
    period = 2 * math.pi / corner
    reach = math.ceil(4 * period) + 8
    long = np.concatenate([_beyond(y, reach, period)[::-1], y, _beyond(y[::-1], reach, period)])
    slope = (y[-1] - y[0]) / (count - 1)
    line = y[0] + slope * (np.arange(len(long)) - reach)
    fade = reach // 2
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / fade)
    long = long - line
    long[:fade] *= ramp
    long[-fade:] *= ramp[::-1]
    size = int(next_fast_len(len(long) + reach, real=True) or 0)
    omega = 2 * np.pi * rfftfreq(size)
    passed = rfft(long, size) * low_pass_gain(omega, corner)
    signals = [irfft(passed * (1j * omega / dt) ** k, size)[reach : reach + count] for k in range(3)]
    return [signals[0] + line[reach : reach + count], signals[1] + slope / dt, signals[2]]


def _beyond(y: np.ndarray, reach: int, period: float) -> np.ndarray:
    """The signal before its first sample, nearest first: a cubic through the first period of the corner."""
    width = min(max(math.ceil(period), 8), len(y))
    line = np.polynomial.Polynomial.fit(np.arange(width), y[:width], 3, domain=[0, width])
    return line(-np.arange(1.0, reach + 1))
