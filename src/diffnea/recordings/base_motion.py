"""BaseMotion: what was measured of a free base beside its joints: its pose, an inertial sensor on it, feet, rotors."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from diffnea.recordings.error import RecordingError

# Signals of a base and how many columns each has; None: as many as there are names.
WIDTHS = {
    "position": 3,
    "quaternion": 4,
    "velocity": 3,
    "accelerometer": 3,
    "gyroscope": 3,
    "battery": 1,
    "rotors": None,
}
WIDTHS |= {"contacts": None}
# A quaternion of another length than one by more than this share is none.
UNIT = 0.02


class BaseMotion(eqx.Module):
    """Signals of a free base, one row a sample, SI units, each where it was measured.

    Args:
        position: of its origin in the world, m, as motion capture or odometry gives it.
        quaternion: w, x, y, z, base to world.
        velocity: of its origin, in the world's axes, m/s.
        accelerometer: m/s² in the sensor's axes, gravity included: about +9.81 upwards at rest.
        gyroscope: rad/s in the sensor's axes.
        rotors: commands of rotors as shares of the largest one, a column each.
        battery: V.
        contacts: whether each foot of `contact_names` touches; feet that are not named never do.
        imu_position: where the sensor is in the base's frame, m; by default at its origin.
        imu_quaternion: how it is turned there; by default not at all.
        contact_names: the feet.
    """

    position: Float[np.ndarray, "time 3"] | None
    quaternion: Float[np.ndarray, "time 4"] | None
    velocity: Float[np.ndarray, "time 3"] | None
    accelerometer: Float[np.ndarray, "time 3"] | None
    gyroscope: Float[np.ndarray, "time 3"] | None
    rotors: Float[np.ndarray, "time r"] | None
    battery: Float[np.ndarray, "time 1"] | None
    contacts: Float[np.ndarray, "time k"] | None
    imu_position: Float[np.ndarray, "3"]
    imu_quaternion: Float[np.ndarray, "4"]
    contact_names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        position: ArrayLike | Sequence[Any] | None = None,
        quaternion: ArrayLike | Sequence[Any] | None = None,
        velocity: ArrayLike | Sequence[Any] | None = None,
        accelerometer: ArrayLike | Sequence[Any] | None = None,
        gyroscope: ArrayLike | Sequence[Any] | None = None,
        rotors: ArrayLike | Sequence[Any] | None = None,
        battery: ArrayLike | Sequence[Any] | None = None,
        contacts: ArrayLike | Sequence[Any] | None = None,
        imu_position: ArrayLike | Sequence[Any] = (0.0, 0.0, 0.0),
        imu_quaternion: ArrayLike | Sequence[Any] = (1.0, 0.0, 0.0, 0.0),
        contact_names: Sequence[str] = (),
    ):
        self.position = _checked("position", position)
        self.quaternion = _turns(_checked("quaternion", quaternion))
        self.velocity = _checked("velocity", velocity)
        self.accelerometer = _checked("accelerometer", accelerometer)
        self.gyroscope = _checked("gyroscope", gyroscope)
        self.rotors, self.battery = _checked("rotors", rotors), _checked("battery", battery)
        self.contacts, self.contact_names = _checked("contacts", contacts), tuple(map(str, contact_names))
        self.imu_position, self.imu_quaternion = _mounted(imu_position, imu_quaternion)
        _refuse_values(self)
        for one, other in (("position", "quaternion"), ("accelerometer", "gyroscope")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise RecordingError(f"base: {one} and {other} come together; give both, or neither")
        count = 0 if self.contacts is None else self.contacts.shape[1]
        if count != len(self.contact_names):
            raise RecordingError(f"base: {count} columns of contacts, {len(self.contact_names)} names; give one each")

    @property
    def signals(self) -> dict[str, np.ndarray]:
        """What there is, by name."""
        return {name: values for name in WIDTHS if (values := getattr(self, name)) is not None}

    @property
    def has_pose(self) -> bool:
        """Whether position and attitude were measured."""
        return self.position is not None

    @property
    def has_imu(self) -> bool:
        """Whether an inertial sensor was on it."""
        return self.accelerometer is not None

    def __len__(self) -> int:
        return len(next(iter(self.signals.values()), ()))

    def replace(self, **changes: Any) -> "BaseMotion":
        """The same with some fields changed, checked again.

        Args:
            changes: fields, as `gyroscope=…`.
        """
        fields = {name: getattr(self, name) for name in (*WIDTHS, "imu_position", "imu_quaternion", "contact_names")}
        return BaseMotion(**{**fields, **changes})

    def take(self, samples: slice | np.ndarray) -> "BaseMotion":
        """Some of the samples.

        Args:
            samples: which, as a slice or by their numbers.
        """
        return self.replace(**{name: values[samples] for name, values in self.signals.items()})

    def resampled(self, time: Float[np.ndarray, " time"], at: Float[np.ndarray, " at"]) -> "BaseMotion":
        """At other times, by straight lines between samples; feet and rotors stay as they were before.

        Args:
            time: of the samples, in seconds.
            at: when they are asked for, in seconds.
        """
        held = np.clip(np.searchsorted(time, at + 1e-9, side="right") - 1, 0, len(time) - 1)
        found = {}
        for name, values in self.signals.items():
            straight = np.column_stack([np.interp(at, time, column) for column in values.T])
            found[name] = values[held] if name in ("contacts", "rotors") else straight
        if "quaternion" in found:
            found["quaternion"] /= np.linalg.norm(found["quaternion"], axis=1, keepdims=True)
        return self.replace(**found)

    def check(self, count: int, where: str) -> None:
        """Refuse signals that have another number of samples.

        Args:
            count: how many samples there must be.
            where: what the error names.
        """
        for name, values in self.signals.items():
            if len(values) != count:
                raise RecordingError(f"{where}: base {name} has {len(values)} samples, q has {count}; give as many")


def joined(several: Sequence[BaseMotion | None]) -> BaseMotion | None:
    """Parts of one log, one after the other; signals that not all have are left out."""
    first = several[0]
    if first is None or any(each is None for each in several):
        return None
    shared = [name for name in first.signals if all(each is not None and name in each.signals for each in several)]
    arrays = {name: np.concatenate([each.signals[name] for each in several if each is not None]) for name in shared}
    lacking = dict.fromkeys(name for name in WIDTHS if name not in shared)
    return first.replace(**{**lacking, **arrays}, **({} if "contacts" in shared else {"contact_names": ()}))


def _checked(name: str, values: Any) -> np.ndarray | None:
    if values is None:
        return None
    try:
        array = np.asarray(values, np.float64)
    except (ValueError, TypeError):
        raise RecordingError(f"base: {name} holds no rectangular array of numbers; give (samples, columns)") from None
    array = array[:, None] if array.ndim == 1 else array
    width = WIDTHS[name]
    if array.ndim != 2 or not array.size or (width is not None and array.shape[1] != width):
        wanted = f"(samples, {width or 'columns'})"
        raise RecordingError(f"base: {name} has shape {np.shape(values)}; give {wanted}")
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(1)))
        raise RecordingError(f"base: {name} is not finite in row {row}; give numbers, or leave those rows out")
    return array


def _mounted(position: Any, quaternion: Any) -> tuple[np.ndarray, np.ndarray]:
    """Where an inertial sensor is, as arrays."""
    found = []
    for name, given, count in (("imu_position", position, 3), ("imu_quaternion", quaternion, 4)):
        try:
            values = np.asarray(given, float)
        except (ValueError, TypeError):
            values = np.zeros(0)
        if values.shape != (count,) or not np.isfinite(values).all():
            raise RecordingError(f"base: {name} is {given!r}; give {count} finite numbers")
        found.append(values)
    length = float(np.linalg.norm(found[1]))
    if abs(length - 1) > UNIT:
        raise RecordingError(f"base: imu_quaternion has length {length:.3g}; give a unit quaternion w x y z")
    return found[0], found[1]


def _refuse_values(base: BaseMotion) -> None:
    """Commands that are no shares, batteries without voltage, and contacts that are neither there nor not."""
    checked = (
        (base.rotors, lambda x: (x >= 0) & (x <= 1 + UNIT), "a rotor command", "shares of the largest, 0 … 1"),
        (base.battery, lambda x: x > 0, "the battery", "volts above 0"),
        (base.contacts, lambda x: (x == 0) | (x == 1), "a contact", "0 or 1"),
    )
    for values, allowed, what, wanted in checked:
        if values is not None and not allowed(values).all():
            row, column = np.argwhere(~allowed(values))[0]
            raise RecordingError(f"base: {what} is {values[row, column]:g} in row {row}; give {wanted}")


def _turns(quaternion: np.ndarray | None) -> np.ndarray | None:
    """Unit quaternions, each with the sign that is nearer to the one before."""
    if quaternion is None:
        return None
    length = np.linalg.norm(quaternion, axis=1)
    wrong = np.flatnonzero(np.abs(length - 1) > UNIT)
    if len(wrong):
        raise RecordingError(
            f"base: quaternion has length {length[wrong[0]]:.3g} in row {wrong[0]}; give unit quaternions w x y z"
        )
    unit = quaternion / length[:, None]
    turns = np.sign(np.sum(unit[1:] * unit[:-1], axis=1))
    return unit * np.cumprod(np.concatenate([[1.0], np.where(turns < 0, -1.0, 1.0)]))[:, None]
