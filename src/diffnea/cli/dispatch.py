"""Find the command, run it, print its result."""

import json
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from typing import Any

import tyro
from tyro.conf import FlagCreatePairsOff, PositionalMetavarFromFieldName

from diffnea import files
from diffnea.cli.completion import SHELLS, script
from diffnea.cli.registry import COMMANDS, arguments_class
from diffnea.cli.typed_names import refuse_slips


def command_class(name: str) -> Any:
    """The command with these arguments: `run` does the work, `summary` says it in words.

    A command may have `exit_code`, which makes one of its result; without it that is 0. It may have `outcome`, the
    result in one line for `--quiet`; without it that is the summary's first.
    """
    return getattr(import_module(f"diffnea.cli.commands.{name}"), COMMANDS[name])


def dispatch(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    if arguments in (["--version"], ["--help"], ["-h"]):
        print(f"diffnea {version('diffnea')}" if arguments == ["--version"] else _usage())
        return 0
    if arguments and arguments[0] == "--print-completion":
        print(script(*arguments[1:]), end="")
        return 0
    if not arguments or arguments[0] not in COMMANDS:
        found = f'"{arguments[0]}" is not a command' if arguments else "no command given"
        print(f"diffnea: {found}; use {', '.join(COMMANDS)} (diffnea --help)", file=sys.stderr)
        return 2
    try:
        given = tyro.cli(
            arguments_class(arguments[0]),
            prog=f"diffnea {arguments[0]}",
            args=arguments[1:],
            config=(FlagCreatePairsOff, PositionalMetavarFromFieldName),
        )
    except SystemExit as stop:
        if stop.code == 0:  # help was asked for
            print("\n".join(["examples:", *(f"  {each}" for each in arguments_class(arguments[0]).examples)]))
        return stop.code if isinstance(stop.code, int) else 2
    refuse_slips(arguments[0], given)
    return _run(command_class(arguments[0])(**vars(given)))


def _usage() -> str:
    rows = [f"  {name:<10} {arguments_class(name).__doc__.splitlines()[0]}" for name in COMMANDS]
    head = "diffnea: learn the physics of a robot from its recordings"
    more = [
        "diffnea COMMAND --help tells a command's arguments, with examples",
        "diffnea --version",
        f"diffnea --print-completion SHELL writes completion for {', '.join(SHELLS)}",
    ]
    return "\n".join([head, "", "commands:", *rows, "", *more])


def _run(command: Any) -> int:
    """Run a command and print its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _unheard if command.quiet else _note
        result = command.run()
    print(json.dumps(files.finite(result), allow_nan=False) if command.json else _said(command, result))
    return command.exit_code(result) if hasattr(command, "exit_code") else 0


def _said(command: Any, result: Any) -> str:
    """The result for a person; where little is wanted, the outcome: by default what is said first."""
    if not command.quiet:
        return command.summary(result)
    return command.outcome(result) if hasattr(command, "outcome") else command.summary(result).splitlines()[0]


def _note(message: Warning | str, *_: Any) -> None:
    print(f"diffnea: note: {message}", file=sys.stderr)


def _unheard(*_: Any) -> None:
    """No word."""
