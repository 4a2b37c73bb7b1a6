"""Recording and Samples: measured motion and input of a robot, checked when they are made.

numpy on the outside of the package: what comes from files stays in double precision until a fit asks for less.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import equinox as eqx
import numpy as np
from jaxtyping import ArrayLike, Float

from diffnea.recordings.base_motion import BaseMotion, joined
from diffnea.recordings.error import RecordingError as RecordingError

SIGNALS = ("q", "qd", "qdd", "u")
# What an input is: a command (torque, force, voltage, duty), or the position goal of a servo, in units of q.
InputKind = Literal["command", "goal"]
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)


class Recording(eqx.Module):
    """Positions `q` and commanded inputs `u` over `time` (s), SI units; velocities and accelerations where known.

    Args:
        time: stamps, s.
        q: positions, rad or m, one column a joint; with `base` of the joints alone, and there may be no column then.
        u: inputs, one column a joint; None: nothing is driven.
        qd: velocities, where they were recorded.
        qdd: accelerations, where they are known.
        joint_names: the columns' joints.
        driven: which joints have an input; by default those whose input is ever other than zero.
        name: what it is called in notes.
        notes: what was done to the data on the way, in words.
        unwrapped: how many jumps of a whole turn were taken out of each joint.
        measured: whether inputs were measured at each sample, and `u` has what acts between two (`as_held`).
        input_kind: "command", a torque or voltage, or "goal", the position that a servo is told to go to, in rad or m.
        base: what was measured of a free base.
        gain: of servos, the stiffness that they were set to, as a firmware's register counts it; 0 where torque is off.
    """

    time: Float[np.ndarray, " time"]
    q: Float[np.ndarray, "time n"]
    u: Float[np.ndarray, "time n"]
    qd: Float[np.ndarray, "time n"] | None
    qdd: Float[np.ndarray, "time n"] | None
    joint_names: tuple[str, ...] | None = eqx.field(static=True)
    driven: tuple[bool, ...] = eqx.field(static=True)
    name: str | None = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)
    unwrapped: tuple[int, ...] = eqx.field(static=True)
    measured: bool = eqx.field(static=True)
    input_kind: InputKind = eqx.field(static=True)
    base: BaseMotion | None
    gain: Float[np.ndarray, "time n"] | None

    def __init__(
        self,
        time: ArrayLike | Sequence[Any],
        q: ArrayLike | Sequence[Any],
        u: ArrayLike | Sequence[Any] | None = None,
        qd: ArrayLike | Sequence[Any] | None = None,
        qdd: ArrayLike | Sequence[Any] | None = None,
        joint_names: Sequence[str] | None = None,
        driven: Sequence[bool] | np.ndarray | None = None,
        name: str | None = None,
        notes: Sequence[str] = (),
        unwrapped: Sequence[int] | np.ndarray | None = None,
        measured: bool = False,
        input_kind: str = "command",
        base: BaseMotion | None = None,
        gain: ArrayLike | Sequence[Any] | None = None,
    ):
        where = f"Recording {name!r}" if name else "Recording"
        self.q = _matrix(q, "q", where, without_joints=base is not None)
        self.time = _stamps(time, len(self.q), where)
        signals = _signals(where, self.q, base is not None, u=u, qd=qd, qdd=qdd)
        self.u = np.zeros_like(self.q) if signals["u"] is None else signals["u"]
        self.qd, self.qdd = signals["qd"], signals["qdd"]
        self.joint_names = _names(joint_names, self.q.shape[1], where)
        self.driven = _driven(driven, self.u, where)
        self.name, self.notes, self.measured = name, tuple(notes), bool(measured)
        self.input_kind = _input_kind(input_kind, self.measured, where)
        self.unwrapped = (0,) * self.num_joints if unwrapped is None else tuple(int(count) for count in unwrapped)
        self.base = _base(base, len(self.q), where)
        self.gain = _gain(gain, self.q, self.input_kind, where)

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, samples: slice) -> "Recording":
        """Samples chosen by index, as a recording: `recording[100:-100]`."""
        if not isinstance(samples, slice):
            raise TypeError(f"Recording: indexed by {samples!r}; use a slice of samples, or between(start, stop)")
        rows = {key: value if value is None else value[samples] for key, value in self._arrays().items()}
        return self.replace(**rows, base=None if self.base is None else self.base.take(samples))

    def between(self, start: float | int, stop: float | int) -> "Recording":
        """The samples with `start <= time < stop`, in seconds of the recording's own clock.

        Args:
            start: seconds, the first that count.
            stop: seconds, the first that do not count.
        """
        first, last = np.searchsorted(self.time, (start, stop))
        if last <= first:
            raise RecordingError(
                f"Recording: no sample between {start:g} and {stop:g} s; it runs from {self.time[0]:g} to "
                f"{self.time[-1]:g} s"
            )
        return self[int(first) : int(last)]

    def replace(self, **changes: Any) -> "Recording":
        """The same recording with some fields changed, checked again.

        Args:
            changes: fields of the recording, as `name="monday"`.
        """
        fields = {**self._arrays(), "joint_names": self.joint_names, "driven": self.driven, "name": self.name}
        fields |= {"notes": self.notes, "unwrapped": self.unwrapped, "measured": self.measured}
        fields |= {"input_kind": self.input_kind, "base": self.base}
        return Recording(**{**fields, **changes})

    def _arrays(self) -> dict[str, np.ndarray | None]:
        return {"time": self.time, "q": self.q, "u": self.u, "qd": self.qd, "qdd": self.qdd, "gain": self.gain}

    @property
    def num_joints(self) -> int:
        """How many joints it has."""
        return self.q.shape[1]

    @property
    def dt(self) -> float:
        """The usual time between samples, s: the median, so that a few dropped samples do not move it."""
        if len(self) < 2:
            raise RecordingError("Recording: one sample has no rate; give at least two")
        return float(np.median(np.diff(self.time)))

    @property
    def rate(self) -> float:
        """The usual number of samples a second, Hz."""
        return 1 / self.dt

    @property
    def duration(self) -> float:
        """Seconds from the first sample to the last."""
        return float(self.time[-1] - self.time[0])


class Samples(eqx.Module):
    """Joint states, accelerations and inputs in any order, one row a sample, SI units.

    Args:
        q: positions, rad or m, one column a joint.
        qd: velocities.
        qdd: accelerations.
        u: inputs; None: nothing is driven.
        joint_names: the columns' joints.
        driven: which joints have an input; by default those whose input is ever other than zero.
        name: what they are called in notes.
    """

    q: Float[np.ndarray, "sample n"]
    qd: Float[np.ndarray, "sample n"]
    qdd: Float[np.ndarray, "sample n"]
    u: Float[np.ndarray, "sample n"]
    joint_names: tuple[str, ...] | None = eqx.field(static=True)
    driven: tuple[bool, ...] = eqx.field(static=True)
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        q: ArrayLike | Sequence[Any],
        qd: ArrayLike | Sequence[Any],
        qdd: ArrayLike | Sequence[Any],
        u: ArrayLike | Sequence[Any] | None = None,
        joint_names: Sequence[str] | None = None,
        driven: Sequence[bool] | np.ndarray | None = None,
        name: str | None = None,
    ):
        self.q = _matrix(q, "q", "Samples")
        signals = _signals("Samples", self.q, False, u=u, qd=qd, qdd=qdd)
        if signals["qd"] is None or signals["qdd"] is None:
            raise RecordingError("Samples: qd or qdd is missing; give both, or a Recording to differentiate")
        self.qd, self.qdd = signals["qd"], signals["qdd"]
        self.u = np.zeros_like(self.q) if signals["u"] is None else signals["u"]
        self.joint_names = _names(joint_names, self.q.shape[1], "Samples")
        self.driven = _driven(driven, self.u, "Samples")
        self.name = name

    def __len__(self) -> int:
        return len(self.q)

    @property
    def num_joints(self) -> int:
        """How many joints it has."""
        return self.q.shape[1]


def as_list(recordings: Any) -> list[Recording | Samples]:
    """One or several recordings as a list; they must be of the same joints.

    Args:
        recordings: one, or several.
    """
    several = [recordings] if isinstance(recordings, (Recording, Samples)) else list(recordings)
    if not several:
        raise RecordingError("no recording; give at least one")
    for k, item in enumerate(several):
        if not isinstance(item, (Recording, Samples)):
            raise RecordingError(f"recording {k} is a {type(item).__name__}; give Recording or Samples")
        if item.num_joints != several[0].num_joints:
            raise RecordingError(
                f"recording {k} has {item.num_joints} joints, the first has {several[0].num_joints}; "
                f"use recordings of one robot"
            )
        if item.joint_names and several[0].joint_names and item.joint_names != several[0].joint_names:
            raise RecordingError(
                f"recording {k} is of joints {', '.join(item.joint_names)}, the first of "
                f"{', '.join(several[0].joint_names)}; use the same joints in the same order"
            )
        if _kind_of(item) != _kind_of(several[0]):
            both = f"{_kind_of(item)}s as inputs, the first {_kind_of(several[0])}s"
            raise RecordingError(f"recording {k} has {both}; use one kind in a fit")
    return several


def _kind_of(item: "Recording | Samples") -> str:
    return item.input_kind if isinstance(item, Recording) else "command"


def samples_of(recordings: Recording | Samples | Sequence[Recording | Samples]) -> Samples:
    """All samples of one or several recordings together; velocities and accelerations must be there.

    Args:
        recordings: one, or several, of the same joints.
    """
    several = as_list(recordings)
    for k, item in enumerate(several):
        if item.qd is None or item.qdd is None:
            raise RecordingError(f"recording {k} has no qd or qdd; differentiate it first")
    joined: dict[str, Any] = {key: np.concatenate([getattr(item, key) for item in several]) for key in SIGNALS}
    driven = np.any([item.driven for item in several], axis=0)
    return Samples(**joined, joint_names=several[0].joint_names, driven=driven)


def concatenate(recordings: Sequence[Recording]) -> Recording:
    """Parts of one log, in the order of time, as one recording; signals that not all parts have are left out.

    Args:
        recordings: the parts.
    """
    several: list[Any] = as_list(recordings)
    arrays: dict[str, np.ndarray | None] = {}
    for key in ("time", *SIGNALS):
        parts = [getattr(item, key) for item in several]
        arrays[key] = None if any(part is None for part in parts) else np.concatenate(parts)
    notes = tuple(dict.fromkeys(note for item in several for note in item.notes))
    driven = np.any([item.driven for item in several], axis=0)
    unwrapped = np.sum([item.unwrapped for item in several], axis=0)
    measured = all(item.measured for item in several)
    said = {"driven": driven, "notes": notes, "unwrapped": unwrapped, "measured": measured}
    return several[0].replace(**arrays, **said, base=joined([item.base for item in several]))


# Checks ----------------------------------------------------------------------------------------------------------


def _floats(values: Any, what: str, where: str) -> np.ndarray:
    """Numbers as a floating array; float32 and float64 stay what they are."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise RecordingError(f"{where}: {what} has rows of different lengths; give a rectangular array") from None
    if array.dtype.kind not in "fiub":
        raise RecordingError(f"{where}: {what} holds {array.dtype} values; give real numbers")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _base(base: Any, count: int, where: str) -> BaseMotion | None:
    if base is not None and not isinstance(base, BaseMotion):
        raise RecordingError(f"{where}: base is a {type(base).__name__}; give a BaseMotion")
    if base is not None:
        base.check(count, where)
    return base


def _matrix(values: Any, what: str, where: str, without_joints: bool = False) -> np.ndarray:
    array = _floats(values, what, where)
    if array.ndim == 2 and array.shape[0] and not array.shape[1] and without_joints:
        return array
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] == 0:
        raise RecordingError(f"{where}: {what} has shape {array.shape}; give (samples, joints), at least one of each")
    _check_finite(array, what, where)
    return array


def _check_finite(array: np.ndarray, what: str, where: str) -> None:
    good = np.isfinite(array).reshape(len(array), -1).all(1)
    if not good.all():
        row, count = int(np.argmin(good)), int((~good).sum())
        raise RecordingError(
            f"{where}: {what} is not finite in row {row} (the first of {count}); give numbers, or leave those rows out"
        )


def _stamps(values: Any, count: int, where: str) -> np.ndarray:
    time = _floats(values, "time", where).astype(np.float64)
    if time.shape != (count,):
        raise RecordingError(f"{where}: time has shape {time.shape}, q has {count} rows; give one time a row")
    _check_finite(time, "time", where)
    steps = np.diff(time)
    if (steps <= 0).any():
        row = int(np.argmax(steps <= 0)) + 1
        what = "stands still" if steps[row - 1] == 0 else "goes backwards"
        raise RecordingError(
            f"{where}: time {what} in row {row} ({time[row - 1]:.9g} then {time[row]:.9g} s); "
            f"give strictly increasing times"
        )
    return time


def _signals(where: str, q: np.ndarray, without_joints: bool, **signals: Any) -> dict[str, Any]:
    checked = {}
    for key, values in signals.items():
        checked[key] = None if values is None else _matrix(values, key, where, without_joints)
        if checked[key] is not None and checked[key].shape != q.shape:
            raise RecordingError(f"{where}: {key} has shape {checked[key].shape}, q has {q.shape}; give both the same")
    return checked


def _input_kind(kind: Any, measured: bool, where: str) -> InputKind:
    if kind not in INPUT_KINDS:
        raise RecordingError(f"{where}: input_kind is {kind!r}; use {' or '.join(map(repr, INPUT_KINDS))}")
    if kind == "goal" and measured:
        raise RecordingError(f"{where}: position goals are commands, not measured; leave measured out")
    return kind


def _gain(gain: Any, q: np.ndarray, kind: InputKind, where: str) -> np.ndarray | None:
    """One number for all, one a joint, or a row a sample."""
    if gain is None:
        return None
    if kind != "goal":
        raise RecordingError(f'{where}: a gain is of servos, whose inputs are goals; give input_kind "goal" with it')
    try:
        spread = np.broadcast_to(_floats(gain, "gain", where), q.shape)
    except ValueError:
        found = np.shape(gain)
        raise RecordingError(
            f"{where}: gain has shape {found}, q has {q.shape}; give one number, or one a joint"
        ) from None
    found = _signals(where, q, False, gain=spread)["gain"]
    if (found < 0).any() or not (found > 0).any():
        raise RecordingError(
            f"{where}: gain is from {found.min():g} to {found.max():g}; give positive numbers, 0 for off"
        )
    return found


def _names(names: Sequence[str] | None, count: int, where: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    names = tuple(str(name) for name in names)
    if len(names) != count or len(set(names)) != count:
        raise RecordingError(f"{where}: joint_names are {', '.join(names)}; give {count} different names, one a joint")
    return names


def _driven(driven: Sequence[bool] | np.ndarray | None, u: np.ndarray, where: str) -> tuple[bool, ...]:
    if driven is None:
        return tuple(bool(some) for some in (u != 0).any(0))
    if len(driven) != u.shape[1]:
        raise RecordingError(f"{where}: driven has {len(driven)} entries for {u.shape[1]} joints; give one a joint")
    return tuple(bool(some) for some in driven)
