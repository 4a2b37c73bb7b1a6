"""The arguments of `diffnea report`."""

from dataclasses import dataclass

from tyro.conf import Positional


@dataclass(frozen=True)
class ReportArguments:
    """Write the HTML page of a fit's or a benchmark's folder, or compare two fits.

    One folder: its report.html, and for a benchmark results.csv and figures too. Two folders of fits: both beside each
    other, here and as a page.
    """

    folders: Positional[tuple[str, ...]]
    """The folder of a fit or of a benchmark, or two folders of fits."""
    out: str = "comparison.html"
    """The page of a comparison; a single folder keeps its own."""
    open: bool = False
    """Show the page in a browser."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""
