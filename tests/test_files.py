"""Files: a write that fails or is cut short leaves the old file, drafts are told from all else, JSON is finite."""

import json
import os
import stat

import numpy as np
import pytest

from diffnea import files


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a" / "page.html"
    for content in (b"old", b"new"):
        files.replace(path, content)
        assert path.read_bytes() == content and os.listdir(path.parent) == ["page.html"]
    files.replace(path, b"", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    files.replace(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.replace(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["page.html"]


def test_drafts_are_told_from_all_else(tmp_path):
    for name in ("results.csv", "3", ".hidden", "a.draft"):
        draft = files.draft_of(tmp_path / name)
        assert draft.parent == tmp_path and files.drafted(draft) == name and draft != files.draft_of(tmp_path / name)
    for name in ("results.csv", ".env.local", ".results.csv.draft", f"a.{'0' * 32}.draft", f".a.{'g' * 32}.draft"):
        assert files.drafted(tmp_path / name) is None


def test_values_become_those_that_json_has():
    given = {1: np.float32(1.5), "b": (np.int64(2), np.nan, -np.inf), "c": {"d": np.bool_(True), "e": None, "f": "g"}}
    found = json.loads(json.dumps(files.finite(given), allow_nan=False))
    assert found == {"1": 1.5, "b": [2, None, None], "c": {"d": True, "e": None, "f": "g"}}
    with pytest.raises(TypeError, match="ndarray is not a JSON value"):
        files.finite(np.zeros(2))


def test_named_values_lose_nothing():
    given = {"a": [1.5, float("inf"), -float("inf")], "b": {"c": None, "d": "word", "e": True, "f": 3}}
    text = json.dumps(files.named(given), allow_nan=False)
    assert '"-inf"' in text and files.unnamed(json.loads(text)) == given
    assert np.isnan(files.unnamed(files.named(np.float32("nan"))))
