"""The page's tables: the middle over seeds of every model, and the two ways of training beside each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from diffnea.benchmark import Record
from diffnea.report.claims import gains, inflation
from diffnea.report.results import error_at, lost, middle


@dataclass(frozen=True)
class Column:
    """A column's title, what it means, and whether it holds numbers."""

    title: str
    meaning: str
    number: bool = True


@dataclass(frozen=True)
class Value:
    """A cell of a table: what is shown, and what it is sorted by."""

    text: str
    key: float | str


COLUMNS = (
    Column("system", "the machine", False),
    Column("data set", "what the model was fitted on", False),
    Column("model", "as in the table of models; -prior: started from a data sheet", False),
    Column("energy", "what is known of the model's energy without input", False),
    Column("nMSE", "squared error of accelerations on data not fitted, as a share of their variance"),
    Column("0.5 s", "roll-out error after 0.5 s, as a share of the motion"),
    Column("1 s", "roll-out error after 1 s, as a share of the motion"),
    Column("2 s", "roll-out error after 2 s, as a share of the motion"),
    Column("1 s, RK4", "the same with the paper's integrator"),
    Column("valid 10 %", "seconds until the error passes 10 % of the motion"),
    Column("valid 40 %", "seconds until the error passes 40 % of the motion"),
    Column("lost", "share of roll-outs under recorded input that are ten times the motion off, or diverge"),
    Column("gains energy", "share of roll-outs without input, at doubled velocities, whose energy rises"),
    Column("mass", "entry 1,1 of the mass matrix ÷ the truth, or the data sheet where no truth is known"),
    Column("fit", "seconds of the fit, compilation included"),
    Column("verdict", "of the fit itself, on data it was not fitted on", False),
)


def results(records: Sequence[Record]) -> list[list[Value]]:
    """One row a system, data set and variant, in the order of the records; its values as in `COLUMNS`."""
    together: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        together.setdefault((record.cell.system, record.cell.dataset, record.cell.variant), []).append(record)
    return [_row(key, some) for key, some in together.items()]


def _row(key: tuple[str, str, str], records: list[Record]) -> list[Value]:
    sound = [record for record in records if record.error is None]
    words = [Value(word, word) for word in key]
    if not sound:
        blank = Value("", math.inf)
        return [*words, Value("", ""), *[blank] * (len(COLUMNS) - 5), Value("error", "error")]

    def typical(number: Any) -> float | None:
        return middle([number(record) for record in sound])

    numbers = [record.numbers for record in sound]
    verdicts = dict.fromkeys(number["fit"]["verdict"] for number in numbers)
    kind = numbers[0]["energy_class"]
    return [
        *words,
        Value(kind, kind),
        _plain(typical(lambda r: r.numbers["nmse"]["mean"])),
        *(_error(typical(lambda r, s=seconds: error_at(r, s))) for seconds in (0.5, 1.0, 2.0)),
        _error(typical(lambda r: error_at(r, 1.0, "rk4"))),
        *(_plain(typical(lambda r, n=name: r.numbers["rollout"]["auto"][n])) for name in _VALID),
        _share(_mean([lost(record, "auto") for record in sound])),
        _share(_mean([gains(record, "doubled") for record in sound])),
        _plain(middle([share for r in sound if (share := inflation(r)) is not None])),
        _plain(typical(lambda r: r.numbers["fit"]["seconds"])),
        Value(", ".join(verdicts), ", ".join(verdicts)),
    ]


_VALID = ("valid_time_10", "valid_time_40")


def trainings(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The paper's training beside the package's own, over the cells that have both; by system and data set."""
    by_cell = {record.cell: record for record in records if record.error is None}
    together: dict[tuple[str, str], list[tuple[Record, Record]]] = {}
    for cell, record in by_cell.items():
        partner = by_cell.get(replace(cell, training="adam"))
        if cell.training == "auto" and partner is not None:
            together.setdefault((cell.system, cell.dataset), []).append((record, partner))
    return [_comparison(place, pairs) for place, pairs in together.items()]


def _comparison(place: tuple[str, str], pairs: list[tuple[Record, Record]]) -> dict[str, Any]:
    sides = {"auto": [a for a, _ in pairs], "adam": [b for _, b in pairs]}
    row: dict[str, Any] = {"system": place[0], "dataset": place[1], "cells": len(pairs)}
    for name, side in sides.items():
        row[f"{name}_error"] = _error(middle([error_at(record) for record in side])).text
        row[f"{name}_seconds"] = _plain(middle([record.numbers["fit"]["seconds"] for record in side])).text
    return row


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _plain(value: float | None) -> Value:
    return Value("–", math.inf) if value is None else Value(f"{value:.3g}", value)


def _error(value: float | None) -> Value:
    return Value("diverged", math.inf) if value is None else Value(f"{value:.3g}", value)


def _share(value: float | None) -> Value:
    return Value("–", math.inf) if value is None else Value(f"{value:.0%}", value)
