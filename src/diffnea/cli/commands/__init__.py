"""Commands: each module one, as a class with `run` and `summary`."""
