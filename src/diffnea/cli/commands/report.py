"""`diffnea report`: the HTML page of what is in a folder, of two fits beside each other, or of many."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffnea import report
from diffnea.cli import inputs
from diffnea.cli.arguments.report import ReportArguments
from diffnea.cli.words.results import comparison_in_words, ranking_in_words


@dataclass(frozen=True)
class Report(ReportArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        inputs.double_precision()
        ways = {0: self._two, 1: lambda: self._one(*self.folders), 2: self._two}
        result = ways.get(len(self.folders), self._many)()
        if self.open:
            webbrowser.open(Path(result["report"]).resolve().as_uri())
        return result

    def _one(self, folder: str) -> dict[str, Any]:
        is_fit = (Path(folder) / "fit.json").exists()
        page = report.fit(folder) if is_fit else report.benchmark(folder)
        return {"folder": folder, "report": str(page)}

    def _two(self) -> dict[str, Any]:
        if len(self.folders) != 2:
            raise ValueError(f"report: {len(self.folders)} folders; give one, or several fits to compare")
        page = report.comparison_page(*self.folders, self.out)
        return {"folders": list(self.folders), "report": str(page), **report.compare(*self.folders).to_dict()}

    def _many(self) -> dict[str, Any]:
        found = report.rank(self.folders)
        page = report.ranking_page(found, self.out)
        return {"folders": list(self.folders), "report": str(page), **found.to_dict()}

    def summary(self, result: dict[str, Any]) -> str:
        """The result for a person."""
        if "fits" in result:
            return ranking_in_words(result)
        return comparison_in_words(result) if "sides" in result else result["report"]
