"""Kernels on the CPU: vector code by LLVM, called by JAX through its typed foreign-function interface.

A kernel's operands are one array an argument, `(outer or 1, samples or 1, size)`; its results one an output, `(outer,
samples, size)`, or `(outer, 1, size)` if it is summed over the samples. Any number of samples runs through the same
code, in as many threads as XLA's pool has if there is work for them.
"""

import ctypes
import hashlib
import threading
from functools import cache

import jax

from diffnea.kernels import code_cache, ffi_frame, llvm_machine
from diffnea.kernels.llvm_ir import module
from diffnea.kernels.llvm_machine import Machine
from diffnea.kernels.plan import Layout
from diffnea.kernels.program import Program

__all__ = ["Layout", "target", "unavailable"]

_BITS = {"float64": 64, "float32": 32}
_lock = threading.RLock()
_made: dict[tuple, tuple[Program, str]] = {}  # by identity: equal numbers, 0.0 and −0.0, make different programs
handlers: dict[str, int] = {}  # where the code of each target begins


@cache
def unavailable() -> str | None:
    """Why kernels cannot run here; None if they can."""
    try:
        llvm_machine.host()
        ffi_frame.interface()
    except ImportError as error:
        return f"{error}; install llvmlite"
    except (ValueError, RuntimeError, OSError) as error:
        return str(error)
    return None


def target(program: Program, layout: Layout, dtype: str) -> str:
    """The name under which XLA finds the program as a custom call: compiled, or taken from the cache, at first use."""
    machine = llvm_machine.host()
    key = id(program), layout, dtype, machine
    with _lock:
        if key not in _made:
            _made[key] = program, _register(program, layout, _BITS[dtype], machine)
        return _made[key][1]


def _register(program: Program, layout: Layout, bits: int, machine: Machine) -> str:
    """Load a program's code and tell JAX of it."""
    run = _load_runtime(bits, machine)
    assembly = module(program, layout, bits, machine.vectors, run)
    name = f"diffnea_{hashlib.sha256((assembly + repr(machine)).encode()).hexdigest()[:32]}"
    if name not in handlers:
        (handler,) = llvm_machine.load(compiled(assembly, machine), machine, "handler")
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(ctypes.c_void_p(handler)), platform="cpu")
        handlers[name] = handler
    return name


@cache
def _load_runtime(bits: int, machine: Machine) -> str:
    """Load what runs kernels of one element type, where they find it; the name of its main function."""
    llvm_machine.publish_library()
    assembly, run = ffi_frame.runtime(bits)
    names = ffi_frame.helpers(bits)
    for name, address in zip(names, llvm_machine.load(compiled(assembly, machine), machine, *names), strict=True):
        llvm_machine.publish(name, address)
    return run


def compiled(assembly: str, machine: Machine) -> bytes:
    """Code of an assembly, from the cache if it is there."""
    content = hashlib.sha256(assembly.encode()).hexdigest()
    key = "\n".join([content, llvm_machine.version(), machine.triple, machine.cpu, machine.features])
    code = code_cache.read(key)
    if code is None:
        code = llvm_machine.object_code(assembly, machine)
        code_cache.write(key, code)
    return code
