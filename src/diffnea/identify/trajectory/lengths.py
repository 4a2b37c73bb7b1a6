"""Windows of several lengths in one loss: the mean of theirs, with one θ and a start of its own for every window.

What a model lacks pulls θ another way at each length. Each length's loss is one of logarithms of errors, so that their
mean serves short and long predictions alike, in proportion, and no length has to be chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.options import TrajectoryOptions
from diffnea.identify.problem.least_squares import Eliminated, Normal, Points, Problem
from diffnea.identify.trajectory.shooting import Shooting
from diffnea.identify.trajectory.window_weights import weights

Starts = tuple[Float[np.ndarray, "_ two_n"], ...]  # of the windows of each length


@dataclass(frozen=True)
class Lengths:
    """The problems of windows of each length, over the same recordings."""

    problems: tuple[Shooting, ...]

    def weighted(
        self,
        theta: Float[np.ndarray, " p"],
        starts: Starts,
        spread: Float[np.ndarray, " n"],
        options: TrajectoryOptions,
    ) -> "Lengths | None":
        """The same with weights by the errors at θ, none where all windows of a length are lost; None if all are."""
        errors = [
            each.positions(theta, x0) - each.shots.measured for each, x0 in zip(self.problems, starts, strict=True)
        ]
        found = [weights(wrong, spread, options) for wrong in errors]
        if all(weight is None for weight in found):
            return None
        filled = [np.zeros_like(wrong) if each is None else each for each, wrong in zip(found, errors, strict=True)]
        pairs = zip(self.problems, filled, strict=True)
        return Lengths(tuple(replace(each, shots=each.shots._replace(weight=weight)) for each, weight in pairs))

    @property
    def rows(self) -> int:
        """As many as one length has at least: windows of other lengths look at the same samples."""
        return min(problem.rows for problem in self.problems)

    @property
    def least_squares(self) -> Problem:
        """As a problem of points `[θ, starts of the first length, of the second …]`."""
        parts = [problem.least_squares for problem in self.problems]

        def loss(points: Points) -> Float[np.ndarray, " starts"]:
            return np.mean([part.loss(own) for part, own in zip(parts, self._each(points), strict=True)], axis=0)

        def normal(points: Points) -> Normal:
            return _mean([part.normal(own) for part, own in zip(parts, self._each(points), strict=True)])

        return Problem(loss, normal, max(part.rows for part in parts))

    def starts(self, flat: Float[np.ndarray, " k"]) -> Starts:
        """Of each length, from all in a row."""
        ends = np.cumsum([problem.shots.x0.size for problem in self.problems])
        parts = np.split(flat, ends[:-1])
        return tuple(part.reshape(each.shots.x0.shape) for part, each in zip(parts, self.problems, strict=True))

    def _each(self, points: Points) -> list[np.ndarray]:
        """The points of each length's own problem."""
        size = self.problems[0].free.size
        theta, ends = points[:, :size], np.cumsum([problem.shots.x0.size for problem in self.problems])
        return [np.concatenate([theta, own], axis=1) for own in np.split(points[:, size:], ends[:-1], axis=1)]


def _mean(found: Sequence[Normal]) -> Normal:
    """The normal equations of the mean loss: what was eliminated follows θ, each by its own length's."""
    eliminated = [each.eliminated for each in found if each.eliminated is not None]
    own, follow = (np.concatenate([getattr(each, key) for each in eliminated], axis=1) for key in ("own", "follow"))
    loss, gradient, matrix = (np.mean([getattr(each, key) for each in found], axis=0) for key in Normal._fields[:3])
    decrease = np.mean([each.decrease for each in eliminated], axis=0)
    return Normal(loss, gradient, matrix, Eliminated(own, follow, decrease))
