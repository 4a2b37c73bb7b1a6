"""The arguments of `diffnea convert`."""

from dataclasses import dataclass

from tyro.conf import Positional


@dataclass(frozen=True)
class ConvertArguments:
    """Write a robot file as URDF or MJCF, whichever the ending of OUT says.

    Names, joints, limits, inertias and joint dynamics go over; meshes and other looks do not.
    """

    robot: Positional[str]
    """The robot file, URDF or MJCF."""
    out: Positional[str]
    """The file to write: .urdf, or .xml for MJCF."""
    allow_unphysical: bool = False
    """Take links that no body can be."""
    json: bool = False
    """Print the result as one JSON object."""
    debug: bool = False
    """Show where in the program an error came from."""
