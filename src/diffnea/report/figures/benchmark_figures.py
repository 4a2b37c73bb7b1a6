"""Which charts a benchmark's page shows, and what is in each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diffnea.benchmark import Record
from diffnea.report.claims import inflation
from diffnea.report.figures import charts
from diffnea.report.results import error_at, middle

CLASSES = ("conserving", "bounded", "unbounded")
POINTS = 240  # of a curve; more cannot be seen at this size
JOINTS = {"cartpole": ("cart in m", "pole in rad"), "furuta": ("arm in rad", "pendulum in rad")}


@dataclass(frozen=True)
class Figure:
    """A chart with its place in the page and its caption; `file` is its name on disk."""

    system: str
    dataset: str
    group: str  # what stands above it: an energy class, an integrator, a quantity
    svg: str
    file: str


def rollouts(records: Sequence[Record], integrator: str) -> Iterator[Figure]:
    """The paper's figure: every model's prediction over the measured motion, by system, data set and energy class."""
    for (system, dataset), found in _places(_first_seed(records)).items():
        for kind in CLASSES:
            some = [record for record in found if record.numbers["energy_class"] == kind and "time" in record.arrays]
            if some:
                title = f"Roll-outs of {kind} models, {system}, {dataset}, integrator {integrator}"
                svg = charts.lines(_rollout_panels(system, some, kind, integrator), "time in s", title)
                yield Figure(system, dataset, kind, svg, f"rollouts-{system}-{dataset}-{kind}-{integrator}")


def _rollout_panels(system: str, records: list[Record], kind: str, integrator: str) -> list[charts.Panel]:
    measured = records[0].arrays["measured_q"][0]
    panels = []
    for joint in range(measured.shape[1]):
        truth = measured[:, joint]
        lines = [
            _line(record.arrays["time"], record.arrays[f"{integrator}_q"][0][:, joint], kind, record.cell.variant)
            for record in records
        ]
        lines.append(_line(records[0].arrays["time"], truth, "truth", "measured"))
        pad = 0.35 * max(float(np.ptp(truth)), 1e-3)
        label = JOINTS.get(system, ("", ""))[joint] if system in JOINTS else f"joint {joint + 1}"
        panels.append(charts.Panel(label, lines, (float(truth.min()) - pad, float(truth.max()) + pad)))
    return panels


def energies(records: Sequence[Record], span: str, integrator: str = "auto") -> Iterator[Figure]:
    """Energy over time without input, from one start, by system, data set and energy class."""
    name = f"energy_{span}_{integrator}"
    for (system, dataset), found in _places(_first_seed(records)).items():
        for kind in CLASSES:
            some = [record for record in found if record.numbers["energy_class"] == kind and name in record.arrays]
            if some:
                lines = [
                    _line(record.arrays["energy_time"], record.arrays[name][0], kind, record.cell.variant)
                    for record in some
                ]
                panel = charts.Panel("energy change", lines, _energy_range(lines))
                title = f"Energy without input, {kind} models, {system}, {dataset}, velocities {span}"
                svg = charts.lines([panel], "time in s", title, height=150.0)
                yield Figure(system, dataset, kind, svg, f"energy-{system}-{dataset}-{kind}-{span}")


def _energy_range(lines: Sequence[charts.Line]) -> tuple[float, float]:
    """All of what falls, and enough of what rises to see that it does."""
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    low, high = min(max(low, -20.0), -0.2), max(min(high, 5.0), 0.2)
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


def errors(records: Sequence[Record], seconds: float = 1.0) -> Iterator[Figure]:
    """Roll-out error of every model, by system and data set; one dot a seed."""
    for (system, dataset), found in _places(records).items():
        rows = [
            charts.Row(name, kind, [_error_dot(record, seconds) for record in some])
            for name, kind, some in _by_variant(found)
        ]
        label = f"error of a {seconds:g} s roll-out (share of the motion)"
        svg = charts.dots(rows, label, f"Roll-out error, {system}, {dataset}", (1e-5, 10.0), reference=1.0)
        yield Figure(system, dataset, "", svg, f"error-{system}-{dataset}")


def _error_dot(record: Record, seconds: float) -> tuple[float, str, str]:
    value = error_at(record, seconds)
    told = f"{record.cell.variant}, seed {record.cell.seed}: " + ("diverged" if value is None else f"{value:.3g}")
    kind = record.numbers["energy_class"] + (" diverged" if value is None else "")
    return (float("inf") if value is None else value), kind, told


def inflations(records: Sequence[Record]) -> Iterator[Figure]:
    """The mass that models without friction put on, beside those with friction."""
    for (system, dataset), found in _places(records).items():
        rows = []
        for name, kind, some in _by_variant(found):
            shares = [(record, share) for record in some if (share := inflation(record)) is not None]
            if shares:
                told = [(max(s, 1e-9), kind, f"{name}, seed {record.cell.seed}: {s:.3g} ×") for record, s in shares]
                rows.append(charts.Row(name, kind, told))
        if rows:
            label = "mass matrix 1,1 ÷ truth (or data sheet)"
            svg = charts.dots(rows, label, f"Inflation, {system}, {dataset}", (0.1, 10.0), reference=1.0)
            yield Figure(system, dataset, "", svg, f"inflation-{system}-{dataset}")


def times(records: Sequence[Record]) -> Iterator[Figure]:
    """Where the time of the fits goes: making programs, and running them; the middle over data sets and seeds."""
    for system in dict.fromkeys(record.cell.system for record in records):
        rows = []
        for name, kind, some in _by_variant([record for record in records if record.cell.system == system]):
            fits = [record.numbers["fit"] for record in some]
            compiling = middle([fit["compile_seconds"] for fit in fits]) or 0.0
            working = middle([max(fit["seconds"] - fit["compile_seconds"], 0.0) for fit in fits]) or 0.0
            pieces = [(compiling, "compiling", f"{name}: compiling {compiling:.2f} s")]
            rows.append(charts.Row(name, kind, [*pieces, (working, kind, f"{name}: fitting {working:.2f} s")]))
        svg = charts.bars(rows, "seconds a fit", f"Time of fits, {system}")
        yield Figure(system, "", "", svg, f"times-{system}")


def _line(x: np.ndarray, y: np.ndarray, kind: str, name: str) -> charts.Line:
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return charts.Line(np.asarray(x, float)[keep], np.asarray(y, float)[keep], kind, name)


def _places(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    together: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        together.setdefault((record.cell.system, record.cell.dataset), []).append(record)
    return together


def _first_seed(records: Sequence[Record]) -> list[Record]:
    first: dict[tuple[str, str, str], Record] = {}
    for record in records:
        key = record.cell.system, record.cell.dataset, record.cell.variant
        if key not in first or record.cell.seed < first[key].cell.seed:
            first[key] = record
    return list(first.values())


def _by_variant(records: Sequence[Record]) -> list[tuple[str, str, list[Record]]]:
    """(variant, energy class, its records)."""
    together: dict[str, list[Record]] = {}
    for record in records:
        together.setdefault(record.cell.variant, []).append(record)
    return [(name, some[0].numbers["energy_class"], some) for name, some in together.items()]
