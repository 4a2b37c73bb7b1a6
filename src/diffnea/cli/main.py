"""`diffnea COMMAND …`, from its first moment on: Ctrl-C ends it without a word also while packages are imported."""

import sys

from diffnea.cli.process import guarded


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    0 done, 1 wrong input, 2 wrong usage, 3 a fit that is not accepted, 70 a fault, 130 interrupted, 141 output closed,
    143 terminated.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return guarded(lambda: _dispatched(given), debug="--debug" in given)


def _dispatched(arguments: list[str]) -> int:
    from diffnea.cli.dispatch import dispatch

    return dispatch(arguments)
