"""The heat map that opens a benchmark's page: every model's error in every place, and which model is best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from diffnea.benchmark import Record
from diffnea.report.results import error_at, over_seeds
from diffnea.text import few

SECONDS = 1.0
# Errors as shares of the motion: this one and less is as good as can be seen, that one as bad as the mean.
FINE, USELESS = 1e-3, 1.0


@dataclass(frozen=True)
class Cell:
    """One model in one place."""

    text: str
    level: int | None  # 0 is best, 9 worst; None where there is nothing
    told: str


@dataclass(frozen=True)
class Row:
    """One model in all places."""

    name: str
    kind: str
    cells: tuple[Cell, ...]
    mean: float  # geometric, of its errors; what diverged counts as the worst


@dataclass(frozen=True)
class HeatMap:
    """Models from best to worst, over systems and data sets."""

    places: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


def heat_map(records: Sequence[Record]) -> HeatMap:
    """Errors of one-second roll-outs on data not fitted, the middle over seeds; models that failed come last."""
    sound = [record for record in records if record.error is None]
    errors = over_seeds(sound, lambda record: error_at(record, SECONDS))
    places = tuple(dict.fromkeys((record.cell.system, record.cell.dataset) for record in records))
    kinds = dict.fromkeys((record.cell.variant for record in records), "")
    kinds |= {record.cell.variant: str(record.numbers["energy_class"]) for record in sound}
    failed = {(record.cell.system, record.cell.dataset, record.cell.variant) for record in records} - set(errors)
    rows = [
        Row(name, kind, tuple(_cell(name, place, errors, failed) for place in places), _mean(name, places, errors))
        for name, kind in kinds.items()
    ]
    return HeatMap(places, tuple(sorted(rows, key=lambda row: row.mean)))


def best(records: Sequence[Record]) -> Row | None:
    """The model that predicts best over all places; None where nothing was rolled out."""
    rows = heat_map(records).rows
    return rows[0] if rows and math.isfinite(rows[0].mean) else None


def _cell(
    name: str,
    place: tuple[str, str],
    errors: dict[tuple[str, ...], float | None],
    failed: set[tuple[str, str, str]],
) -> Cell:
    where = f"{name}, {place[0]}, {place[1]}"
    if (*place, name) in failed:
        return Cell("failed", None, f"{where}: failed")
    if (*place, name) not in errors:
        return Cell("", None, f"{where}: not run")
    value = errors[*place, name]
    if value is None:
        return Cell("∞", 9, f"{where}: diverged")
    return Cell(few(value) if value >= 1e-3 else f"{value:.0e}", _level(value), f"{where}: error {value:.3g}")


def _level(value: float) -> int:
    """In tenths of the way from fine to useless, by powers of ten."""
    share = math.log(max(value, 1e-300) / FINE) / math.log(USELESS / FINE)
    return min(max(int(10 * share), 0), 9)


def _mean(name: str, places: Sequence[tuple[str, str]], errors: dict[tuple[str, ...], float | None]) -> float:
    found = [errors[*place, name] for place in places if (*place, name) in errors]
    known = [math.log(min(max(10 * USELESS if value is None else value, 1e-9), 10 * USELESS)) for value in found]
    return math.exp(sum(known) / len(known)) if known else math.inf
