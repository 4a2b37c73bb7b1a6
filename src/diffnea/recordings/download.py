"""Public recordings from where their authors keep them: one commit of a repository, checked by SHA-256, converted.

`public_files.csv` names every file: where it goes, and its repository, commit, path and checksum. A pickle is read and
never run (`pickled_arrays`); tables are stored compressed; the rest stays as it is.
"""

import csv
import gzip
import io
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

import numpy as np

from diffnea import files
from diffnea.recordings import public
from diffnea.recordings.columns.table import readable
from diffnea.recordings.readers import pickled_arrays
from diffnea.recordings.recording import RecordingError

ORIGIN = "https://raw.githubusercontent.com"


class Source(NamedTuple):
    """A file of a data set: its place here, and where it comes from."""

    dataset: str
    file: str
    repository: str
    commit: str
    path: str
    sha256: str

    def url(self, mirror: str = ORIGIN) -> str:
        """Its address at the origin, or at a mirror laid out alike."""
        return f"{mirror.rstrip('/')}/{self.repository}/{self.commit}/{quote(self.path)}"

    @property
    def place(self) -> Path:
        """Its place on this machine."""
        return public.folder() / self.dataset / self.file


@dataclass(frozen=True)
class Dataset:
    """A data set in a line, its licence, and its files."""

    name: str
    about: str
    licence: str
    files: tuple[Source, ...]

    @property
    def missing(self) -> tuple[Source, ...]:
        """The files that are not on this machine."""
        return tuple(file for file in self.files if not file.place.is_file())


_ABOUT = {
    "quanser_cartpole": ("Quanser IP02 cart-pole: swing-ups and chirps, voltage, 250 Hz", "BSD-3-Clause"),
    "quanser_qube": ("Quanser Qube, a Furuta pendulum: swing-ups and chirps, voltage, 250 Hz", "BSD-3-Clause"),
    "quanser_qube_balance_decar": ("another Qube near upright, voltage, 500 Hz", "MIT"),
    "dfki_double_pendulum": ("double pendulum, pendubot and acrobot, torque, 400 to 500 Hz", "BSD-3-Clause"),
    "dfki_simple_pendulum": ("pendulum, torque, 50 to 1000 Hz", "BSD-3-Clause"),
    "servo_pendulum_bam": ("Dynamixel servo with a load, voltage, 190 Hz", "Apache-2.0"),
    "multiarm_pendulum": ("single and double pendulum, free, 1 kHz", "MIT"),
    "staubli_tx40": ("Stäubli TX40, six axes, torque, 5 kHz", "Apache-2.0"),
    "kuka_kr300": ("KUKA KR300, six axes, torque, 250 Hz", "MIT"),
}


@cache
def datasets() -> dict[str, Dataset]:
    """All data sets that can be had, by name."""
    text = (resources.files("diffnea.recordings") / "public_files.csv").read_text(encoding="utf-8")
    files = [Source(**row) for row in csv.DictReader(io.StringIO(text))]
    return {
        name: Dataset(name, *about, tuple(file for file in files if file.dataset == name))
        for name, about in _ABOUT.items()
    }


def find(name: str) -> Dataset:
    """A data set by its name, with dashes or underscores."""
    found = datasets().get(name.replace("-", "_"))
    if found is None:
        raise RecordingError(f'no data set "{name}"; use {", ".join(datasets())}')
    return found


def get(name: str, mirror: str = ORIGIN) -> int:
    """Fetch the files of a data set that are missing here; says how many there were."""
    missing = find(name).missing
    with TemporaryDirectory() as draft:
        for source in missing:
            files.replace(source.place, _converted(source, _fetched(source, mirror, draft)))
    return len(missing)


def _fetched(source: Source, mirror: str, draft: str) -> bytes:
    """The file as its authors have it; one whose checksum is another is refused."""
    import pooch  # here, because only downloads need it
    from requests.exceptions import RequestException

    pooch.get_logger().setLevel(logging.ERROR)
    url = source.url(mirror)
    try:
        path = pooch.retrieve(url, f"sha256:{source.sha256}", fname=source.sha256, path=draft)
    except RequestException as reason:
        why = " ".join(str(reason).split())[:160]
        raise RecordingError(f"{url}: cannot be fetched ({why}); look at the network, or give a --mirror") from None
    except ValueError:
        raise RecordingError(f"{url}: not the file it was: its SHA-256 is not {source.sha256}") from None
    return Path(path).read_bytes()


def _converted(source: Source, data: bytes) -> bytes:
    """As it is stored here."""
    with readable(f"{source.dataset}: {source.path}", "report it"):
        return _CONVERSIONS.get(Path(source.file).suffix, lambda data: data)(data)


def _arrays(data: bytes) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **pickled_arrays.read(data))
    return buffer.getvalue()


_CONVERSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".npz": _arrays,
    ".gz": lambda data: gzip.compress(data, mtime=0),  # the same bytes on every day
}
