"""The command line: one module a command, each a dataclass whose fields are its arguments."""

from diffnea.cli.main import main
