"""Records of runs, one JSON object a line: what is there already is not run again."""

import json
import math
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load_records(path: Path) -> dict[str, dict[str, Any]]:
    """Records by their key; a line that was cut off is left out, a later one replaces an earlier."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["key"]] = record
    return found


def run_once(path: Path, key: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The record of this key, from the file or from `work`, which is timed; what it raises is recorded too."""
    known = load_records(path).get(key)
    if known is not None:
        return known
    began = time.perf_counter()
    try:
        record = {"key": key, **work(), "error": None}
    except Exception as problem:  # noqa: BLE001 - a run that fails leaves a record that says so
        record = {"key": key, "error": f"{type(problem).__name__}: {problem}", "trace": traceback.format_exc()[-2000:]}
    record["seconds"] = round(time.perf_counter() - began, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(_plain(record)) + "\n")
    return record


def _plain(value: Any) -> Any:
    """For JSON, which has no infinity: as text, which `float` reads."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def chosen(keys: list[str], only: list[str] | None) -> list[str]:
    """Keys that contain one of the given words; all without any."""
    return [key for key in keys if not only or any(word in key for word in only)]
