"""Whether inputs are position goals: positions follow them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from diffnea.identify.problem.measurements.tracks import Track

# A goal that is followed: how alike input and position are, and how far they are apart as a share of the motion.
FOLLOWED, MOST_APART = 0.98, 0.25
# Positions come after goals: so late at most, in s, and as many delays are tried.
LATEST, TRIED = 0.3, 7


def followed(tracks: Sequence[Track]) -> tuple[Bool[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Which joints follow their inputs, and the correlations; none where less than half of the driven joints do."""
    tried = [_alike(tracks, late) for late in np.linspace(0, LATEST, TRIED)]
    alike = np.max([each for each, _ in tried], axis=0)
    apart = np.min([each for _, each in tried], axis=0)
    given = np.concatenate([track.u for track in tracks]).std(0) > 0
    follows = given & (alike > FOLLOWED) & (apart < MOST_APART)
    return follows & (follows.sum() >= given.sum() / 2), alike


def _alike(tracks: Sequence[Track], late: float) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of positions with inputs so many seconds before, and their distance in spreads of positions."""
    shifts = [min(round(late / track.dt) if track.dt else 0, len(track) - 1) for track in tracks]
    q = np.concatenate([track.measured[shift:] for track, shift in zip(tracks, shifts, strict=True)])
    u = np.concatenate([track.u[: len(track) - shift] for track, shift in zip(tracks, shifts, strict=True)])
    spread = np.maximum(q.std(0), 1e-300)
    alike = ((q - q.mean(0)) * (u - u.mean(0))).mean(0) / np.maximum(spread * u.std(0), 1e-300)
    return alike, (u - q).std(0) / spread


def are_goals(tracks: Sequence[Track]) -> bool:
    """Whether the inputs of these motions are position goals."""
    return tracks[0].dt is not None and bool(followed(tracks)[0].any())
