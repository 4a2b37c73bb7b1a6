"""The page of a benchmark: one HTML file that needs nothing else, `results.csv`, and its figures as SVG files."""

import json
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from diffnea import files
from diffnea.benchmark import DATASETS, MODELS, Record, records
from diffnea.report import results, tables
from diffnea.report.claims import beyond, claims
from diffnea.report.figures import benchmark_figures
from diffnea.report.figures.heat_map import best, heat_map
from diffnea.report.html import environment, standalone, styles

MACHINES = {"cartpole": "cart-pole", "furuta": "Furuta pendulum"}  # in words


def benchmark(runs: str | Path) -> Path:
    """Write `report.html`, `results.csv` and `figures/*.svg` of a benchmark's folder; returns the page's path.

    Args:
        runs: the folder.
    """
    runs = Path(runs)
    configuration = _configuration(runs)
    found = sorted(records.read_all(runs), key=_order)
    if not found:
        raise ValueError(f"{runs}: no records yet; run: diffnea benchmark --out {runs}")
    flat = results.rows(found)
    files.replace(runs / "results.csv", results.to_csv(flat).encode())
    drawn = _figures([record for record in found if record.error is None])
    for figure in (figure for group in drawn.values() for figure in group):
        files.replace(runs / "figures" / f"{figure.file}.svg", standalone(figure.svg).encode())
    page = runs / "report.html"
    files.replace(page, _render(found, drawn, configuration).encode())
    return page


def _order(record: Record) -> tuple[Any, ...]:
    """Systems by name, data sets from the simplest to the real machine, models as in their table."""
    cell = record.cell
    dataset = (*DATASETS, "stand-in").index(cell.dataset)
    return cell.system, dataset, list(MODELS).index(cell.model), cell.training, cell.seed


def _configuration(runs: Path) -> dict[str, Any]:
    path = runs / "benchmark.json"
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{runs}: not the folder of a benchmark: it has no benchmark.json") from None
    except ValueError as reason:
        raise ValueError(f"{path}: damaged ({reason}); run the benchmark again to write it anew") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: holds a {type(found).__name__}; an object is expected")
    return found


def _figures(sound: Sequence[Record]) -> dict[str, list[benchmark_figures.Figure]]:
    return {
        "rollouts_auto": list(benchmark_figures.rollouts(sound, "auto")),
        "rollouts_rk4": list(benchmark_figures.rollouts(sound, "rk4")),
        "errors": list(benchmark_figures.errors(sound)),
        "inflations": list(benchmark_figures.inflations(sound)),
        "energies": list(benchmark_figures.energies(sound, "doubled")),
        "times": list(benchmark_figures.times(sound)),
    }


def _render(found: Sequence[Record], drawn: dict[str, Any], configuration: dict[str, Any]) -> str:
    sound = [record for record in found if record.error is None]
    seconds = sum(record.numbers["fit"]["seconds"] for record in sound)
    return (
        environment()
        .get_template("benchmark.html")
        .render(
            heat=heat_map(found),
            best=best(found),
            claims=claims(found),
            beyond=beyond(found),
            figures=drawn,
            columns=tables.COLUMNS,
            rows=tables.results(found),
            trainings=tables.trainings(found),
            failures=[record for record in found if record.error is not None],
            cells=[record.cell for record in found],
            seeds=len({record.cell.seed for record in found}),
            systems=(systems := _distinct(record.cell.system for record in found)),
            machines=[MACHINES[system] for system in systems],
            datasets=_distinct(record.cell.dataset for record in found),
            models=_distinct(record.cell.variant for record in found),
            quick=any(record.cell.quick for record in found),
            seconds=seconds,
            versions=_versions(found),
            configuration=configuration,
            **styles(),
            today=date.today().isoformat(),
        )
    )


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _versions(found: Sequence[Record]) -> dict[str, list[str]]:
    """Every package's version; several where records were made with different ones."""
    together: dict[str, set[str]] = {}
    for record in found:
        for name, version in record.versions.items():
            together.setdefault(name, set()).add(version)
    return {name: sorted(several) for name, several in together.items()}
