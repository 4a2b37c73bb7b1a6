"""What a search returns: where each start ended, its loss, and how it ended."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from jaxtyping import Bool, Float


class Status(Enum):
    """How a search ended."""

    CONVERGED = "converged"
    STOPPED_EARLY = "stopped early"
    NOT_FINITE = "not finite"


@dataclass(frozen=True)
class Solution:
    """Where each start ended: θ, its loss, how it ended, and the lowest loss of all after each iteration."""

    theta: Float[np.ndarray, "starts p"]
    loss: Float[np.ndarray, " starts"]
    status: tuple[Status, ...]
    history: tuple[float, ...]
    eliminated: Float[np.ndarray, "starts k"] | None = None  # what else the problem had moved

    @property
    def converged(self) -> Bool[np.ndarray, " starts"]:
        """Which of them came to a minimum."""
        return np.array([status is Status.CONVERGED for status in self.status])

    @property
    def best(self) -> int:
        """The start with the lowest loss."""
        return int(np.argmin(np.where(np.isfinite(self.loss), self.loss, np.inf)))

    def lowest(self, floor: float) -> Bool[np.ndarray, " starts"]:
        """Which starts came to the lowest loss, or below the floor."""
        return np.isfinite(self.loss) & (self.loss <= 1.01 * self.loss.min() + floor)

    def only_best(self) -> "Solution":
        """That start alone."""
        one = slice(self.best, self.best + 1)
        rest = None if self.eliminated is None else self.eliminated[one]
        return Solution(self.theta[one], self.loss[one], self.status[one], self.history, rest)

    def or_better(self, other: "Solution") -> "Solution":
        """Of each start the better of two ends; the other search came after this one."""
        better = other.loss < self.loss
        return Solution(
            np.where(better[:, None], other.theta, self.theta),
            np.where(better, other.loss, self.loss),
            tuple(b if take else a for a, b, take in zip(self.status, other.status, better, strict=True)),
            (*self.history, *np.fmin(other.history, self.history[-1]).tolist()),
        )


def status_of(loss: Float[np.ndarray, " starts"], arrived: Bool[np.ndarray, " starts"]) -> tuple[Status, ...]:
    """One a start."""
    ended = [Status.CONVERGED if each else Status.STOPPED_EARLY for each in arrived]
    return tuple(how if finite else Status.NOT_FINITE for how, finite in zip(ended, np.isfinite(loss), strict=True))
