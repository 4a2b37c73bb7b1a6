"""The one error above all that the package raises itself."""


class DiffneaError(ValueError):
    """What was given cannot be used, in one line: where, what was found, what is accepted."""
