"""Stretches: recordings of a free base as the equations of motion need them, all signals through one low-pass.

The equations do not ask where the base is, nor which way gravity points: they ask for its proper acceleration (less
gravity, as an accelerometer has it), its angular velocity and acceleration, all in the base's axes. A pose gives them
by two derivatives, an inertial sensor at once: `f_base = f_imu − ω̇ × r − ω × (ω × r)` with the sensor at r.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from diffnea.identify.notes import Note, note
from diffnea.identify.options import ProblemOptions
from diffnea.recordings import BaseMotion, Recording, RecordingError, Samples, as_list, regular, smooth
from diffnea.recordings.signal.differentiate import joint_by_joint
from diffnea.recordings.signal.smoothing import noise_beside_jumps
from diffnea.recordings.signal.terms import Terms, terms
from diffnea.robot import Robot

_STRETCH_SIGNALS = ("q", "qd", "qdd", "u", "proper", "rates", "turning", "up", "contacts", "pose")


@dataclass(frozen=True)
class Stretch:
    """One stretch of motion on a regular clock: joints, and the base as the equations of motion see it."""

    name: str
    dt: float
    q: Float[np.ndarray, "time n"]
    qd: Float[np.ndarray, "time n"]
    qdd: Float[np.ndarray, "time n"]
    u: Float[np.ndarray, "time n"]
    proper: Float[np.ndarray, "time 3"]  # acceleration less gravity, of the base's origin in its axes
    rates: Float[np.ndarray, "time 3"]  # angular velocity, in the base's axes, and its derivative
    turning: Float[np.ndarray, "time 3"]
    up: Float[np.ndarray, "time 3"] | None  # against gravity, in the base's axes, where the attitude is known
    contacts: Float[np.ndarray, "time k"] | None  # whether each foot touches
    contact_names: tuple[str, ...]
    imu: bool  # whether an inertial sensor gave the base's motion
    wide: float  # Hz, to which signals are smoothed
    bandwidth: float  # Hz, up to which equations of them are worth something
    noise: float  # of joint positions, as a share of their spread: the worst joint's
    joint_noise: Float[np.ndarray, " n"]  # standard deviation of a reading
    base_noise: Float[np.ndarray, "6"]  # the same of positions and small turns, or of accelerations and rates
    arm: Float[np.ndarray, "3"]  # of the inertial sensor, in the base's frame
    pose: Float[np.ndarray, "time 7"] | None = None  # x y z, w x y z, where it was measured

    def __len__(self) -> int:
        return len(self.q)

    def take(self, rows: slice) -> "Stretch":
        """Some of its samples."""
        some = {key: value[rows] for key in _STRETCH_SIGNALS if (value := getattr(self, key)) is not None}
        return replace(self, **some)


@dataclass(frozen=True)
class Parts:
    """What is fitted and what is kept back, with what was done to the data."""

    fitted: tuple[Stretch, ...]
    test: tuple[Stretch, ...]
    notes: tuple[Note, ...]
    kept_back: str


def split(robot: Robot, data: object, test: object, options: ProblemOptions) -> Parts:
    """Recordings in the robot's order of joints, differentiated, and divided: the last quarter is kept back."""
    fitted, notes = _stretches(robot, data)
    if test is not None:
        kept, more = _stretches(robot, test)
        return Parts(tuple(fitted), tuple(kept), tuple(dict.fromkeys(notes + more)), f"{len(kept)} recordings given")
    names = list(dict.fromkeys(each.name for each in fitted))
    if len(names) == 1:
        cuts = [max(1, round((1 - options.held_back) * len(each))) for each in fitted]
        first = tuple(each.take(slice(0, cut)) for each, cut in zip(fitted, cuts, strict=True))
        last = tuple(each.take(slice(cut, None)) for each, cut in zip(fitted, cuts, strict=True))
        return Parts(first, last, tuple(dict.fromkeys(notes)), f"the last {options.held_back:.0%} of {names[0]}")
    last = names[-max(1, round(options.held_back * len(names))) :]
    kept = tuple(each for each in fitted if each.name in last)
    words = f"{len(last)} of {len(names)} recordings: {', '.join(last)}"
    return Parts(tuple(each for each in fitted if each.name not in last), kept, tuple(dict.fromkeys(notes)), words)


def _stretches(robot: Robot, data: object) -> tuple[list[Stretch], list[Note]]:
    found, notes = [], []
    for k, item in enumerate(as_list(data)):
        name = getattr(item, "name", None) or f"recording {k}"
        recording, base = _checked(robot, item, name)
        for piece in regular(recording):
            assert piece.base is not None
            stretch = _stretch(name, piece, piece.base, np.asarray(robot.gravity, float))
            found.append(stretch)
            said = [*piece.notes, _words(stretch)]
            notes += [note("data", name, said=each) for each in said]
    return found, notes


def _words(stretch: Stretch) -> str:
    source = "accelerometer and gyroscope" if stretch.imu else "pose"
    up_to = f"equations of motion compared up to {stretch.bandwidth:.3g} Hz"
    return f"motion of the base from its {source}; {up_to}; joint torques count as held between samples unless measured"


def _checked(robot: Robot, item: Recording | Samples, name: str) -> tuple[Recording, BaseMotion]:
    if isinstance(item, Samples):
        raise RecordingError("fit: a free base needs recordings with a base; Samples have none")
    if item.base is None or not (item.base.has_pose or item.base.has_imu):
        raise RecordingError(
            f"{name}: nothing was recorded of the free base; give base.x … base.qz, or imu.ax … imu.gz, "
            'or hold it by load_robot(…, base="fixed")'
        )
    if item.num_joints != robot.num_joints:
        raise RecordingError(f"fit: the data have {item.num_joints} joints, the robot has {robot.num_joints}")
    if item.joint_names and item.joint_names != robot.joint_names:
        ours, theirs = ", ".join(robot.joint_names), ", ".join(item.joint_names)
        raise RecordingError(f"fit: the data are of joints {theirs}; the robot's are {ours}")
    if item.input_kind == "goal":
        raise RecordingError("fit: a free base needs joint torques; position goals are for robots on a fixed base")
    return item, item.base


def _stretch(name: str, piece: Recording, base: BaseMotion, gravity: Float[np.ndarray, "3"]) -> Stretch:
    """Joints and pose through one smoothing, whose bandwidth the noisiest of them decides."""
    n, dt = piece.num_joints, piece.dt
    beside = np.zeros((len(piece), 0))
    if base.position is not None and base.quaternion is not None and not base.has_imu:
        beside = np.column_stack([base.position, base.quaternion])
    columns = np.column_stack([piece.q.astype(np.float64), beside])
    inputs = np.column_stack([piece.u.astype(np.float64), np.zeros_like(beside)])
    together = Recording(piece.time, columns, inputs, driven=(True,) * columns.shape[1])
    together = together.replace(measured=piece.measured)
    smoothed = smooth(together)
    little = terms(together, smoothed)
    kept = slice(smoothed.dropped, len(piece) - smoothed.dropped)
    spread = np.maximum(np.std(piece.q, axis=0), 1e-300)
    noise = max((each.noise / s for each, s in zip(smoothed.joints[:n], spread, strict=True)), default=0.0)
    if base.has_imu:
        assert base.accelerometer is not None and base.gyroscope is not None
        proper, rates, turning = _from_imu(base, dt, little.wide, kept)
    else:
        proper, rates, turning = _from_pose(little, n, gravity)
    return Stretch(
        name=name,
        dt=dt,
        q=little.q[:, :n],
        qd=little.qd[:, :n],
        qdd=little.qdd[:, :n],
        u=little.u[:, :n],
        proper=proper,
        rates=rates,
        turning=turning,
        up=None if base.quaternion is None else _up(base.quaternion[kept], gravity),
        contacts=None if base.contacts is None else base.contacts[kept],
        contact_names=base.contact_names,
        imu=base.has_imu,
        wide=little.wide,
        bandwidth=little.bandwidth,
        noise=float(noise),
        joint_noise=np.array([each.noise for each in smoothed.joints[:n]]),
        base_noise=_base_noise(base, [each.noise for each in smoothed.joints[n:]]),
        arm=base.imu_position,
        pose=_pose(base, kept),
    )


def _pose(base: BaseMotion, kept: slice) -> Float[np.ndarray, "time 7"] | None:
    if base.position is None or base.quaternion is None:
        return None
    return np.column_stack([base.position, base.quaternion])[kept]


def _base_noise(base: BaseMotion, of_pose: Sequence[float]) -> Float[np.ndarray, "6"]:
    """Of a reading; a small turn is twice the change of a quaternion."""
    if not base.has_imu:
        return np.array([*of_pose[:3], *[2 * float(np.median(of_pose[3:]))] * 3])
    assert base.accelerometer is not None and base.gyroscope is not None
    return np.array([noise_beside_jumps(column) for column in (*base.accelerometer.T, *base.gyroscope.T)])


def _from_pose(little: Terms, n: int, gravity: Float[np.ndarray, "3"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`f = Rᵀ (p̈ − g)`, `ω = 2 Im(q̄ q̇)`, `ω̇ = 2 Im(q̄ q̈)` of a quaternion of length one."""
    turn, turn_rate, turn_change = (x[:, n + 3 : n + 7] for x in (little.q, little.qd, little.qdd))
    length = np.linalg.norm(turn, axis=1, keepdims=True)  # smoothing makes it a little shorter
    turn, turn_rate, turn_change = turn / length, turn_rate / length, turn_change / length
    proper = _rotated_back(turn, little.qdd[:, n : n + 3] - gravity)
    return proper, 2 * _imaginary(turn, turn_rate), 2 * _imaginary(turn, turn_change)


def _from_imu(base: BaseMotion, dt: float, wide: float, kept: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def smoothed(values: np.ndarray | None, key: str) -> np.ndarray:
        assert values is not None
        return np.column_stack([getattr(each, key) for each in joint_by_joint(values, dt, wide)])[kept]

    turn = np.tile(base.imu_quaternion / np.linalg.norm(base.imu_quaternion), (len(base), 1))[kept]
    force, rates, turning = (
        _rotated(turn, smoothed(values, key))
        for values, key in ((base.accelerometer, "q"), (base.gyroscope, "q"), (base.gyroscope, "qd"))
    )
    arm = base.imu_position
    return force - np.cross(turning, arm) - np.cross(rates, np.cross(rates, arm)), rates, turning


def _up(quaternion: Float[np.ndarray, "time 4"], gravity: Float[np.ndarray, "3"]) -> Float[np.ndarray, "time 3"]:
    size = float(np.linalg.norm(gravity))
    against = -gravity / size if size else np.array([0.0, 0.0, 1.0])
    return _rotated_back(quaternion, np.tile(against, (len(quaternion), 1)))


def _imaginary(a: Float[np.ndarray, "time 4"], b: Float[np.ndarray, "time 4"]) -> Float[np.ndarray, "time 3"]:
    """The vector part of ā b."""
    return a[:, :1] * b[:, 1:] - b[:, :1] * a[:, 1:] - np.cross(a[:, 1:], b[:, 1:])


def _rotated(turn: Float[np.ndarray, "time 4"], v: Float[np.ndarray, "time 3"]) -> Float[np.ndarray, "time 3"]:
    """R v of unit quaternions: `v + 2 u × (u × v + w v)`."""
    w, u = turn[:, :1], turn[:, 1:]
    return v + 2 * np.cross(u, np.cross(u, v) + w * v)


def _rotated_back(turn: Float[np.ndarray, "time 4"], v: Float[np.ndarray, "time 3"]) -> Float[np.ndarray, "time 3"]:
    return _rotated(turn * np.array([1.0, -1.0, -1.0, -1.0]), v)


def bandwidth_of(stretches: Sequence[Stretch]) -> float:
    """Hz, up to which the equations of all of them hold."""
    return min(each.bandwidth for each in stretches)
