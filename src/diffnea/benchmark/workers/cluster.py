"""Running cells on a Ray cluster, or on a Ray started here: the same cells, the same records."""

import re
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from diffnea.benchmark.grid import Cell
from diffnea.benchmark.records import Record

Group = list[Cell]
PATIENCE = 10.0  # seconds for a cluster to answer
TRIES = 5  # a cell whose node is lost starts again elsewhere


def run(
    groups: list[Group], work: Callable[[Cell], Record], workers: int | None, address: str | None
) -> Iterator[Record]:
    """The records of all cells as they come; `workers` bounds how many run at once, by default one a CPU."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _start(ray, address)
    try:
        count = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        yield from _Lanes(ray, work).run(deque(groups), count)
    finally:
        if started:
            ray.shutdown()


class _Lanes:
    """Actors, each with a group of cells that share compilations, fed one cell at a time."""

    def __init__(self, ray: Any, work: Callable[[Cell], Record]):
        self.ray, self.work = ray, work
        self.kind = ray.remote(num_cpus=1)(_Worker)
        self.busy: dict[Any, tuple[Any, Group]] = {}
        self.losses: dict[Cell, int] = {}

    def run(self, groups: deque[Group], count: int) -> Iterator[Record]:
        for _ in range(min(count, len(groups))):
            self.feed(self.kind.remote(), groups.popleft())
        try:
            while self.busy:
                done, _ = self.ray.wait(list(self.busy), num_returns=1)
                yield from self.collect(done[0], groups)
        finally:
            for actor, _ in self.busy.values():
                self.ray.kill(actor)

    def feed(self, actor: Any, group: Group) -> None:
        self.busy[actor.run.remote(self.work, group[0])] = (actor, group)

    def collect(self, reference: Any, groups: deque[Group]) -> Iterator[Record]:
        actor, group = self.busy.pop(reference)
        try:
            yield self.ray.get(reference)
        except self.ray.exceptions.RayError as reason:
            yield from self.lost(group, reason)
            actor = self.kind.remote()
            group = group if self.losses[group[0]] < TRIES else group[1:]
        else:
            group = group[1:]
        if not group and groups:
            group = groups.popleft()
        if group:
            self.feed(actor, group)
        else:
            self.ray.kill(actor)  # its CPU is free for a cell that waits for one

    def lost(self, group: Group, reason: Exception) -> Iterator[Record]:
        cell = group[0]
        self.losses[cell] = self.losses.get(cell, 0) + 1
        if self.losses[cell] >= TRIES:
            line = str(reason).strip().splitlines()[0]
            yield Record(cell, error=f"Ray lost the cell {TRIES} times: {line}")


class _Worker:
    def run(self, work: Callable[[Cell], Record], cell: Cell) -> Record:
        return work(cell)


def _start(ray: Any, address: str | None) -> None:
    """Join the cluster, or start Ray here. Ray itself tries an address in vain for minutes."""
    where = re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address or "")
    try:
        if where:
            socket.create_connection((where[1], int(where[2])), timeout=PATIENCE).close()
        ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
    except (OSError, ValueError, RuntimeError) as reason:
        line = str(reason).strip().splitlines()[0]
        raise ValueError(f"benchmark: no Ray cluster at {address}: {line}") from None


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ValueError("benchmark: --engine ray needs Ray; install it with: pip install 'diffnea[ray]'") from None
    return ray
