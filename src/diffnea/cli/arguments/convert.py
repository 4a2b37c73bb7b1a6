"""The arguments of `diffnea convert`."""

from dataclasses import dataclass
from typing import ClassVar

from tyro.conf import Positional

from diffnea.cli.arguments import Flag


@dataclass(frozen=True)
class ConvertArguments:
    """Write a robot file as URDF or MJCF, whichever the ending of OUT says.

    Names, joints, limits, inertias and joint dynamics go over; meshes and other looks do not.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "diffnea convert arm.urdf arm.xml",
        "diffnea convert scene.xml arm.urdf",
    )

    robot: Positional[str]
    """The robot file, URDF or MJCF, or the name of a robot that comes with diffnea."""
    out: Positional[str]
    """The file to write: .urdf, or .xml for MJCF."""
    allow_unphysical: Flag = False
    """Take links that no body can be."""
    json: Flag = False
    """Print the result as one JSON object."""
    quiet: Flag = False
    """Print the outcome in one line, and no progress or notes."""
    debug: Flag = False
    """Show where in the program an error came from."""
