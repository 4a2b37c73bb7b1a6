"""Joints that are driven into the limits of the robot file: there the force of a stop acts, which no model has."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import ArrayLike, Bool, Float

from diffnea.recordings.recording import Recording
from diffnea.recordings.signal.differentiate import joint_labels
from diffnea.recordings.signal.resampling import regular
from diffnea.recordings.signal.smoothing import position_noise
from diffnea.recordings.signal.wrapped_angles import unwrap
from diffnea.robot import Limits, Robot

# A position this many standard deviations of its noise before a limit may be at it.
NEAR = 3.0


@dataclass(frozen=True)
class LimitContact:
    """A joint that reaches or passes one of its limits."""

    joint: str
    side: str  # "lower" or "upper"
    limit: float
    furthest: float  # the position that is furthest out
    unit: str  # of both: rad or m
    seconds: float  # how long it is there, all times together
    times: int  # how often it gets there

    def __str__(self) -> str:
        """The finding in plain words."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        return (
            f"{self.joint}: reaches {self.furthest:.4g} {self.unit}, its {self.side} limit is {self.limit:.4g} "
            f"{self.unit}; it is there for {self.seconds:.2g} s{often}"
        )


def at_limits(
    recording: Recording, limits: Limits, noise: Sequence[float] | Float[np.ndarray, " n"] | None = None
) -> Bool[np.ndarray, "time n"]:
    """Which positions are at a limit of their joint, or beyond it.

    Args:
        recording: the recording.
        limits: those of the robot; a joint without a range has none.
        noise: the standard deviation of a position, rad or m, one a joint; by default as the recording shows it.
            Positions within three of them count as at the limit.
    """
    lower, upper = _sides(recording, limits, noise)
    return lower | upper


def limit_contacts(
    recording: Recording, robot: Robot, noise: Sequence[float] | Float[np.ndarray, " n"] | None = None
) -> tuple[LimitContact, ...]:
    """The limits of the robot that its joints reach or pass.

    Args:
        recording: the recording.
        robot: the robot.
        noise: as for `at_limits`.
    """
    found = []
    single = robot.joint_links  # a free base has no limits
    limits = Limits(*(getattr(robot.limits, key)[single] for key in ("lower", "upper", "velocity", "effort")))
    sides = zip(("lower", "upper"), _sides(recording, limits, noise), (np.min, np.max), strict=True)
    for side, there, extreme in sides:
        for k in np.flatnonzero(there.any(0)):
            flags = there[:, k].astype(int)
            found.append(
                LimitContact(
                    joint=joint_labels(recording)[k],
                    side=side,
                    limit=float(getattr(limits, side)[k]),
                    furthest=float(extreme(recording.q[:, k])),
                    unit="rad" if robot.tree.revolute[single[k]] else "m",
                    seconds=float(flags.sum() * recording.dt),
                    times=int(flags[0] + (np.diff(flags) == 1).sum()),
                )
            )
    return tuple(found)


def _sides(recording: Recording, limits: Limits, noise: ArrayLike | Sequence[float] | None) -> list[np.ndarray]:
    """At or beyond the lower limit, and the upper one."""
    if noise is None:
        noise = [position_noise(q) for q in unwrap(max(regular(recording), key=len)).q.T]
    margin = NEAR * np.asarray(noise, float)
    lower, upper = np.asarray(limits.lower, float), np.asarray(limits.upper, float)
    ranged = upper > lower  # a joint without a range has no limits that mean anything
    return [ranged & (recording.q <= lower + margin), ranged & (recording.q >= upper - margin)]
