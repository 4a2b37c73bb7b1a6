"""`diffnea convert`: a robot file from one format to another."""

from dataclasses import dataclass
from typing import Any

from tyro.conf import Positional

from diffnea.formats import load_robot, save_robot


@dataclass(frozen=True)
class Convert:
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

    def run(self) -> dict[str, Any]:
        robot = load_robot(self.robot, allow_unphysical=self.allow_unphysical)
        save_robot(robot, self.out, allow_unphysical=self.allow_unphysical)
        return {"robot": self.robot, "out": self.out, "name": robot.name, "joints": list(robot.joint_names)}

    def summary(self, result: dict[str, Any]) -> str:
        """The result in a line for a person."""
        return f'{self.out}: "{result["name"]}" with {len(result["joints"])} joints, from {self.robot}'
