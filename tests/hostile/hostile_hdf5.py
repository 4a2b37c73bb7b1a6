"""Hostile MAT files of version 7.3, which are HDF5: links to other files, and sizes that are only claimed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import recording_files as good
from hostile import Case, damaged_by


def cases() -> Iterator[Case]:
    """All of them."""
    yield Case("external link.mat", "recording", _file(_external), '"q" is a link')
    yield Case("soft link.mat", "recording", _file(_soft), '"q" is a link')
    yield Case("raw storage.mat", "recording", _file(_raw), "has its numbers in other files")
    yield Case("virtual.mat", "recording", _file(_virtual), "has its numbers in other files")
    yield Case("large set.mat", "recording", _file(_large), "expands to more than")
    yield Case("packed set.mat", "recording", _file(_packed), "expands to more than")
    yield Case("loop.mat", "recording", _file(_loop), "groups within each other")
    yield Case("deep set.mat", "recording", _file(_deep), "groups within each other")
    yield Case("cell in itself.mat", "recording", _file(_itself), "")
    yield Case("scalar input.mat", "recording", _scalar, r"u has shape \(\); give \(samples, joints\)")
    yield Case("records.mat", "recording", _file(_kinds), "no column")
    for seed in range(8):
        yield Case(f"damaged modern {seed}.mat", "recording", damaged_by(good.write_mat_73, seed))


def _file(fill: Callable[[Any, Path], None]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with h5py.File(path, "w", userblock_size=512) as content:
            content["time"] = good.TIME[None]
            fill(content, path)
        with path.open("r+b") as stream:
            stream.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")

    return write


def _secret(path: Path) -> Path:
    """Another file beside, with numbers in it."""
    other = path.with_name("secret.h5")
    with h5py.File(other, "w") as content:
        content["q"] = good.Q.T
    return other


def _external(content: Any, path: Path) -> None:
    content["q"] = h5py.ExternalLink(str(_secret(path)), "/q")


def _soft(content: Any, _: Path) -> None:
    content["q"] = h5py.SoftLink("/nowhere")


def _raw(content: Any, path: Path) -> None:
    (path.with_name("raw.bin")).write_bytes(bytes(800))
    content.create_dataset("q", (2, 50), "f8", external=[(str(path.with_name("raw.bin")), 0, 800)])


def _virtual(content: Any, path: Path) -> None:
    layout = h5py.VirtualLayout((2, 50), "f8")
    layout[:] = h5py.VirtualSource(str(_secret(path)), "q", (2, 50))
    content.create_virtual_dataset("q", layout)


def _large(content: Any, _: Path) -> None:
    content.create_dataset("q", (2, 10**12), "f8", chunks=(2, 1000))


def _scalar(path: Path) -> None:
    good.write_mat_73(path)
    with h5py.File(path, "r+") as content:
        del content["u"]
        content["u"] = 0.5


def _loop(content: Any, _: Path) -> None:
    group = content.create_group("a")
    group["a"] = group


def _deep(content: Any, _: Path) -> None:
    content.create_group("/".join(["a"] * 50))["q"] = good.Q.T


def _itself(content: Any, _: Path) -> None:
    cell = content.create_dataset("q", (1, 1), h5py.ref_dtype)
    cell.attrs["MATLAB_class"] = np.bytes_("cell")
    cell[0, 0] = cell.ref


def _kinds(content: Any, _: Path) -> None:
    content["q"] = np.zeros(5, [("a", "f8"), ("b", "i4")])


def _packed(content: Any, _: Path) -> None:
    content.create_dataset("q", (2, 50_000_000), "f8", compression="gzip", chunks=(2, 1_000_000))[0, :5] = 1
