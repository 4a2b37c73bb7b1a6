"""The dynamics and their peers side by side: one run, interleaved, medians, on one core and on all.

    python benchmarks/dynamics.py [--quick] [--robots panda talos] [--peers pinocchio mjx] [--out FILE.json]

For each quantity two processes hold every contestant, one pinned to a core, one on all cores. Round by round each
contestant of each process has its turn, so that what else the machine does hits all alike. Before that, each is
compared with Pinocchio, and first calls are timed in fresh processes. One that fails, differs or is too slow becomes a
line that says why. `pip install 'diffnea[bench]'` brings the peers; any that is missing is left out.
"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import tyro
from children import Child, Failed
from contestants import OURS, Files, Inputs, Work
from peers import PEERS, Pinocchio
from robots import ROBOTS, write_files
from tables import show

CONTESTANTS = {**OURS, **PEERS}
STEPS, COMPARED_STEPS = 1000, 10  # undamped arms are chaotic: later states of equal methods drift apart
TURN = 5e-2  # seconds; a shorter call is repeated within its turn
# Before its turn a contestant waits until the threads of the last one rest, which in BLAS and OpenMP turn in circles
# for a while, and then runs without being timed: its own threads and caches have slept.
PAUSE, WAKING = 3e-2, 2e-2
# Memory that is freed stays with the process: whether a result of 200 kB costs a page fault for each of its pages would
# otherwise depend on what other contestants have allocated before.
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
PATIENCE = 4.0  # seconds in one cell; a contestant that has had them and three turns sits out
TOO_SLOW = 15.0  # seconds a call


@dataclass(frozen=True)
class Options:
    """What to measure."""

    quick: bool = False
    """Few rounds, and only diffnea's kernels against Pinocchio and MuJoCo, unless peers are named."""
    robots: tuple[Literal["cartpole", "furuta", "panda", "talos"], ...] = ROBOTS
    peers: tuple[str, ...] = tuple(PEERS)
    out: Path | None = None
    """A JSON file for all that was measured; benchmarks/tables.py shows it again."""
    budget: float = 120.0
    """Seconds that a contestant's first call may take."""
    rounds: int = 21
    seed: int = 0

    def names(self) -> list[str]:
        """The contestants."""
        unknown = [name for name in self.peers if name not in PEERS]
        if unknown:
            raise SystemExit(f"--peers {' '.join(unknown)}: use {', '.join(PEERS)}")
        if self.quick:
            return ["diffnea", *(("pinocchio", "mujoco") if self.peers == tuple(PEERS) else self.peers)]
        return [*OURS, *self.peers]


@dataclass(frozen=True)
class Cell:
    """Something to measure: forward, gradient or rollout of so many samples of a robot."""

    robot: str
    quantity: str
    samples: int


def cells(robot: str) -> list[Cell]:
    """What is measured of a robot."""
    kinds = [("forward", 256), ("forward", 4096), ("forward", 65536), ("gradient", 4096), ("rollout", 256)]
    return [Cell(robot, *kind) for kind in kinds if (robot, kind[0]) != ("talos", "rollout")]


def takes_part(name: str, cell: Cell) -> bool:
    """Whether a contestant offers the quantity; the largest batch is left to those that have kernels or C."""
    fast = name == "diffnea" or not CONTESTANTS[name].compiles
    return cell.quantity in CONTESTANTS[name].quantities and (fast or cell.samples <= 4096)


# In a child: one contestant, or all of a cell in turn ---------------------------------------------------------------


def start(name: str, cell: Cell, files: Files, cores: int, seed: int) -> Work:
    """A contestant's work in a cell, not yet run."""
    contestant, inputs = CONTESTANTS[name](files, cores), draw(cell, files, seed)
    if cell.quantity == "rollout":
        return contestant.rollout(inputs, STEPS)
    return getattr(contestant, cell.quantity)(inputs)


def draw(cell: Cell, files: Files, seed: int) -> Inputs:
    """Samples."""
    return Inputs(*np.random.default_rng(seed).uniform(-1, 1, (3, cell.samples, len(files.joints))))


def timed(run: Callable[[], Any]) -> float:
    """Seconds."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def first_call(name: str, cell: Cell, files: Files, seed: int) -> tuple[float, float]:
    """Seconds of the first and of the second call: what the first took longer is tracing and compiling."""
    work = start(name, cell, files, 1, seed)
    return timed(work.run), timed(work.run)


def operations(files: Files) -> int:
    """Scalar operations of one evaluation of the kernel that forward dynamics run as."""
    import jax

    import diffnea as dn
    from diffnea import batching, dynamics
    from diffnea.canonical import canonical
    from diffnea.kernels.rules.tracer import trace

    robot = canonical(dn.load_robot(files.urdf), lambda part: part, float)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), robot)
    state = 3 * [jax.ShapeDtypeStruct((robot.num_joints,), np.dtype(float))]
    return trace(batching.with_guesses(dynamics.forward), shapes, *state)[0].num_operations


_works: dict[str, tuple[Work, int]] = {}  # each with how many calls make a turn
_wanted: dict[str, np.ndarray] = {}
_spent: dict[str, float] = {}
_matrix = np.random.default_rng(0).normal(size=(1024, 1024))


def ask_pinocchio(cell: Cell, files: Files, seed: int) -> None:
    """What the contestants should say, if Pinocchio is here to say it."""
    with suppress(ImportError):
        pinocchio, inputs = Pinocchio(files, 1), draw(cell, files, seed)
        if cell.quantity == "forward":
            work = pinocchio.forward(inputs)
            _wanted[""] = work.read(work.run())
        elif cell.quantity == "gradient":
            _wanted["parameters"] = pinocchio.parameter_gradient(inputs)
            _wanted["state"] = pinocchio.state_gradient(inputs)
        else:
            _wanted[""] = pinocchio.states(inputs, COMPARED_STEPS)


def enter(name: str, cell: Cell, files: Files, cores: int, seed: int) -> float | None:
    """Get a contestant ready for its turns; its relative error against Pinocchio."""
    work = start(name, cell, files, cores, seed)
    found = work.read(work.run())
    if cell.quantity == "rollout":
        found = found[:, :COMPARED_STEPS]
    wanted = _wanted.get(CONTESTANTS[name].gradient_of if cell.quantity == "gradient" else "")
    error = None if wanted is None else disagreement(found, wanted)
    if error is not None and not error <= CONTESTANTS[name].tolerance:
        raise Failed(f"differs from Pinocchio: relative error {error:.0e}")
    seconds = timed(work.run)
    if seconds > TOO_SLOW:
        raise Failed(f"too slow: {seconds:.0f} s a call")
    _works[name], _spent[name] = (work, max(1, round(TURN / seconds))), 0.0
    return error


def disagreement(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error in a row (a sample; in a gradient also a link) as a share of the row's largest number."""
    found, wanted = (array.reshape(len(array), -1) for array in (found, wanted))
    return float(np.max(np.abs(found - wanted).max(1) / np.abs(wanted).max(1)))


def take_turns(index: int) -> dict[str, float]:
    """One turn for each contestant: seconds a call; and for the machine: seconds of a product of matrices by BLAS."""
    found = {}
    for name, (work, calls) in _works.items():
        if index < 3 or _spent[name] < PATIENCE:
            time.sleep(PAUSE)
            for _ in range(round(calls * WAKING / TURN)):
                work.run()
            seconds = timed(lambda work=work, calls=calls: [work.run() for _ in range(calls)])
            _spent[name] += seconds
            found[name] = seconds / calls
    found["peak"] = timed(lambda: _matrix @ _matrix)
    time.sleep(PAUSE)
    return found


# The run -----------------------------------------------------------------------------------------------------------


class Run:
    """What is measured, gathered in records that go to the JSON file."""

    def __init__(self, options: Options, folder: str):
        self.options, self.folder, self.files = options, folder, {}
        self.cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
        versions = [CONTESTANTS[name].versions() for name in options.names()]
        self.facts: dict[str, Any] = {
            "options": asdict(options),
            "machine": {**machine(), "cores": len(self.cores), "load": [load(), None]},
            "versions": {package: number for found in versions for package, number in found.items()},
            "contestants": options.names(),
            "operations": {},
            "first_calls": [],
            "measurements": [],
            "notes": [],
        }

    def note(self, name: str, cell: Cell, why: Failed) -> None:
        """Remember why something is missing, once."""
        if not self.missing(name, cell):
            self.facts["notes"].append({**asdict(cell), "contestant": name, "why": str(why)})

    def missing(self, name: str, cell: Cell) -> bool:
        """Whether a contestant has failed in this robot's quantity already."""
        wanted = name, cell.robot, cell.quantity
        return any((note["contestant"], note["robot"], note["quantity"]) == wanted for note in self.facts["notes"])

    def save(self) -> None:
        """Write what there is by now."""
        self.facts["machine"]["load"][1] = load()
        if self.options.out is not None:
            self.options.out.write_text(json.dumps(self.facts, indent=1, default=str) + "\n")

    def prepare(self, robot: str) -> None:
        """A robot's files, and how many operations its forward dynamics take, or why that is not known."""
        with Child(self.cores) as child:
            self.files[robot] = child.call(write_files, robot, self.folder, timeout=self.options.budget)
            try:
                count = child.call(operations, self.files[robot], timeout=self.options.budget)
            except Failed as why:
                count = str(why)
            self.facts["operations"][robot] = count

    def time_first_call(self, name: str, cell: Cell) -> None:
        """In fresh processes: without caches; then, if it is diffnea, with what the first process kept."""
        found = []
        with TemporaryDirectory() as cache:
            kept = {"DIFFNEA_CACHE": f"{cache}/diffnea", "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax"}
            kept["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            arguments = name, cell, self.files[cell.robot], self.options.seed
            for _ in range(2 if name in OURS else 1):
                with Child(self.cores[:1], **kept) as child:
                    found.append(child.call(first_call, *arguments, timeout=self.options.budget))
        cached = found[1][0] if len(found) > 1 else None
        record = {"cold": found[0][0], "cached": cached, "second_call": found[0][1]}
        self.facts["first_calls"].append({**asdict(cell), "contestant": name, **record})
        if found[0][1] > TOO_SLOW:
            raise Failed(f"too slow: {found[0][1]:.0f} s a call")

    def measure(self, cell: Cell) -> None:
        """A cell, in one process on one core and in one on all, turn by turn."""
        names = [name for name in self.options.names() if takes_part(name, cell) and not self.missing(name, cell)]
        sizes, times, errors = sorted({1, len(self.cores)}), {}, {}
        with ExitStack() as stack, ThreadPoolExecutor() as pool:
            ready = pool.map(lambda size: self._fill(cell, names, size, errors, stack), sizes)
            children = dict(zip(sizes, ready, strict=True))
            for index in range(7 if self.options.quick else self.options.rounds):
                for size, child in children.items():
                    for name, seconds in child.call(take_turns, index, timeout=5 * self.options.budget).items():
                        times.setdefault((name, size), []).append(seconds)
        for (name, size), found in times.items():
            middle = {"seconds": statistics.median(found), "best": min(found), "turns": len(found)}
            record = {**asdict(cell), "contestant": name, "cores": size, "error": errors.get((name, size)), **middle}
            self.facts["measurements"].append(record)

    def _fill(self, cell: Cell, names: list[str], size: int, errors: dict, stack: ExitStack) -> Child:
        """A process with every contestant ready; begun anew without one that ends it."""
        child, files, seed = (
            stack.enter_context(Child(self.cores[:size], **MEMORY)),
            self.files[cell.robot],
            self.options.seed,
        )
        child.call(ask_pinocchio, cell, files, seed, timeout=self.options.budget)
        for name in names:
            try:
                errors[name, size] = child.call(enter, name, cell, files, size, seed, timeout=2 * self.options.budget)
            except Failed as why:
                self.note(name, cell, why)
                if not child.alive:
                    return self._fill(cell, [other for other in names if other != name], size, errors, stack)
        return child

    def attempt(self, what: str, name: str, cell: Cell, function: Callable[[], None]) -> bool:
        """Do it and say so; what fails is noted, and the run goes on."""
        print(f"{cell.robot}, {what} …", flush=True)
        try:
            function()
        except Failed as why:
            self.note(name, cell, why)
        self.save()
        return not self.missing(name, cell)


def machine() -> dict[str, Any]:
    """Where and when."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
        return {"processor": model, **_system()}
    return {"processor": platform.processor(), **_system()}


def _system() -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"system": platform.platform(), "python": platform.python_version(), "started": now}


def load() -> float | None:
    """How many processes want a core, over the last minute."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def main() -> None:
    options = tyro.cli(Options)
    with TemporaryDirectory() as folder:
        run = Run(options, folder)
        for robot in options.robots:
            if not run.attempt("files", "all", Cell(robot, "files", 0), partial(run.prepare, robot)):
                continue
            for cell in (Cell(robot, "forward", 4096), Cell(robot, "gradient", 4096)):
                for name in options.names():
                    if CONTESTANTS[name].compiles and takes_part(name, cell):
                        what = f"first call of {name}, {cell.quantity}"
                        run.attempt(what, name, cell, partial(run.time_first_call, name, cell))
            for cell in cells(robot):
                run.attempt(f"{cell.quantity}, {cell.samples} samples", "all", cell, partial(run.measure, cell))
    show(run.facts)


if __name__ == "__main__":
    main()
