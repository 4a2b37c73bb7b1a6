"""`diffnea report`: the HTML page of what is in a folder."""

import webbrowser
from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from diffnea import report


@dataclass(frozen=True)
class Report:
    """Write the HTML page of a benchmark's folder, its results.csv and its figures."""

    folder: Positional[str]
    """The folder of a benchmark."""
    open: bool = False
    """Show the page in a browser."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""

    def run(self) -> dict[str, Any]:
        page = report.benchmark(self.folder)
        if self.open:
            webbrowser.open(page.resolve().as_uri())
        return {"folder": self.folder, "report": str(page)}

    def summary(self, result: dict[str, Any]) -> str:
        """The result in a line for a person."""
        return result["report"]
