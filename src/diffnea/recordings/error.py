"""RecordingError: a recording that cannot be used."""

from diffnea.errors import DiffneaError


class RecordingError(DiffneaError):
    """A recording that cannot be used: one line with where, what was found and what is accepted."""
