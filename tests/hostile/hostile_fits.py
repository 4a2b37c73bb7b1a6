"""Hostile folders of fits: fit.json with wrong types and shapes, and archives that are none."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hostile import Case, damaged

import diffnea as dn
from diffnea.identify.determine.combinations import Combination
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import Row, Table
from diffnea.identify.judge.assess import Metrics
from diffnea.identify.judge.score import Score
from diffnea.identify.judge.verdict import ACCEPTED, Verdict
from diffnea.identify.notes import note
from diffnea.identify.result import Fit

WRONG = (None, True, -5, 1.5, "word", "inf", [], [[1, "a"]], {}, {"class": "Robot"}, {"array": "nothing"}, {"tuple": 5})


@cache
def good() -> Path:
    """A folder that a fit is in, made by hand: nothing is fitted here."""
    robot = dn.systems.cartpole().robot
    model = dn.Model(robot, dn.actuators.Viscous.of(0.1, 2))
    score = Score(0.1, (0.1, 0.2), (0.1, 1.0), (0.1, 0.2), ((0.1, 0.2), (0.3, 0.4)), 1.0, 0, 7, (0.1, 0.2))
    row = Row("mass of pole", "kg", 1.0, 1.2, 0.1, True)
    told = Combination("m", "kg", "inertia", 1.0, 0.1, 0.8, 1.2)
    known = Knowledge(Table((row, row)), (told,), (note("said", said="a word"),), {"learned": 3})
    fit = Fit(
        model=model, consistent=model, metrics=Metrics(score, score, score, None), verdict=Verdict(ACCEPTED),
        loss=0.5, history=(2.0, 0.5), notes=(note("said", said="one more"),), config={"actuator": "viscous"},
        knowledge=lambda: known,
    )  # fmt: skip
    folder = Path(tempfile.mkdtemp()) / "fit"
    fit.save(folder)
    return folder


def cases() -> Iterator[Case]:
    """All of them."""
    yield _folder("as it was", lambda folder: None, None)
    yield from _files()
    yield from _top_level()
    yield from _anywhere()


def _folder(name: str, change: Callable[[Path], Any], says: str | None) -> Case:
    def write(path: Path) -> None:
        shutil.copytree(good(), path)
        change(path)

    return Case(name, "fit", write, says)


def _files() -> Iterator[Case]:
    def replaced(name: str, content: bytes):
        return lambda folder: (folder / name).write_bytes(content)

    def piped(name: str):
        return lambda folder: ((folder / name).unlink(), os.mkfifo(folder / name))

    def linked(name: str):
        return lambda folder: ((folder / name).unlink(), (folder / name).symlink_to("/dev/zero"))

    for name in ("fit.json", "weights.npz"):
        yield _folder(f"no {name}", lambda folder, name=name: (folder / name).unlink(), "give a folder written by")
        yield _folder(f"pipe {name}", piped(name), "is a pipe")
        yield _folder(f"device {name}", linked(name), "is a device")
        yield _folder(f"empty {name}", replaced(name, b""), "is damaged")
        yield _folder(f"text {name}", replaced(name, b"hello"), "is damaged")
    for name, content in {
        "list": b"[]", "number": b"5", "null": b"null", "open": b'{"format": 1', "deep": b"[" * 200_000,
        "latin": b'{"format": "\xff"}', "digits": b'{"format": ' + b"9" * 10_000 + b"}",
        "only format": b'{"format": 1}', "words": b'{"format": "one"}', "newer": b'{"format": 99}',
    }.items():  # fmt: skip
        yield _folder(f"json {name}", replaced("fit.json", content), "")
    for seed in range(8):
        data = lambda folder, name, seed: (folder / name).write_bytes(damaged((folder / name).read_bytes(), seed, 3))  # noqa: E731
        yield _folder(
            f"damaged weights {seed}", lambda folder, seed=seed, data=data: data(folder, "weights.npz", seed), None
        )
        yield _folder(f"damaged json {seed}", lambda folder, seed=seed, data=data: data(folder, "fit.json", seed), None)


def _edited(change: Callable[[Any], Any]) -> Callable[[Path], Any]:
    def edit(folder: Path) -> None:
        place = folder / "fit.json"
        content = json.loads(place.read_text())
        place.write_text(json.dumps(change(content)))

    return edit


def _top_level() -> Iterator[Case]:
    """Each key of fit.json left out, or of another type."""
    for key in json.loads((good() / "fit.json").read_text()):
        yield _folder(
            f"without {key}", _edited(lambda content, key=key: {k: v for k, v in content.items() if k != key}), None
        )
        for value in (5, "word", [5], {"a": "b"}):
            yield _folder(
                f"{key} {value}", _edited(lambda content, key=key, value=value: {**content, key: value}), None
            )


def _anywhere(count: int = 120) -> Iterator[Case]:
    """A value anywhere in fit.json in the place of another."""
    places = list(_places(json.loads((good() / "fit.json").read_text())))
    rng = np.random.default_rng(0)
    for number in range(count):
        place, value = places[rng.integers(len(places))], WRONG[rng.integers(len(WRONG))]
        named = ".".join(map(str, place))[-60:].replace("/", "_")
        yield _folder(
            f"{number} {named} {value}".replace("/", "_"), _edited(lambda c, p=place, v=value: put(c, p, v)), None
        )


def _places(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is a value, however deep."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*prefix, key)
        yield from _places(part, (*prefix, key))


def put(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The same with a value in that place."""
    target = content
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    return content
