"""Fits on disk: fit.json for people, weights.npz for the model's arrays, and the robot as URDF and MJCF."""

import json
import math
import os
import platform
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from diffnea.formats import Curve, RobotFileError, save_robot
from diffnea.identify.determine.combinations import Combination
from diffnea.identify.determine.findings import Knowledge
from diffnea.identify.determine.table import restored
from diffnea.identify.io import pytree_json as modules
from diffnea.identify.io.robot_export import exported
from diffnea.identify.judge.assess import Metrics
from diffnea.identify.judge.held_out import HeldOut, from_arrays, to_arrays
from diffnea.identify.judge.score import Score
from diffnea.identify.judge.verdict import ACCEPTED, Verdict
from diffnea.identify.notes import Note, note
from diffnea.identify.precision import double_precision
from diffnea.identify.result import Fit
from diffnea.models import Model
from diffnea.robot import Robot

FORMAT = 1
FIT, WEIGHTS, HELD_OUT = "fit.json", "weights.npz", "held_out.npz"
IDENTIFIED = ("identified.urdf", "identified.xml")
REJECTED = ("rejected.urdf", "rejected.xml")
WRITTEN = "written"


class FitFileError(ValueError):
    """A folder that holds no fit: one line with where, what was found and what is accepted."""


def robot_files(verdict: str) -> tuple[str, str]:
    """What the robot's files are called, URDF and MJCF: only an accepted fit is identified."""
    return IDENTIFIED if verdict == ACCEPTED else REJECTED


def save(fit: Fit, folder: str | os.PathLike[str]) -> None:
    """Write a fit into a folder, which is made; each file is written aside, then moved into place."""
    out = Path(folder)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FitFileError(f"{out}: {error.strerror}; give a folder that can be written") from None
    arrays: dict[str, np.ndarray] = {}
    content = _content(fit, modules.pack(fit.model, arrays))
    content["consistent"] = None if fit.consistent is fit.model else modules.pack(fit.consistent, arrays)
    content["held_out"] = None if fit.held_out is None else _kept(fit.held_out, arrays, out)
    _place(out / WEIGHTS, lambda path: np.savez(path, **arrays))  # pyright: ignore[reportArgumentType]
    if isinstance(fit.consistent, Model):
        with double_precision():
            content |= _robots(fit, out)
    _remove_stale(out, content.get("robot_files", {}))
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    _place(out / FIT, lambda path: path.write_text(text, encoding="utf-8"))


def _kept(kept: HeldOut, arrays: dict[str, np.ndarray], out: Path) -> dict[str, Any]:
    """Data that were not fitted go into a file of their own; the start is a model like the fitted one."""
    tracks, signals = to_arrays(kept)
    _place(out / HELD_OUT, lambda path: np.savez_compressed(path, **signals))  # pyright: ignore[reportArgumentType]
    return {"tracks": tracks, "start": modules.pack(_sourceless(kept.start), arrays)}


def _sourceless(model: Any) -> Any:
    """The text of the robot file is kept once, with the fitted model."""
    return replace(model, robot=replace(model.robot, source=None)) if isinstance(model, Model) else model


def _place(path: Path, write: Any) -> None:
    aside = path.with_name(f".{os.getpid()}.{path.name}")
    write(aside)
    aside.replace(path)


def _content(fit: Fit, model: Any) -> dict[str, Any]:
    known = fit.known
    return {
        "format": FORMAT,
        "verdict": fit.verdict.status,
        "reasons": list(fit.verdict.reasons),
        "reason_notes": _plain([each.to_dict() for each in fit.verdict.notes]),
        "config": fit.config,
        "metrics": _plain(fit.metrics.to_dict()),
        "table": _plain(known.table.to_dicts()),
        "identifiable": _plain([each.to_dict() for each in known.identifiable]),
        "unknown": _plain([each.to_dict() for each in known.unknown]),
        "counts": known.counts,
        "notes": [each.to_dict() for each in fit.notes],
        "loss": _plain(fit.loss),
        "history": _plain(list(fit.history)),
        "versions": {name: version(name) for name in ("diffnea", "jax", "numpy")}
        | {"python": platform.python_version()},
        "model": model,
    }


def _plain(value: Any) -> Any:
    """Numbers that JSON has; those it has not, by name."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    """What `_plain` made of a number that is not finite."""
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_number(item) for item in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def _remove_stale(out: Path, said: dict[str, str]) -> None:
    """Robots that an earlier fit left in the same folder are not those of this one."""
    for name in (*IDENTIFIED, *REJECTED):
        if said.get(name) != WRITTEN:
            (out / name).unlink(missing_ok=True)


def _robots(fit: Fit, out: Path) -> dict[str, Any]:
    """The robot in both formats, and what they lack; a robot that one of them cannot hold leaves a word instead."""
    urdf, mjcf = robot_files(fit.verdict)
    model, kept = fit.consistent, fit.held_out
    whole = exported(model, kept)
    said = {urdf: _written(whole.robot, out / urdf), mjcf: _written(whole.curved, out / mjcf, whole.curves)}
    if whole.curves and said[mjcf] != WRITTEN:  # the user's own file may ask for what does not go with curves
        whole = exported(model, kept, curves=False)
        said[mjcf] = _written(whole.robot, out / mjcf)
    return {"robot_files": said, "not_in_robot_files": list(whole.lacking)}


def _written(robot: Robot, path: Path, curves: dict[str, Curve] | None = None) -> str:
    try:
        save_robot(robot, path, curves=curves)
        return WRITTEN
    except (RobotFileError, ValueError) as error:
        return f"not written: {error}"


def load_fit(folder: str | os.PathLike[str]) -> Fit:
    """Read a fit back; its model predicts the same, bit for bit."""
    place = Path(folder)
    content = _read_json(place / FIT)
    arrays = _read_arrays(place / WEIGHTS)
    signals = _read_arrays(place / HELD_OUT) if content.get("held_out") and (place / HELD_OUT).exists() else None
    try:
        fit = _rebuilt(content, arrays)
        if signals is None:  # a page can do without
            return fit
        kept = content["held_out"]
        return replace(fit, held_out=from_arrays(modules.unpack(kept["start"], arrays), kept["tracks"], signals))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FitFileError(f"{place / FIT}: {_line(error)}; give a folder written by fit.save") from None


def _rebuilt(content: dict[str, Any], arrays: dict[str, np.ndarray]) -> Fit:
    metrics = {name: part and _score(_number(part)) for name, part in content["metrics"].items()}
    table = restored(_number(content["table"]))
    combinations = tuple(Combination(**_nan(_number(each))) for each in content["identifiable"])
    known = Knowledge(table, combinations, tuple(_note(each) for each in content["unknown"]), content.get("counts"))
    model = modules.unpack(content["model"], arrays)
    return Fit(
        model=model,
        consistent=modules.unpack(content["consistent"], arrays) or model,
        metrics=Metrics(**metrics),
        verdict=_verdict(content),
        loss=_number(content["loss"]),
        history=tuple(_number(content["history"])),
        notes=tuple(map(_note, content["notes"])),
        config=content["config"],
        knowledge=lambda: known,
    )


def _verdict(content: dict[str, Any]) -> Verdict:
    """With the codes of its reasons; folders of older versions have the words alone."""
    words, notes = content["reasons"], content.get("reason_notes")
    return Verdict(content["verdict"], words if notes is None else [Note.from_dict(_number(each)) for each in notes])


def _note(each: Any) -> Note:
    """As it was stored; older folders have sentences only."""
    return note("said", said=each) if isinstance(each, str) else Note.from_dict(_number(each))


def _nan(each: dict[str, Any]) -> dict[str, Any]:
    return {key: float("nan") if value is None else value for key, value in each.items()}


def _score(part: dict[str, Any]) -> Score:
    rows = tuple(tuple(row) for row in part["error_joints"])
    lists = {key: tuple(part.get(key, ())) for key in ("nmse_joints", "horizons", "error", "torque_joints")}
    return Score(**{**part, **lists, "error_joints": rows})


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FitFileError(f"{path}: {error.strerror}; give a folder written by fit.save") from None
    except ValueError as error:
        raise FitFileError(f"{path}: is damaged ({_line(error)}); save the fit again") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise FitFileError(f"{path}: is no fit; give a folder written by fit.save")
    if content["format"] > FORMAT:
        raise FitFileError(f"{path}: has format {content['format']}, this version reads up to {FORMAT}; update diffnea")
    return content


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except OSError as error:
        raise FitFileError(f"{path}: {error.strerror or _line(error)}; give a folder written by fit.save") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise FitFileError(f"{path}: is damaged ({_line(error)}); save the fit again") from None


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
