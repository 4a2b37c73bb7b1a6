"""A least-squares problem: its loss and its normal equations, for many points at once.

A point is θ, and after it, where a problem has them, numbers that it eliminates from its normal equations: start states
of windows. So a point has as many numbers as the problem, or more, and θ is its first part.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, "starts m"]


class Eliminated(NamedTuple):
    """How the numbers that were eliminated (k of them) move: `own` by themselves, `follow` with each step of θ."""

    own: Float[np.ndarray, "starts k"]
    follow: Float[np.ndarray, "starts k p"]
    decrease: Float[np.ndarray, " starts"]  # of the loss, by `own`


class Normal(NamedTuple):
    """Half the gradient and the Gauss-Newton matrix of the mean squared residual, and that mean, one row a point."""

    loss: Float[np.ndarray, " starts"]
    gradient: Float[np.ndarray, "starts p"]
    matrix: Float[np.ndarray, "starts p p"]
    eliminated: Eliminated | None = None


@runtime_checkable
class Prior(Protocol):
    """What is added to a loss: a value, half its gradient and a matrix, of many θ."""

    def value(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, " starts"]: ...

    def gradient(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, "starts p"]: ...

    def matrix(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, "starts p p"]: ...


class Quadratic(NamedTuple):
    """The prior `Σ firmness (θ − centre)²`."""

    centre: Float[np.ndarray, " p"]
    firmness: Float[np.ndarray, " p"]

    def value(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, " starts"]:
        return np.sum(self.firmness * (theta - self.centre) ** 2, axis=1)

    def gradient(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, "starts p"]:
        return self.firmness * (theta - self.centre)

    def matrix(self, theta: Float[np.ndarray, "starts p"]) -> Float[np.ndarray, "starts p p"]:
        return np.broadcast_to(np.diag(self.firmness), (len(theta), *2 * self.firmness.shape))


class Problem(NamedTuple):
    """A least-squares problem; `rows` says how many residuals are independent of each other."""

    loss: Callable[[Points], Float[np.ndarray, " starts"]]
    normal: Callable[[Points], Normal]
    rows: int

    def with_prior(self, prior: Prior, size: int | None = None) -> "Problem":
        """The problem with a prior on top; `size` is that of θ where points have more numbers."""

        def loss(points: np.ndarray) -> np.ndarray:
            return self.loss(points) + prior.value(points[:, :size])

        def normal(points: np.ndarray) -> Normal:
            found, theta = self.normal(points), points[:, :size]
            return found._replace(
                loss=found.loss + prior.value(theta),
                gradient=found.gradient + prior.gradient(theta),
                matrix=found.matrix + prior.matrix(theta),
            )

        return Problem(loss, normal, self.rows)

    def held(self, centre: Float[np.ndarray, " p"], firmness: Float[np.ndarray, " p"]) -> "Problem":
        """The problem with `Σ firmness (θ − centre)²` on top."""
        return self.with_prior(Quadratic(centre, firmness))
