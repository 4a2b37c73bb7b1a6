"""Evidence: what a fit and its start say of data that were not fitted, as arrays to draw and to judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from diffnea.batching import batched
from diffnea.identify import Fit
from diffnea.identify.judge.held_out import HeldOut
from diffnea.identify.judge.windows import (
    HORIZONS,
    Windows,
    accelerations,
    at_gains,
    predict,
    window_errors,
    windows,
    without_delay,
)
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.models import Model, inverse

# Windows are ordered by their error at this horizon, or at the longest below it.
SHOWN_HORIZON = 1.0  # s
# Of 100 windows, how many are better than the ones shown.
RANKS = {"Typical": 50, "Worse than nine in ten": 90}
CURVE_POINTS = 81


class Torques(NamedTuple):
    """Of one sample or many, one column a joint."""

    driven: Any  # what the command brings
    friction: Any  # what the model says opposes the motion
    taken: Any  # what the motion takes: inverse dynamics
    rest: Any  # drive, springs and networks together: all but friction


@dataclass(frozen=True)
class Stretch:
    """One stretch of data not fitted, and what fit and start say of it, sample by sample."""

    track: Track
    fit: Float[np.ndarray, "time n"]  # accelerations
    start: Float[np.ndarray, "time n"]
    torques: Torques | None  # of the fit; None for a network
    start_torques: Torques | None

    @property
    def residual(self) -> Float[np.ndarray, "time n"]:
        """What the fit leaves: torque that the motion takes beyond what the model has, or acceleration of a network."""
        if self.torques is None:
            return self.track.qdd - self.fit
        return self.torques.taken - self.torques.rest + self.torques.friction


@dataclass(frozen=True)
class Example:
    """One window predicted ahead: positions by the fit, by its start, and at constant velocity."""

    rank: str
    time: Float[np.ndarray, " time"]
    measured: Float[np.ndarray, "time n"]
    fit: Float[np.ndarray, "time n"]
    start: Float[np.ndarray, "time n"]
    guess: Float[np.ndarray, "time n"]


@dataclass(frozen=True)
class Evidence:
    """All that a page draws of the held-out data; `driven` says which joints had an input."""

    kept: HeldOut
    stretches: tuple[Stretch, ...]
    windows: Windows | None  # what is rolled out; None where samples have no order
    examples: tuple[Example, ...]
    driven: tuple[bool, ...]

    @property
    def longest(self) -> Stretch:
        """The stretch to show over time."""
        return max(self.stretches, key=lambda stretch: len(stretch.track))

    def joined(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Rows of all stretches together."""
        return np.concatenate(values)


def evidence(fit: Fit) -> Evidence | None:
    """None where the fit kept no data, as one from an older folder."""
    kept = fit.held_out
    if kept is None:
        return None
    cut = windows(kept.tracks, kept.spread)
    driven = np.any([np.any(track.u != 0, axis=0) for track in kept.tracks], axis=0)
    examples = () if cut is None else _examples(fit.model, kept, cut)
    return Evidence(kept, _stretches(fit.model, kept), cut, examples, tuple(map(bool, driven)))


def _stretches(model: Any, kept: HeldOut) -> tuple[Stretch, ...]:
    """All stretches in one call, so that one program serves them all."""
    ends = np.cumsum([len(track) for track in kept.tracks])[:-1]
    (ours, torques), (theirs, before) = (_said(each, kept.tracks) for each in (model, kept.start))

    def cut(values: Any) -> list[Any]:
        if values is None:
            return [None] * len(kept.tracks)
        rows = [np.split(np.asarray(array), ends) for array in values]
        return [Torques(*each) for each in zip(*rows, strict=True)]

    parts = zip(kept.tracks, np.split(ours, ends), np.split(theirs, ends), cut(torques), cut(before), strict=True)
    return tuple(Stretch(*part) for part in parts)


def _said(model: Any, tracks: Sequence[Track]) -> tuple[np.ndarray, Torques | None]:
    """Accelerations and torques of a model in all measured states."""
    prompt, late = without_delay(model)
    q, qd, qdd = (np.concatenate([getattr(track, key) for track in tracks]) for key in ("q", "qd", "qdd"))
    u = np.concatenate([track.acting(late) for track in tracks])
    if not isinstance(prompt, Model):
        return np.asarray(prompt(q, qd, u)), None
    torques = Torques(*(np.empty_like(q) for _ in Torques._fields))
    for each, rows in at_gains(prompt, tracks):
        found = batched(_torques, each, q=q[rows], qd=qd[rows], qdd=qdd[rows], u=u[rows])
        for whole, some in zip(torques, found, strict=True):
            whole[rows] = some
    return accelerations(model, tracks), torques


def _torques(
    model: Model, q: Float[Array, " n"], qd: Float[Array, " n"], qdd: Float[Array, " n"], u: Float[Array, " n"]
) -> Torques:
    """Friction is what is missing between all of the actuator's torque and its other parts, whatever its form."""
    actuator = model.actuator
    driven = actuator.drive(u, q, qd)
    rest = driven - jax.grad(actuator.potential)(q) + actuator.residual(u, q, qd)
    return Torques(driven, rest - actuator(u, q, qd), inverse(model, q, qd, qdd), rest)


def friction_curve(
    model: Model, q: Float[np.ndarray, " n"], joint: int, fastest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Speeds and the friction of one joint that moves alone, in the pose q; just off zero, where dry friction jumps."""
    speed = np.linspace(-fastest, fastest, CURVE_POINTS - 1)  # an even number: zero is not among them
    qd = np.zeros((len(speed), model.num_joints))
    qd[:, joint] = speed
    still = np.zeros_like(qd)
    poses = np.broadcast_to(q, qd.shape)
    prompt, _ = without_delay(model)
    found = batched(_torques, prompt, q=poses, qd=qd, qdd=still, u=still)
    return speed, np.asarray(found.friction)[:, joint]


def _examples(model: Any, kept: HeldOut, cut: Windows) -> tuple[Example, ...]:
    """Windows of a middling and of a poor prediction, not chosen by eye."""
    ours, theirs = (predict(each, kept.tracks, cut)[0] for each in (model, kept.start))
    time = cut.dt * np.arange(cut.u.shape[1])
    guesses = cut.q0[:, None] + cut.qd0[:, None] * time[None, :, None]
    order = np.argsort(_errors(ours, cut))
    chosen = {rank: order[min(len(order) - 1, len(order) * share // 100)] for rank, share in RANKS.items()}
    return tuple(
        Example(rank, time, cut.measured[k], ours[k], theirs[k], guesses[k])
        for rank, k in chosen.items()
        if len(order) > 4 or rank == "Typical"
    )


def _errors(positions: np.ndarray, cut: Windows) -> np.ndarray:
    reached = (cut.u.shape[1] - 1) * cut.dt
    horizon = max([h for h in HORIZONS if h <= min(SHOWN_HORIZON, reached * (1 + 1e-6))], default=reached)
    share = window_errors(positions, cut, horizon) / cut.spread
    return np.nan_to_num(np.sqrt(np.mean(share**2, axis=1)), nan=np.inf)
