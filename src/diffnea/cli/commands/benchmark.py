"""`diffnea benchmark`: the paper's models, fitted and judged, with a page that shows them."""

from dataclasses import dataclass, replace
from typing import Any

from diffnea import benchmark, report
from diffnea.benchmark.workers.progress import shown, silent
from diffnea.cli.arguments.benchmark import BenchmarkArguments


@dataclass(frozen=True)
class Benchmark(BenchmarkArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        summary = benchmark.run(
            self._cells(),
            self.out,
            engine=self.engine,
            workers=self.workers,
            address=self.address,
            retry=self.retry,
            progress=silent if self.json or self.quiet else shown,
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
