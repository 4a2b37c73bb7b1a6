"""Which charts the page of a fit shows, and what is in each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diffnea.flight import Flyer
from diffnea.identify import Fit
from diffnea.identify.judge.balance import Balance
from diffnea.models import Model
from diffnea.report import residuals
from diffnea.report.evidence import Evidence, Example, friction_curve
from diffnea.report.figures import charts

POINTS = 300  # of a curve; more cannot be seen at this size
CLOUD = 700  # points of a cloud
WIDE = 390.0  # px: on a phone its text is still 12 px high
OPENING = 3  # joints on the first screen
STRETCH = 4.0  # seconds of motion that are shown sample by sample
DECADES = 4  # of a spectrum, below its largest value


@dataclass(frozen=True)
class Figure:
    """A chart and its caption."""

    caption: str
    svg: str


@dataclass(frozen=True)
class Joints:
    """Names and units of a robot's joints, or of a network's."""

    names: tuple[str, ...]
    sliding: tuple[bool, ...]

    @classmethod
    def of(cls, fit: Fit) -> "Joints":
        """Of the fitted model."""
        if isinstance(fit.model, Model):
            kinds = [fit.robot.tree.kinds[link] for link in fit.robot.joint_links]
            return cls(fit.robot.joint_names, tuple(kind == "prismatic" for kind in kinds))
        if isinstance(fit.model, Flyer):
            return cls(("position", "velocity a second", "attitude", "rates a second"), (True, True, False, False))
        count = fit.model.num_joints
        return cls(tuple(f"joint {k + 1}" for k in range(count)), (False,) * count)

    def unit(self, k: int, quantity: str) -> str:
        """Of a joint's position, velocity, acceleration or torque."""
        units = {
            "position": ("rad", "m"),
            "velocity": ("rad/s", "m/s"),
            "acceleration": ("rad/s²", "m/s²"),
            "torque": ("N·m", "N"),
        }
        return units[quantity][self.sliding[k]]

    def label(self, k: int, quantity: str) -> str:
        """An axis' label, as "position in m"; the figure's caption names the joint."""
        return f"{quantity} in {self.unit(k, quantity)}"


def horizons(fit: Fit, joints: Joints) -> list[Figure]:
    """The typical error of predictions, growing with how far they reach."""
    metrics = fit.metrics
    sides = [("fit", "fit", metrics.fit), ("start", "start", metrics.start)]
    sides += [("constant velocity", "guess", metrics.constant_velocity)]
    sides += [("standing still", "guess", metrics.standing_still)]
    known = [(name, kind, side) for name, kind, side in sides if side is not None and side.horizons]
    if len(metrics.fit.horizons) < 2:
        return []
    panels = []
    for k in range(len(joints.names)):
        lines = [
            charts.Line(np.array(side.horizons), np.array([row[k] for row in side.error_joints]), kind, name)
            for name, kind, side in known
        ]
        panels.append(charts.Panel(f"error in {joints.unit(k, 'position')}", lines, decades(lines), log=True))
    return [
        Figure(
            joints.names[k], charts.lines([panel], "seconds ahead", f"Error by horizon, {joints.names[k]}", log=True)
        )
        for k, panel in enumerate(panels)
    ]


def forest(fit: Fit, most: int = 24) -> Figure | None:
    """Quantities that a person reads, each interval as a share of its estimate; the narrowest first."""
    rows = []
    for each in fit.identifiable:
        if not each.base and np.isfinite([each.lower, each.upper]).all() and abs(each.value) > 1e-12:
            ends = sorted((each.lower / each.value, each.upper / each.value))
            told = f"{each.formula}: {each.value:.4g} {each.unit}, 95 % from {each.lower:.4g} to {each.upper:.4g}"
            rows.append(charts.Span(each.formula, ends[0], 1.0, ends[1], told))
    rows = sorted(rows, key=lambda row: row.high - row.low)[:most]
    if not rows:
        return None
    halves = [max(row.high - 1, 1 - row.low) for row in rows]
    reach = float(np.clip(1.6 * np.quantile(halves, 0.75), 0.02, 1.0))
    drawn = charts.intervals(
        rows, "95 % interval, the estimate is 1", "Estimates and intervals", (1 - reach, 1 + reach)
    )
    return Figure("Estimates and their intervals", drawn)


def decades(lines: Sequence[charts.Line]) -> tuple[float, float]:
    """Whole powers of ten around what is finite and not zero."""
    values = np.concatenate([line.y for line in lines])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return 0.1, 1.0
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    return 10.0**low, 10.0 ** max(high, low + 1)


def opening(found: Evidence, joints: Joints) -> Figure | None:
    """The typical roll-out of the joints that are predicted worst, as shares of their motion; a screen holds few."""
    if not found.examples:
        return None
    example, count = found.examples[0], len(joints.names)
    spread = np.maximum(np.std(example.measured, axis=0), 1e-12)
    wrong = np.sqrt(np.mean((example.fit - example.measured) ** 2, axis=0)) / spread
    worst = np.sort(np.argsort(-np.nan_to_num(wrong, nan=np.inf), kind="stable")[:OPENING])
    panels = [_example(example, joints)[k] for k in worst]
    caption = example.rank if count <= OPENING else f"{example.rank}, the {OPENING} joints of {count} predicted worst"
    return Figure(caption, charts.lines(panels, "seconds ahead", f"Roll-out: {caption}", width=WIDE))


def rollouts(found: Evidence, joints: Joints) -> list[Figure]:
    """Windows predicted ahead from their first measured state, over what was measured."""
    return [
        Figure(
            example.rank,
            charts.lines(_example(example, joints), "seconds ahead", f"Roll-out: {example.rank}", width=WIDE),
        )
        for example in found.examples
    ]


def _example(example: Example, joints: Joints) -> list[charts.Panel]:
    panels = []
    for k in range(len(joints.names)):
        sides = {"guess": "constant velocity", "start": "start", "measured": "measured", "fit": "fit"}
        lines = [curve(example.time, getattr(example, kind)[:, k], kind, name) for kind, name in sides.items()]
        span = around(example.measured[:, k], 0.6)
        panels.append(charts.Panel(joints.unit(k, "position"), lines, span, name=joints.names[k]))
    return panels


def motion(found: Evidence, joints: Joints, torque: bool) -> list[Figure]:
    """Torque or acceleration over time, measured and by the model; of samples without order, one against the other."""
    stretch = found.longest
    quantity = "torque" if torque else "acceleration"
    if torque:
        assert stretch.torques is not None and stretch.start_torques is not None
        measured = stretch.torques.driven
        ours, theirs = (t.taken + t.friction - t.rest + t.driven for t in (stretch.torques, stretch.start_torques))
    else:
        measured, ours, theirs = stretch.track.qdd, stretch.fit, stretch.start
    dt = stretch.track.dt
    if dt is None:
        return [_against(joints, k, quantity, measured[:, k], ours[:, k]) for k in range(len(joints.names))]
    rows = slice(0, max(8, round(STRETCH / dt)))
    time = dt * np.arange(len(measured))[rows]
    figures = []
    for k in range(len(joints.names)):
        sides = (("start", theirs), ("measured", measured), ("fit", ours))
        lines = [curve(time, values[rows, k], kind, kind) for kind, values in sides]
        panel = charts.Panel(joints.unit(k, quantity), lines, around(measured[rows, k], 0.3))
        figures.append(Figure(joints.names[k], charts.lines([panel], "time in s", f"{quantity}, {joints.names[k]}")))
    return figures


def balance(kept: Balance, joints: Joints) -> list[Figure]:
    """Rows of the equations of motion of a free base over time: what was brought, and what fit and start say of it."""
    figures, base = [], len(kept.labels) - len(joints.names)
    rows = slice(0, max(8, round(STRETCH / kept.dt)))
    brought, ours, theirs = (np.asarray(each)[rows] for each in (kept.brought, kept.fit, kept.start))
    time = kept.dt * np.arange(len(brought))
    for k, name in enumerate(kept.labels):
        unit = ("N" if k < 3 else "N·m") if k < base else joints.unit(k - base, "torque")
        sides = (("start", theirs), ("measured", brought), ("fit", ours))
        lines = [curve(time, values[:, k], kind, kind) for kind, values in sides]
        panel = charts.Panel(unit, lines, around(np.concatenate([brought[:, k], ours[:, k], theirs[:, k]]), 0.1))
        figures.append(Figure(name, charts.lines([panel], "time in s", f"Equation of motion, {name}")))
    return figures


def _against(joints: Joints, k: int, quantity: str, measured: np.ndarray, ours: np.ndarray) -> Figure:
    low, high = around(measured, 0.05)
    points = cloud(measured, ours, "fit", "fit")
    equal = charts.Line(np.array([low, high]), np.array([low, high]), "guess", "measured = predicted")
    panel = charts.Panel(f"predicted, {joints.unit(k, quantity)}", [points, equal], (low, high))
    title = f"Measured and predicted {quantity}, {joints.names[k]}"
    return Figure(joints.names[k], charts.lines([panel], f"measured, {joints.unit(k, quantity)}", title, height=160.0))


def friction(fit: Fit, found: Evidence, joints: Joints) -> Iterator[Figure]:
    """Each joint's learned friction over its velocity, over what the data ask for once all else is explained."""
    if not isinstance(fit.model, Model):
        return
    q = found.joined([stretch.track.q for stretch in found.stretches])
    qd = found.joined([stretch.track.qd for stretch in found.stretches])
    asked = found.joined([s.torques.rest - s.torques.taken for s in found.stretches if s.torques is not None])
    for k in range(len(joints.names)):
        fastest = float(np.quantile(np.abs(qd[:, k]), 0.995)) or 1.0
        points = cloud(qd[:, k], asked[:, k], "", "data: what friction has to explain")
        bins = residuals.binned(qd[:, k], asked[:, k])
        lines = [points, charts.Line(bins.centre, bins.middle, "measured", "middle of the data")]
        for name, model in (("start", found.kept.start), ("fit", fit.model)):
            if not isinstance(model, Model):
                continue
            lines.append(charts.Line(*friction_curve(model, np.median(q, 0), k, fastest), name, name))
        spans = np.concatenate([line.y for line in lines[1:]] + [np.quantile(asked[:, k], (0.02, 0.98))])
        inside = np.abs(points.x) <= fastest
        lines[0] = charts.Line(points.x[inside], points.y[inside], "", points.name, points=True)
        panel = charts.Panel(joints.label(k, "torque"), lines, around(spans, 0.1))
        svg = charts.lines([panel], joints.label(k, "velocity"), f"Friction of {joints.names[k]}", height=150.0)
        yield Figure(joints.names[k], svg)


def spectra(found: Evidence, joints: Joints, torque: bool) -> Iterator[Figure]:
    """What is left over frequency, beside the signal itself."""
    dt = found.longest.track.dt
    if dt is None:
        return
    same = [
        stretch for stretch in found.stretches if stretch.track.dt is not None and abs(stretch.track.dt - dt) < 1e-9
    ]
    for k in range(len(joints.names)):
        whole = residuals.spectrum([_signal(stretch)[:, k] for stretch in same], dt)
        left = residuals.spectrum([stretch.residual[:, k] for stretch in same], dt)
        if whole is None or left is None:
            return
        lines = [curve(*whole, "measured", "the signal"), curve(*left, "fit", "what the fit leaves")]
        top = 10 ** np.ceil(np.log10(max(whole[1].max(), left[1].max(), 1e-12)))
        label = f"{joints.unit(k, 'torque' if torque else 'acceleration')}/√Hz"
        panel = charts.Panel(label, lines, (top / 10**DECADES, top), log=True)
        svg = charts.lines([panel], "frequency in Hz", f"Spectrum of {joints.names[k]}", height=140.0, log=True)
        yield Figure(joints.names[k], svg)


def _signal(stretch) -> np.ndarray:
    return stretch.track.qdd if stretch.torques is None else stretch.torques.taken


def leftovers(found: Evidence, joints: Joints, torque: bool, over: str) -> Iterator[Figure]:
    """What is left over velocity or position; a curve that is not flat is something the model lacks."""
    key = {"velocity": "qd", "position": "q"}[over]
    x = found.joined([getattr(stretch.track, key) for stretch in found.stretches])
    left = found.joined([stretch.residual for stretch in found.stretches])
    for k in range(len(joints.names)):
        bins = residuals.binned(x[:, k], left[:, k])
        low, high = np.quantile(x[:, k], (0.002, 0.998))
        inside = (x[:, k] >= low) & (x[:, k] <= high)
        lines = [
            cloud(x[inside, k], left[inside, k], "", "samples"),
            charts.Line(bins.centre, bins.middle, "fit", "middle"),
        ]
        panel = charts.Panel(
            joints.unit(k, "torque" if torque else "acceleration"),
            lines,
            around(np.quantile(left[:, k], (0.01, 0.99)), 0.2),
        )
        svg = charts.lines([panel], joints.label(k, over), f"What is left over {over}, {joints.names[k]}", height=140.0)
        yield Figure(f"{joints.names[k]}: {bins.explained:.0%} goes with {over}", svg)


def history(fit: Fit) -> Figure | None:
    """The loss on the way."""
    values = np.array([value for value in fit.history if np.isfinite(value) and value > 0])
    if len(values) < 2:
        return None
    line = curve(np.arange(len(values)), values, "fit", "lowest loss")
    panel = charts.Panel("loss", [line], decades([line]), log=True)
    return Figure("The loss: starts side by side, then all data", charts.lines([panel], "iteration", "Loss"))


def curve(x: np.ndarray, y: np.ndarray, kind: str, name: str) -> charts.Line:
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return charts.Line(np.asarray(x, float)[keep], np.asarray(y, float)[keep], kind, name)


def cloud(x: np.ndarray, y: np.ndarray, kind: str, name: str) -> charts.Line:
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), CLOUD)).round().astype(int))
    return charts.Line(np.asarray(x, float)[keep], np.asarray(y, float)[keep], kind, name, points=True)


def around(values: np.ndarray, share: float) -> tuple[float, float]:
    """A range that holds the values, and a share of it more on both sides."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    pad = share * max(high - low, 1e-6 * max(abs(low), abs(high), 1e-6))
    return low - pad, high + pad
