"""What is named on a command line, looked up before anything heavy is imported: slips are told at once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from diffnea.benchmark.grid import MODELS, cells
from diffnea.cli.arguments import ACTUATORS, AUTO, LEARN
from diffnea.text import meant

_PACKAGE = Path(__file__).parents[1]


def robot_names() -> tuple[str, ...]:
    """The robots that come with the package."""
    return tuple(sorted(file.stem for file in (_PACKAGE / "systems").glob("*.urdf")))


def data_names() -> tuple[str, ...]:
    """The public data sets, whether they are here or not."""
    lines = (_PACKAGE / "recordings/public_files.csv").read_text(encoding="utf-8").splitlines()[1:]
    return tuple(dict.fromkeys(line.partition(",")[0] for line in lines))


def refuse_slips(command: str, given: Any) -> None:
    """ValueError in one line for a file that is not there, or a word that is none of those that are known."""
    if command in ("fit", "check") and not given.recordings:
        raise ValueError("no recording; give at least one")
    for field, look in _LOOKS.items():
        for name in _given(given, field):
            look(command, name)
    if command == "benchmark":
        models = tuple(MODELS) if given.models == ("all",) else given.models
        cells(given.systems, given.datasets, models, given.seeds, given.trainings)
    for name in given.names if command == "data" and given.action == "get" else ():
        _known(f'no data set "{name}"', name.replace("-", "_"), data_names())


def _given(given: Any, field: str) -> Sequence[str]:
    value = getattr(given, field, None)
    return (value,) if isinstance(value, str) else value or ()


def _actuator(command: str, name: str) -> None:
    for part in name.split("+") if name != AUTO else ():
        told = f'actuator "{name}": unknown part "{part.strip()}"'
        _known(told, part.strip(), ACTUATORS, more=", joined by +; or auto")


def _robot(command: str, name: str) -> None:
    path = Path(name)
    if path.exists() or name in robot_names():
        return
    if path.suffix:
        raise ValueError(f"{name}: no such file or directory")
    known = robot_names()
    raise ValueError(
        f"{name}: no such file{meant(name, known)}; give a URDF or MJCF file, or one of {', '.join(known)}"
    )


def _recording(command: str, name: str) -> None:
    data = name.partition(":")[0]
    if not Path(name).exists() and data not in data_names():
        raise ValueError(f"{name}: there is no such file{meant(data, data_names())}; give the path of a recording")


def _known(told: str, word: str, known: Sequence[str], use: str = "use ", more: str = "") -> None:
    if word not in known:
        raise ValueError(f"{told}{meant(word, known)}; {use}{', '.join(known)}{more}")


def _learn(command: str, word: str) -> None:
    _known(f'{command}: learn has "{word}"', word, LEARN, "use any of ")


def _column_map(command: str, name: str) -> None:
    if not Path(name).exists():
        raise ValueError(f"{name}: no such file or directory")


def _folder(command: str, name: str) -> None:
    if not Path(name).is_dir():
        raise ValueError(f"{name}: there is no such folder; give that of a fit or a benchmark")


_LOOKS: dict[str, Callable[[str, str], None]] = {
    **dict.fromkeys(("robot", "model"), _robot),
    **dict.fromkeys(("recordings", "test", "input"), _recording),
    "columns": _column_map,
    "folders": _folder,
    "learn": _learn,
    "actuator": _actuator,
}
