"""Feet: equations of motion without what unknown forces of the ground can reach.

A foot adds `J_cᵀ f` to the equations, with f not known. What is left of them after a projection on the complement of
all `J_cᵀ` has no f in it (arXiv 2409.09850): joint torques suffice. Each equation is divided by its size first, so that
forces and torques weigh alike. A foot that is not recorded to touch or not is taken to touch always: its equations are
lost where it is in the air, but none is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.frames import jacobian
from diffnea.identify.floating.columns import skew, states
from diffnea.identify.floating.stretches import Stretch
from diffnea.recordings import RecordingError
from diffnea.recordings.smoothing import low_pass_gain
from diffnea.robot import Robot

# Smoothing spreads a foot's first touch over about so many periods of its corner; there it counts as touching.
SMOOTHED_OVER = 1.0
# Where no pose says which way is up, the mean direction of the accelerometer over about a second does.
SLOW = 0.5  # Hz
LITTLE = 1e-10


@dataclass(frozen=True)
class Foot:
    """A place of a link that touches the ground: m in the link's frame, and the radius where it is a ball.

    A flat foot takes moments as well as forces; one of a ball that rolls hard may need that too.
    """

    link: str
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0
    flat: bool = False


Feet = Mapping[str, Foot]


def check_feet(robot: Robot, feet: Feet) -> None:
    """Refuse feet on links that are not there."""
    for name, foot in feet.items():
        if not isinstance(foot, Foot):
            raise TypeError(f'fit: foot "{name}" is a {type(foot).__name__}; give a Foot(link, point, radius)')
        if foot.link not in robot.link_names:
            raise ValueError(
                f'fit: foot "{name}" is on link "{foot.link}"; the robot has {", ".join(robot.link_names)}'
            )


def prepared(stretch: Stretch, feet: Feet) -> Stretch:
    """The stretch with contacts that last a little longer, and with what is up, where feet need that."""
    up = upwards(stretch) if any(foot.radius for foot in feet.values()) else stretch.up
    return replace(stretch, contacts=widened(stretch), up=up)


def projected(
    table: Float[np.ndarray, "time v m"], robot: Robot, stretch: Stretch, feet: Feet, scale: Float[np.ndarray, " v"]
) -> Float[np.ndarray, "time v m"]:
    """Rows in units of their size, without what feet that touch can do: `r − C⁺ C r` with `C = J / size`."""
    if not feet:
        return table
    reach = _reach(robot, stretch, feet) / scale
    over = np.swapaxes(reach, 1, 2)
    both = reach @ over
    # Rows of feet in the air are zero, and those of two feet may depend on each other: a little keeps it solvable.
    size = np.trace(both, axis1=1, axis2=2)
    little = LITTLE * np.where(size > 0, size, 1.0)
    return table - over @ np.linalg.solve(both + little[:, None, None] * np.eye(reach.shape[1]), reach @ table)


def _reach(robot: Robot, stretch: Stretch, feet: Feet) -> Float[np.ndarray, "time c v"]:
    """Contact Jacobians of feet that touch, in the base's axes; zero where one does not."""
    q, parts = states(stretch)[0], []
    for name, foot in feet.items():
        J = np.asarray(jacobian(robot, q, foot.link, np.array(foot.point)))
        linear = J[:, :3]
        if foot.radius and stretch.up is not None:
            linear = linear + skew(foot.radius * stretch.up) @ J[:, 3:]  # v + ω × (−r up)
        rows = np.concatenate([linear, J[:, 3:]], axis=1) if foot.flat else linear
        parts.append(rows * _touches(stretch, name)[:, None, None])
    return np.concatenate(parts, axis=1)


def _touches(stretch: Stretch, name: str) -> Float[np.ndarray, " time"]:
    if stretch.contacts is None or name not in stretch.contact_names:
        return np.ones(len(stretch))
    return stretch.contacts[:, stretch.contact_names.index(name)]


def widened(stretch: Stretch) -> Float[np.ndarray, "time k"] | None:
    """Contacts of a whole stretch, a little before and after too: smoothing spreads the first touch."""
    if stretch.contacts is None:
        return None
    reach = max(1, round(SMOOTHED_OVER / stretch.wide / stretch.dt))
    padded = np.pad(stretch.contacts > 0.5, ((reach, reach), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=0).any(axis=-1).astype(float)


def upwards(stretch: Stretch) -> Float[np.ndarray, "time 3"]:
    """Against gravity in the base's axes: by the pose, or about where the accelerometer points on average."""
    if stretch.up is not None:
        return stretch.up
    omega = 2 * np.pi * np.fft.rfftfreq(len(stretch))[:, None]
    corner = min(2 * np.pi * SLOW * stretch.dt, 0.5)
    slow = np.fft.irfft(np.fft.rfft(stretch.proper, axis=0) * low_pass_gain(omega, corner), len(stretch), axis=0)
    size = np.linalg.norm(slow, axis=1, keepdims=True)
    if np.min(size) < 1.0:
        raise RecordingError(
            f"{stretch.name}: which way is up is not known; give base.qw … base.qz, or feet of radius 0"
        )
    return slow / size
