"""PyTorch's .pt files, as PACE's chirp_data.pt: tensors in a ZIP archive, read without running any code.

The archive holds `data.pkl`, a pickle that names storages, and one file `data/<key>` of raw numbers a storage.
"""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from diffnea.recordings.columns.table import Table, from_arrays, readable
from diffnea.recordings.readers import pickled_arrays
from diffnea.recordings.readers.pickled_arrays import Called
from diffnea.recordings.recording import RecordingError

# What PACE calls its signals, and what others do.
SIGNALS = {
    "time": ("time",),
    "q": ("dof_pos", "q"),
    "qd": ("dof_vel", "qd"),
    "goal": ("des_dof_pos", "target_dof_pos", "goal"),
    "u": ("dof_torque", "u"),
}
TENSORS = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor")
TYPES = {
    "DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "LongStorage": "i8", "IntStorage": "i4",
    "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "b1",
}  # fmt: skip
LARGEST = 1 << 28  # bytes of the storages that are read, and numbers of the tensors that are made of them
LARGEST_PICKLE = 1 << 20


def tables(path: Path) -> list[Table]:
    """The one table of a file: a dictionary of tensors, positions and goals by the names that PACE gives them."""
    with readable("a PyTorch file", "save a dictionary of tensors with torch.save"):
        content = _read(path)
    if not isinstance(content, dict):
        raise RecordingError("holds no dictionary; torch.save one with time, dof_pos and des_dof_pos")
    arrays = {name: value for name, value in content.items() if isinstance(name, str) and isinstance(value, np.ndarray)}
    named = {ours: next((arrays[key] for key in theirs if key in arrays), None) for ours, theirs in SIGNALS.items()}
    found = {name: array for name, array in named.items() if array is not None}
    if "q" not in found:
        raise RecordingError(f"has no tensor dof_pos; found {', '.join(list(arrays)[:8]) or 'none'}")
    return [from_arrays(found)]


def _read(path: Path) -> Any:
    if not zipfile.is_zipfile(path):
        raise RecordingError("is no PyTorch archive; save it again with torch.save of PyTorch 1.6 or later")
    with zipfile.ZipFile(path) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        pickles = [name for name in sizes if name.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1 or sizes[pickles[0]] > LARGEST_PICKLE:
            raise RecordingError("has no plain dictionary in data.pkl; torch.save one with time, dof_pos, des_dof_pos")
        folder = pickles[0].removesuffix("data.pkl")
        order = archive.read(f"{folder}byteorder").decode() if f"{folder}byteorder" in sizes else "little"
        loader = _Storages(archive, folder, sizes, "<" if order.strip() == "little" else ">")
        return pickled_arrays.run(archive.read(pickles[0]), loader.storage, {name: loader.tensor for name in TENSORS})


class _Storages:
    """Raw numbers of the archive, each storage read once."""

    def __init__(self, archive: zipfile.ZipFile, folder: str, sizes: dict[str, int], order: str):
        self.archive, self.folder, self.sizes, self.order = archive, folder, sizes, order
        self.read: dict[str, np.ndarray] = {}
        self.left, self.numbers_left = LARGEST, LARGEST

    def storage(self, reference: Any) -> np.ndarray:
        """`("storage", type, key, device, count)` as an array; the device does not matter."""
        if not isinstance(reference, tuple) or len(reference) < 5 or reference[0] != "storage":
            raise RecordingError("refers to something outside of its archive; save plain tensors")
        kind = reference[1].name.rpartition(" ")[2] if isinstance(reference[1], Called) else ""
        if kind not in TYPES:
            raise RecordingError(f"holds a tensor of {kind[:40] or 'an unknown type'}; save real numbers")
        key = str(reference[2])
        name = f"{self.folder}data/{key}"
        if key not in self.read:
            if name not in self.sizes:
                raise RecordingError(f'has no storage "{key[:40]}"; it is cut off: copy it again')
            self.left -= self.sizes[name]
            if self.left < 0:
                raise RecordingError(f"unpacks to more than {LARGEST} bytes; save shorter recordings")
            self.read[key] = np.frombuffer(self.archive.read(name), np.uint8)
        dtype = np.dtype(self.order + TYPES[kind])
        raw = self.read[key]
        return raw[: len(raw) // dtype.itemsize * dtype.itemsize].view(dtype)

    def tensor(self, arguments: tuple[Any, ...]) -> np.ndarray:
        """`(storage, offset, size, stride, …)` as an array of its own; a view that leaves the storage is refused."""
        storage, offset, size, stride = arguments[:4]
        shapes = [size, stride, (offset,)]
        whole = all(isinstance(part, tuple) and all(isinstance(k, int) and k >= 0 for k in part) for part in shapes)
        if not isinstance(storage, np.ndarray) or not whole or len(size) != len(stride):
            raise RecordingError("holds a tensor that is none; save plain tensors")
        if len(size) > 8 or 0 in size:
            return np.zeros((0,))
        last = offset + sum((k - 1) * step for k, step in zip(size, stride, strict=True))
        count = int(np.prod([float(k) for k in size]))
        if last >= len(storage) or count > len(storage):
            raise RecordingError(f"holds a tensor of shape {size} in {len(storage)} numbers; it is cut off")
        self.numbers_left -= count
        if self.numbers_left < 0:
            raise RecordingError(f"holds more than {LARGEST} numbers; save shorter recordings")
        steps = [step * storage.itemsize for step in stride]
        view = np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False)
        return np.array(view, float)
