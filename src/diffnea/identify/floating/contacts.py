"""Feet: equations of motion without what unknown forces of the ground can reach.

A foot adds `J_cᵀ f` to the equations, with f not known. What is left of them after a projection on the complement of
all `J_cᵀ` has no f in it (arXiv 2409.09850): joint torques suffice. Each equation is divided by its size first, so that
forces and torques weigh alike. A foot that is not recorded to touch or not is taken to touch always: its equations are
lost where it is in the air, but none is wrong.

A ball touches nearer to its centre than it ends, where it or the ground gives way, and forces along the ground then
have another lever. So how deep each foot sinks in is learned with the rest, by two columns of its own: under half of
the robot's weight, and by how much more under all of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.frames import jacobian
from diffnea.identify.floating.motion_columns import Beside, skew, states
from diffnea.identify.floating.stretches import Stretch
from diffnea.recordings import RecordingError
from diffnea.recordings.signal.smoothing import low_pass_gain
from diffnea.robot import Robot

# Smoothing spreads a foot's first touch over about so many periods of its corner; there it counts as touching.
SMOOTHED_OVER = 1.0
# Where no pose says which way is up, the mean direction of the accelerometer over about a second does.
TILT_CORNER = 0.5  # Hz
LITTLE = 1e-10
# How far from the end of its ball a foot may touch, m.
SINKS = 0.01


@dataclass(frozen=True)
class Foot:
    """A place of a link that touches the ground.

    Args:
        link: which.
        point: where, in the link's frame, m; the centre of a ball.
        radius: of a ball, m; 0 for a point.
        flat: whether it takes moments as well as forces; one of a ball that rolls hard may need that too.
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
        if np.shape(foot.point) != (3,) or not np.isfinite([*foot.point, foot.radius]).all() or foot.radius < 0:
            raise ValueError(
                f'fit: foot "{name}" has point {foot.point} and radius {foot.radius}; give three finite numbers in m, '
                "and a radius of 0 or more"
            )


def prepared(stretch: Stretch, feet: Feet) -> Stretch:
    """The stretch with contacts that last a little longer, and with what is up, where feet need that."""
    up = upwards(stretch) if any(foot.radius for foot in feet.values()) else stretch.up
    return replace(stretch, contacts=widened(stretch), up=up)


def balls(feet: Feet) -> tuple[str, ...]:
    """Feet that may sink in."""
    return tuple(name for name, foot in feet.items() if foot.radius)


def with_feet(beside: Beside, feet: Feet) -> Beside:
    """And by how much the radius of each ball differs from what it says, and how that changes with its load."""
    labels = tuple(f"{what} of foot {name}" for what in ("radius", "give") for name in balls(feet))
    return Beside((*beside.labels, *labels), (*beside.expected, *(SINKS,) * len(labels)))


def projected(
    table: Float[np.ndarray, "time v m"],
    robot: Robot,
    stretch: Stretch,
    feet: Feet,
    scale: Float[np.ndarray, " v"],
    given: Float[np.ndarray, " k"] | None = None,
) -> Float[np.ndarray, "time v m2"]:
    """Rows in units of their size, without what feet that touch can do: `r − C⁺ C r` with `C = J / size`.

    `given`, φ of the robot as it is thought to be: with columns, before b, of the radius of each ball, and of its
    change with the load.
    """
    if not feet:
        return table
    reach = _reach(robot, stretch, feet) / scale
    left = table - np.swapaxes(reach, 1, 2) @ _forces(reach, table)
    if given is None or not balls(feet):
        return left
    forces = _forces(reach, (table[:, :, :-1] @ given - table[:, :, -1])[:, :, None])
    lower = _lowered(robot, stretch, feet) / scale
    # With the contact farther down by ρ, `A φ − b = (C + ρ S)ᵀ f`: what is left of it is `ρ P Sᵀ f`.
    rows = _rows_of_balls(feet)
    moments = [_own_moment(lower, forces, k) for k in rows]
    loads = [_load(robot, stretch, forces[:, k, 0])[:, None] for k in rows]
    moved = np.stack([*moments, *(load * each for load, each in zip(loads, moments, strict=True))], axis=2)
    sunk = np.swapaxes(reach, 1, 2) @ _forces(reach, moved) - moved
    return np.concatenate([left[:, :, :-1], sunk, left[:, :, -1:]], axis=2)


def _forces(
    reach: Float[np.ndarray, "time c v"], table: Float[np.ndarray, "time v m"]
) -> Float[np.ndarray, "time c m"]:
    """Forces of the feet that leave least of each column."""
    both = reach @ np.swapaxes(reach, 1, 2)
    # Rows of feet in the air are zero, and those of two feet may depend on each other: a little keeps it solvable.
    size = np.trace(both, axis1=1, axis2=2)
    little = LITTLE * np.where(size > 0, size, 1.0)
    return np.linalg.solve(both + little[:, None, None] * np.eye(reach.shape[1]), reach @ table)


def _rows_of_balls(feet: Feet) -> list[slice]:
    """Where the forces of each ball stand among those of all feet."""
    sizes = [6 if foot.flat else 3 for foot in feet.values()]
    first = np.cumsum([0, *sizes])
    return [slice(k, k + 3) for k, foot in zip(first, feet.values(), strict=False) if foot.radius]


def _own_moment(
    lower: Float[np.ndarray, "time c v"], forces: Float[np.ndarray, "time c 1"], rows: slice
) -> Float[np.ndarray, "time v"]:
    return (np.swapaxes(lower[:, rows], 1, 2) @ forces[:, rows])[:, :, 0]


def _load(robot: Robot, stretch: Stretch, force: Float[np.ndarray, "time 3"]) -> Float[np.ndarray, " time"]:
    """What a foot carries beyond half of the weight, as on two feet, by that half."""
    half = float(np.linalg.norm(np.asarray(robot.gravity)) * np.sum(np.asarray(robot.inertia.mass))) / 2
    assert stretch.up is not None
    return np.sum(force * stretch.up, axis=1) / half - 1.0 if half else np.zeros(len(force))


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


def _lowered(robot: Robot, stretch: Stretch, feet: Feet) -> Float[np.ndarray, "time c v"]:
    """Slopes of these Jacobians in the radius of their foot."""
    q, parts = states(stretch)[0], []
    for foot in feet.values():
        J = np.asarray(jacobian(robot, q, foot.link, np.array(foot.point)))[:, 3:]
        assert stretch.up is not None
        rows = skew(stretch.up) @ J
        parts.append(np.concatenate([rows, np.zeros_like(rows)], axis=1) if foot.flat else rows)
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
    corner = min(2 * np.pi * TILT_CORNER * stretch.dt, 0.5)
    slow = np.fft.irfft(np.fft.rfft(stretch.proper, axis=0) * low_pass_gain(omega, corner), len(stretch), axis=0)
    size = np.linalg.norm(slow, axis=1, keepdims=True)
    if np.min(size) < 1.0:
        raise RecordingError(
            f"{stretch.name}: which way is up is not known; give base.qw … base.qz, or feet of radius 0"
        )
    return slow / size
