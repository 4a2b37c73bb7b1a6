"""How far a benchmark is: a bar on a terminal, plain lines elsewhere; cells done, failures, time left."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from diffnea.benchmark.records import Record

Progress = Callable[[Record], None]


@contextmanager
def silent(total: int, done: int) -> Iterator[Progress]:
    """Says nothing."""
    yield lambda record: None


@contextmanager
def shown(total: int, done: int) -> Iterator[Progress]:
    """On the error stream, so that results can be piped."""
    with (_bar if sys.stderr.isatty() else _lines)(total, done) as watch:
        yield watch


@contextmanager
def _bar(total: int, done: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]} failed"), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task, failed = bar.add_task("starting", total=total, completed=done, failed=0), 0

        def watch(record: Record) -> None:
            nonlocal failed
            failed += record.error is not None
            bar.update(task, advance=1, failed=failed, description=record.cell.title)

        yield watch


@contextmanager
def _lines(total: int, done: int) -> Iterator[Progress]:
    start, before, failed = time.monotonic(), done, 0

    def watch(record: Record) -> None:
        nonlocal done, failed
        done, failed = done + 1, failed + (record.error is not None)
        left = (time.monotonic() - start) / (done - before) * (total - done)
        verdict = record.numbers.get("fit", {}).get("verdict")
        state = record.error or (f'verdict "{verdict}"' if verdict else "done")
        print(
            f"{done}/{total}, {failed} failed, {left:.0f} s left: {record.cell.title}: {state}",
            file=sys.stderr,
            flush=True,
        )

    yield watch
