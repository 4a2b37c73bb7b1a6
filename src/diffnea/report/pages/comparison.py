"""Two fits beside each other: verdicts, errors, numbers and curves, as plain data and as a page."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.identify import Fit, load_fit
from diffnea.identify.precision import double_precision
from diffnea.models import Model
from diffnea.report.evidence import friction_curve
from diffnea.report.figures import charts
from diffnea.report.figures.fit_figures import Figure, Joints, around, decades
from diffnea.report.html import environment, styles
from diffnea.report.pages.fit_page import MARKS
from diffnea.text import number, radians

# Estimates further apart than this many standard deviations of their difference are not the same.
APART = 2.0
# Errors closer than this share are called equal.
EQUAL = 0.05


@dataclass(frozen=True)
class Side:
    """One of the two fits."""

    name: str
    verdict: str
    reasons: tuple[str, ...]
    error: tuple[float, ...]  # by horizon, as a share of the motion
    nmse: float | None


@dataclass(frozen=True)
class Number:
    """A physical quantity in both fits; None where a fit does not have it, or the data do not determine it."""

    name: str
    unit: str
    start: float | None
    values: tuple[float | None, float | None]
    stds: tuple[float | None, float | None]
    differs: bool | None


@dataclass(frozen=True)
class Comparison:
    """What two fits say of the same robot."""

    sides: tuple[Side, Side]
    joints: tuple[str, ...]
    sliding: tuple[bool, ...]
    horizons: tuple[float, ...]
    errors: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]  # by horizon: each side's, one number a joint
    settings: dict[str, tuple[Any, Any]]  # those that differ
    numbers: tuple[Number, ...]
    same_data: bool
    conclusion: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def compare(first: str | Path, second: str | Path) -> Comparison:
    """The fits of two folders beside each other; they must be of the same joints.

    Args:
        first: the folder of a fit.
        second: that of another.
    """
    return _comparison((str(first), load_fit(first)), (str(second), load_fit(second)))


def comparison_page(first: str | Path, second: str | Path, out: str | Path) -> Path:
    """Write the comparison as a page; returns its path.

    Args:
        first: the folder of a fit.
        second: that of another.
        out: the file.
    """
    fits = (load_fit(first), load_fit(second))
    found = _comparison((str(first), fits[0]), (str(second), fits[1]))
    with double_precision():
        drawn = {"errors": list(_error_figures(fits, found)), "friction": list(_friction_figures(fits, found))}
    text = (
        environment()
        .get_template("comparison.html")
        .render(
            found=found,
            marks=[MARKS[side.verdict] for side in found.sides],
            figures=drawn,
            number=number,
            length=radians,
            today=date.today().isoformat(),
            **styles(),
        )
    )
    files.replace(Path(out), text.encode())
    return Path(out)


def _comparison(first: tuple[str, Fit], second: tuple[str, Fit]) -> Comparison:
    (name, a), (other, b) = first, second
    joints = Joints.of(a)
    if joints.names != Joints.of(b).names:
        ours, theirs = ", ".join(joints.names), ", ".join(Joints.of(b).names)
        raise ValueError(f"report: {name} is of joints {ours}, {other} of {theirs}; compare fits of the same joints")
    shared = tuple(h for h in a.metrics.fit.horizons if h in b.metrics.fit.horizons)
    same = a.metrics.constant_velocity == b.metrics.constant_velocity and bool(shared)
    sides = _side(name, a, shared), _side(other, b, shared)
    return Comparison(
        sides=sides,
        joints=joints.names,
        sliding=joints.sliding,
        horizons=shared,
        errors=tuple((_errors(a, horizon), _errors(b, horizon)) for horizon in shared),
        settings=_settings(a, b),
        numbers=tuple(_numbers(a, b)),
        same_data=same,
        conclusion=_conclusion(sides, same, shared),
    )


def _errors(fit: Fit, horizon: float) -> tuple[float, ...]:
    found = fit.metrics.fit
    return found.error_joints[found.horizons.index(horizon)]


def _side(name: str, fit: Fit, shared: tuple[float, ...]) -> Side:
    found = fit.metrics.fit
    error = tuple(found.error[found.horizons.index(horizon)] for horizon in shared)
    return Side(name, fit.verdict.status, fit.verdict.reasons, error, found.nmse)


def _settings(a: Fit, b: Fit) -> dict[str, tuple[Any, Any]]:
    keys = dict.fromkeys([*a.config, *b.config])
    return {key: (a.config.get(key), b.config.get(key)) for key in keys if a.config.get(key) != b.config.get(key)}


def _numbers(a: Fit, b: Fit) -> Iterator[Number]:
    """Inertias and gravity that a person reads, where both determine them at one pose; then the numbers one by one."""
    read = {(each.formula, each.meaning): each for each in b.identifiable if not each.base and each.kind != "actuator"}
    for one in a.identifiable:
        other = read.get((one.formula, one.meaning))
        if other is not None:
            values, stds = (one.value, other.value), (one.std, other.std)
            yield Number(one.formula, one.unit, None, values, stds, _differs(*values, *stds))
    ours, theirs = ({row.name: row for row in fit.table} for fit in (a, b))
    for name in dict.fromkeys([*ours, *theirs]):
        rows = ours.get(name), theirs.get(name)
        some = next(row for row in rows if row is not None)
        values, stds = ([None if row is None else getattr(row, key) for row in rows] for key in ("estimate", "std"))
        yield Number(name, some.unit, some.start, (values[0], values[1]), (stds[0], stds[1]), _differs(*values, *stds))


def _differs(a: float | None, b: float | None, std_a: float | None, std_b: float | None) -> bool | None:
    """None where one of the two is not known."""
    if a is None or b is None or std_a is None or std_b is None:
        return None
    return bool(abs(a - b) > APART * np.hypot(std_a, std_b))


def _conclusion(sides: tuple[Side, Side], same: bool, shared: tuple[float, ...]) -> str:
    a, b = sides
    if not shared:
        return "neither was rolled out; compare the shares of acceleration that each explains"
    if not same:
        return "their errors are on different data: give both the same --test to compare them"
    ratio = float(np.exp(np.mean(np.log(np.clip(a.error, 1e-300, 1e9)) - np.log(np.clip(b.error, 1e-300, 1e9)))))
    if abs(np.log(ratio)) < EQUAL:
        return "both predict equally well on the same data not fitted"
    better, worse, share = (b, a, 1 / ratio) if ratio > 1 else (a, b, ratio)
    told = f"its error is {share:.3g} times that of {worse.name}"
    return f"{better.name} predicts better: {told} on the same data not fitted"


def _error_figures(fits: tuple[Fit, Fit], found: Comparison) -> Iterator[Figure]:
    """Errors by horizon of both, and of the first's start."""
    joints = Joints(found.joints, found.sliding)
    if len(found.horizons) < 2:
        return
    start = fits[0].metrics.start
    for k, joint in enumerate(found.joints):
        sides = [("fit", found.sides[0].name, [row[0][k] for row in found.errors])]
        sides += [("other", found.sides[1].name, [row[1][k] for row in found.errors])]
        sides += [
            ("start", f"start of {found.sides[0].name}", [row[k] for row in start.error_joints[: len(found.errors)]])
        ]
        lines = [charts.Line(np.array(found.horizons), np.array(values), kind, name) for kind, name, values in sides]
        panel = charts.Panel(f"error in {joints.unit(k, 'position')}", lines, decades(lines), log=True)
        yield Figure(joint, charts.lines([panel], "seconds ahead", f"Error by horizon, {joint}", log=True))


def _friction_figures(fits: tuple[Fit, Fit], found: Comparison) -> Iterator[Figure]:
    """The learned curves of both."""
    kept = fits[0].held_out
    models = [fit.model for fit in fits if isinstance(fit.model, Model)]
    if kept is None or len(models) < len(fits):
        return
    joints = Joints(found.joints, found.sliding)
    middle = np.median(np.concatenate([track.q for track in kept.tracks]), 0)
    for k, joint in enumerate(found.joints):
        fastest = float(kept.fastest[k]) or 1.0
        lines = [
            charts.Line(*friction_curve(model, middle, k, fastest), kind, side.name)
            for model, kind, side in zip(models, ("fit", "other"), found.sides, strict=True)
        ]
        panel = charts.Panel(joints.label(k, "torque"), lines, around(np.concatenate([line.y for line in lines]), 0.1))
        yield Figure(joint, charts.lines([panel], joints.label(k, "velocity"), f"Friction of {joint}", height=150.0))
