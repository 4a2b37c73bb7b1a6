"""A few seconds of fuzzing with every run of the tests; `make fuzz` does a million runs a reader."""

import fuzz
import pytest

READERS = fuzz.readers()


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_read_or_refused(name):
    done, faults = fuzz.fuzz(READERS[name], seconds=0.5, runs=200)
    assert done and not faults, faults


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_more_mutated_files_are_read_or_refused(name):
    done, faults = fuzz.fuzz(READERS[name], seconds=6, runs=100_000, seed=1)
    assert done and not faults, faults


def test_a_fault_is_found_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "KEPT", tmp_path)
    broken = fuzz.Reader((b"seed",), "a.csv", lambda path: 1 / 0)
    done, faults = fuzz.fuzz(broken, seconds=5, runs=2)
    assert done == 2 and len(faults) == 2 and "ZeroDivisionError" in faults[0] and any(tmp_path.iterdir())
