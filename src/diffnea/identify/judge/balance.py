"""What a fit of a free base keeps: its equations of motion on data not fitted and how the robot moved, for its page.

And how surely it knows its numbers, for a payload that is learned after it.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

# Seconds that are kept: of equations to read them, of motion to look at it, with so many pictures a second.
EQUATIONS_KEPT, MOTION_KEPT, PICTURES = 6.0, 12.0, 40.0


@dataclass(frozen=True)
class Balance:
    """Row by row of the equations of motion: what torques bring, and what fit and start say that the motion takes."""

    name: str
    labels: tuple[str, ...]  # of the rows: force and moment on the base, N and N·m, and the joints
    dt: float
    brought: Float[Array, "row v"] | Float[np.ndarray, "row v"]
    fit: Float[Array, "row v"] | Float[np.ndarray, "row v"]
    start: Float[Array, "row v"] | Float[np.ndarray, "row v"]
    step: float  # s between pictures
    pose: (
        Float[Array, "time 7"] | Float[np.ndarray, "time 7"]
    )  # x y z, w x y z; of a sensor alone, turns from the first
    q: Float[Array, "time n"] | Float[np.ndarray, "time n"]  # joints
    feet: bool  # whether forces of feet were projected out of the rows
    covariance: Float[Array, "m m"] | Float[np.ndarray, "m m"] | None = None  # of φ, by the posterior alone


def turned(rates: Float[np.ndarray, "time 3"], dt: float) -> Float[np.ndarray, "time 7"]:
    """The pose of a base whose rates alone are known: it turns in place, from the attitude of the world."""
    found = np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (len(rates), 1))
    for k, (x, y, z) in enumerate(dt * (rates[1:] + rates[:-1]) / 4, 1):  # half angles
        w, i, j, m = found[k - 1, 3:]
        step = np.array([w - i * x - j * y - m * z, i + w * x + j * z - m * y, j + w * y + m * x - i * z])
        step = np.append(step, m + w * z + i * y - j * x)
        found[k, 3:] = step / np.linalg.norm(step)
    return found
