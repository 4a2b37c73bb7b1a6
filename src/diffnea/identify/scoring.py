"""How good a model is on data that were not fitted: roll-outs from measured states, and accelerations."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea.actuators import Combined, Delay, Ideal, combine
from diffnea.identify.data import Track
from diffnea.models import AbstractModel, Model
from diffnea.rollout import rollout
from diffnea.rollout.delay import delayed

HORIZONS = (0.1, 0.5, 1.0, 2.0)  # seconds
STRIDE = 0.25  # seconds between the starts of windows
MOST_WINDOWS = 128
# An error of this many standard deviations of a joint's motion is no prediction any more; of this many, a good one.
LOST, GOOD = 10.0, 0.1


@dataclass(frozen=True)
class Windows:
    """Stretches of measured motion to predict, all of one length, from measured states and commands."""

    q0: Float[np.ndarray, "window n"]
    qd0: Float[np.ndarray, "window n"]
    u: Float[np.ndarray, "window time n"]
    measured: Float[np.ndarray, "window time n"]
    dt: float
    places: tuple[tuple[int, int], ...]  # track and sample at which each begins
    spread: Float[np.ndarray, " n"]  # standard deviation of each joint's position


@dataclass(frozen=True)
class Score:
    """A model's errors; lists go by horizon, what is normalised is a share of the joints' spread."""

    nmse: float | None  # of accelerations, mean over joints
    nmse_joints: tuple[float, ...]
    horizons: tuple[float, ...]
    error: tuple[float, ...]  # normalised; median over windows of the root mean square within the horizon
    error_joints: tuple[tuple[float, ...], ...]  # in rad or m, one row a horizon
    good_for: float | None  # seconds until the error is 10 % of the spread, median
    diverged: int
    windows: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def samples(seconds: float, dt: float) -> int:
    """How many steps these seconds take; halves go up, also where rounding has left a little less than a half."""
    return int(seconds / dt + 0.5 + 1e-6)


def windows(
    tracks: Sequence[Track],
    spread: Float[np.ndarray, " n"],
    seconds: float = HORIZONS[-1],
    stride: float = STRIDE,
) -> Windows | None:
    """Windows of up to `seconds`, one every `stride` seconds; None where there is nothing to roll out."""
    if not tracks or tracks[0].dt is None:
        return None
    dt = tracks[0].dt
    alike = [k for k, track in enumerate(tracks) if track.dt is not None and abs(track.dt - dt) < 1e-6 * dt]
    longest = max(len(tracks[k]) for k in alike)
    steps = min(samples(seconds, dt) + 1, max(longest // 2, min(longest, 8)))
    every = max(1, samples(stride, dt))
    places = [(k, start) for k in alike for start in range(0, len(tracks[k]) - steps + 1, every)]
    if not places or steps < 3:
        return None
    chosen = [places[i] for i in np.unique(np.linspace(0, len(places) - 1, MOST_WINDOWS).astype(int))]

    def cut(key: str, length: int) -> np.ndarray:
        return np.stack([getattr(tracks[k], key)[start : start + length] for k, start in chosen])

    first = cut("q", 1)[:, 0], cut("qd", 1)[:, 0]
    return Windows(*first, cut("u", steps), cut("measured", steps), dt, tuple(chosen), spread)


def predict(model: AbstractModel, tracks: Sequence[Track], cut: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Positions of each window by roll-out `(window, time, n)`, and which stayed finite."""
    prompt, late = without_delay(model)
    commands = cut.u
    if late is not None:
        delay, most = late
        arrived = [np.asarray(delayed(jnp.asarray(track.u), delay, most)) for track in tracks]
        commands = np.stack([arrived[k][start : start + cut.u.shape[1]] for k, start in cut.places])
    run = rollout(prompt, cut.q0, cut.qd0, commands, cut.dt)
    finite = np.ones(len(cut.q0), bool) if run.diverged_at is None else np.isinf(np.asarray(run.diverged_at))
    return np.asarray(run.q), finite


def without_delay(model: AbstractModel) -> tuple[AbstractModel, tuple[Any, int] | None]:
    """The model whose commands arrive at once, and the delay that was taken away.

    A window begins in the middle of a recording, and the commands from before it are known: they are shifted outside.
    """
    if not isinstance(model, Model) or not model.actuator.most_delay:
        return model, None
    actuator = model.actuator
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    prompt = [part for part in parts if not isinstance(part, Delay)]
    rest = combine(*prompt) if prompt else Ideal(model.num_joints)
    return Model(model.robot, rest), (actuator.delay, actuator.most_delay)


def score(model: AbstractModel, tracks: Sequence[Track], cut: Windows | None) -> Score:
    """The errors of a model on these data."""
    nmse = acceleration_nmse(model, tracks)
    joints, mean = tuple(map(float, nmse)), float(np.mean(nmse))
    if cut is None:
        return Score(mean, joints, (), (), (), None, 0, 0)
    positions, finite = predict(model, tracks, cut)
    return _of_positions(positions, finite, cut, mean, joints)


def constant_velocity(cut: Windows | None) -> Score | None:
    """The errors of a guess that needs no model: the joints go on as they go."""
    return None if cut is None else _guess(cut, cut.qd0)


def standing_still(cut: Windows | None) -> Score | None:
    """The errors of the other such guess: the joints stay where they are."""
    return None if cut is None else _guess(cut, np.zeros_like(cut.qd0))


def _guess(cut: Windows, velocity: np.ndarray) -> Score:
    time = cut.dt * np.arange(cut.u.shape[1])
    positions = cut.q0[:, None] + velocity[:, None] * time[None, :, None]
    return _of_positions(positions, np.ones(len(cut.q0), bool), cut, None, ())


def acceleration_nmse(model: AbstractModel, tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """Mean squared error of accelerations by their variance, joint by joint."""
    prompt, late = without_delay(model)
    errors, truth = [], []
    for track in tracks:
        u = track.u if late is None else np.asarray(delayed(jnp.asarray(track.u), *late))
        errors.append(np.asarray(prompt(track.q, track.qd, u)) - track.qdd)
        truth.append(track.qdd)
    variance = np.var(np.concatenate(truth), axis=0)
    error = np.mean(np.square(np.concatenate(errors)), axis=0)
    return error / np.where(variance > 0, variance, 1.0)


def window_errors(positions: np.ndarray, cut: Windows, horizon: float) -> Float[np.ndarray, "window n"]:
    """Root mean square of each window's error up to the horizon, joint by joint, in rad or m."""
    steps = samples(horizon, cut.dt) + 1
    wrong = positions[:, :steps] - cut.measured[:, :steps]
    return np.sqrt(np.mean(np.square(wrong), axis=1))


def _of_positions(positions, finite, cut: Windows, mean: float | None, joints: tuple[float, ...]) -> Score:
    reached = (cut.u.shape[1] - 1) * cut.dt
    horizons = tuple(h for h in HORIZONS if h <= reached * (1 + 1e-6)) or (round(reached, 6),)
    wrong = np.where(finite[:, None, None], positions - cut.measured, np.inf)
    share = np.abs(wrong) / cut.spread
    each = [window_errors(np.where(finite[:, None, None], positions, np.inf), cut, h) for h in horizons]
    normal = [np.median(np.sqrt(np.mean(np.square(e / cut.spread), axis=1))) for e in each]
    worst = share.max(axis=2)
    bad = worst > GOOD
    first = np.where(bad.max(axis=1), bad.argmax(axis=1), worst.shape[1] - 1) * cut.dt
    lost = int((~finite | (worst.max(axis=1) > LOST)).sum())
    per_joint = tuple(tuple(map(float, np.median(e, axis=0))) for e in each)
    return Score(
        mean, joints, horizons, tuple(map(float, normal)), per_joint, float(np.median(first)), lost, len(finite)
    )
