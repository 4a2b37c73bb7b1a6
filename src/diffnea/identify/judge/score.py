"""How good a model is on data that were not fitted: roll-outs from measured states, and accelerations."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from diffnea.actuators import Combined, Delay, Ideal, combine
from diffnea.identify.problem.torque_balance import torques
from diffnea.identify.problem.tracks import Track
from diffnea.models import AbstractModel, Model
from diffnea.rollout import rollout

HORIZONS = (0.1, 0.5, 1.0, 2.0)  # seconds
STRIDE = 0.25  # seconds between the starts of windows
MOST_WINDOWS = 128
# Steps of all windows together: fast recordings have long windows, and fewer of them tell as much.
MOST_STEPS = 256_000
# Recordings whose rates differ by less than this share are rolled out together, at the rate of the first.
SAME_RATE = 1e-4
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
    others: tuple["Windows", ...] = ()  # of recordings at other rates

    @property
    def rates(self) -> tuple["Windows", ...]:
        """The windows of every rate: these, and the others."""
        return (self, *self.others)


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
    torque_joints: tuple[float, ...] = ()  # nMSE of torques, where these were fitted

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
    """Windows of up to `seconds`, one every `stride` seconds; None where there is nothing to roll out.

    The rate with the most windows goes first, those of other rates are its `others`.
    """
    found = [(group, *_places(tracks, group, seconds, stride)) for group in _by_rate(tracks)]
    found = sorted((each for each in found if each[2]), key=lambda each: -len(each[2]))
    total = sum(len(places) for _, _, places in found)
    cuts = []
    for group, steps, places in found:
        most = min(max(1, MOST_WINDOWS * len(places) // total), max(8, MOST_STEPS // steps))
        chosen = [places[i] for i in np.unique(np.linspace(0, len(places) - 1, most).astype(int))]
        cuts.append(_cut(tracks, chosen, steps, float(tracks[group[0]].dt or 0.0), spread))
    return replace(cuts[0], others=tuple(cuts[1:])) if cuts else None


def _by_rate(tracks: Sequence[Track]) -> list[list[int]]:
    """Which tracks are sampled alike."""
    groups: list[list[int]] = []
    for k, track in enumerate(tracks):
        if track.dt is None:
            continue
        alike = [group for group in groups if abs(track.dt / (tracks[group[0]].dt or np.inf) - 1) < SAME_RATE]
        if alike:
            alike[0].append(k)
        else:
            groups.append([k])
    return groups


def _places(
    tracks: Sequence[Track], group: list[int], seconds: float, stride: float
) -> tuple[int, list[tuple[int, int]]]:
    """The steps of a window, and where windows of one rate begin."""
    dt, longest = float(tracks[group[0]].dt or 0.0), max(len(tracks[k]) for k in group)
    steps = min(samples(seconds, dt) + 1, max(longest // 2, min(longest, 8)))
    every = max(1, samples(stride, dt))
    return steps, [(k, start) for k in group for start in range(0, len(tracks[k]) - steps + 1, every) if steps >= 3]


def _cut(
    tracks: Sequence[Track], places: list[tuple[int, int]], steps: int, dt: float, spread: Float[np.ndarray, " n"]
) -> Windows:
    def part(key: str, length: int) -> np.ndarray:
        return np.stack([getattr(tracks[k], key)[start : start + length] for k, start in places])

    first = part("q", 1)[:, 0], part("qd", 1)[:, 0]
    return Windows(*first, part("u", steps), part("measured", steps), dt, tuple(places), spread)


def predict(model: AbstractModel, tracks: Sequence[Track], cut: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Positions of each window by roll-out `(window, time, n)`, and which stayed finite."""
    prompt, late = without_delay(model)
    commands = cut.u
    if late is not None:
        arrived = [track.arrived(late) for track in tracks]
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
    return replace(rolled(model, tracks, cut), nmse=mean, nmse_joints=joints)


def rolled(model: AbstractModel, tracks: Sequence[Track], cut: Windows) -> Score:
    """The errors of roll-outs alone."""
    return _of_runs([_Run(*predict(model, tracks, each), each) for each in cut.rates])


def constant_velocity(cut: Windows | None) -> Score | None:
    """The errors of a guess that needs no model: the joints go on as they go."""
    return None if cut is None else _guess(cut, lambda each: each.qd0)


def standing_still(cut: Windows | None) -> Score | None:
    """The errors of the other such guess: the joints stay where they are."""
    return None if cut is None else _guess(cut, lambda each: np.zeros_like(each.qd0))


def _guess(cut: Windows, velocity: Callable[[Windows], np.ndarray]) -> Score:
    runs = []
    for each in cut.rates:
        time = each.dt * np.arange(each.u.shape[1])
        positions = each.q0[:, None] + velocity(each)[:, None] * time[None, :, None]
        runs.append(_Run(positions, np.ones(len(each.q0), bool), each))
    return _of_runs(runs)


def acceleration_nmse(model: AbstractModel, tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """Mean squared error of accelerations by their variance, joint by joint."""
    prompt, late = without_delay(model)
    errors, truth = [], []
    for track in tracks:
        u = track.acting(late)
        errors.append(np.asarray(prompt(track.q, track.qd, u)) - track.qdd)
        truth.append(track.qdd)
    variance = np.var(np.concatenate(truth), axis=0)
    error = np.mean(np.square(np.concatenate(errors)), axis=0)
    return error / np.where(variance > 0, variance, 1.0)


def torque_nmse(model: Model, tracks: Sequence[Track]) -> Float[np.ndarray, " n"]:
    """Mean squared error of torques by the variance of what is commanded, joint by joint; NaN where nothing is."""
    prompt, late = without_delay(model)
    errors, driven = [], []
    for track in tracks:
        assert isinstance(prompt, Model)
        found = torques(prompt, track.q, track.qd, track.qdd, track.acting(late), track.way)
        errors.append(found.left)
        driven.append(found.driven)
    variance = np.var(np.concatenate(driven), axis=0)
    error = np.mean(np.square(np.concatenate(errors)), axis=0)
    return np.where(variance > 0, error / np.where(variance > 0, variance, 1.0), np.nan)


def window_errors(positions: np.ndarray, cut: Windows, horizon: float) -> Float[np.ndarray, "window n"]:
    """Root mean square of each window's error up to the horizon, joint by joint, in rad or m."""
    steps = samples(horizon, cut.dt) + 1
    wrong = positions[:, :steps] - cut.measured[:, :steps]
    return np.sqrt(np.mean(np.square(wrong), axis=1))


@dataclass(frozen=True)
class _Run:
    """Predicted positions of windows of one rate, and which stayed finite."""

    positions: Float[np.ndarray, "window time n"]
    finite: np.ndarray
    cut: Windows

    @property
    def reached(self) -> float:
        """Seconds."""
        return (self.cut.u.shape[1] - 1) * self.cut.dt * (1 + 1e-6)

    def errors(self, horizon: float) -> Float[np.ndarray, "window n"]:
        """By window and joint."""
        return window_errors(np.where(self.finite[:, None, None], self.positions, np.inf), self.cut, horizon)

    def worst(self) -> Float[np.ndarray, "window time"]:
        """Of all joints, as a share of their spread."""
        wrong = np.where(self.finite[:, None, None], self.positions - self.cut.measured, np.inf)
        return (np.abs(wrong) / self.cut.spread).max(axis=2)

    def good_for(self) -> Float[np.ndarray, " window"]:
        """Seconds until a window's error is no longer good."""
        bad = self.worst() > GOOD
        return np.where(bad.max(axis=1), bad.argmax(axis=1), bad.shape[1] - 1) * self.cut.dt

    def lost(self) -> int:
        """How many windows are no prediction any more."""
        return int((~self.finite | (self.worst().max(axis=1) > LOST)).sum())


def _of_runs(runs: Sequence[_Run]) -> Score:
    """All windows count alike, whatever their rate; a horizon is judged by those that reach it."""
    longest = max(run.reached for run in runs)
    horizons = tuple(h for h in HORIZONS if h <= longest) or (round(longest / (1 + 1e-6), 6),)
    each = [np.concatenate([run.errors(h) for run in runs if h <= run.reached]) for h in horizons]
    normal = [np.median(np.sqrt(np.mean(np.square(e / runs[0].cut.spread), axis=1))) for e in each]
    return Score(
        nmse=None,
        nmse_joints=(),
        horizons=horizons,
        error=tuple(map(float, normal)),
        error_joints=tuple(tuple(map(float, np.median(e, axis=0))) for e in each),
        good_for=float(np.median(np.concatenate([run.good_for() for run in runs]))),
        diverged=sum(run.lost() for run in runs),
        windows=sum(len(run.finite) for run in runs),
    )
