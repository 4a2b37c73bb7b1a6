"""Fuzzing of the readers: real files, mutated by bytes and words, must be read or refused, quickly and in one line.

    python tests/hostile/fuzz.py --seconds 60              every reader in turn
    python tests/hostile/fuzz.py --reader mjcf --runs 1000000
    python tests/hostile/fuzz.py --reader csv --atheris    led by coverage, where atheris is installed

What it finds is kept under .cache/fuzz; it belongs into the table of hostile cases.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
KEPT = HERE.parent.parent / ".cache/fuzz"
HANG = 20  # seconds on the wall
NUMBERS = b"0 -1 1e200 1e-320 nan inf -inf 4294967296 2147483647 -2147483648 99999999999999999999 0x7f 1_0".split()


@dataclass(frozen=True)
class Reader:
    """What is read: seeds, the name of the file, and the function that reads it."""

    seeds: tuple[bytes, ...]
    name: str
    read: Callable[[Path], Any]


def readers() -> dict[str, Reader]:
    """All of them, each with files that it can read."""
    import hostile_fits
    import hostile_robots
    import recording_files as good

    import diffnea as dn
    from diffnea.recordings import load_recordings

    with tempfile.TemporaryDirectory() as place:

        def written(name: str, write: Callable[[Path], Any]) -> bytes:
            path = Path(place) / name
            write(path)
            return path.read_bytes()

        good.write_bag(Path(place) / "bag")
        found = {
            "urdf": Reader((hostile_robots.ARM.encode(),), "robot.urdf", dn.load_robot),
            "mjcf": Reader((hostile_robots.mjcf().encode(),), "robot.xml", dn.load_robot),
            "db3": Reader(((Path(place) / "bag/bag.db3").read_bytes(),), "run.db3", load_recordings),
        }
        for name in ("run.csv", "run.npz", "run.parquet", "run.mat", "new.mat", "run.mcap"):
            ending = Path(name).suffix
            key = "hdf5" if name == "new.mat" else ending[1:]
            found[key] = Reader((written(name, good.WRITERS[name]),), f"run{ending}", load_recordings)
    fit = hostile_fits.good()
    read_fit = lambda path: dn.load_fit(path.parent)  # noqa: E731
    found["fit"] = Reader(((fit / "fit.json").read_bytes(),), "fit.json", read_fit)
    return found


# Mutations -----------------------------------------------------------------------------------------------------------


def mutate(seed: bytes, rng: np.random.Generator) -> bytes:
    """A seed with one to six changes."""
    data = bytearray(seed)
    for _ in range(rng.integers(1, 7)):
        if data:
            data = bytearray(_CHANGES[rng.integers(len(_CHANGES))](data, rng))
    return bytes(data)


def _place(data: bytearray, rng: np.random.Generator) -> int:
    return int(rng.integers(len(data)))


def _flip(data: bytearray, rng: np.random.Generator) -> bytes:
    data[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return data


def _byte(data: bytearray, rng: np.random.Generator) -> bytes:
    data[_place(data, rng)] = int(rng.integers(256))
    return data


def _number(data: bytearray, rng: np.random.Generator) -> bytes:
    """Four bytes as a length or an offset that is off."""
    at = _place(data, rng)
    data[at : at + 4] = int(rng.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(data)])).to_bytes(4, "little")
    return data


def _drop(data: bytearray, rng: np.random.Generator) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + int(rng.integers(1, 64)) :]


def _again(data: bytearray, rng: np.random.Generator) -> bytes:
    at, length, to = _place(data, rng), int(rng.integers(1, 256)), _place(data, rng)
    return data[:to] + data[at : at + length] + data[to:]


def _cut(data: bytearray, rng: np.random.Generator) -> bytes:
    return data[: _place(data, rng)]


def _word(data: bytearray, rng: np.random.Generator) -> bytes:
    """A word of the file in the place of another, or an odd number."""
    words = list(re.finditer(rb"[\w.+-]+", bytes(data[:65536])))
    if not words:
        return data
    old, new = words[rng.integers(len(words))], words[rng.integers(len(words))][0]
    text = NUMBERS[rng.integers(len(NUMBERS))] if rng.integers(2) else new
    return data[: old.start()] + text + data[old.end() :]


_CHANGES = (_flip, _byte, _number, _drop, _again, _cut, _word, _word)


# Runs ----------------------------------------------------------------------------------------------------------------


def attempt(reader: Reader, folder: Path, data: bytes) -> str | None:
    """Read once; what went wrong, None where it was read or refused."""
    from diffnea.errors import DiffneaError

    def hung(*_):
        raise TimeoutError("hangs")

    path = folder / reader.name
    path.write_bytes(data)
    signal.signal(signal.SIGALRM, hung)
    signal.alarm(HANG)
    try:
        reader.read(path)
    except DiffneaError as error:
        return None if str(error).startswith(str(folder)) and str(error).isprintable() else f"says {str(error)!r}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return None


def fuzz(reader: Reader, seconds: float, runs: int, seed: int = 0) -> tuple[int, list[str]]:
    """How many runs there were, and what went wrong in them."""
    rng, end, done, faults = np.random.default_rng(seed), time.monotonic() + seconds, 0, []
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        _beside(reader, folder)
        while done < runs and time.monotonic() < end:
            data = mutate(reader.seeds[rng.integers(len(reader.seeds))], rng)
            fault, done = attempt(reader, folder, data), done + 1
            if fault is not None:
                faults.append(f"{keep(reader, data)}: {fault}"[:300])
    return done, faults


def _beside(reader: Reader, folder: Path) -> None:
    """What stands beside the file in a folder of a fit."""
    if reader.name == "fit.json":
        import hostile_fits

        (folder / "weights.npz").write_bytes((hostile_fits.good() / "weights.npz").read_bytes())


def keep(reader: Reader, data: bytes) -> Path:
    """A file that went wrong, for the table of cases."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{abs(hash(data)):016x}-{reader.name}"
    path.write_bytes(data)
    return path


def led_by_coverage(name: str, runs: int) -> None:
    """Hand the reader to atheris, which ends the process when it is done."""
    import atheris

    with atheris.instrument_imports(include=["diffnea.formats", "diffnea.recordings", "diffnea.identify.io"]):
        reader = readers()[name]
    place = Path(tempfile.mkdtemp())
    _beside(reader, place)
    corpus = place / "corpus"
    corpus.mkdir()
    for number, data in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(data)
    warnings.simplefilter("ignore")

    def once(data: bytes) -> None:
        fault = attempt(reader, place, data)
        if fault is not None:
            raise RuntimeError(f"{keep(reader, data)}: {fault}")

    atheris.Setup([sys.argv[0], str(corpus), f"-runs={runs}", f"-timeout={HANG}", "-rss_limit_mb=6000"], once)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", help="one reader; all where it is left out")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each reader")
    parser.add_argument("--runs", type=int, default=1_000_000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", action="store_true", help="led by coverage")
    given = parser.parse_args()
    if given.atheris:
        led_by_coverage(given.reader, given.runs)
    failed = 0
    for name, reader in readers().items():
        if given.reader in (None, name):
            done, faults = fuzz(reader, given.seconds, given.runs, given.seed)
            failed += len(faults)
            print(f"{name}: {done} runs, {len(faults)} faults", *faults[:20], sep="\n  ", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
