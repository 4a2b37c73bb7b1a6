"""Kernels on NVIDIA's GPUs: the same scalar programs as CUDA C, compiled by NVRTC and launched on JAX's stream.

Operands and results are those of `cpu`: `(outer or 1, samples or 1, size)` and `(outer, samples or 1, size)`. Compiled
code is kept on disk; no Python runs when a kernel is called.
"""

import ctypes
import hashlib
import threading
from functools import cache

import jax

from diffnea.kernels import code_cache, cpu, cuda_driver, cuda_handler, llvm_machine
from diffnea.kernels.cuda_driver import Device, Kernel
from diffnea.kernels.cuda_source import REDUCE_WARPS, THREADS, Source, source
from diffnea.kernels.plan import Layout
from diffnea.kernels.program import Program

__all__ = ["Layout", "target", "unavailable"]

_lock = threading.RLock()
_made: dict[tuple, tuple[Program, str]] = {}  # by identity, as in `cpu`
handlers: dict[str, int] = {}  # where the code of each target begins
kernels: dict[str, list[Kernel]] = {}  # what each target launches


@cache
def unavailable() -> str | None:
    """Why kernels cannot run here; None if they can."""
    try:
        cuda_driver.device()
        cuda_driver.nvrtc()
        llvm_machine.host()
        cuda_handler.interface()
    except ImportError as error:
        return f"{error}; install llvmlite"
    except (ValueError, RuntimeError, OSError) as error:
        return str(error)
    return None


def target(program: Program, layout: Layout, dtype: str) -> str:
    """The name under which XLA finds the program as a custom call: compiled, or taken from the cache, at first use."""
    key = id(program), layout, dtype
    with _lock:
        if key not in _made:
            _made[key] = program, _register(source(program, layout, dtype), 8 * _bytes(dtype))
        return _made[key][1]


def _bytes(dtype: str) -> int:
    return {"float64": 8, "float32": 4}[dtype]


def _register(written: Source, bits: int) -> str:
    """Load a program's code and tell JAX of it."""
    device, machine = cuda_driver.device(), llvm_machine.host()
    name = f"diffnea_cuda_{hashlib.sha256((repr(written) + repr(device)).encode()).hexdigest()[:32]}"
    if name in handlers:
        return name
    _publish_driver()
    shared = {"compute": written.shared_bytes} | ({"reduce": 0} if written.summed else {})
    kernels[name] = cuda_driver.load(compiled(written.text, device), shared)
    for kernel, suffix in zip(kernels[name], shared, strict=True):
        llvm_machine.publish(f"{name}_{suffix}", kernel.handle)  # its address, to the handler, is the kernel's handle
    assembly = cuda_handler.handler(_launch(name, written, device, kernels[name][0]), bits)
    (handler,) = llvm_machine.load(cpu.compiled(assembly, machine), machine, "handler")
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(ctypes.c_void_p(handler)), platform="CUDA")
    handlers[name] = handler
    return name


@cache
def _publish_driver() -> None:
    for name in ("cuLaunchKernel", "cuGetErrorName"):
        llvm_machine.publish(f"diffnea_{name}", cuda_driver.function(name))


def compiled(text: str, device: Device) -> bytes:
    """Machine code of CUDA C, from the cache if it is there."""
    content = hashlib.sha256(text.encode()).hexdigest()
    key = "\n".join([content, cuda_driver.version(), device.architecture])
    code = code_cache.read(key)
    if code is None:
        code = cuda_driver.binary(text, device.architecture)
        code_cache.write(key, code)
    return code


def _launch(name: str, written: Source, device: Device, kernel: Kernel) -> cuda_handler.Launch:
    """As many blocks as run at once, each with its share of the samples: a block's start and its sums cost little."""
    return cuda_handler.Launch(
        compute=f"{name}_compute",
        reduce=f"{name}_reduce",
        arguments=written.arguments,
        outputs=written.outputs,
        threads=THREADS,
        reduce_warps=REDUCE_WARPS,
        most_blocks=device.multiprocessors * _resident(device, kernel, written.shared_bytes),
        shared_bytes=written.shared_bytes,
        summed=written.summed,
    )


def _resident(device: Device, kernel: Kernel, shared_bytes: int) -> int:
    """How many blocks a multiprocessor holds at once; registers are given out 256 a warp, shared memory 1 KiB more."""
    registers = -(-kernel.registers * 32 // 256) * 256 * THREADS // 32
    by_shared = device.shared_bytes // (shared_bytes + 1024)
    return max(min(device.threads // THREADS, device.registers // registers, by_shared), 1)
