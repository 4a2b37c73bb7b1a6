"""What was measured: a line a figure in `history.csv`, with version, machine and row."""

import csv
from importlib.metadata import version
from pathlib import Path

HISTORY = Path(__file__).with_name("history.csv")


def note(machine: str, row: str, figure: float) -> None:
    """Append a figure."""
    new = not HISTORY.exists()
    with HISTORY.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(["version", "machine", "row", "figure"])
        writer.writerow([version("diffnea"), machine, row, f"{figure:.3g}"])
