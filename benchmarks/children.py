"""Processes of their own: pinned to cores, their environment set before anything is imported, ended when too slow."""

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from unittest import mock

_starting = threading.Lock()  # the environment is the whole process's
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Failed(Exception):
    """Why something could not be measured, in one line."""


class Child:
    """A process on some cores; it runs the functions it is called with, one after the other."""

    def __init__(self, cores: Sequence[int], **environment: str):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(len(cores)))
        flags = {"XLA_FLAGS": ONE_THREAD if len(cores) == 1 else "", "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu"}
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        with _starting, mock.patch.dict(os.environ, {**threads, **flags, **environment}):
            self._process = context.Process(target=_serve, args=(theirs, list(cores)), daemon=True)
            self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it can still be called."""
        return not self._pipe.closed

    def call(self, function: Callable, *arguments: Any, timeout: float) -> Any:
        """The function's result there; `Failed` if it raises, ends the process or takes too long."""
        try:
            self._pipe.send((function, arguments))
            answered = self._pipe.poll(timeout)
            done, result = self._pipe.recv() if answered else (False, f"no result within {timeout:.0f} s")
        except (EOFError, OSError):
            self._process.join(5)
            answered, done, result = False, False, f"its process ended (exit code {self._process.exitcode})"
        if not answered:
            self.end()
        if not done:
            raise Failed(result)
        return result

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Any, cores: list[int]) -> None:
    """What a child does: run functions and send what they return, and print nothing."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    warnings.simplefilter("ignore")
    with suppress(EOFError):
        while True:
            function, arguments = pipe.recv()
            try:
                pipe.send((True, function(*arguments)))
            except Exception as error:  # whatever a peer does, the run goes on
                pipe.send((False, _in_one_line(error)))


def _in_one_line(error: Exception) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return line if isinstance(error, Failed) else f"{type(error).__name__}: {line}"[:160]
