"""Arrays in files: NPZ (never a pickle) and MATLAB's MAT, versions 4 to 7.3."""

from pathlib import Path
from typing import Any

import numpy as np

from diffnea.recordings.recording import RecordingError
from diffnea.recordings.table import Table, from_arrays, optional, readable


def npz_tables(path: Path) -> list[Table]:
    """The one table of an NPZ file."""
    arrays = {}
    with path.open("rb") as stream, readable("NPZ", "write it with numpy.savez"):
        magic = stream.read(6)
        stream.seek(0)
        if magic == b"\x93NUMPY":
            raise RecordingError("is a single array; use .npz with time, q and u")
        if magic[:2] != b"PK" and magic[:1] != b"\x80":  # neither an archive nor a pickle, which is refused below
            raise RecordingError("is no NPZ file; write it with numpy.savez")
        try:
            content = np.load(stream, allow_pickle=False)
            arrays = {name: content[name] for name in content.files}
        except ValueError as error:
            if "pickle" not in str(error):
                raise
            raise RecordingError("holds Python objects, which are never loaded; save plain arrays") from None
    return [_table(arrays)]


def mat_tables(path: Path) -> list[Table]:
    """The one table of a MAT file; fields of structs are named `struct.field`, cells `cell.0`, `cell.1`, …"""
    with path.open("rb") as stream:
        modern = b"MATLAB 7.3" in stream.read(128)
    content = _read_hdf(path) if modern else _read_mat(path)
    return [_table(_flatten("", content))]


def _table(arrays: dict[str, np.ndarray]) -> Table:
    names = arrays.get("joint_names", arrays.get("joints"))
    numbers = {key: value for key, value in arrays.items() if value.dtype.kind in "fiub" and value.size}
    joint_names = None if names is None or names.dtype.kind not in "US" else [_text(name) for name in names.reshape(-1)]
    return from_arrays(numbers, joint_names)


def _read_mat(path: Path) -> Any:
    from scipy.io import loadmat

    with path.open("rb") as stream, readable("MAT", "save it from MATLAB again"):
        return {key: value for key, value in loadmat(stream, simplify_cells=True).items() if not key.startswith("__")}


def _read_hdf(path: Path) -> Any:
    h5py = optional("h5py", path)
    with readable("MAT 7.3", "save it from MATLAB again"), h5py.File(path, "r") as file:
        return {key: _hdf_value(file[key], file) for key in file if not key.startswith("#")}


def _hdf_value(item: Any, file: Any) -> Any:
    """MATLAB's value of an HDF5 object: its arrays are stored with their axes reversed."""
    if hasattr(item, "keys"):
        return {key: _hdf_value(item[key], file) for key in item}
    kind = item.attrs.get("MATLAB_class", b"")
    value = item[()]
    if kind == b"cell":
        return [_hdf_value(file[reference], file) for reference in np.asarray(value).T.reshape(-1)]
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
