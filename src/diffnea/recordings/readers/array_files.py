"""Arrays in files: NPZ (never a pickle) and MATLAB's MAT, versions 4 to 7.3."""

from pathlib import Path
from typing import Any

import numpy as np

from diffnea import files
from diffnea.recordings.columns.table import Table, from_arrays, optional, readable
from diffnea.recordings.readers import mat5
from diffnea.recordings.readers.mat5 import MOST_DEPTH
from diffnea.recordings.readers.nanobench import is_nanobench, nanobench
from diffnea.recordings.recording import RecordingError


def npz_tables(path: Path) -> list[Table]:
    """The one table of an NPZ file."""
    with files.opened(path) as stream, readable("NPZ", "write it with numpy.savez"):
        magic = stream.read(6)
        stream.seek(0)
        if magic == b"\x93NUMPY":
            raise RecordingError("is a single array; use .npz with time, q and u")
        if magic[:2] != b"PK" and magic[:1] != b"\x80":  # neither an archive nor a pickle, which is refused below
            raise RecordingError("is no NPZ file; write it with numpy.savez")
        try:
            if magic[:1] == b"\x80":
                raise ValueError("is a pickle")
            arrays = files.npz_arrays(stream)
        except ValueError as error:
            if "pickle" not in str(error):
                raise
            raise RecordingError("holds Python objects, which are never loaded; save plain arrays") from None
    return [_table(arrays)]


def mat_tables(path: Path) -> list[Table]:
    """The one table of a MAT file; fields of structs are named `struct.field`, cells `cell.0`, `cell.1`, …"""
    with files.opened(path) as stream:
        head = stream.read(128)
    content = _read_hdf(path) if b"MATLAB 7.3" in head else _read_mat(path, head)
    return [_table(_flatten("", content))]


def _table(arrays: dict[str, np.ndarray]) -> Table:
    arrays = nanobench(arrays) if is_nanobench(arrays) else arrays
    names = arrays.get("joint_names", arrays.get("joints"))
    numbers = {key: value for key, value in arrays.items() if value.dtype.kind in "fiub" and value.size}
    joint_names = None if names is None or names.dtype.kind not in "US" else [_text(name) for name in names.reshape(-1)]
    return from_arrays(numbers, joint_names)


def _read_mat(path: Path, head: bytes) -> Any:
    from scipy.io import loadmat

    with files.opened(path) as stream, readable("MAT", "save it from MATLAB again"):
        if mat5.is_mat5(head):
            return mat5.read(stream.read())
        if 0 not in head[:4]:  # as version 4 begins, which has no header
            raise RecordingError("is no MAT file; save it from MATLAB")
        return {key: value for key, value in loadmat(stream, simplify_cells=True).items() if not key.startswith("__")}


def _read_hdf(path: Path) -> Any:
    h5py = optional("h5py", path)
    with readable("MAT 7.3", "save it from MATLAB again"), h5py.File(path, "r") as file:
        return _hdf_members(file, file, 0)


def _hdf_members(group: Any, file: Any, depth: int) -> dict[str, Any]:
    """What a group holds itself; what another file holds is never opened."""
    if depth > MOST_DEPTH:
        raise ValueError(f"has more than {MOST_DEPTH} groups within each other")
    names = [key for key in group if not key.startswith("#")]
    for key in names:
        if type(group.get(key, getlink=True)).__name__ != "HardLink":
            raise RecordingError(f'"{key}" is a link, and may lead to another file; save the numbers themselves')
    return {key: _hdf_value(group[key], file, depth + 1) for key in names}


def _hdf_value(item: Any, file: Any, depth: int) -> Any:
    """MATLAB's value of an HDF5 object: its arrays are stored with their axes reversed."""
    if hasattr(item, "keys"):
        return _hdf_members(item, file, depth)
    if not hasattr(item, "shape"):
        return None
    if item.external or item.is_virtual:
        raise RecordingError(f'"{item.name}" has its numbers in other files; save them in this one')
    files.check_expansion(item.nbytes, item.id.get_storage_size())
    kind = item.attrs.get("MATLAB_class", b"")
    value = item[()]
    if kind == b"cell" and depth <= MOST_DEPTH:
        return [_hdf_value(file[reference], file, depth + 1) for reference in np.asarray(value).T.reshape(-1)]
    if kind == b"char":
        return "".join(map(chr, np.asarray(value).T.reshape(-1)))
    return np.asarray(value).T if np.asarray(value).dtype.kind in "fiub" else None


def _flatten(prefix: str, value: Any) -> dict[str, np.ndarray]:
    """Nested structs and cells as arrays with dotted names."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in _flatten(f"{prefix}{key}.", item).items()}
    name = prefix.rstrip(".")
    objects = value.dtype == object if isinstance(value, np.ndarray) else isinstance(value, (list, tuple))
    if objects:
        items = list(np.asarray(value, object).reshape(-1)) if isinstance(value, np.ndarray) else list(value)
        if items and all(isinstance(item, str) for item in items):
            return {name: np.array(items)}
        return {k: v for n, item in enumerate(items) for k, v in _flatten(f"{prefix}{n}.", item).items()}
    if value is None:
        return {}
    array = np.asarray(value)
    return {name: array} if array.dtype.kind in "fiubUS" else {}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace").strip() if isinstance(value, bytes) else str(value).strip()
