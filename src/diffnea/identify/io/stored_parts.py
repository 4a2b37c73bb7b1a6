"""Parts of a fit as they stand in fit.json: notes, options, scores, numbers that are none."""

from dataclasses import fields, is_dataclass

from jaxtyping import PyTree

from diffnea import files
from diffnea.files import Json
from diffnea.identify.io.typed import check
from diffnea.identify.judge.score import Score
from diffnea.identify.notes import SENTENCES, Note, note


def read_note(each: object) -> Note:
    """As it was stored; older folders have sentences only, and newer ones codes that are not known here."""
    if isinstance(each, dict) and each["code"] in SENTENCES:
        known = Note.from_dict(files.unnamed(each))
        str(known)  # or else the folder is damaged
        return known
    return note("said", said=str(each["text"] if isinstance(each, dict) else each))


def read_options(kind: type, stored: Json) -> PyTree:
    """Options as they were; those that the folder does not have, or that are no more, are as by default."""
    usual = {each.name: getattr(kind(), each.name) for each in fields(kind)}
    return check(kind(**{name: _like(value, stored[name]) for name, value in usual.items() if name in stored}))


def _like(usual: object, stored: PyTree) -> PyTree:
    """A value of JSON as what it is by default: a room of options, a tuple or a number."""
    if is_dataclass(usual):
        return read_options(type(usual), stored)
    return tuple(files.unnamed(stored)) if isinstance(usual, tuple) else files.unnamed(stored)


def with_nan(each: Json) -> Json:
    """Numbers that JSON had no word for."""
    return {key: float("nan") if value is None else value for key, value in each.items()}


def read_score(part: Json) -> Score:
    """A score, whose lists are tuples."""
    rows = tuple(tuple(row) for row in part["error_joints"])
    lists = {key: tuple(part.get(key, ())) for key in ("nmse_joints", "horizons", "error", "torque_joints")}
    return check(Score(**{**part, **lists, "error_joints": rows}))
