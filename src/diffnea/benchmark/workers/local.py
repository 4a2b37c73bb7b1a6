"""Running cells on this machine: worker processes that a parent hands groups of cells and watches."""

import gc
import multiprocessing as mp
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from diffnea.benchmark.grid import Cell
from diffnea.benchmark.records import Record

Group = list[Cell]
TRIES = 2  # a cell whose worker dies is tried once more
# Of Python's search for garbage, in workers: making programs leaves many objects that stay, and little garbage.
SELDOM = (50_000, 20, 20)


def run(groups: list[Group], work: Callable[[Cell], Record], workers: int) -> Iterator[Record]:
    """The records of all cells, each as soon as it is there; a worker that dies costs only the cell it was at."""
    if workers == 1:
        for group in groups:
            yield from map(work, group)
        return
    crew = _Crew(work)
    try:
        yield from crew.run(deque(groups), workers)
    finally:
        crew.dismiss()


class _Crew:
    def __init__(self, work: Callable[[Cell], Record]):
        self.work = work
        self.context = mp.get_context("spawn")
        self.members: dict[Connection, tuple[Any, Group]] = {}
        self.last: dict[Connection, Cell] = {}  # of the group that each worker is at
        self.deaths: dict[Cell, int] = {}

    def run(self, groups: deque[Group], workers: int) -> Iterator[Record]:
        for _ in range(min(workers, len(groups))):
            self.hire(_elsewhere(groups, {cell.system for cell in self.last.values()}))
        while self.members:
            for link in wait(list(self.members)):
                assert isinstance(link, Connection)
                try:
                    record = link.recv()
                except (EOFError, OSError):
                    yield from self.bury(link, groups)
                    continue
                _, group = self.members[link]
                group.pop(0)
                yield record
                if not group:
                    self.next_group(link, groups)

    def hire(self, group: Group) -> None:
        here, there = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(there, self.work), daemon=True)
        with _deaf_to_interrupts():
            process.start()
        there.close()
        here.send(group)
        self.members[here], self.last[here] = (process, list(group)), group[0]

    def next_group(self, link: Connection, groups: deque[Group]) -> None:
        process, _ = self.members[link]
        if not groups:
            link.send(None)
            link.close()
            del self.members[link]
            process.join()
            return
        group = _akin(groups, self.last[link])
        link.send(group)
        self.members[link], self.last[link] = (process, list(group)), group[0]

    def bury(self, link: Connection, groups: deque[Group]) -> Iterator[Record]:
        """A dead worker: its cell is tried again or given up, and another worker goes on with the rest."""
        process, group = self.members.pop(link)
        process.join()
        cell = group[0]
        self.deaths[cell] = self.deaths.get(cell, 0) + 1
        if self.deaths[cell] >= TRIES:
            yield Record(cell, error=f"the worker process died (exit code {process.exitcode}), {TRIES} times")
            group = group[1:]
        if group:
            groups.appendleft(group)
        if groups:
            self.hire(groups.popleft())

    def dismiss(self) -> None:
        for process, _ in self.members.values():
            process.kill()
            process.join()


def _elsewhere(groups: deque[Group], taken: set[str]) -> Group:
    """The first group for a new worker: of a system that no other is at, so that data are made once, or the first."""
    return _first(groups, lambda cell: cell.system not in taken)


def _akin(groups: deque[Group], last: Cell) -> Group:
    """The next group for a worker: one whose models are rolled out by programs that it has made, or one of the system
    whose data it has, or the first."""
    kind = (last.system, last.entry.actuator)
    alike, beside = (lambda cell: (cell.system, cell.entry.actuator) == kind), (lambda cell: cell.system == last.system)
    return _first(groups, alike, beside)


def _first(groups: deque[Group], *wishes: Callable[[Cell], bool]) -> Group:
    """Take out the first group that fulfils the first wish that any does, or else the very first."""
    found = next((group for wish in wishes for group in groups if wish(group[0])), groups[0])
    groups.remove(found)
    return found


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started here ignore Ctrl-C: it is the parent that stops, and ends them."""
    if threading.current_thread() is not threading.main_thread():  # signals belong to the main thread
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(link: Connection, work: Callable[[Cell], Record]) -> None:
    """A worker: cells in, records out, until the parent has no more or is gone."""
    gc.set_threshold(*SELDOM)
    try:
        while (group := link.recv()) is not None:
            for cell in group:
                link.send(work(cell))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # the parent is gone: nothing here is worth keeping
