"""Uncertainty: the covariance of estimates from residuals that are correlated in time.

The noise in a sum of scores `Jᵀ r` is read off its slow cosines: each weights the scores by `cos(π k t / T)`, and is
as uncertain as the sum itself, but not set to zero by the fit. The estimate is consistent whatever the noise's spectrum
and whether or not it changes with the state, and its few cosines are Student's degrees of freedom (Lazarus, Lewis,
Stock, Watson 2018: HAR inference, recommendations for practice).

Where a short burst of motion carries most of what is known, all slow cosines see it alike, and the fit has set its
score to zero. So beside them stands what stationary noise of the residuals' own spectrum would do; the wider counts.

Windows of one length, rolled out, have errors that last as long as they do (`window_noise`).
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.fft import next_fast_len
from scipy.special import stdtrit  # scipy.stats has it too, and takes half a second to import

from diffnea.identify.determine.uncertainty.window_noise import clustered, exchanged

# A correlation is over when it stays below its own noise for this many samples.
_QUIET = 10
# Cosines of the HAC covariance are slow against the residuals' memory: this many memories in a half wave. Fewer take
# correlation for independence, more leave fewer cosines and wider intervals. Correlations of stationary noise count up
# to as many, less and less.
MEMORIES = 4.0
# Half a 95 % interval of a normal variable, in standard deviations.
NORMAL_QUANTILE = 1.959964
# Cosines of the HAC covariance at least: fewer make Student's quantile larger than 2.8.
FEWEST_COSINES = 4
# Recordings at least that are left out in turn.
FEWEST_RECORDINGS = 4


@dataclass(frozen=True)
class Noise:
    """What the residuals tell: their variance, how long they are correlated, how many independent ones there are."""

    variance: float  # of a normalised residual
    memory: float  # samples over which the noise is correlated; 1 if it is white
    effective_samples: float


@dataclass(frozen=True)
class Uncertainty:
    """Covariance of the estimates and Student's degrees of freedom of their standard deviations."""

    covariance: Float[np.ndarray, "r r"]
    stationary: Float[np.ndarray, "r r"]  # the same if the noise were stationary
    degrees: float
    root: Float[np.ndarray, "r r"]  # `root rootᵀ` is the covariance under white noise of variance 1
    by_segment: Float[np.ndarray, "r r"] | None = (
        None  # the same from each recording or window, where there are several
    )

    def std(self, weights: Float[np.ndarray, "*k r"]) -> Float[np.ndarray, "*k"]:
        """The standard deviation of weighted sums of the estimates, for Student's quantile: the largest of all.

        That of stationary noise rests on all residuals, not on a few cosines: its quantile is a normal variable's.
        """
        several = [self.covariance, self.stationary * (NORMAL_QUANTILE / self.quantile()) ** 2]
        several += [] if self.by_segment is None else [self.by_segment]
        found = [np.einsum("...i,ij,...j->...", weights, each, weights) for each in several]
        return np.asarray(np.sqrt(np.max(found, axis=0)))

    def quantile(self, level: float = 0.95) -> float:
        """How many standard deviations reach to the ends of an interval."""
        return float(stdtrit(self.degrees, (1 + level) / 2))


def noise(
    residuals: Float[np.ndarray, " rows"],
    joint: Int[np.ndarray, " rows"],
    sample: Int[np.ndarray, " rows"],
    segment: Int[np.ndarray, " rows"],
    unknowns: int,
    ordered: bool,
) -> Noise:
    """The noise of the fit; samples without order in time are independent."""
    rows = len(residuals)
    memory, total = 1.0, 1.0
    if ordered and np.any(residuals):
        correlation, shortest = _correlation(residuals, joint, sample, segment)
        memory = float(_memory(correlation, rows, shortest))
        total = max(1.0, 1 + 2 * float(correlation[1 : int(2 * memory)].sum()))
    effective = rows / total
    return Noise(float(residuals @ residuals) / max(rows - unknowns, 1), memory, effective)


def _correlation(residuals, joint, sample, segment) -> tuple[np.ndarray, int]:
    """Autocorrelation of the residuals over all recordings and joints, and how far it is known."""
    groups = _groups(joint, segment)
    longest = max(int(np.ptp(sample[rows])) + 1 for rows in groups)
    products = np.zeros(longest)
    for rows in groups:
        first = sample[rows].min()
        series = np.zeros(int(np.ptp(sample[rows])) + 1)
        series[sample[rows] - first] = residuals[rows]
        power = np.abs(np.fft.rfft(series, 2 * len(series))) ** 2
        products[: len(series)] += np.fft.irfft(power)[: len(series)]
    return products / products[0], longest


def _groups(*labels: np.ndarray) -> list[np.ndarray]:
    """Rows with equal labels."""
    _, group = np.unique(np.stack(labels), axis=1, return_inverse=True)
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _memory(correlation: np.ndarray, rows: int, longest: int) -> int:
    """The lag from which on the correlation stays within its own noise."""
    bound = 2 * np.sqrt(np.log10(max(rows, 10)) / rows)
    quiet = np.abs(correlation[1 : max(longest // 2, 2)]) < bound
    runs = np.convolve(quiet, np.ones(_QUIET), "valid") if len(quiet) >= _QUIET else np.zeros(0)
    over = np.flatnonzero(runs == _QUIET)
    return int(over[0]) + 1 if len(over) else max(longest // 2, 1)


def uncertainty(
    jacobian: Float[np.ndarray, "rows r"],
    residuals: Float[np.ndarray, " rows"],
    joint: Int[np.ndarray, " rows"],
    sample: Int[np.ndarray, " rows"],
    segment: Int[np.ndarray, " rows"],
    found: Noise,
    ordered: bool,
    starts: Float[np.ndarray, "rows k"] | None = None,
) -> Uncertainty:
    """The covariance of the least-squares estimates whose slopes are `jacobian`, of full rank.

    With `starts`, segments are windows of one length, and the noise of each could have been any other's: what the start
    of each window spans, which was estimated too, orthonormal and orthogonal to the slopes.
    """
    count = jacobian.shape[1]
    scale = np.linalg.norm(jacobian, axis=0)
    scale[scale == 0] = 1.0
    orthogonal, triangle = np.linalg.qr(jacobian / scale)
    back = np.linalg.solve(triangle, np.eye(count)) / scale[:, None]
    if starts is not None and len(np.unique(segment)) > 1:
        return _of_windows(orthogonal, residuals, starts, len(np.unique(segment)), back)
    # A residual is smaller than its noise by its leverage (MacKinnon and White's HC2).
    leverage = np.minimum(np.sum(orthogonal**2, axis=1), 0.9)
    noisy = residuals / np.sqrt(1 - leverage)
    scores = orthogonal * noisy[:, None]
    meat, degrees = _independent(scores, sample, segment)
    if ordered:
        meat, degrees = _slow(scores, sample, segment, found.memory)
    # The fit takes up part of the noise: what is left is smaller than what was there.
    taken = found.effective_samples / max(found.effective_samples - count, 1.0)
    reach = MEMORIES * found.memory if found.memory > 1 else 1.0
    steady = _stationary(orthogonal, noisy, joint, sample, segment, reach)
    slow, steady = (back @ each @ back.T for each in (meat * taken, steady))
    return Uncertainty(slow, steady, degrees, back)


def roughened(
    found: Uncertainty,
    jacobian: Float[np.ndarray, "rows r"],
    residuals: Float[np.ndarray, " rows"],
    segment: Int[np.ndarray, " rows"],
) -> Uncertainty:
    """Wider, for losses that are rough in the small, as those of whole motions with dry friction are.

    Slopes there hold over a few per cent. Where they still ask for a step that does not lower the loss, nobody knows
    where the minimum is within that step: it counts as one standard deviation more. And what each recording
    does to the estimate, left out by one linear step, knows of errors of the model that last for a whole recording.
    """
    scale = np.linalg.norm(jacobian, axis=0)
    scale[scale == 0] = 1.0
    scaled = jacobian / scale
    step = np.linalg.lstsq(scaled, residuals, rcond=None)[0] / scale
    open_ = np.outer(step, step)
    names = np.unique(segment)
    left_out = None
    if len(names) >= FEWEST_RECORDINGS:
        normal = scaled.T @ scaled
        moves = []
        for name in names:
            own = scaled[segment == name]
            moves.append(np.linalg.lstsq(normal - own.T @ own, own.T @ residuals[segment == name], rcond=1e-10)[0])
        moves = (np.array(moves) - np.mean(moves, axis=0)) / scale
        wider = (stdtrit(len(names) - 1, 0.975) / found.quantile()) ** 2
        left_out = wider * (len(names) - 1) / len(names) * moves.T @ moves + open_
    return replace(found, covariance=found.covariance + open_, stationary=found.stationary + open_, by_segment=left_out)


def _slow(scores, sample, segment, memory: float) -> tuple[np.ndarray, float]:
    """The variance of the sum of scores by slow cosines, recording by recording."""
    meat, weights, fewest = np.zeros((scores.shape[1],) * 2), [], FEWEST_COSINES
    for rows in _groups(segment):
        first, length = sample[rows].min(), int(np.ptp(sample[rows])) + 1
        most = max(fewest, 0.4 * length ** (2 / 3))
        waves = int(np.clip(length / (MEMORIES * memory), fewest, most))
        phase = np.pi * (sample[rows] - first + 0.5) / length
        turned = np.sqrt(2) * np.cos(np.arange(1, waves + 1)[:, None] * phase) @ scores[rows]
        part = turned.T @ turned / waves
        meat += part
        weights.append((float(np.trace(part)), waves))
    total = sum(size for size, _ in weights)
    degrees = total**2 / max(sum(size**2 / waves for size, waves in weights), 1e-300) if total > 0 else 1.0
    return meat, max(degrees, 1.0)


def _independent(scores, sample, segment) -> tuple[np.ndarray, float]:
    """The same for samples without order: joints of one sample may be correlated, samples are not."""
    sums = np.stack([scores[rows].sum(axis=0) for rows in _groups(segment, sample)])
    return sums.T @ sums, max(float(len(sums) - scores.shape[1]), 1.0)


def _of_windows(orthogonal, residuals, starts, windows: int, back) -> Uncertainty:
    """By exchanged residuals; where there are more windows than numbers, no less than by each window's own."""
    slopes, spans = (columns.reshape(windows, -1, columns.shape[1]) for columns in (orthogonal, starts))
    errors, degrees = residuals.reshape(windows, -1), float(windows - 1)
    covariance = back @ exchanged(slopes, spans, errors) @ back.T
    found = Uncertainty(covariance, covariance, degrees, back)
    if windows <= len(back):
        return found
    meat, each = clustered(slopes, errors, back)
    wider = stdtrit(each, 0.975) / found.quantile()
    return replace(found, by_segment=back @ meat @ back.T * np.outer(wider, wider))


def _stationary(orthogonal, noisy, joint, sample, segment, reach: float) -> np.ndarray:
    """The variance of the sum of scores under stationary noise, with the residuals' correlations up to `reach` samples.

    `Σ_ts Q_tᵀ γ(s − t) Q_s`, by Fourier transforms: joints are correlated too.
    """
    groups, joints = _groups(segment), int(joint.max(initial=0)) + 1
    longest = max(int(np.ptp(sample[rows])) + 1 for rows in groups)
    size = int(next_fast_len(longest + int(np.ceil(reach)), real=True) or 0)
    power, pairs = np.zeros((2, size // 2 + 1, joints, joints), complex)
    waves = []
    for rows in groups:
        place = sample[rows] - sample[rows].min(), joint[rows]
        series = np.zeros((longest, joints, 2 + orthogonal.shape[1]))
        series[place] = np.column_stack([noisy[rows], np.ones(len(rows)), orthogonal[rows]])
        wave = np.fft.rfft(series, size, axis=0)
        power += np.einsum("fj,fk->fjk", wave[:, :, 0], wave[:, :, 0].conj())
        pairs += np.einsum("fj,fk->fjk", wave[:, :, 1], wave[:, :, 1].conj())
        waves.append(wave[:, :, 2:])
    # Rows may be missing: a correlation is the mean over the pairs that are there.
    products, counts = (np.fft.irfft(each, size, axis=0) for each in (power, pairs))
    lags = products / np.maximum(counts, 1.0) * _parzen(size, reach)[:, None, None]
    spectrum = np.fft.rfft(lags, axis=0)
    twice = np.where((np.arange(len(spectrum)) == 0) | (2 * np.arange(len(spectrum)) == size), 1.0, 2.0) / size
    sums = [np.einsum("fjr,fjk,fks->rs", w.conj(), spectrum * twice[:, None, None], w, optimize=True) for w in waves]
    return np.real(sum(sums, start=np.zeros(())))


def _parzen(size: int, reach: float) -> np.ndarray:
    """Parzen's window over the lags of a transform of this size: no spectrum seen through it is negative."""
    lag = np.minimum(np.arange(size), size - np.arange(size)) / reach
    return np.where(lag <= 0.5, 1 - 6 * lag**2 * (1 - lag), np.where(lag <= 1, 2 * (1 - np.minimum(lag, 1)) ** 3, 0.0))
