"""Fits on disk: fit.json for people, weights.npz for the model's arrays, and the robot as URDF and MJCF."""

import io
import json
import os
import platform
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from diffnea import files
from diffnea.errors import DiffneaError
from diffnea.files import Json
from diffnea.formats import Curve, RobotFileError, Servo, save_robot
from diffnea.identify.determine.combinations import Combination
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import restored
from diffnea.identify.io import pytree_json as modules
from diffnea.identify.io.robot_export import exported
from diffnea.identify.io.servo_configs import FILES as SERVO_FILES
from diffnea.identify.io.servo_configs import servo_configs
from diffnea.identify.io.stored_parts import read_note, read_options, read_score, with_nan
from diffnea.identify.io.typed import check
from diffnea.identify.judge.assess import Metrics
from diffnea.identify.judge.balance import Balance
from diffnea.identify.judge.held_out import from_arrays, to_arrays
from diffnea.identify.judge.verdict import ACCEPTED, FAILED, NO_BETTER, Verdict
from diffnea.identify.options import Options
from diffnea.identify.payload import Payload
from diffnea.identify.precision import double_precision
from diffnea.identify.result import Fit, Saved
from diffnea.identify.solve.solution import Status
from diffnea.models import AbstractModel, Model
from diffnea.robot import Robot
from diffnea.text import one_line

FORMAT = 1
FIT, WEIGHTS, HELD_OUT = "fit.json", "weights.npz", "held_out.npz"
IDENTIFIED = ("identified.urdf", "identified.xml")
REJECTED = ("rejected.urdf", "rejected.xml")
WRITTEN = "written"
MOST_BYTES = 1 << 26  # bytes of fit.json


class FitFileError(DiffneaError):
    """A folder that holds no fit: one line with where, what was found and what is accepted."""


def robot_files(verdict: str) -> tuple[str, str]:
    """What the robot's files are called, URDF and MJCF: only an accepted fit is identified."""
    return IDENTIFIED if verdict == ACCEPTED else REJECTED


def save(fit: Fit, folder: str | os.PathLike[str]) -> Saved:
    """Write a fit into a folder, which is made; each file is written aside, then moved into place."""
    out = Path(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FitFileError(f"{out}: {error.strerror}; give a folder that can be written") from None
    arrays: dict[str, np.ndarray] = {}
    content = _content(fit, arrays)
    with files.alone(out):  # of two that write here one waits, so that files of one fit stay together
        return _write(fit, out, content, arrays)


def _write(fit: Fit, out: Path, content: Json, arrays: dict[str, np.ndarray]) -> Saved:
    written, earlier = {FIT, WEIGHTS}, _earlier_robots(fit, out)
    if fit.held_out is not None:
        tracks, signals = to_arrays(fit.held_out)
        content["held_out"] = {"tracks": tracks, "start": modules.pack(_sourceless(fit.held_out.start), arrays)}
        files.replace(out / HELD_OUT, _npz(np.savez_compressed, signals))
        written.add(HELD_OUT)
    files.replace(out / WEIGHTS, _npz(np.savez, arrays))
    if isinstance(fit.consistent, Model):
        with double_precision():
            content |= _robots(fit.consistent, fit, out, earlier)
    robots = {name for name, said in content.get("robot_files", {}).items() if said == WRITTEN}
    for name in {*IDENTIFIED, *REJECTED, *earlier} - robots:  # what an earlier fit left here is not this one's
        (out / name).unlink(missing_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    files.replace(out / FIT, text.encode())
    return Saved(tuple(sorted(written | robots)), tuple(content.get("not_in_robot_files", ())))


def _npz(write: Callable[..., None], arrays: dict[str, np.ndarray]) -> bytes:
    data = io.BytesIO()
    write(data, **arrays)
    return data.getvalue()


def _sourceless(model: AbstractModel) -> object:
    """The text of the robot file is kept once, with the fitted model."""
    return replace(model, robot=replace(model.robot, source=None)) if isinstance(model, Model) else model


def versions() -> dict[str, str]:
    """Of what computes fits here and now."""
    return {name: version(name) for name in ("diffnea", "jax", "numpy")} | {"python": platform.python_version()}


def _content(fit: Fit, arrays: dict[str, np.ndarray]) -> Json:
    """Plain data of a fit but for its data kept back and its robot files; arrays go into `arrays`."""
    known = fit.known
    model = modules.pack(fit.model, arrays)
    plain = {
        "format": FORMAT,
        "verdict": fit.verdict.status,
        "reasons": [each.to_dict() for each in fit.verdict.notes],
        "status": fit.status,
        "config": fit.config,
        "metrics": fit.metrics.to_dict(),
        "table": known.table.to_dicts(),
        "identifiable": [each.to_dict() for each in known.identifiable],
        "unknown": [each.to_dict() for each in known.unknown],
        "counts": known.counts,
        "notes": [each.to_dict() for each in fit.notes],
        "payload": None if fit.payload is None else fit.payload.to_dict(),
        "loss": fit.loss,
        "history": list(fit.history),
        "options": fit.options.to_dict(),
        "versions": fit.versions or versions(),
    }
    consistent = None if fit.consistent is fit.model else modules.pack(fit.consistent, arrays)
    balance = None if fit.balance is None else {"balance": modules.pack(fit.balance, arrays)}
    return files.named(plain) | {"model": model, "consistent": consistent, "held_out": None} | (balance or {})


def _earlier_robots(fit: Fit, out: Path) -> set[str]:
    """Robot files of an earlier fit in this folder, those that its files include too; none that this fit is made of."""
    source = fit.consistent.robot.source if isinstance(fit.consistent, Model) else None
    if source is not None and Path(source.path).resolve().parent == out.resolve():
        return set()
    try:
        said = _read_json(out / FIT).get("robot_files")
    except FitFileError:
        return set()
    names = said if isinstance(said, dict) else {}
    return {name for name, word in names.items() if word == WRITTEN and name.endswith(".xml") and "/" not in name}


def _robots(model: Model, fit: Fit, out: Path, earlier: set[str]) -> Json:
    """The robot in both formats, and what they lack; a robot that one of them cannot hold leaves a word instead."""
    urdf, mjcf = robot_files(fit.verdict)
    whole = exported(model, fit.held_out)
    said = _written(whole.robot, out / urdf)
    said |= _written(whole.curved, out / mjcf, whole.curves, whole.servos, earlier)
    if whole.curves and said[mjcf] != WRITTEN:  # the user's own file may ask for what does not go with curves
        whole = exported(model, fit.held_out, curves=False)
        said |= _written(whole.robot, out / mjcf, None, whole.servos, earlier)
    configs = servo_configs(model, whole.robot, whole.servos) if whole.servos else {}
    for name in SERVO_FILES:
        files.replace(out / name, configs[name].encode()) if name in configs else (out / name).unlink(missing_ok=True)
        said |= {name: WRITTEN} if name in configs else {}
    return {"robot_files": said, "not_in_robot_files": list(whole.lacking)}


def _written(
    robot: Robot,
    path: Path,
    curves: dict[str, Curve] | None = None,
    servos: dict[str, Servo] | None = None,
    earlier: Collection[str] = (),
) -> dict[str, str]:
    """What became of a robot file and of those that it includes; `earlier` ones give way."""
    try:
        done = save_robot(robot, path, curves=curves, servos=servos, replacing=earlier)
        return dict.fromkeys((each.name for each in done), WRITTEN)
    except (RobotFileError, ValueError) as error:
        return {path.name: f"not written: {error}"}


def load_fit(folder: str | os.PathLike[str], parts: Iterable[type] = ()) -> Fit:
    """Read a fit back; its model predicts the same, bit for bit.

    Args:
        folder: what `fit.save` has written to.
        parts: classes of your own that the model has, as an actuator's.
    """
    own = {part.__name__: part for part in parts}
    place = Path(folder)
    with files.alone(place, shared=True) if place.is_dir() else nullcontext():
        content = _read_json(place / FIT)
        arrays = _read_arrays(place / WEIGHTS)
        signals = _read_arrays(place / HELD_OUT) if content.get("held_out") and (place / HELD_OUT).exists() else None
    try:
        fit = _rebuilt(content, arrays, own)
        if signals is None:  # a page can do without
            return fit
        kept = content["held_out"]
        return replace(fit, held_out=from_arrays(modules.unpack(kept["start"], arrays, own), kept["tracks"], signals))
    except FitFileError:
        raise
    except Exception as error:  # whatever stands there in place of what was written
        said = f"lacks {error}" if isinstance(error, KeyError) else _line(error)
        raise FitFileError(f"{place / FIT}: {said}; give a folder written by fit.save") from error


def _rebuilt(content: Json, arrays: dict[str, np.ndarray], own: Mapping[str, type]) -> Fit:
    metrics = {name: part and read_score(files.unnamed(part)) for name, part in content["metrics"].items()}
    table = restored(files.unnamed(content["table"]))
    for row in table:
        check(row)
    combinations = tuple(check(Combination(**with_nan(files.unnamed(each)))) for each in content["identifiable"])
    known = Knowledge(table, combinations, tuple(map(read_note, content["unknown"])), content.get("counts"))
    model = _model(content["model"], arrays, own)
    return check(
        Fit(
            model=model,
            consistent=model if content["consistent"] is None else _model(content["consistent"], arrays, own),
            metrics=Metrics(**metrics),
            verdict=Verdict(
                _word(content["verdict"]), list(map(read_note, content.get("reason_notes", content["reasons"])))
            ),
            loss=files.unnamed(content["loss"]),
            history=tuple(files.unnamed(content["history"])),
            notes=tuple(map(read_note, content["notes"])),
            config=content["config"],
            knowledge=lambda: known,
            options=read_options(Options, content.get("options") or {}),
            outcome=Status(content.get("status", Status.CONVERGED.value)),
            payload=content.get("payload") and Payload.from_dict(files.unnamed(content["payload"])),
            versions=content.get("versions", {}),
            balance=_balance(content.get("balance"), arrays),
        )
    )


def _model(data: object, arrays: dict[str, np.ndarray], own: Mapping[str, type]) -> AbstractModel:
    """A model whose parts are of as many joints."""
    model = modules.unpack(data, arrays, own)
    if not isinstance(model, AbstractModel):
        raise ValueError(f"a {type(model).__name__} stands where the model should")
    if isinstance(model, Model) and model.actuator.num_joints not in (None, model.robot.num_joints):
        raise ValueError(f"its actuator has {model.actuator.num_joints} joints, its robot {model.robot.num_joints}")
    return model


def _balance(data: object, arrays: dict[str, np.ndarray]) -> Balance | None:
    found = modules.unpack(data, arrays)
    if not isinstance(found, Balance | None):
        raise ValueError(f"a {type(found).__name__} stands where the balance of a free base should")
    return found


def _word(verdict: object) -> str:
    if verdict not in (ACCEPTED, NO_BETTER, FAILED):
        raise ValueError(f"its verdict is {verdict!r}")
    return verdict


def _read_json(path: Path) -> Json:
    try:
        content = json.loads(files.read(path, MOST_BYTES))
    except OSError as error:
        raise FitFileError(f"{path}: {error.strerror}; give a folder written by fit.save") from None
    except (ValueError, RecursionError) as error:
        raise FitFileError(f"{path}: is damaged ({_line(error)}); save the fit again") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise FitFileError(f"{path}: is no fit; give a folder written by fit.save")
    if content["format"] > FORMAT:
        raise FitFileError(f"{path}: has format {content['format']}, this version reads up to {FORMAT}; update diffnea")
    return content


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with files.opened(path) as file:
            return files.npz_arrays(file)
    except OSError as error:
        raise FitFileError(f"{path}: {error.strerror or _line(error)}; give a folder written by fit.save") from None
    except Exception as error:  # zipfile and zlib have many
        raise FitFileError(f"{path}: is damaged ({_line(error)}); save the fit again") from None


def _line(error: Exception) -> str:
    return one_line(str(error)) or type(error).__name__
