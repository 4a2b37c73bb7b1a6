"""A fit of a flying body with rotors, from request to `Fit`: thrust, drag, and a regression of the state ahead."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from diffnea.errors import DiffneaError
from diffnea.flight import Flight, Flyer
from diffnea.identify.determine.combinations import Combination
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import Row, Table
from diffnea.identify.judge.assess import Metrics
from diffnea.identify.judge.bootstrap import Bound, blocks, mean_bound
from diffnea.identify.judge.score import NOTHING, Score
from diffnea.identify.judge.verdict import ACCEPTED, FAILED, NO_BETTER, Verdict
from diffnea.identify.notes import Note, note
from diffnea.identify.options import JudgeOptions
from diffnea.identify.progress import stage
from diffnea.identify.request import Request
from diffnea.identify.result import Fit
from diffnea.identify.rotors.ahead import FLIGHT_HORIZONS, STATE_KINDS, errors, held, learned, windows
from diffnea.identify.rotors.flights import flights_of
from diffnea.identify.rotors.forces import Forces, regress
from diffnea.recordings import Recording, RecordingError, as_list
from diffnea.robot import Robot

ACTUATORS = ("auto", "rotor")
# Windows that are judged begin every so many seconds; so many at least tell something.
JUDGED_EVERY, LEAST = 0.25, 10


@dataclass(frozen=True)
class FlightPlan:
    """One fit, step by step."""

    request: Request
    robot: Robot

    def run(self) -> Fit:
        """Prepare, regress, learn what is left, judge."""
        asked = self.request
        _check(asked, self.robot)
        fitted, test, kept = _split(asked)
        gravity = np.asarray(self.robot.gravity, float)
        with stage("thrust and drag"):
            forces = regress(fitted, gravity)
        with stage("the state ahead"):
            flyer = learned(forces.flyer(self.robot, fitted[0].rotors.shape[1]), fitted)
        with stage("judging"):
            metrics, bound, count = _judged(flyer, test, asked.options.judge)
        notes = (note("kept-back", said=kept), *_late(fitted), _trimmed(forces), note("flight-ahead"))
        return Fit(
            model=flyer,
            metrics=metrics,
            verdict=_verdict(metrics, bound, count),
            loss=forces.left**2,
            history=(forces.left**2,),
            notes=notes,
            config=_config(asked, fitted, test),
            consistent=flyer,
            knowledge=lambda: _knowledge(forces, fitted[0].rotors.shape[1], float(np.linalg.norm(gravity))),
            options=asked.options,
        )


def _check(asked: Request, robot: Robot) -> None:
    if robot.num_velocities != 6:
        raise DiffneaError(f'fit: robot "{robot.name}" has rotors and joints; lock the joints to fit its flight')
    if asked.actuator not in ACTUATORS or asked.loss not in ("auto", "trajectory") or asked.method != "auto":
        raise ValueError("fit: of a flight actuator is auto or rotor; leave loss and method out")
    if asked.robust or asked.known or asked.start != "nominal" or set(asked.learn or ()) - {"actuator"}:
        raise ValueError("fit: of a flight thrust and drag are learned; leave learn, start, set and robust out")


def _split(asked: Request) -> tuple[list[Flight], list[Flight], str]:
    """Flights to fit and to judge, of one its last part, of several the last; those that never fly are left out."""
    held_back = asked.options.problem.held_back
    found = [
        flight for flight in flights_of(_recordings(asked.data)) if len(windows(flight, FLIGHT_HORIZONS[-1], 0.1)[0])
    ]
    if not found:
        raise RecordingError(
            f"fit: no flight of {FLIGHT_HORIZONS[-1]} s, rotors turning and off the ground; record one"
        )
    if asked.test is not None:
        return found, flights_of(_recordings(asked.test)), "flights given as test"
    if len(found) > 1:
        count = max(1, round(held_back * len(found)))
        names = ", ".join(flight.name for flight in found[-count:])
        return found[:-count], found[-count:], f"{count} of {len(found)} flights: {names}"
    cut = round((1 - held_back) * len(found[0]))
    parts = [found[0].take(slice(0, cut)), found[0].take(slice(cut, None))]
    return parts[:1], parts[1:], f"the last {held_back:.0%} of {found[0].name}"


def _recordings(data: Any) -> list[Recording]:
    several = as_list(data)
    if not all(isinstance(each, Recording) for each in several):
        raise RecordingError("fit: a flight needs recordings; Samples have no order in time")
    return [each for each in several if isinstance(each, Recording)]


def _judged(flyer: Flyer, test: Sequence[Flight], options: JudgeOptions) -> tuple[Metrics, Bound, int]:
    """Errors at every horizon beside the guess that velocity and attitude stay as they are."""
    ours, theirs, segment, time = [], [], [], []
    for which, horizon in enumerate(FLIGHT_HORIZONS):
        found: list[list[np.ndarray]] = [[], []]
        for k, flight in enumerate(test):
            first, last = windows(flight, horizon, JUDGED_EVERY)
            if not len(first):
                continue
            found[0].append(errors(flyer.after(flight, first, last, which), flight, last))
            found[1].append(errors(held(flight, first, last), flight, last))
            if which == len(FLIGHT_HORIZONS) - 1:
                segment.append(np.full(len(first), k))
                time.append(flight.time[first])
        if not found[0]:
            raise RecordingError("fit: the flights kept back never fly for long enough; give others as test")
        ours.append(np.concatenate(found[0]))
        theirs.append(np.concatenate(found[1]))
    usual = [each.mean(0) for each in theirs]
    scores = [_score(side, usual) for side in (ours, theirs)]
    ratio = np.log(np.maximum(ours[-1], 1e-9)).mean(1) - np.log(np.maximum(theirs[-1], 1e-9)).mean(1)
    block = blocks(np.concatenate(segment), np.concatenate(time), options.least_blocks)
    return Metrics(scores[0], scores[1], None, None), mean_bound(ratio, block, options), len(ratio)


def _score(side: Sequence[Float[np.ndarray, "_ 4"]], usual: Sequence[np.ndarray]) -> Score:
    means = [each.mean(0) for each in side]
    shares = tuple(float(np.mean(mean / of)) for mean, of in zip(means, usual, strict=True))
    rows = tuple(tuple(map(float, mean)) for mean in means)
    return replace(
        NOTHING, horizons=FLIGHT_HORIZONS, error=shares, error_joints=rows, good_for=0.0, windows=len(side[-1])
    )


def _verdict(metrics: Metrics, bound: Bound, count: int) -> Verdict:
    shares = [
        ours / theirs
        for ours, theirs in zip(*(side.error_joints[-1] for side in (metrics.fit, metrics.start)), strict=True)
    ]
    values = dict(zip(STATE_KINDS, map(float, shares), strict=True))
    said = note(
        "flight-verdict", horizon=FLIGHT_HORIZONS[-1], windows=count, bound=float(np.exp(bound.upper)), **values
    )
    if not np.isfinite(bound.mean):
        return Verdict(FAILED, [note("not-finite"), said])
    return Verdict(ACCEPTED if bound.upper < 0 and count >= LEAST else NO_BETTER, [said])


def _late(fitted: Sequence[Flight]) -> tuple[Note, ...]:
    late = 1e3 * np.array([flight.late for flight in fitted])
    return (note("flight-late", least=float(late.min()), most=float(late.max())),)


def _trimmed(forces: Forces) -> Note:
    return note(
        "flight-forces", left=forces.left, lag=1e3 * float(forces.rotor.lag), exponent=float(forces.rotor.exponent)
    )


def _quantities(values: Float[np.ndarray, "6"], gravity: float) -> dict[str, tuple[float, str]]:
    """What an engineer reads; `gravity` is a rotor's share of it."""
    k1, k2, tilt_x, tilt_y, across, along = values
    hover = _hover(k1, k2, gravity)
    square = hover**2 / gravity  # of tilts, which go with the square of the command
    return {
        "command that hovers, nominal voltage": (hover, "1"),
        "thrust of a rotor by mass, a unit of command at hover": (k1 + 2 * k2 * hover, "m/s²"),
        "tilt of the thrust towards x": (tilt_x * square, "rad"),
        "tilt of the thrust towards y": (tilt_y * square, "rad"),
        "drag by mass, across the thrust": (across, "1/s"),
        "drag by mass, along the thrust": (along, "1/s"),
    }


def _knowledge(forces: Forces, rotors: int, gravity: float) -> Knowledge:
    """Quantities with intervals by leaving flights out, and what no flight tells."""
    told = _quantities(forces.values, gravity / rotors)
    steps = 1e-6 * np.maximum(np.abs(forces.values), 1e-3)
    moved = [
        _quantities(forces.values + step * axis, gravity / rotors) for step, axis in zip(steps, np.eye(6), strict=True)
    ]
    found, rows, open_ = [], [], []
    for name, (value, unit) in told.items():
        slope = np.array([(each[name][0] - value) / step for each, step in zip(moved, steps, strict=True)])
        std = float(np.sqrt(slope @ forces.covariance @ slope))
        half = forces.quantile * std
        known = bool(np.isfinite(half))
        rows.append(Row(name, unit, 0.0, float(value), std if known else None, known))
        if known:
            found.append(
                Combination(name, unit, "actuator", float(value), std, float(value - half), float(value + half))
            )
        else:
            open_.append(name)
    said = [note("flight-mass"), note("flight-inertia"), note("flight-lag")]
    said += [note("flight-single", ", ".join(open_))] if open_ else []
    return Knowledge(Table(tuple(rows)), tuple(found), tuple(said))


def _hover(k1: float, k2: float, wanted: float) -> float:
    """y with `k₁ y + k₂ y² = wanted`."""
    if abs(k2) < 1e-9:
        return wanted / max(k1, 1e-9)
    return float((-k1 + np.sqrt(max(k1**2 + 4 * k2 * wanted, 0.0))) / (2 * k2))


def _config(asked: Request, fitted: Sequence[Flight], test: Sequence[Flight]) -> dict[str, Any]:
    return {
        "robot": getattr(asked.given, "name", ""),
        "learn": ["actuator"],
        "actuator": "rotor",
        **{name: getattr(asked, name) for name in ("method", "start", "seed", "robust", "starts", "steps")},
        "loss": "trajectory",
        "samples": sum(map(len, (*fitted, *test))),
        "recordings": [flight.name for flight in (*fitted, *test)],
    }
