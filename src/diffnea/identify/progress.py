"""Progress: whoever watches a fit is told how far it is; the loops tell, without each function on the way knowing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# Called with the stage, the step in it, how many there are at most, and the lowest error so far.
Watch = Callable[[str, int, int, float], None]

_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_stage: ContextVar[str] = ContextVar("stage", default="")


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Tell `watch` what happens in here."""
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What goes on in here; told at once, with no error yet."""
    before = _stage.set(name)
    try:
        tell(0, 0, float("nan"))
        yield
    finally:
        _stage.reset(before)


def tell(step: int, steps: int, error: float) -> None:
    """A step was taken."""
    watch = _watch.get()
    if watch is not None:
        watch(_stage.get(), step, steps, error)
