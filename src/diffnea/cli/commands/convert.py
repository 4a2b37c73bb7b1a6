"""`diffnea convert`: a robot file from one format to another."""

from dataclasses import dataclass
from typing import Any

from diffnea.cli.arguments.convert import ConvertArguments
from diffnea.cli.inputs import read_robot
from diffnea.formats import save_robot


@dataclass(frozen=True)
class Convert(ConvertArguments):
    """The command; its fields are those of its arguments."""

    def run(self) -> dict[str, Any]:
        robot = read_robot(self.robot, allow_unphysical=self.allow_unphysical)
        done = save_robot(robot, self.out, allow_unphysical=self.allow_unphysical)
        found = {"robot": self.robot, "out": self.out, "name": robot.name, "joints": list(robot.joint_names)}
        return found | {"files": list(map(str, done))}

    def summary(self, result: dict[str, Any]) -> str:
        """The result in a line for a person."""
        beside = "".join(f", beside it {file}" for file in result["files"][1:])
        return f'{self.out}{beside}: "{result["name"]}" with {len(result["joints"])} joints, from {self.robot}'
