"""What a flight's past and the commands to come say of its future, as numbers in the body's axes at the start."""

import numpy as np
from jaxtyping import Float, Int

from diffnea.flight.rotations import rotated_back, turn_between
from diffnea.flight.state import Flight

# Commands to come, in so many equal pieces; those of the past between so many seconds back, and their mean over more.
PIECES, PAST, LONG = 10, (0.5, 0.4, 0.3, 0.2, 0.1, 0.0), 1.5
# Seconds back at which rates and attitudes are looked at, and over which velocity has changed.
RATES_BACK = (0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3)
TURNS_BACK = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5)
CHANGE, BATTERY = 0.5, 1.0
UP = np.array([0.0, 0.0, 1.0])


def features(flight: Flight, first: Int[np.ndarray, " w"], last: Int[np.ndarray, " w"]) -> Float[np.ndarray, "w f"]:
    """One row a window: the state at its start, what led there, and the commands until its end."""
    dt, turn = float(np.median(np.diff(flight.time))), flight.attitude[first]

    def back(seconds: float) -> Int[np.ndarray, " w"]:
        return np.maximum(first - round(seconds / dt), 0)

    totals = np.concatenate([np.zeros((1, flight.rotors.shape[1])), np.cumsum(flight.rotors, axis=0)])
    volts = np.concatenate([[0.0], np.cumsum(flight.battery)])

    def mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        b = np.maximum(b, a + 1)
        return (totals[b] - totals[a]) / (b - a)[:, None]

    ends = [first + (last - first) * k // PIECES for k in range(PIECES + 1)]
    ahead = [mean(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    past = [mean(back(a), np.maximum(back(b), 1)) for a, b in zip(PAST[:-1], PAST[1:], strict=True)]
    before = back(CHANGE)
    change = (flight.velocity[first] - flight.velocity[before]) / np.maximum(
        flight.time[first] - flight.time[before], 0.05
    )[:, None]
    earlier = back(BATTERY)
    columns = [
        rotated_back(turn, flight.velocity[first]),
        rotated_back(turn, np.broadcast_to(UP, (len(first), 3))),
        flight.rates[first],
        flight.seen_rates[first],
        flight.battery[first, None],
        *ahead,
        *past,
        mean(back(LONG), first + 1),
        rotated_back(turn, change),
        *(flight.rates[back(seconds)] for seconds in RATES_BACK),
        *(turn_between(turn, flight.attitude[back(seconds)]) for seconds in TURNS_BACK),
        ((volts[first + 1] - volts[earlier]) / (first + 1 - earlier))[:, None],
    ]
    return np.concatenate(columns, axis=1)
