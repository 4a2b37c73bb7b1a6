"""How well a θ predicts recordings: the errors of roll-outs, window by window, so that differences have an interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.identify.judge.windows import DIVERGED, HORIZONS, Windows, predict, samples, window_errors, windows
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import Unknowns


@dataclass(frozen=True)
class RolloutErrors:
    """The windows of some recordings, rolled out from their smoothed states as those of the verdict are."""

    free: Unknowns
    spread: Float[np.ndarray, " n"]
    tracks: Sequence[Track]

    def of(self, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " window"]:
        """The logarithm of each window's error as a share of the spread, mean over horizons and joints.

        An error is never less than the noise of positions, and a window that has diverged counts as one at its limit.
        """
        cut, model = self._windows, self.free.model(jnp.asarray(theta))
        if cut is None:
            return np.zeros(0)
        found = []
        for each in cut.rates:
            positions, finite = predict(model, self.tracks, each)
            positions = np.where(finite[:, None, None], positions, np.inf)
            reached = [h for h in HORIZONS if samples(h, each.dt) < each.u.shape[1]] or [each.u.shape[1] * each.dt]
            errors = np.stack([window_errors(positions, each, h) for h in reached]) / self.spread
            found.append(np.mean(np.log(np.hypot(np.minimum(errors, DIVERGED), self._noise)), axis=(0, 2)))
        return np.concatenate(found)

    @property
    def independent(self) -> float:
        """How many windows there would be if none lay over another."""
        cut = self._windows
        count = sum(len(self.tracks[k]) for k in {k for each in cut.rates for k, _ in each.places}) if cut else 0
        return max(1.0, min(count / cut.u.shape[1], len(cut.places))) if cut else 1.0

    def clearly_worse(self, one: Float[np.ndarray, " window"], than: Float[np.ndarray, " window"]) -> bool:
        """Whether the mean of differences, window by window, is more than its standard error."""
        difference = one - than
        error = np.std(difference) / np.sqrt(self.independent) if difference.size else 0.0
        return bool(np.sum(difference) > error * difference.size)

    @cached_property
    def _noise(self) -> Float[np.ndarray, " n"]:
        """Of positions as they were read, as a share of the spread; never less than rounding."""
        rest = np.concatenate([track.measured - track.q for track in self.tracks])
        return np.maximum(np.sqrt(np.mean(rest**2, axis=0)) / self.spread, 1e-9)

    @cached_property
    def _windows(self) -> Windows | None:
        return windows(self.tracks, self.spread)
