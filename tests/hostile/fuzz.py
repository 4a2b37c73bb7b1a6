"""Fuzzing of the readers: real files, mutated by bytes and words, must be read or refused, quickly and in one line.

    python tests/hostile/fuzz.py                           a million runs of all readers, led by coverage
    python tests/hostile/fuzz.py --seconds 60              a minute for each reader
    python tests/hostile/fuzz.py --reader mjcf --runs 10000 --blind

Coverage leads it where atheris is installed (`.[fuzz]`), a process for each reader. What it finds is kept under
.cache/fuzz; it belongs into the table of hostile cases.
"""

import argparse
import gzip
import importlib.util
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
KEPT = ROOT / ".cache/fuzz"
HANG = 20  # seconds on the wall
NUMBERS = b"0 -1 1e200 1e-320 nan inf -inf 4294967296 2147483647 -2147483648 99999999999999999999 0x7f 1_0".split()


def nothing(path: Path) -> None:
    """Where nothing stands beside a file."""


@dataclass(frozen=True)
class Reader:
    """What is read: seeds, the name of the file, and the function that reads it."""

    seeds: tuple[bytes, ...]
    name: str
    read: Callable[[Path], Any]
    beside: Callable[[Path], None] = nothing
    """Writes what else its folder needs."""
    pack: Callable[[bytes], bytes] = bytes
    """Puts what was mutated into an archive, behind checksums that are right."""


def readers() -> dict[str, Reader]:
    """All of them, each with files that it can read."""
    return _robots() | _tables() | _logs() | _fits()


def _robots() -> dict[str, Reader]:
    import hostile_robots

    import diffnea as dn

    folder = ROOT / "src/diffnea/systems"
    files = [(folder / f"{name}.urdf").read_bytes() for name in ("cartpole", "furuta", "staubli_tx40")]
    rich = hostile_robots.mjcf(
        '<option gravity="0 0 -9.8"/><default><joint damping=".1" armature=".01"/></default>',
        '<geom type="plane" size="1 1 1"/>',
        '<geom type="box" size=".1 .1 .1" pos="0 .1 0"/><site name="s"/>',
        '<equality><joint joint1="shoulder" joint2="elbow" polycoef="0 1 0 0 0"/></equality><tendon><fixed name="t" '
        'stiffness="2"><joint joint="elbow" coef="1"/></fixed></tendon><actuator><position joint="elbow" kp="9"/>'
        '<motor joint="shoulder" gear="3"/></actuator>',
    )
    return {
        "urdf": Reader((hostile_robots.ARM.encode(), *files), "robot.urdf", dn.load_robot),
        "mjcf": Reader((hostile_robots.mjcf().encode(), rich.encode()), "robot.xml", dn.load_robot),
    }


def _tables() -> dict[str, Reader]:
    """Formats of one file."""
    import recording_files as good

    from diffnea.recordings import load_recordings

    found = {}
    with tempfile.TemporaryDirectory() as place:
        good.write_bag(Path(place) / "bag")
        found["db3"] = Reader(((Path(place) / "bag/bag.db3").read_bytes(),), "run.db3", load_recordings)
        for name in ("run.csv", "run.npz", "run.parquet", "run.mat", "new.mat", "run.mcap"):
            path, ending = Path(place) / name, Path(name).suffix
            good.WRITERS[name](path)
            key = "hdf5" if name == "new.mat" else ending[1:]
            found[key] = Reader((path.read_bytes(),), f"run{ending}", load_recordings)
    found["csv.gz"] = Reader(found["csv"].seeds, "run.csv.gz", load_recordings, pack=gzip.compress)
    with zipfile.ZipFile(io.BytesIO(found["npz"].seeds[0])) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    seeds = tuple(members[name] for name in ("q.npy", "joint_names.npy"))
    found["npy"] = Reader(seeds, "run.npz", load_recordings, pack=lambda data: _archive(members | {"q.npy": data}))
    return found


def _logs() -> dict[str, Reader]:
    """Logs of servo robots: LeRobot's description of a data set, a table of SAGE's, PACE's pickle, BAM's JSON."""
    import recording_files as good
    import test_recordings_servo_logs as logs

    from diffnea.recordings import load_recordings

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        good.write_lerobot(folder / "set", 3)
        logs.write_sage(folder / "motion")
        info = (folder / "set/meta/info.json").read_bytes()
        control = (folder / "motion/control.csv").read_bytes()
    tensors = {
        "time": ("0", 0, (50,), (1,)),
        "dof_pos": ("1", 0, (50, 2), (2, 1)),
        "des_dof_pos": ("1", 0, (50, 2), (2, 1)),
    }
    storages = {"0": good.TIME.astype("<f4").tobytes(), "1": good.Q.astype("<f4").tobytes()}
    rest = {"chirp/byteorder": b"little"} | {f"chirp/data/{key}": values for key, values in storages.items()}
    return {
        "lerobot": Reader(
            (info,), "set/meta/info.json", lambda path: load_recordings(path.parent.parent),
            lambda folder: good.write_lerobot(folder / "set", 3),
        ),
        "sage": Reader(
            (control,), "motion/control.csv", lambda path: load_recordings(path.parent),
            lambda folder: logs.write_sage(folder / "motion"),
        ),
        "pt": Reader(
            (logs.torch_pickle(tensors),), "run.pt", load_recordings,
            pack=lambda data: _archive(rest | {"chirp/data.pkl": data}),
        ),
        "json": Reader((json.dumps(logs.bam_log()).encode(),), "run.json", load_recordings),
    }  # fmt: skip


def _fits() -> dict[str, Reader]:
    import hostile_fits

    import diffnea as dn

    fit = hostile_fits.good()
    kept = {name: (fit / name).read_bytes() for name in ("fit.json", "weights.npz")}
    read = lambda path: dn.load_fit(path.parent)  # noqa: E731
    others = {name: lambda folder, other=other: (folder / other).write_bytes(kept[other]) for name, other in
              (("fit.json", "weights.npz"), ("weights.npz", "fit.json"))}  # fmt: skip
    return {
        "fit": Reader((kept["fit.json"],), "fit.json", read, others["fit.json"]),
        "weights": Reader((kept["weights.npz"],), "weights.npz", read, others["weights.npz"]),
    }


def _archive(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


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
    path.write_bytes(reader.pack(data))
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
        reader.beside(folder)
        while done < runs and time.monotonic() < end:
            data = mutate(reader.seeds[rng.integers(len(reader.seeds))], rng)
            fault, done = attempt(reader, folder, data), done + 1
            if fault is not None:
                faults.append(f"{keep(reader, data)}: {fault}"[:300])
    return done, faults


def keep(reader: Reader, data: bytes) -> Path:
    """A file that went wrong, for the table of cases."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{abs(hash(data)):016x}-{Path(reader.name).name}"
    path.write_bytes(reader.pack(data))
    return path


# Led by coverage -----------------------------------------------------------------------------------------------------


def led(name: str, seconds: float, runs: int, seed: int) -> tuple[int, list[str]]:
    """The same in a process of its own, since atheris ends its process when it is done."""
    limits = ["--runs", str(runs), "--seconds", str(seconds), "--seed", str(seed)]
    program = [sys.executable, __file__, "--inside", "--reader", name, *limits]
    done = subprocess.run(program, capture_output=True, text=True, errors="replace")
    count = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    faults = [line.removeprefix("fault ") for line in done.stdout.splitlines() if line.startswith("fault ")]
    if count is None or done.returncode:
        faults.append(f"ended with code {done.returncode}: {done.stderr[-200:]!r}")
    return int(count[1]) if count else 0, faults


def inside(name: str, seconds: float, runs: int, seed: int) -> None:
    """Hand the reader to atheris. Half of the mutations are ours, which know words; what is new to coverage is kept."""
    import atheris

    with atheris.instrument_imports(include=["diffnea.formats", "diffnea.recordings", "diffnea.identify.io"]):
        reader = readers()[name]
    place = Path(tempfile.mkdtemp())
    reader.beside(place)
    corpus = place / "corpus"
    corpus.mkdir()
    for number, data in enumerate(reader.seeds):
        (corpus / str(number)).write_bytes(data)
    warnings.simplefilter("ignore")

    def once(data: bytes) -> None:
        fault = attempt(reader, place, data)
        if fault is not None:
            print("fault", f"{keep(reader, data)}: {fault}"[:300].replace("\n", " "), flush=True)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        return (mutate(data, np.random.default_rng(seed)) if seed % 2 else atheris.Mutate(data, most))[:most]

    largest = 4 * max(map(len, reader.seeds))
    limits = [f"-runs={runs}", f"-max_len={largest}", f"-seed={seed + 1}", "-rss_limit_mb=4000"]
    limits += [] if seconds == float("inf") else [f"-max_total_time={max(1, int(seconds))}"]
    # Hangs are ours to tell: libFuzzer's own alarm would end the process without a word of the file.
    arguments = [sys.argv[0], str(corpus), *limits, "-timeout=0", "-print_final_stats=1"]
    atheris.Setup(arguments, once, custom_mutator=changed)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", help="one reader; all where it is left out")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for each reader")
    parser.add_argument("--runs", type=int, default=1_000_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="not led by coverage")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.reader, given.seconds, given.runs, given.seed)
    known, failed, total = readers(), 0, 0
    chosen = [name for name in known if given.reader in (None, name)]
    runs = -(-given.runs // len(chosen))
    for name in chosen:
        if given.blind or importlib.util.find_spec("atheris") is None:
            done, faults = fuzz(known[name], given.seconds, runs, given.seed)
        else:
            done, faults = led(name, given.seconds, runs, given.seed)
        failed, total = failed + len(faults), total + done
        print(f"{name}: {done} runs, {len(faults)} faults", *faults[:20], sep="\n  ", flush=True)
    print(f"{total} runs of {len(chosen)} readers, {failed} faults")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
