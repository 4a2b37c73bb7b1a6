"""The robot file as a prior: how far each link's body is from the file's, in a distance that knows what a body is.

A body is its pseudo-inertia `P = U Uᵀ`, U upper triangular. With the file's `U₀`, the triangle `T = U₀⁻¹ U` has the
coordinates `z = (log T_ii, T_ij)`: no unit, 0 at the file, and whatever they are, a body. The prior of a link is

    ½ λ Σ (4 z_ii² + 2 z_ij²),

to second order the squared affine-invariant (geodesic) distance between the two pseudo-inertias, and their log-det
(Bregman) divergence (Lee, Wensing and Park 2020). λ is one over the expected squared distance: 25 for a file that is
off by a fifth. All other numbers have a wide Gaussian prior around where they start, positive coefficients in their
logarithm; static friction keeps its ratio to kinetic friction instead, wherever that goes. Some of them are alike, as
the constant torques of all joints: how wide theirs is, is one number more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea.identify.problem.least_squares import Normal, Problem
from diffnea.parameters import bounds

# The metric: diagonal entries of T first, then those above it.
METRIC = np.array([4.0] * 4 + [2.0] * 6)
# Bounds of the ten log-Cholesky numbers: root of the mass, extents, and lengths (`parameters.inertia`).
_LIMITS = np.array([bounds.LOG_ROOT_MASS] + [bounds.LOG_LENGTH] * 3 + [bounds.LENGTH] * 6)
# Where the numbers after the first four stand in U / e^α, and those of z that are not on the diagonal.
_PLACES = ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))
# The file's body has at least this share of its largest extent in every direction, where distances are measured.
_THINNEST = 0.03


@dataclass(frozen=True)
class Prior:
    """Bodies near the file's, each link with a strength of its own; other numbers near their start, weakly."""

    centre: Float[np.ndarray, " p"]
    precision: Float[np.ndarray, " p"]  # of numbers that are no body's; 0 leaves one free
    positive: Bool[np.ndarray, " p"]  # numbers that stand for positive coefficients: distances are logarithms
    tied: Int[np.ndarray, "tie 2"]  # positive numbers whose distance is that of their ratio to another
    body: Int[np.ndarray, "link 10"]  # where each body's numbers stand in θ
    inverse: Float[np.ndarray, "link 4 4"]  # U₀⁻¹
    strength: Float[np.ndarray, " link"]  # λ
    alike: tuple[Int[np.ndarray, " _"], ...] = ()  # where numbers stand in θ that have one width in common
    firmness: tuple[float, ...] = ()  # by which the precision of each of these is multiplied

    def with_strength(self, strength: Float[np.ndarray, " link"], firmness: Sequence[float] = ()) -> "Prior":
        """The same with other strengths, and firmness of what is alike."""
        return replace(self, strength=strength, firmness=tuple(firmness) or self.firmness)

    @property
    def firm(self) -> Float[np.ndarray, " p"]:
        """The precision of numbers that are no body's, as firm as they are held."""
        found = self.precision.copy()
        for where, by in zip(self.alike, self.firmness, strict=True):
            found[where] *= by
        return found

    def distances(self, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " link"]:
        """`Σ (4 z_ii² + 2 z_ij²)` of each body from the file's."""
        z, _ = self.bodies(theta[None])
        return np.sum(METRIC * z[0] ** 2, axis=1)

    def bodies(self, theta: Float[np.ndarray, "starts p"]) -> tuple[np.ndarray, np.ndarray]:
        """How far bodies are from the file's, `z (starts, link, 10)`, and the slopes of z in their numbers."""
        z, slopes = _coordinates(self.inverse, theta[:, self.body])
        return z - _coordinates(self.inverse, self.centre[None][:, self.body])[0], slopes

    def normal(self, theta: Float[np.ndarray, "starts p"]) -> Normal:
        """Value, half the gradient and the Gauss-Newton matrix of the prior, in units of one residual's variance."""
        away, slope = self.away(theta)
        z, slopes = self.bodies(theta)
        weight, precision = self.strength[:, None] * METRIC, self.firm
        value = np.sum(precision * away**2, axis=1) + np.sum(weight * z**2, axis=(1, 2))
        gradient = precision * away * slope
        matrix = np.einsum("sp,pq->spq", precision * slope**2, np.eye(theta.shape[1]))
        for one, other in self.tied:  # what moves with the other
            gradient[:, other] -= precision[one] * away[:, one] * slope[:, other]
            matrix[:, other, other] += precision[one] * slope[:, other] ** 2
            both = precision[one] * slope[:, one] * slope[:, other]
            matrix[:, one, other] -= both
            matrix[:, other, one] -= both
        first = np.einsum("slkj,slk->slj", slopes, weight * z)
        second = np.einsum("slki,lk,slkj->slij", slopes, weight, slopes)
        for link, places in enumerate(self.body):
            gradient[:, places] += first[:, link]
            matrix[:, places[:, None], places] += second[:, link]
        return Normal(value, gradient, matrix)

    def away(self, theta: Float[np.ndarray, "starts p"]) -> tuple[np.ndarray, np.ndarray]:
        """How far numbers are from the centre, logarithms of coefficients where these are positive, and the slopes."""
        (here, slope), (centre, _) = (_log_softplus(each) for each in (theta, self.centre))
        away = np.where(self.positive, here - centre, theta - self.centre)
        away[:, self.tied[:, 0]] -= (here - centre)[:, self.tied[:, 1]]
        return away, np.where(self.positive, slope, 1.0)

    def added(self, problem: Problem, variance: float) -> Problem:
        """The problem with the prior on top, where a residual of usual size has this variance."""
        return problem.with_prior(_Weighted(self, variance / problem.rows))


@dataclass(frozen=True)
class _Weighted:
    """A prior beside a mean of squared residuals."""

    prior: Prior
    share: float

    def value(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, " starts"]:
        return self.share * self.prior.normal(theta).loss

    def gradient(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, "starts p"]:
        return self.share * self.prior.normal(theta).gradient

    def matrix(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, "starts p p"]:
        return self.share * self.prior.normal(theta).matrix


def prior(
    centre: Float[np.ndarray, " p"],
    width: Float[np.ndarray, " p"],
    positive: Bool[np.ndarray, " p"],
    tied: Int[np.ndarray, "tie 2"],
    body: Int[np.ndarray, "link 10"],
    strength: float,
    alike: Sequence[Int[np.ndarray, " _"]] = (),
) -> Prior:
    """Around θ of the robot as given; `width` is the expected distance of numbers that are no body's."""
    precision = np.where(np.isfinite(width), 1 / np.maximum(width, 1e-300) ** 2, 0.0)
    precision[body.ravel()] = 0.0
    several = tuple(where for where in alike if len(where))
    return Prior(
        centre,
        precision,
        positive,
        tied,
        body,
        _inverse(centre[body]),
        np.full(len(body), strength),
        several,
        (1.0,) * len(several),
    )


def _log_softplus(raw: Float[np.ndarray, "*k p"]) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of `log(1 + eˣ)` and its slope."""
    value = np.maximum(np.logaddexp(0.0, raw), 1e-300)
    return np.where(raw < -30, raw, np.log(value)), np.where(raw < -30, 1.0, np.exp(-np.logaddexp(0.0, -raw)) / value)


def _triangle(numbers: Float[np.ndarray, "*k 10"]) -> Float[np.ndarray, "*k 4 4"]:
    """U of ten log-Cholesky numbers: `e^α [S, c; 0, 1]`."""
    y = numbers / np.sqrt(1 + (numbers / _LIMITS) ** 2)
    U = np.zeros((*y.shape[:-1], 4, 4))
    U[..., [0, 1, 2], [0, 1, 2]] = np.exp(y[..., 1:4])
    U[..., 3, 3] = 1.0
    for k, (i, j) in enumerate(_PLACES):
        U[..., i, j] = y[..., 4 + k]
    return np.exp(y[..., 0])[..., None, None] * U


def _inverse(numbers: Float[np.ndarray, "link 10"]) -> Float[np.ndarray, "link 4 4"]:
    """U₀⁻¹ of the file's bodies; a rod or a point has a little extent here, or no distance from it were finite."""
    U = _triangle(numbers)
    found = np.zeros_like(U)
    for k, each in enumerate(U):
        values, axes = np.linalg.eigh(each[:3, :3] @ each[:3, :3].T)
        extent = np.maximum(values, _THINNEST**2 * max(values[-1], 1e-300))
        second = (axes * extent) @ axes.T
        thick = each.copy()
        thick[:3, :3] = np.linalg.cholesky(second[::-1, ::-1])[::-1, ::-1]
        found[k] = np.linalg.inv(thick)
    return found


def _coordinates(inverse: np.ndarray, numbers: Float[np.ndarray, "starts link 10"]) -> tuple[np.ndarray, np.ndarray]:
    """z of bodies, `(starts, link, 10)`, and its slopes in their numbers `(starts, link, 10, 10)`."""
    U = _triangle(numbers)
    T = inverse @ U
    steps = np.zeros((*numbers.shape, 4, 4))  # ∂U in each bounded number
    steps[..., 0, :, :] = U
    scale = U[..., 3, 3]
    for i in range(3):
        steps[..., 1 + i, i, i] = U[..., i, i]
    for k, (i, j) in enumerate(_PLACES):
        steps[..., 4 + k, i, j] = scale
    moved = inverse[:, None] @ steps
    diagonal = np.arange(4)
    rows, columns = np.array(_PLACES).T
    on, above = T[..., diagonal, diagonal], T[..., rows, columns]
    slopes = np.concatenate(
        [moved[..., diagonal, diagonal] / on[..., None, :], moved[..., rows, columns]], axis=-1
    )  # (starts, link, number, z)
    bounded = (1 + (numbers / _LIMITS) ** 2) ** -1.5
    return np.concatenate([np.log(on), above], axis=-1), np.swapaxes(slopes * bounded[..., None], -1, -2)
