"""Where commands write: looked at before the work, so that none is lost for a place that cannot be written."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def check_folder(folder: str | Path) -> None:
    """Refuse a folder that cannot be made or written to: both are tried, and nothing is left behind."""
    place, made = Path(folder), []
    try:
        for each in (*reversed(place.parents), place):
            if not each.exists():
                each.mkdir()
                made.append(each)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        why = (error.strerror or "cannot be used").lower()
        raise ValueError(f"{place}: cannot be written ({why}); give a folder that can") from None
    finally:
        for each in reversed(made):
            with suppress(OSError):  # someone else put something there
                each.rmdir()


def check_file(path: str | Path) -> None:
    """Refuse a file that cannot be written; missing folders above it are no fault."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; give the name of a file")
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{path}: cannot be written (permission denied); give another file")
    check_folder(path.parent)


def check_recording(path: str | Path) -> None:
    """Refuse a recording that cannot be written: by its ending, its folder, or as a file."""
    path = Path(path)
    if path.suffix not in (".csv", ".npz"):
        raise ValueError(f'{path}: ends in "{path.suffix}"; use .csv or .npz')
    if not path.parent.exists():
        raise ValueError(f"{path.parent}: no such folder; make it, or give another")
    check_file(path)
