"""`diffnea benchmark`: the paper's models, fitted and judged, with a page that shows them."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from diffnea import benchmark, report
from diffnea.benchmark.progress import shown, silent


@dataclass(frozen=True)
class Benchmark:
    """Fit and judge the paper's 26 models on two systems and three data sets.

    What is already in OUT stays: a run that was stopped goes on where it was. Real recordings are taken from the folder
    that DIFFNEA_DATA names; without them a simulated stand-in takes their place, and is called that.
    """

    quick: bool = False
    """Fewer samples, starts and roll-outs: some minutes on a laptop."""
    systems: tuple[str, ...] = benchmark.SYSTEMS
    """Any of cartpole, furuta."""
    datasets: tuple[str, ...] = benchmark.DATASETS
    """Any of uniform, simulated, real."""
    models: tuple[str, ...] = ("all",)
    """Names of models, or all."""
    seeds: int = 1
    """How many seeds."""
    trainings: tuple[str, ...] = ("auto",)
    """Any of auto, adam (the paper's), trajectory (all on roll-outs); the report compares auto with adam."""
    engine: Literal["local", "ray"] = "local"
    """Where cells run: worker processes here, or a Ray cluster."""
    workers: int | None = None
    """How many cells run at once; by default one a core."""
    address: str | None = None
    """Of the Ray cluster; without one, Ray starts here."""
    retry: bool = False
    """Run cells that failed before again."""
    out: str = "runs"
    """The folder to write to."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""

    def run(self) -> dict[str, Any]:
        summary = benchmark.run(
            self._cells(),
            self.out,
            engine=self.engine,
            workers=self.workers,
            address=self.address,
            retry=self.retry,
            progress=silent if self.json else shown,
        )
        return {
            "out": self.out,
            "report": str(report.benchmark(self.out)),
            "cells": summary.cells,
            "ran": summary.ran,
            "failed": [f"{record.cell.title}: {record.error}" for record in summary.failures],
            "seconds": round(summary.seconds, 2),
        }

    def _cells(self) -> list[benchmark.Cell]:
        models = tuple(benchmark.MODELS) if self.models == ("all",) else self.models
        chosen = benchmark.cells(self.systems, self.datasets, models, self.seeds, self.trainings, self.quick)
        return [replace(cell, dataset=benchmark.resolve(cell.system, cell.dataset)) for cell in chosen]

    def summary(self, result: dict[str, Any]) -> str:
        """The result in a few lines for a person."""
        head = f"{result['report']}: {result['cells']} cells, {result['ran']} of them run in {result['seconds']:.0f} s"
        return "\n".join([head, *(f"failed: {line}" for line in result["failed"])])

    def exit_code(self, result: dict[str, Any]) -> int:
        """1 where a cell failed."""
        return 1 if result["failed"] else 0
