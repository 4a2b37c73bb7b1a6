"""What a fit keeps for its page: its start, some of the data that were not fitted, and how far the fitted ones went."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from diffnea.files import Json
from diffnea.identify.problem.measurements.tracks import Split, Track
from diffnea.models import AbstractModel

# So many numbers of each signal are kept, and so many stretches: enough to look at, and a small file. Rather fewer
# stretches than shorter ones: predictions need room.
MOST_KEPT, MOST_TRACKS, ROOM = 60_000, 40, 6.0  # s
SIGNALS = ("q", "qd", "qdd", "u", "measured")


@dataclass(frozen=True)
class HeldOut:
    """The model before the fit, stretches of data not fitted, and the range of the data that were."""

    start: AbstractModel
    tracks: tuple[Track, ...]
    spread: Float[np.ndarray, " n"]  # standard deviation of each joint's position
    lowest: Float[np.ndarray, " n"]  # positions in the fitted data
    highest: Float[np.ndarray, " n"]
    fastest: Float[np.ndarray, " n"]


def held_out(start: AbstractModel, parts: Split, spread: Float[np.ndarray, " n"]) -> HeldOut:
    """Kept of a fit's data."""
    q, qd = (np.concatenate([getattr(track, key) for track in parts.fitted]) for key in ("q", "qd"))
    return HeldOut(start, _some(parts.test), spread, q.min(0), q.max(0), np.abs(qd).max(0))


def _some(tracks: Sequence[Track]) -> tuple[Track, ...]:
    """An even choice of the stretches, each from its beginning."""
    most = MOST_KEPT // tracks[0].q.shape[1]
    longest = max(map(len, tracks))
    room = longest if tracks[0].dt is None else min(longest, round(ROOM / tracks[0].dt))
    count = int(np.clip(most // max(room, 1), 1, MOST_TRACKS))
    chosen = [tracks[i] for i in np.unique(np.linspace(0, len(tracks) - 1, count).astype(int))]
    return tuple(track.take(slice(0, max(most // len(chosen), 2))) for track in chosen)


def to_arrays(kept: HeldOut) -> tuple[list[Json], dict[str, np.ndarray]]:
    """The stretches' names and times between samples, and their signals by name; the start goes its own way."""
    rows = [{"name": track.name, "dt": track.dt, "held": track.held} for track in kept.tracks]
    ranges = {key: getattr(kept, key) for key in ("spread", "lowest", "highest", "fastest")}
    signals = {f"{key}_{k}": getattr(track, key) for k, track in enumerate(kept.tracks) for key in SIGNALS}
    signals |= {f"gain_{k}": track.gain for k, track in enumerate(kept.tracks) if track.gain is not None}
    return rows, ranges | signals


def from_arrays(start: AbstractModel, rows: Sequence[Json], arrays: dict[str, np.ndarray]) -> HeldOut:
    """What `to_arrays` took apart."""
    tracks = [
        _track(row, [arrays[f"{key}_{k}"] for key in SIGNALS], arrays.get(f"gain_{k}")) for k, row in enumerate(rows)
    ]
    return HeldOut(start, tuple(tracks), *(arrays[key] for key in ("spread", "lowest", "highest", "fastest")))


def _track(row: Json, signals: list[np.ndarray], gain: np.ndarray | None) -> Track:
    q, qd, qdd, u, measured = signals
    return Track(row["name"], row["dt"], q, qd, qdd, u, measured, held=row.get("held", False), gain=gain)
