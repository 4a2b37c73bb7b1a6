"""Equations of a fit: the rows of tracks, through one low-pass on both sides where states were smoothed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.measurements.rows import Batch, Rows, filtered, plain, taps_of, together
from diffnea.identify.problem.measurements.tracks import SAME_RATE, Track, past_commands, position_noise
from diffnea.recordings.signal.terms import Terms

# States smoothed to so many radians a sample need no more samples: their products do not alias into what is kept.
ALIAS_FREE = 0.5 * np.pi
# A low-pass that leaves less than this share of the samples, for want of neighbours, is not used.
LEAST_FILTERED = 0.5


def batch(tracks: Sequence[Track], late: int, weight: Float[np.ndarray, " n"]) -> Batch:
    """The samples of several stretches together; rows that are to be left out count nothing."""
    return together([_clear(_batch(track, track.way, late, weight), track) for track in tracks])


def _clear(samples: Batch, track: Track) -> Batch:
    return samples if track.clear is None else samples._replace(weight=samples.weight * track.clear)


def _batch(
    track: Track | Terms, way: Float[np.ndarray, "time m"] | None, late: int, weight: Float[np.ndarray, " n"]
) -> Batch:
    return Batch(track.q, track.qd, track.qdd, past_commands(track.u, late), np.tile(weight, (len(track.q), 1)), way)


def equations(tracks: Sequence[Track], late: int, weight: Float[np.ndarray, " n"]) -> tuple[Rows, ...]:
    """The rows of these stretches: samples where derivatives are given, filtered equations where they are estimated.

    Filtered together is what is sampled alike, and all up to one frequency, the lowest: how far up the equations of a
    machine hold does not depend on the recording. What is too short for the filter stays as it is.
    """
    bandwidth = min((track.terms.bandwidth for track in tracks if track.terms is not None), default=0.0)
    found = []
    for group in _sampled_alike(tracks):
        rows = _filtered(group, bandwidth, late, weight) if group[0].terms is not None else None
        rows = rows or plain(batch(group, late, weight), list(map(len, group)), group[0].dt)
        noise = np.max([position_noise(track, np.eye(track.q.shape[1])) for track in group], axis=0)
        found.append(replace(rows, noise=noise))
    return tuple(found)


def _sampled_alike(tracks: Sequence[Track]) -> list[list[Track]]:
    """Tracks of one rate, but for jitter; those whose derivatives were given are together."""
    groups: list[list[Track]] = []
    for track in tracks:
        for group in groups:
            first, given = group[0], track.terms is None
            if given == (first.terms is None) and (given or abs((track.dt or 0.0) / (first.dt or 1.0) - 1) < SAME_RATE):
                group.append(track)
                break
        else:
            groups.append([track])
    return groups


def _filtered(tracks: list[Track], bandwidth: float, late: int, weight: Float[np.ndarray, " n"]) -> Rows | None:
    """Of the samples no more than the equations need; as many blocks of each stretch as it fills."""
    little, dt = [track.terms for track in tracks if track.terms is not None], tracks[0].dt
    assert dt is not None
    corner = 2 * np.pi * dt * bandwidth
    every = max(1, int(ALIAS_FREE / (2 * np.pi * dt * max(each.wide for each in little))))
    taps = taps_of(every * corner)
    blocks, size = taps.shape
    ways = [None if track.way is None else _mean_around(track.way, every) for track in tracks]
    samples = [
        _batch(each, way, late, weight).take(slice(None, None, every)) for each, way in zip(little, ways, strict=True)
    ]
    whole = [each.take(slice(0, len(each.q) // size * size)) for each in samples]
    left = sum(max(0, len(each.q) - (blocks - 1) * size) for each in whole)
    if left < LEAST_FILTERED * sum(len(each.q) for each in samples):
        return None
    lengths = [len(each.q) for each in whole]
    rows = filtered(together(whole), lengths, every * dt, taps)
    wide = 2 * np.pi * every * dt * max(each.wide for each in little)
    rows = replace(rows, density=1 / every, wide=wide)
    if all(track.clear is None for track in tracks):
        return rows

    def at_rows(key: str) -> np.ndarray:
        marks = [(getattr(track, key), len(each.q)) for track, each in zip(tracks, whole, strict=True)]
        parts = [np.ones((n, len(weight))) if mark is None else mark[::every][:n] for mark, n in marks]
        return rows.at_centre(np.concatenate(parts)).astype(float)

    crowded = np.any([track.crowded for track in tracks if track.crowded is not None], axis=0)
    own, far = rows.weight * at_rows("own"), at_rows("far") > 0
    return replace(rows.weighted(at_rows("clear")), own=own, far=far, crowded=crowded)


def _mean_around(way: Float[np.ndarray, "time m"], count: int) -> Float[np.ndarray, "time m"]:
    """Over so many samples: friction turns over at once, and one sample in so many would tell late when."""
    padded = np.pad(way, ((count // 2, count - 1 - count // 2), (0, 0)), "edge")
    return np.lib.stride_tricks.sliding_window_view(padded, count, axis=0).mean(axis=-1)
