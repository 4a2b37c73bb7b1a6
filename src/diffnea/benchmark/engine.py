"""A whole benchmark: what is missing is run, here or on Ray, and written as it comes."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from diffnea import files
from diffnea.benchmark import records
from diffnea.benchmark.grid import Cell, groups
from diffnea.benchmark.records import Record
from diffnea.benchmark.trial import run as run_cell
from diffnea.benchmark.workers import cluster, local, lock
from diffnea.benchmark.workers.progress import Progress, silent

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Summary:
    """What a run did."""

    cells: int
    ran: int
    failures: tuple[Record, ...]  # of all cells asked for, also those that failed in an earlier run
    seconds: float


def run(
    chosen: Sequence[Cell],
    runs: str | Path,
    *,
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    retry: bool = False,
    work: Callable[[Cell], Record] = run_cell,
    progress: Callable[[int, int], AbstractContextManager[Progress]] = silent,
) -> Summary:
    """Run the cells that have no record in the folder yet; one that another run writes to is refused.

    A script that calls it does so under `if __name__ == "__main__":`, since workers import it.

    Args:
        chosen: the cells, as `cells` gives them.
        runs: the folder.
        engine: "local", worker processes here, or "ray".
        workers: how many cells run at once; None: one a core.
        address: of the Ray cluster; None: Ray starts here.
        retry: run cells that failed before again.
        work: what makes a cell's record.
        progress: what is told of each record.
    """
    if engine not in ENGINES:
        raise ValueError(f'benchmark: engine "{engine}" is not known; use {" or ".join(ENGINES)}')
    if workers is not None and workers < 1:
        raise ValueError(f"benchmark: {workers} workers; give 1 or more")
    runs, start = Path(runs), time.perf_counter()
    with lock.locked(runs):
        missing = records.missing(runs, chosen, retry)
        records.sweep(runs)
        _describe(runs, chosen)
        with progress(len(chosen), len(chosen) - len(missing)) as watch:
            for record in _records(engine, groups(missing), work, workers, address):
                records.write(runs, record)
                watch(record)
    failures = tuple(record for cell in chosen if (record := records.read(runs, cell)) and record.error is not None)
    return Summary(len(chosen), len(missing), failures, time.perf_counter() - start)


def _records(
    engine: str, work: list[list[Cell]], function: Callable[[Cell], Record], workers: int | None, address: str | None
) -> Iterator[Record]:
    if not work:
        return iter(())
    if engine == "ray":
        return cluster.run(work, function, workers, address)
    return local.run(work, function, workers or os.cpu_count() or 1)


def _describe(runs: Path, chosen: Sequence[Cell]) -> None:
    """`benchmark.json`: what was asked for, with which versions, on which machine."""
    names = ("system", "dataset", "model", "seed", "training", "quick")
    asked = {name: list(dict.fromkeys(getattr(cell, name) for cell in chosen)) for name in names}
    machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
    content = {"format": records.FORMAT, "cells": asked, "versions": records.versions(), "machine": machine}
    files.replace(runs / records.DESCRIPTION, (json.dumps(content, indent=1) + "\n").encode())
