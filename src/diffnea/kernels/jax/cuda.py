"""Kernels on NVIDIA's GPUs: the same scalar programs as CUDA C, compiled by NVRTC and launched on JAX's stream.

Operands and results are those of `cpu`: `(outer or 1, samples or 1, size)` and `(outer, samples or 1, size)`. Compiled
code is kept on disk; no Python runs when a kernel is called.
"""

import functools
import hashlib
from dataclasses import replace

from diffnea.kernels.cuda import driver as cuda_driver
from diffnea.kernels.cuda.driver import Device, Kernel
from diffnea.kernels.cuda.loops import by_columns
from diffnea.kernels.cuda.source import REDUCE_WARPS, THREADS, WARP, Source, source
from diffnea.kernels.ir.layout import Layout
from diffnea.kernels.ir.program import Program
from diffnea.kernels.jax import cache, cpu, cuda_handler
from diffnea.kernels.jax.targets import Targets, obstacle
from diffnea.kernels.llvm import machine as llvm_machine

__all__ = ["Layout", "target", "unavailable"]

_BITS = {"float64": 64, "float32": 32}
_targets = Targets("CUDA")


@functools.cache
def unavailable() -> str | None:
    """Why kernels cannot run here; None if they can."""
    return obstacle(cuda_driver.device, cuda_driver.nvrtc, llvm_machine.host, cuda_handler.interface)


def arranged(program: Program, layout: Layout) -> Layout:
    """The layout in which the program's arrays should come: samples last where loops read and write them.

    Where nothing varies there is one sample. Then all is that sample's own: what blocks share is computed in the
    program's order and kept in memory, which takes longer to compile, and to compute.
    """
    if not any(layout.varying) and not any(layout.summed):
        layout = replace(layout, varying=(True,) * len(layout.varying))
    return by_columns(program, layout)


def target(program: Program, layout: Layout, dtype: str, samples: int | None = None) -> str:
    """The name under which XLA finds the program as a custom call: compiled, or taken from the cache, at first use.

    With few samples blocks are small, so that each is on a multiprocessor of its own.
    """
    few = samples is not None and samples <= THREADS * cuda_driver.device().multiprocessors
    threads = WARP if few else THREADS
    how = layout, dtype, threads
    return _targets.of(program, how, lambda: _register(source(program, layout, dtype, threads), _BITS[dtype]))


def _register(written: Source, bits: int) -> str:
    """Load a program's code and tell JAX of it."""
    device, machine = cuda_driver.device(), llvm_machine.host()
    name = f"diffnea_cuda_{hashlib.sha256((repr(written) + repr(device)).encode()).hexdigest()[:32]}"
    if name in _targets.handlers:
        return name
    _publish_driver()
    shared = {"compute": written.shared_bytes} | ({"reduce": 0} if written.summed else {})
    loaded = cuda_driver.load(compiled(written.text, device), shared)
    for kernel, suffix in zip(loaded, shared, strict=True):
        llvm_machine.publish(f"{name}_{suffix}", kernel.handle)  # its address, to the handler, is the kernel's handle
    assembly = cuda_handler.handler(_launch(name, written, device, loaded[0]), bits)
    (handler,) = llvm_machine.load(cpu.compiled(assembly, machine), machine, "handler")
    _targets.register(name, handler)
    return name


@functools.cache
def _publish_driver() -> None:
    for name in ("cuLaunchKernel", "cuGetErrorName"):
        llvm_machine.publish(f"diffnea_{name}", cuda_driver.function(name))


def compiled(text: str, device: Device) -> bytes:
    """Machine code of CUDA C, from the cache if it is there."""
    content = hashlib.sha256(text.encode()).hexdigest()
    key = "\n".join([content, cuda_driver.version(), device.architecture])
    code = cache.read(key)
    if code is None:
        code = cuda_driver.binary(text, device.architecture)
        cache.write(key, code)
    return code


def _launch(name: str, written: Source, device: Device, kernel: Kernel) -> cuda_handler.Launch:
    """As many blocks as run at once, each with its share of the samples: a block's start and its sums cost little."""
    return cuda_handler.Launch(
        compute=f"{name}_compute",
        reduce=f"{name}_reduce",
        arguments=written.arguments,
        outputs=written.outputs,
        threads=written.threads,
        reduce_warps=REDUCE_WARPS,
        most_blocks=device.multiprocessors * _resident(device, kernel, written),
        shared_bytes=written.shared_bytes,
        summed=written.summed,
    )


def _resident(device: Device, kernel: Kernel, written: Source) -> int:
    """How many blocks a multiprocessor holds at once; registers are given out 256 a warp, shared memory 1 KiB more."""
    registers = -(-kernel.registers * WARP // 256) * 256 * written.threads // WARP
    by_shared = device.shared_bytes // (written.shared_bytes + 1024)
    return max(min(device.threads // written.threads, device.registers // registers, by_shared), 1)
