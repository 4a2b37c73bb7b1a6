"""Public recordings fetched: from a server with the original files, checked, converted, and never run as programs.

The originals are looked for in $DIFFNEA_DATA, else in shared/data beside the checkout; tests without them skip.
"""

import gzip
import json
import os
import pickle
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from diffnea.cli import main
from diffnea.recordings import RecordingError, download, public
from diffnea.recordings.readers import pickled_arrays

DATA = Path(os.environ.get("DIFFNEA_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


class Origin(SimpleHTTPRequestHandler):
    """Serves the originals under the addresses they have at their repositories."""

    def do_GET(self):
        body = self.server.content.get(unquote(self.path))
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


def originals(name):
    """The bytes of each original by its address."""
    found = {}
    for source in download.find(name).files:
        place = DATA / source.dataset / source.file
        if source.file.endswith(".npz"):
            *_, group, file = Path(source.path).parts
            place = DATA / source.dataset / "original" / group / file
        if not place.is_file():
            pytest.skip(f"no originals of {name} in $DIFFNEA_DATA or shared/data beside the checkout")
        data = place.read_bytes()
        address = f"/{source.repository}/{source.commit}/{source.path}"
        found[address] = gzip.decompress(data) if place.suffix == ".gz" else data
    return found


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Origin)) as running:
        running.content = {}
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def mirror(server):
    return f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv("DIFFNEA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "diffnea" / "data"


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.name == b.name and np.array_equal(a.q, b.q) and np.array_equal(a.u, b.u)
        assert np.array_equal(a.time, b.time) and (a.qd is None or np.array_equal(a.qd, b.qd))


@pytest.mark.parametrize("name", ["quanser_cartpole", "quanser_qube", "dfki_simple_pendulum", "kuka_kr300"])
def test_fetched_recordings_equal_those_at_hand(server, mirror, cache, monkeypatch, name):
    server.content = originals(name)
    count = download.get(name, mirror)
    assert count == len(download.find(name).files) and not download.find(name).missing
    fetched = public.load(name)
    monkeypatch.setenv("DIFFNEA_DATA", str(DATA))
    at_hand = public.load(name)
    assert list(fetched) == list(at_hand)
    for group in fetched:
        same(fetched[group], at_hand[group])


def test_converted_arrays_are_bit_identical(server, mirror, cache):
    server.content = originals("quanser_cartpole")
    download.get("quanser_cartpole", mirror)
    for source in download.find("quanser_cartpole").files:
        with np.load(source.place) as fetched, np.load(DATA / source.dataset / source.file) as given:
            assert set(given.files) <= set(fetched.files)
            for key in given.files:
                assert fetched[key].dtype == given[key].dtype and fetched[key].tobytes() == given[key].tobytes()


def test_only_what_is_missing_is_fetched(server, mirror, cache):
    server.content = originals("quanser_cartpole")
    first, *rest = download.find("quanser_cartpole").files
    download.get("quanser_cartpole", mirror)
    first.place.unlink()
    server.content = {address: data for address, data in server.content.items() if first.path in address}
    assert download.get("quanser_cartpole", mirror) == 1 and first.place.is_file()
    assert download.get("quanser_cartpole", "http://127.0.0.1:1") == 0


def test_a_changed_file_is_refused_and_leaves_nothing(server, mirror, cache):
    server.content = {address: data + b" " for address, data in originals("quanser_cartpole").items()}
    with pytest.raises(RecordingError, match="not the file it was: its SHA-256 is not"):
        download.get("quanser_cartpole", mirror)
    assert not cache.exists() and len(download.find("quanser_cartpole").missing) == 8


def test_no_file_and_no_network_are_said_in_a_line(mirror, cache, capsys):
    assert main(["data", "get", "kuka-kr300", "--mirror", mirror]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "404" in line and "FF%20A" in line
    assert main(["data", "get", "kuka-kr300", "--mirror", "http://127.0.0.1:1"]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "cannot be fetched" in line


def test_the_command_lists_and_fetches(server, mirror, cache, capsys):
    server.content = originals("quanser_cartpole")
    assert main(["data"]) == 0
    listed = capsys.readouterr().out
    assert str(cache) in listed and listed.count("not here") == len(public.names())
    assert main(["data", "get", "quanser-cartpole", "--mirror", mirror, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(cache), "fetched": {"quanser_cartpole": 8}}
    assert main(["data", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["datasets"]}
    assert rows["quanser_cartpole"]["state"] == "here" and rows["quanser_qube"]["missing"] == 25
    assert main(["data", "get", "quanser-cartpole"]) == 0
    assert "all files were there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["get", "moon"], 'no data set "moon"; use dfki_double_pendulum'),
        (["get"], "data get: no name given; use any of quanser_cartpole"),
        (["list", "moon"], "data list: takes no names"),
    ],
)
def test_wrong_names_are_said_in_a_line(cache, capsys, arguments, line):
    assert main(["data", *arguments]) == 1
    found = capsys.readouterr().err
    assert line in found and found.count("\n") == 1


def test_every_data_set_that_can_be_loaded_can_be_had():
    assert set(download.datasets()) == set(public.names())
    for each in download.datasets().values():
        assert each.files and each.licence and all(len(file.sha256) == 64 for file in each.files)


def test_a_pickle_is_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    with pytest.raises(ValueError, match="holds no object with attributes"):
        pickled_arrays.read(pickle.dumps(Trap(), protocol=3))
    with pytest.raises(ValueError, match="instruction"):
        pickled_arrays.read(pickle.dumps({"a": {1, 2}}, protocol=4))
    with pytest.raises(ValueError, match="holds no arrays"):
        pickled_arrays.read(pickle.dumps({"a": [Trap(), 1.5]}, protocol=3))
    assert not (tmp_path / "sprung").exists()
