"""Errors: one stands above all that the package raises itself."""

import diffnea as dn
from diffnea.benchmark.records import RecordError
from diffnea.benchmark.workers.lock import LockError
from diffnea.errors import DiffneaError


def test_one_error_stands_above_all_others():
    for kind in (dn.RobotFileError, dn.RecordingError, dn.FitFileError, LockError, RecordError):
        assert issubclass(kind, DiffneaError)
    assert issubclass(DiffneaError, ValueError)  # callers may catch either
