"""Which commands there are: a class each, in the module of its name; its arguments in another, quick to import."""

from importlib import import_module
from typing import Any

COMMANDS = {
    "benchmark": "Benchmark",
    "check": "Check",
    "convert": "Convert",
    "data": "Data",
    "excite": "Excite",
    "fit": "Fit",
    "report": "Report",
    "simulate": "Simulate",
}


def arguments_class(name: str) -> Any:
    """The dataclass of a command's arguments."""
    return getattr(import_module(f"diffnea.cli.arguments.{name}"), f"{COMMANDS[name]}Arguments")
