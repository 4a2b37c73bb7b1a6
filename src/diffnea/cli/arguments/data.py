"""The arguments of `diffnea data`."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tyro.conf import Positional

from diffnea.cli.arguments import Flag, Several, Text


@dataclass(frozen=True)
class DataArguments:
    """List public recordings of real machines, or fetch some.

    They come from their authors' repositories, each file checked by SHA-256, into the folder that DIFFNEA_DATA names,
    by default diffnea/data in the user's cache. The benchmark finds them there.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea data",
        "diffnea data get quanser_cartpole",
    )

    action: Positional[Literal["list", "get"]] = "list"
    """List what there is, or get it."""
    names: Positional[Several] = ()
    """Data sets to get."""
    mirror: Text = None
    """Where to fetch from, laid out like the origin, which is the default."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
