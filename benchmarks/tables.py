"""The tables of what `dynamics.py` measured, from the run or from its file.

    python benchmarks/tables.py FILE.json [--best]

A figure is the median of its turns; with `--best` the best one, which says more where others keep the machine busy.
"""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

MATRIX_OPERATIONS = 2 * 1024**3  # of the product of matrices that stands for the machine's peak


def show(facts: dict[str, Any], which: str = "seconds") -> None:
    """Everything, on the terminal."""
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    here = facts["machine"]
    console.print(f"{here['processor']}, {here['cores']} cores, {here['system']}, Python {here['python']}")
    console.print("load {} at the start, {} at the end".format(*here["load"]))
    console.print(", ".join(f"{name} {number}" for name, number in facts["versions"].items()), "\n")
    for table in Tables(facts, which).all():
        console.print(table)
    reasons: dict[tuple[str, str], list[str]] = {}
    for note in facts["notes"]:
        reasons.setdefault((note["contestant"], note["why"]), []).append(f"{note['robot']} {note['quantity']}")
    for (name, why), where in reasons.items():
        console.print(f"{name}: {why} ({', '.join(where)})", markup=False)


class Tables:
    """Records by what they are of."""

    def __init__(self, facts: dict[str, Any], which: str):
        self.facts, self.which = facts, which
        self.robots = list(facts["operations"])  # those whose files could be made
        self.names = facts["contestants"]
        self.most = facts["machine"]["cores"]
        self.found = {
            (m["robot"], m["quantity"], m["samples"], m["contestant"], m["cores"]): m for m in facts["measurements"]
        }
        self.first = {(f["robot"], f["quantity"], f["contestant"]): f for f in facts["first_calls"]}

    def all(self) -> list[Table]:
        """Every table."""
        sizes = sorted({1, self.most})
        kinds = [("forward", 256), ("forward", 4096), ("forward", 65536), ("gradient", 4096), ("rollout", 256)]
        timings = [self.timings(*kind, cores) for kind in kinds for cores in sizes]
        return [table for table in (*timings, self.first_calls(), self.machine()) if table.row_count]

    def seconds(self, *key: Any) -> float | None:
        """The median of a cell, or the best of its turns, if it was measured."""
        return self.found[key][self.which] if key in self.found else None

    def timings(self, quantity: str, samples: int, cores: int) -> Table:
        """Evaluations (or steps) a second, and how many times longer than diffnea it takes."""
        count, what = (samples * 1000, "steps") if quantity == "rollout" else (samples, "evaluations")
        title = f"{quantity}, {samples} samples, {cores} core{'s' if cores > 1 else ''}: million {what}/s (× diffnea)"
        table = _table(title, "", *self.robots, "relative error")
        for name in self.names:
            cells, errors = [], []
            for robot in self.robots:
                mine, best = (self.seconds(robot, quantity, samples, n, cores) for n in (name, "diffnea"))
                ratio = f" ({mine / best:,.1f})" if mine and best and name != "diffnea" else ""
                cells.append(f"{count / mine / 1e6:,.4g}{ratio}" if mine else "–")
                record = self.found.get((robot, quantity, samples, name, cores))
                errors += [record["error"]] if record and record["error"] is not None else []
            if any(cell != "–" for cell in cells):
                table.add_row(name, *cells, f"{max(errors):.0e}" if errors and name != "pinocchio" else "–")
        return table

    def first_calls(self) -> Table:
        """Tracing and compiling."""
        table = _table("first call, 4096 samples, 1 core, seconds: forward / gradient (from cache)", "", *self.robots)
        for name in self.names:
            cells = [self._first(robot, name) for robot in self.robots]
            if any(cell != "–" for cell in cells):
                table.add_row(name, *cells)
        return table

    def _first(self, robot: str, name: str) -> str:
        found = [self.first.get((robot, quantity, name)) for quantity in ("forward", "gradient")]
        if not any(found):
            return "–"
        cold = " / ".join(f"{f['cold']:.2f}" if f else "–" for f in found)
        kept = " / ".join(f"{f['cached']:.2f}" if f and f["cached"] else "–" for f in found)
        return f"{cold} ({kept})" if any(f and f["cached"] for f in found) else cold

    def machine(self) -> Table:
        """How well diffnea uses the machine."""
        table = _table("diffnea and the machine (4096 samples, 1 core, unless it says otherwise)", "", *self.robots)
        peaks = [m["best"] for m in self.facts["measurements"] if m["contestant"] == "peak" and m["cores"] == 1]
        if not peaks:
            return table
        peak = MATRIX_OPERATIONS / min(peaks) / 1e9
        rows = [self._use(robot, peak) for robot in self.robots]
        labels = ("operations an evaluation", "GFLOP/s", f"share of the peak, {peak:.1f} GFLOP/s")
        labels += ("gradient / forward", f"{self.most} cores / 1 core, 65536 samples")
        for label, *row in zip(labels, *rows, strict=True):
            table.add_row(label, *row)
        return table

    def _use(self, robot: str, peak: float) -> list[str]:
        operations = self.facts["operations"][robot]
        forward, gradient = (self.seconds(robot, q, 4096, "diffnea", 1) for q in ("forward", "gradient"))
        one, many = (self.seconds(robot, "forward", 65536, "diffnea", cores) for cores in (1, self.most))
        known = isinstance(operations, int)
        speed = operations * 4096 / forward / 1e9 if known and forward else None
        return [
            f"{operations}" if known else "–",
            f"{speed:.1f}" if speed else "–",
            f"{100 * speed / peak:.0f} %" if speed else "–",
            f"{gradient / forward:.2f}" if gradient and forward else "–",
            f"{one / many:.2f}" if one and many else "–",
        ]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    return table


if __name__ == "__main__":
    show(json.loads(Path(sys.argv[1]).read_text()), "best" if "--best" in sys.argv else "seconds")
