"""A few seconds of fuzzing with every run of the tests, a minute with all of them; `make fuzz` does a million runs."""

import importlib.util

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
    done, faults = fuzz.fuzz(READERS[name], seconds=4, runs=100_000, seed=1)
    assert done and not faults, faults


def test_a_fault_is_found_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "KEPT", tmp_path)
    broken = fuzz.Reader((b"seed",), "a.csv", lambda path: 1 / 0)
    done, faults = fuzz.fuzz(broken, seconds=5, runs=2)
    assert done == 2 and len(faults) == 2 and "ZeroDivisionError" in faults[0] and any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed (.[fuzz])")
def test_coverage_leads_it():
    done, faults = fuzz.led("urdf", seconds=60, runs=300, seed=2)
    assert done == 300 and not faults, faults
