"""The arguments of `diffnea data`."""

from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True)
class DataArguments:
    """List public recordings of real machines, or fetch some.

    They come from their authors' repositories, each file checked by SHA-256, into the folder that DIFFNEA_DATA names,
    by default diffnea/data in the user's cache. The benchmark finds them there.
    """

    action: Positional[Literal["list", "get"]] = "list"
    """List what there is, or get it."""
    names: Positional[tuple[str, ...]] = ()
    """Data sets to get."""
    mirror: str | None = None
    """Where to fetch from, laid out like the origin, which is the default."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""
