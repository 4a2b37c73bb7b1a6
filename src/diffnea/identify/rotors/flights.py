"""Recordings of a base with rotors as flights."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from diffnea.flight import Flight
from diffnea.recordings import BaseMotion, Recording, RecordingError

# Velocities from positions, where there are none: a parabola through so many samples on either side.
EITHER_SIDE = 5


def flights_of(recordings: Sequence[Recording]) -> list[Flight]:
    """All of them, as they were stamped."""
    return [_flight(each, each.name or f"flight {k}") for k, each in enumerate(recordings)]


def _flight(recording: Recording, name: str) -> Flight:
    base = recording.base
    if base is None or base.rotors is None or base.position is None or base.quaternion is None:
        raise RecordingError(f"{name}: a flight has base.x … base.qz and rotor.1, rotor.2, …; these are not all there")
    count = len(recording)
    return Flight(
        name=name,
        time=recording.time - recording.time[0],
        position=base.position,
        velocity=_velocity(recording.time, base) if base.velocity is None else base.velocity,
        attitude=base.quaternion,
        rates=_rates(base, name),
        rotors=base.rotors,
        battery=np.ones(count) if base.battery is None else base.battery[:, 0],
    )


def _rates(base: BaseMotion, name: str) -> Float[np.ndarray, "time 3"]:
    if base.gyroscope is None:
        raise RecordingError(f"{name}: a flight needs the rates of a gyroscope; give imu.ax … imu.gz")
    return base.gyroscope


def _velocity(time: Float[np.ndarray, " time"], base: BaseMotion) -> Float[np.ndarray, "time 3"]:
    """Slopes of parabolas through samples around each."""
    assert base.position is not None
    found = np.gradient(base.position, time, axis=0)
    inner = np.lib.stride_tricks.sliding_window_view(np.arange(len(time)), 2 * EITHER_SIDE + 1)
    if not len(inner):
        return found
    t = time[inner] - time[inner[:, EITHER_SIDE]][:, None]
    t = t - t.mean(axis=1, keepdims=True)
    found[EITHER_SIDE:-EITHER_SIDE] = np.einsum("wk,wki->wi", t, base.position[inner]) / np.sum(t**2, axis=1)[:, None]
    return found
