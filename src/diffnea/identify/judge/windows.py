"""Windows: stretches of measured motion that a model predicts ahead, and how wrong it is on each of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from diffnea.actuators import Combined, Delay, Ideal, Profile, combine
from diffnea.identify.problem.measurements.tracks import SAME_RATE, Track
from diffnea.models import AbstractModel, Model
from diffnea.simulate import rollout
from diffnea.simulate.delay import Late

# Seconds ahead at which predictions are scored; the last is the length of a window.
HORIZONS = (0.1, 0.5, 1.0, 2.0)
STRIDE = 0.25  # seconds between the starts of windows
MOST_WINDOWS = 128
# Steps of all windows together: fast recordings have long windows, and fewer of them tell as much.
MOST_STEPS = 256_000
# A roll-out this many spreads off is counted as diverged; no verdict depends on it.
DIVERGED = 10.0


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
    gain: Float[np.ndarray, "window time n"] | None = None  # of servos, where their logs say

    @property
    def rates(self) -> tuple["Windows", ...]:
        """The windows of every rate: these, and the others."""
        return (self, *self.others)

    def take(self, chosen: Int[np.ndarray, " some"]) -> "Windows":
        """Some of the windows of this rate."""
        arrays = {key: getattr(self, key)[chosen] for key in ("q0", "qd0", "u", "measured")}
        arrays |= {} if self.gain is None else {"gain": self.gain[chosen]}
        return replace(self, **arrays, places=tuple(self.places[k] for k in chosen), others=())

    @property
    def time(self) -> Float[np.ndarray, " time"]:
        """Seconds since a window's start."""
        return self.dt * np.arange(self.u.shape[1])


def samples(seconds: float, dt: float) -> int:
    """How many steps these seconds take; halves go up, also where rounding has left a little less than a half."""
    return int(seconds / dt + 0.5 + 1e-6)


def windows(
    tracks: Sequence[Track],
    spread: Float[np.ndarray, " n"],
    seconds: float = HORIZONS[-1],
    stride: float = STRIDE,
    most: int = MOST_WINDOWS,
) -> Windows | None:
    """At most `most` windows of up to `seconds`, one every `stride` seconds; None where there is nothing to roll out.

    The rate with the most windows goes first, those of other rates are its `others`.
    """
    found = [(group, *_places(tracks, group, seconds, stride)) for group in _by_rate(tracks)]
    found = sorted((each for each in found if each[2]), key=lambda each: -len(each[2]))
    total = sum(len(places) for _, _, places in found)
    cuts = []
    for group, steps, places in found:
        count = min(max(1, most * len(places) // total), max(8, MOST_STEPS // steps))
        chosen = [places[i] for i in np.unique(np.linspace(0, len(places) - 1, count).astype(int))]
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
    gain = None if tracks[0].gain is None else part("gain", steps)
    return Windows(*first, part("u", steps), part("measured", steps), dt, tuple(places), spread, gain=gain)


# Predictions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """Predicted positions of windows of one rate, and which stayed finite."""

    positions: Float[np.ndarray, "window time n"]
    finite: Bool[np.ndarray, " window"]
    cut: Windows

    @property
    def reached(self) -> float:
        """Seconds."""
        return (self.cut.u.shape[1] - 1) * self.cut.dt * (1 + 1e-6)

    def joint_errors(self, horizon: float) -> Float[np.ndarray, "window n"]:
        """Root mean square of each window up to the horizon, by joint, in rad or m; infinite where it diverged."""
        return window_errors(np.where(self.finite[:, None, None], self.positions, np.inf), self.cut, horizon)

    def errors(self, horizon: float) -> Float[np.ndarray, " window"]:
        """The error of a window: root mean square up to the horizon and over the joints, in spreads of each joint."""
        return np.sqrt(np.mean(np.square(self.joint_errors(horizon) / self.cut.spread), axis=1))

    def worst(self) -> Float[np.ndarray, "window time"]:
        """At each time the largest of all joints' errors, in spreads."""
        wrong = np.where(self.finite[:, None, None], self.positions - self.cut.measured, np.inf)
        return np.nan_to_num((np.abs(wrong) / self.cut.spread).max(axis=2), nan=np.inf)

    def valid(self, share: float) -> Float[np.ndarray, " window"]:
        """Seconds until a window is wrong by this share of a joint's spread."""
        bad = self.worst() > share
        return np.where(bad.max(axis=1), bad.argmax(axis=1), bad.shape[1] - 1) * self.cut.dt

    def lost(self) -> Bool[np.ndarray, " window"]:
        """Which windows are no prediction any more."""
        return ~self.finite | (self.worst().max(axis=1) > DIVERGED)


def window_errors(positions: np.ndarray, cut: Windows, horizon: float) -> Float[np.ndarray, "window n"]:
    """Root mean square of each window's error up to the horizon, joint by joint, in rad or m."""
    steps = samples(horizon, cut.dt) + 1
    wrong = positions[:, :steps] - cut.measured[:, :steps]
    return np.sqrt(np.mean(np.square(wrong), axis=1))


def predicted(model: AbstractModel, tracks: Sequence[Track], cut: Windows) -> list[Prediction]:
    """What a model makes of all windows, one prediction a rate."""
    return [Prediction(*predict(model, tracks, each), each) for each in cut.rates]


def guessed(cut: Windows, velocity: Callable[[Windows], np.ndarray]) -> list[Prediction]:
    """The same without a model: joints go on at a velocity of their own, (window, n)."""
    return [
        Prediction(each.q0[:, None] + velocity(each)[:, None] * each.time[:, None], np.ones(len(each.q0), bool), each)
        for each in cut.rates
    ]


def at_constant_velocity(cut: Windows) -> np.ndarray:
    """Joints go on as they go."""
    return cut.qd0


def standing(cut: Windows) -> np.ndarray:
    """Joints stay where they are."""
    return np.zeros_like(cut.qd0)


def predict(model: AbstractModel, tracks: Sequence[Track], cut: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Positions of each window by roll-out `(window, time, n)`, and which stayed finite."""
    prompt, late = without_delay(model)
    commands = cut.u
    if late is not None:
        arrived = [track.arrived(late) for track in tracks]
        commands = np.stack([arrived[k][start : start + cut.u.shape[1]] for k, start in cut.places])
    # The start of a fit by another actuator than a servo has no gain to set.
    gain = cut.gain if isinstance(prompt, Model) and prompt.actuator.loop is not None else None
    run = rollout(prompt, cut.q0, cut.qd0, commands, cut.dt, gain=gain)
    finite = np.ones(len(cut.q0), bool) if run.diverged_at is None else np.isinf(np.asarray(run.diverged_at))
    return np.asarray(run.q), finite


def accelerations(model: AbstractModel, tracks: Sequence[Track]) -> Float[np.ndarray, "sample n"]:
    """What a model makes of all measured states, with commands as they arrive and servos at their gains."""
    prompt, late = without_delay(model)
    q, qd = (np.concatenate([getattr(track, key) for track in tracks]) for key in ("q", "qd"))
    u = np.concatenate([track.acting(late) for track in tracks])
    found = np.empty_like(q)
    for each, rows in at_gains(prompt, tracks):
        found[rows] = each(q[rows], qd[rows], u[rows])
    return found


def at_gains(
    model: AbstractModel, tracks: Sequence[Track]
) -> list[tuple[AbstractModel, Int[np.ndarray, " some"] | slice]]:
    """The model at each gain that the tracks have, and the samples of all of them with that gain."""
    if tracks[0].gain is None or not isinstance(model, Model) or model.actuator.loop is None:
        return [(model, slice(None))]
    gain = np.concatenate([track.gain for track in tracks if track.gain is not None])
    each, which = np.unique(gain, axis=0, return_inverse=True)
    which = which.ravel()
    return [
        (Model(model.robot, model.actuator.at_gain(one), model.contact), np.flatnonzero(which == k))
        for k, one in enumerate(each)
    ]


def without_delay(model: AbstractModel) -> tuple[AbstractModel, Late | None]:
    """The model whose commands arrive at once, and the delay and the profile of goals that were taken away.

    A window begins in the middle of a recording, and the commands from before it are known: they are shifted outside.
    """
    if not isinstance(model, Model) or not (model.actuator.most_delay or model.actuator.profile is not None):
        return model, None
    actuator = model.actuator
    parts = actuator.parts if isinstance(actuator, Combined) else (actuator,)
    prompt = [part for part in parts if not isinstance(part, Delay | Profile)]
    rest = combine(*prompt) if prompt else Ideal(model.num_joints)
    return Model(model.robot, rest, model.contact), Late(actuator.delay, actuator.most_delay, actuator.profile)
