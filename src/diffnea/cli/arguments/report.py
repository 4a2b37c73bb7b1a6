"""The arguments of `diffnea report`."""

from dataclasses import dataclass
from typing import ClassVar

from tyro.conf import Positional

from diffnea.cli.arguments import Flag, Several


@dataclass(frozen=True)
class ReportArguments:
    """Write the HTML page of a fit's or a benchmark's folder, or compare fits.

    One folder: its report.html, and for a benchmark results.csv and figures too. Two folders of fits: both beside each
    other, here and as a page. More: all of them, from best to worst.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea report out/ --open",
        "diffnea report monday/ tuesday/ --out comparison.html",
        "diffnea report fits/* --out ranking.html",
    )

    folders: Positional[Several]
    """The folder of a fit or of a benchmark, or several folders of fits."""
    out: str = "comparison.html"
    """The page of a comparison; a single folder keeps its own."""
    open: Flag = False
    """Show the page in a browser."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
