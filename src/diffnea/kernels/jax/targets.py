"""The custom calls that XLA knows: a program's code is loaded at its first use and kept until the process ends."""

import ctypes
import threading
from collections.abc import Callable, Hashable

import jax

from diffnea.kernels.ir.program import Program


class Targets:
    """Those of one platform: by name, where the code of each begins."""

    def __init__(self, platform: str):
        self.platform = platform
        self.handlers: dict[str, int] = {}
        # By identity: equal numbers, 0.0 and −0.0, make different programs.
        self._made: dict[tuple[int, Hashable], tuple[Program, str]] = {}
        self.lock = threading.RLock()

    def of(self, program: Program, how: Hashable, make: Callable[[], str]) -> str:
        """The name of a program used in this way; `make` loads it, if that is not done."""
        key = id(program), how
        with self.lock:
            if key not in self._made:
                self._made[key] = program, make()
            return self._made[key][1]

    def register(self, name: str, address: int) -> None:
        """Tell JAX of code that is loaded."""
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(ctypes.c_void_p(address)), platform=self.platform)
        self.handlers[name] = address


def obstacle(*needs: Callable) -> str | None:
    """Why one of these cannot be had; None if all can."""
    try:
        for need in needs:
            need()
    except ImportError as error:
        return f"{error}; install llvmlite"
    except (ValueError, RuntimeError, OSError) as error:
        return str(error)
    return None
