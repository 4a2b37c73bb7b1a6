"""A least-squares problem: its loss and its normal equations, for many θ at once."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Normal(NamedTuple):
    """Half the gradient and the Gauss-Newton matrix of the mean squared residual, and that mean, one row a start."""

    loss: Float[np.ndarray, " starts"]
    gradient: Float[np.ndarray, "starts p"]
    matrix: Float[np.ndarray, "starts p p"]


class Problem(NamedTuple):
    """A least-squares problem: its loss, and its normal equations, for many θ at once."""

    loss: Callable[[Float[np.ndarray, "starts p"]], Float[np.ndarray, " starts"]]
    normal: Callable[[Float[np.ndarray, "starts p"]], Normal]
    rows: int

    def held(self, centre: Float[np.ndarray, " p"], firmness: Float[np.ndarray, " p"]) -> "Problem":
        """The problem with `Σ firmness (θ − centre)²` on top."""

        def loss(theta: np.ndarray) -> np.ndarray:
            return self.loss(theta) + np.sum(firmness * (theta - centre) ** 2, axis=1)

        def normal(theta: np.ndarray) -> Normal:
            found = self.normal(theta)
            away = firmness * (theta - centre)
            more = np.sum(away * (theta - centre), axis=1)
            return Normal(found.loss + more, found.gradient + away, found.matrix + np.diag(firmness))

        return Problem(loss, normal, self.rows)
