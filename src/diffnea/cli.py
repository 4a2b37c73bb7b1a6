"""The command line: each command a dataclass, whose fields are its arguments."""

import json
import sys
import traceback
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, PositionalMetavarFromFieldName

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


COMMANDS = {"convert": Convert}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 done, 1 something wrong with the input, 2 wrong usage, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--version"], ["--help"], ["-h"]):
        print(f"diffnea {version('diffnea')}" if arguments == ["--version"] else _usage())
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        found = f'"{arguments[0]}" is not a command' if arguments else "no command given"
        print(f"diffnea: {found}; use {', '.join(COMMANDS)} (diffnea --help)", file=sys.stderr)
        return 2
    try:
        command = tyro.cli(
            COMMANDS[arguments[0]],
            prog=f"diffnea {arguments[0]}",
            args=arguments[1:],
            config=(FlagCreatePairsOff, PositionalMetavarFromFieldName),
        )
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    return _run(command)


def _usage() -> str:
    rows = [f"  {name:<10} {(command.__doc__ or '').splitlines()[0]}" for name, command in COMMANDS.items()]
    head = "diffnea: learn the physics of a robot from its recordings"
    return "\n".join([head, "", "commands:", *rows, "", "diffnea COMMAND --help tells a command's arguments"])


def _run(command: Convert) -> int:
    """Run a command and print its result; wrong input is one line, not a traceback."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_: print(f"diffnea: note: {message}", file=sys.stderr)
            result = command.run()
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError) as error:
        if command.debug:
            traceback.print_exc()
        print(f"diffnea: {_in_a_line(error)}", file=sys.stderr)
        return 1
    print(json.dumps(result) if command.json else command.summary(result))
    return 0


def _in_a_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or 'cannot be used').lower()}"
    return " ".join(str(error).split())
