"""Places that commands write to: what can be written passes, what cannot is refused, and nothing is left behind."""

import os

import pytest

from diffnea.cli import outputs


def _everything(folder):
    return sorted(folder.rglob("*"))


def test_what_can_be_written_passes_and_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.csv").write_text("old")
    before = _everything(tmp_path)
    for folder in (tmp_path, tmp_path / "a" / "b", "out", ".", "a/../b"):
        outputs.check_folder(folder)
    for file in (tmp_path / "a" / "page.html", "page.html", "old.csv"):
        outputs.check_file(file)
    outputs.check_recording("new.npz")
    assert _everything(tmp_path) == before and (tmp_path / "old.csv").read_text() == "old"


def test_what_cannot_is_refused_and_nothing_is_left(tmp_path):
    (tmp_path / "file").write_text("")
    before = _everything(tmp_path)
    for folder in (tmp_path / "file", tmp_path / "file" / "a" / "b", "/proc/nowhere/a"):
        with pytest.raises(ValueError, match=r"cannot be written \(.*\); give a folder that can"):
            outputs.check_folder(folder)
    with pytest.raises(ValueError, match="is a folder; give the name of a file"):
        outputs.check_file(tmp_path)
    assert _everything(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="permission denied"):
        outputs.check_folder(tmp_path / "out")
    tmp_path.chmod(0o700)
