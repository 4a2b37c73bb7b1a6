"""Kernels on the CPU: vector code by LLVM, called by JAX through its typed foreign-function interface.

A kernel's operands are one array an argument, `(outer or 1, samples or 1, size)`; its results one an output, `(outer,
samples, size)`, or `(outer, 1, size)` if it is summed over the samples. Any number of samples runs through the same
code, in as many threads as XLA's pool has if there is work for them.
"""

import functools
import hashlib
from collections.abc import Callable

from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.ir.program import Program
from diffnea.kernels.jax import cache, ffi_frame
from diffnea.kernels.jax.targets import Targets, obstacle
from diffnea.kernels.llvm import machine as llvm_machine
from diffnea.kernels.llvm.machine import Machine
from diffnea.kernels.llvm.module import module

__all__ = ["Layout", "recalled", "target", "unavailable"]

_BITS = {"float64": 64, "float32": 32}
_targets = Targets("cpu")
_recalled: dict[str, str] = {}  # targets of functions that have a name
handlers = _targets.handlers


@functools.cache
def unavailable() -> str | None:
    """Why kernels cannot run here; None if they can."""
    return obstacle(llvm_machine.host, ffi_frame.interface)


def target(program: Program, layout: Layout, dtype: str, name: str | None = None) -> str:
    """The name under which XLA finds the program as a custom call: compiled, or taken from the cache, at first use.

    The code of a function with a name of its own is kept under that, too, for `recalled`.
    """
    machine = llvm_machine.host()
    return _targets.of(program, (layout, dtype, machine), lambda: _make(program, layout, dtype, machine, name))


def _make(program: Program, layout: Layout, dtype: str, machine: Machine, name: str | None) -> str:
    assembly = module(program, layout, _BITS[dtype], machine.vectors, _load_runtime(_BITS[dtype], machine))
    code = compiled(assembly, machine)
    if name is None:
        return _register(assembly + repr(machine), code, machine)
    # Under the name that `recalled` gives it, too: then a later process asks XLA for the same program as this one.
    key = _named(name, layout, dtype, machine)
    cache.write(key, code)
    _recalled[key] = _register(key, code, machine)
    return _recalled[key]


def recalled(name: str, layout: Layout, dtype: str) -> str | None:
    """The same for a function known by name, if its code was kept by this process or another."""
    machine = llvm_machine.host()
    key = _named(name, layout, dtype, machine)
    with _targets.lock:
        if key not in _recalled:
            code = cache.read(key)
            if code is None or not llvm_machine.is_object(code):
                return None
            _load_runtime(_BITS[dtype], machine)
            _recalled[key] = _register(key, code, machine)
        return _recalled[key]


def _named(name: str, layout: Layout, dtype: str, machine: Machine) -> str:
    return "\n".join(["named", name, repr(layout), dtype, llvm_machine.version(), repr(machine)])


def _register(content: str, code: bytes, machine: Machine) -> str:
    """Load code and tell JAX of it, once."""
    name = f"diffnea_{hashlib.sha256(content.encode()).hexdigest()[:32]}"
    if name not in handlers:
        (handler,) = llvm_machine.load(code, machine, "handler")
        _targets.register(name, handler)
    return name


@functools.cache
def _load_runtime(bits: int, machine: Machine) -> str:
    """Load what runs kernels of one element type, where they find it; the name of its main function."""
    llvm_machine.publish_library()
    names = ffi_frame.helpers(bits)
    code = _compiled(names[0], lambda: ffi_frame.runtime(bits)[0], machine)
    for name, address in zip(names, llvm_machine.load(code, machine, *names), strict=True):
        llvm_machine.publish(name, address)
    return names[0]


def compiled(assembly: str, machine: Machine) -> bytes:
    """Code of an assembly, from the cache if it is there."""
    return _compiled(hashlib.sha256(assembly.encode()).hexdigest(), lambda: assembly, machine)


def _compiled(content: str, assembly: Callable[[], str], machine: Machine) -> bytes:
    """The same of an assembly that need not be there: `content` tells it from others."""
    key = "\n".join([content, llvm_machine.version(), machine.triple, machine.cpu, machine.features])
    code = cache.read(key)
    if code is None or not llvm_machine.is_object(code):
        code = llvm_machine.object_code(assembly(), machine)
        cache.write(key, code)
    return code
