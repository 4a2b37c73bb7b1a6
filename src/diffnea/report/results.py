"""Records as rows: one a cell for `results.csv`, and the middle over seeds for the page's tables."""

import csv
import io
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from diffnea.benchmark import Record
from diffnea.benchmark.numbers import INTEGRATORS, RANGES

Row = dict[str, Any]


def rows(records: Sequence[Record]) -> list[Row]:
    """One flat row a cell; what a failed cell has not is absent."""
    return [_row(record) for record in records]


def to_csv(flat: Sequence[Row]) -> str:
    """The rows as CSV: empty where a number is not finite or not known."""
    columns = list(dict.fromkeys(name for row in flat for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return buffer.getvalue()


def middle(values: Sequence[float | None]) -> float | None:
    """The median; what is not finite counts as infinite, nothing gives None."""
    if not values:
        return None
    found = statistics.median(math.inf if value is None else value for value in values)
    return found if math.isfinite(found) else None


def over_seeds(records: Sequence[Record], number: Callable[[Record], float | None]) -> dict[tuple[str, ...], Any]:
    """The middle of a number over the seeds of each (system, data set, variant)."""
    together: dict[tuple[str, ...], list[float | None]] = {}
    for record in records:
        cell = record.cell
        together.setdefault((cell.system, cell.dataset, cell.variant), []).append(number(record))
    return {key: middle(values) for key, values in together.items()}


def error_at(record: Record, seconds: float = 1.0, integrator: str = "auto") -> float | None:
    """A record's roll-out error at a horizon, None where it diverged."""
    return record.numbers["rollout"][integrator]["horizons"].get(str(seconds))


def observable(record: Record, name: str) -> dict[str, Any] | None:
    """One of a record's physical numbers, None where it has none of that name."""
    return next((row for row in record.numbers["observables"] if row["name"] == name), None)


def lost(record: Record, integrator: str) -> float:
    """The share of roll-outs that are no prediction any more; earlier records called them diverged."""
    numbers = record.numbers["rollout"][integrator]
    return numbers.get("lost", numbers["diverged"])


def _row(record: Record) -> Row:
    cell, entry = record.cell, record.cell.entry
    row: Row = {**cell.as_dict(), "family": entry.family, "actuator": entry.actuator, "start": entry.start}
    row["error"] = record.error or ""
    if record.error is not None:
        return row
    numbers = record.numbers
    fit = numbers["fit"]
    row["energy_class"] = numbers["energy_class"]
    row |= {name: fit[name] for name in ("method", "verdict", "converged", "loss")}
    row |= {f"nmse_{name}": value for name, value in numbers["nmse"].items()}
    for integrator in INTEGRATORS:
        measured = {"lost": lost(record, integrator)} | numbers["rollout"][integrator]
        row |= {f"{integrator}_nrmse_{seconds}": value for seconds, value in measured["horizons"].items()}
        row |= {
            f"{integrator}_{name}": measured[name] for name in ("valid_time_10", "valid_time_40", "lost", "diverged")
        }
    for span in RANGES:
        for integrator in INTEGRATORS:
            energy = numbers["energy"][span][integrator]
            row |= {f"{integrator}_{span}_{name}": value for name, value in energy.items()}
    for seen in numbers["observables"]:
        row |= {seen["name"]: seen["value"], f"{seen['name']} truth": seen["truth"]}
    return row | {"fit_seconds": fit["seconds"], "compile_seconds": fit["compile_seconds"]}
