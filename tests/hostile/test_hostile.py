"""Files that mean harm, or came to it: refused in one line that names the file, in bounded time and memory."""

import re
import warnings
from collections import Counter
from pathlib import Path

import hostile_fits
import hostile_hdf5
import hostile_recordings
import hostile_robots
import pytest
from hostile import bounded

import diffnea as dn
from diffnea.errors import DiffneaError
from diffnea.recordings import load_recordings

CASES = [*hostile_robots.cases(), *hostile_recordings.cases(), *hostile_hdf5.cases(), *hostile_fits.cases()]
READERS = {"robot": dn.load_robot, "recording": load_recordings, "fit": dn.load_fit}


def test_the_names_of_cases_differ():
    assert not [name for name, times in Counter(map(str, CASES)).items() if times > 1]


def test_the_page_on_reliability_has_the_counts():
    page = (Path(__file__).parent.parent.parent / "docs/reliability.md").read_text()
    for reads, count in Counter(case.reads for case in CASES).items():
        assert f"| {reads} | {count} |" in page, (reads, count)
    assert len(CASES) >= 250


@pytest.mark.parametrize("case", CASES, ids=str)
def test_hostile_files_are_refused_in_one_line(tmp_path, case):
    path = tmp_path / case.name
    case.write(path)
    refused = None
    with warnings.catch_warnings(), bounded():
        warnings.simplefilter("ignore", UserWarning)
        try:
            READERS[case.reads](path)
        except DiffneaError as error:
            refused = str(error)
    if refused is None:
        assert case.says is None, "was read"
        return
    assert refused.startswith(str(path)) and refused.isprintable() and len(refused) < 1000
    assert re.search(case.says or "", refused), refused
