"""Velocities and accelerations of a recording from its positions, and what was done to get them, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import numpy as np
from jaxtyping import Float

from diffnea.recordings.recording import Recording, RecordingError
from diffnea.recordings.signal.resampling import is_regular, regular
from diffnea.recordings.signal.smoothing import Derivatives, derivatives
from diffnea.recordings.signal.wrapped_angles import unwrap

Bandwidth = float | int | Sequence[float | int] | np.ndarray | str | None
COMMON = "common"
# A joint moves when its accelerations exceed their expected error by this factor.
MOVING = 3.0


@dataclass(frozen=True)
class JointSmoothing:
    """How one joint's positions were smoothed, and how good its derivatives are (SI units)."""

    joint: str
    noise: float  # standard deviation of one position reading
    white: float  # of what is white at the top of the spectrum, from so many Hz on
    white_from: float
    step: float  # of the encoder, 0 where none is seen
    bandwidth: float  # Hz
    qd_std: float
    qdd_std: float
    samples: float  # how many independent values the errors of its accelerations are worth
    unwrapped: int  # jumps of a whole turn taken out

    def __str__(self) -> str:
        """The choice in plain words."""
        kind = f", encoder step {self.step:.3g}" if self.step else ""
        wraps = f", {self.unwrapped} jumps of a whole turn taken out" if self.unwrapped else ""
        return (
            f"{self.joint}: position noise {self.noise:.2g}{kind}, smoothed to {self.bandwidth:.3g} Hz; "
            f"expected error of velocity {self.qd_std:.2g}, of acceleration {self.qdd_std:.2g}{wraps}"
        )


class Smoothed(eqx.Module):
    """A recording with derivatives, its smoothed positions, and what was done joint by joint."""

    recording: Recording
    q: Float[np.ndarray, "time n"]
    joints: tuple[JointSmoothing, ...] = eqx.field(static=True)
    dropped: int = eqx.field(static=True)  # samples at each end


def differentiate(recording: Recording, bandwidth: Bandwidth = None) -> Recording:
    """The recording with `qd` and `qdd` estimated from `q`, a few samples at each end dropped, and notes on it.

    Non-causal: no lag. Recorded velocities are replaced, since most are filtered and late (`velocity_lag` says by how
    much).

    Args:
        recording: the recording.
        bandwidth: Hz, one number or one a joint; None: chosen from the data, joint by joint; "common": the lowest of
            these for all, so that every term of an equation passes the same filter.
    """
    return smooth(recording, bandwidth).recording


def smooth(recording: Recording, bandwidth: Bandwidth = None) -> Smoothed:
    """As `differentiate`, with the smoothed positions and the numbers behind the choice.

    Args:
        recording: the recording.
        bandwidth: as for `differentiate`.
    """
    if not is_regular(recording):
        raise RecordingError("its sampling is irregular; use prepare(recording), or regular(recording) first")
    recording = unwrap(recording)
    q = recording.q
    found = joint_by_joint(q, recording.duration / (len(recording) - 1), bandwidth)
    edge = max(each.edge for each in found)
    kept = slice(edge, len(q) - edge)
    joints = tuple(_describe(each, k, recording, len(q) - 2 * edge) for k, each in enumerate(found))
    notes = [*recording.notes, *_say(recording, joints, edge)]
    qd, qdd = (np.column_stack([getattr(each, key) for each in found]) for key in ("qd", "qdd"))
    changed = recording.replace(qd=qd, qdd=qdd, notes=notes)[kept]
    return Smoothed(changed, np.column_stack([each.q for each in found])[kept], joints, edge)


def joint_by_joint(q: np.ndarray, dt: float, bandwidth: Bandwidth) -> list[Derivatives]:
    """Each column smoothed and differentiated; the bandwidth as `differentiate` takes it."""
    if isinstance(bandwidth, str):
        if bandwidth != COMMON:
            raise RecordingError(f'bandwidth is "{bandwidth}"; give numbers in Hz, or "{COMMON}"')
        found = joint_by_joint(q, dt, None)
        # A joint that only trembles says nothing about how fast the others move.
        moving = [each.bandwidth for each in found if np.std(each.qdd) > MOVING * each.qdd_std]
        return joint_by_joint(q, dt, min(moving)) if moving else found
    corners = np.broadcast_to(np.array(np.nan if bandwidth is None else bandwidth, float), q.shape[1:])
    if (corners <= 0).any():
        raise RecordingError(f"bandwidth is {bandwidth}; give positive numbers in Hz")
    chosen = [None if np.isnan(hertz) else float(hertz) for hertz in corners]
    return [derivatives(column, dt, hertz) for column, hertz in zip(q.T, chosen, strict=True)]


def prepare(recordings: Recording | Sequence[Recording], bandwidth: Bandwidth = None) -> list[Recording]:
    """Recordings ready to fit: sampled regularly, split at gaps, with velocities and accelerations.

    What has both already stays as it is.

    Args:
        recordings: one or several.
        bandwidth: as for `differentiate`.
    """
    several = [recordings] if isinstance(recordings, Recording) else list(recordings)
    ready = []
    for item in several:
        if item.qd is not None and item.qdd is not None:
            ready.append(item)
        else:
            ready += [differentiate(piece, bandwidth) for piece in regular(item)]
    return ready


def joint_labels(recording: Recording) -> tuple[str, ...]:
    """The joints' names, or numbers where the recording has none."""
    return recording.joint_names or tuple(f"joint {k}" for k in range(recording.num_joints))


def _describe(found: Derivatives, k: int, recording: Recording, count: int) -> JointSmoothing:
    return JointSmoothing(
        joint=joint_labels(recording)[k],
        noise=found.noise,
        white=found.white,
        white_from=found.white_from,
        step=found.step,
        bandwidth=found.bandwidth,
        qd_std=found.qd_std,
        qdd_std=found.qdd_std,
        samples=found.independent * count,
        unwrapped=recording.unwrapped[k],
    )


def _say(recording: Recording, joints: Sequence[JointSmoothing], edge: int) -> list[str]:
    recorded = "" if recording.qd is None else " (in place of the recorded ones)"
    first = f"velocities{recorded} and accelerations estimated from positions, non-causally; "
    return [first + f"{edge} samples dropped at each end", *map(str, joints)]
