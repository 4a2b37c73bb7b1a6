"""Work that makes many objects which stay: Python's search for garbage is put off until it is done."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_pauses() -> Iterator[None]:
    """Tracing leaves hundreds of thousands of objects behind; looking through all of them again and again, a full
    collection each time, would take a tenth of the time to a first result."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()
