"""NVIDIA's libraries: NVRTC compiles, the driver loads, both through `ctypes`."""

import ctypes
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

OLDEST_DRIVER = 12000  # the first whose kernels belong to no context: one handle serves all devices
# Attributes of devices and of kernels, as numbered in cuda.h
MAJOR, MINOR, MULTIPROCESSORS, THREADS, SHARED, REGISTERS = 75, 76, 16, 39, 81, 82
LOCAL_BYTES, NUM_REGISTERS, DYNAMIC_SHARED = 3, 4, 8


@dataclass(frozen=True)
class Device:
    """What compilation and launches depend on: the architecture, and what one multiprocessor holds."""

    architecture: str
    multiprocessors: int
    threads: int
    registers: int
    shared_bytes: int


class Kernel(NamedTuple):
    """A kernel's handle, registers a thread, and bytes of local memory (what was spilled, and arrays)."""

    handle: int
    registers: int
    local_bytes: int


@cache
def driver() -> ctypes.CDLL:
    """The driver, ready; OSError or RuntimeError if there is none that serves."""
    library = ctypes.CDLL("libcuda.so.1")
    _check(library, library.cuInit(0), "cuInit")
    number = ctypes.c_int()
    _check(library, library.cuDriverGetVersion(ctypes.byref(number)), "cuDriverGetVersion")
    if number.value < OLDEST_DRIVER:
        raise RuntimeError(f"the driver is for CUDA {number.value // 1000}; kernels need {OLDEST_DRIVER // 1000}")
    return library


def _check(library: ctypes.CDLL, status: int, what: str) -> None:
    if status:
        name = ctypes.c_char_p()
        library.cuGetErrorName(status, ctypes.byref(name))
        raise RuntimeError(f"{what}: {(name.value or b'error %d' % status).decode()}")


@cache
def device() -> Device:
    """The least of the devices: code for it runs on all of its generation."""
    library, count = driver(), ctypes.c_int()
    _check(library, library.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    if not count.value:
        raise RuntimeError("no CUDA device")

    def attribute(which: int, number: int) -> int:
        value = ctypes.c_int()
        status = library.cuDeviceGetAttribute(ctypes.byref(value), which, number)
        _check(library, status, "cuDeviceGetAttribute")
        return value.value

    capability, least = min(((attribute(MAJOR, k), attribute(MINOR, k)), k) for k in range(count.value))
    numbers = (attribute(which, least) for which in (MULTIPROCESSORS, THREADS, REGISTERS, SHARED))
    return Device(f"sm_{capability[0]}{capability[1]}", *numbers)


@cache
def nvrtc() -> ctypes.CDLL:
    """The compiler: the one beside JAX, or the system's."""
    tried = [*_beside_jax(), "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
    for path in tried:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise OSError(f"NVRTC is not installed (tried {', '.join(tried)}); install jax[cuda13] or nvidia-cuda-nvrtc")


def _beside_jax() -> list[str]:
    """Where NVIDIA's packages put it: nvidia/cu13/lib or nvidia/cuda_nvrtc/lib; the newest first."""
    spec = importlib.util.find_spec("nvidia")
    roots: Iterable[str] = (spec.submodule_search_locations or ()) if spec else ()
    found = [str(path) for root in roots for path in Path(root).glob("*/lib/libnvrtc.so.*")]
    return sorted(found, key=lambda path: [int(part) for part in re.findall(r"\d+", Path(path).name)], reverse=True)


@cache
def version() -> str:
    """Of the compiler: code of one version is not used with another."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"NVRTC {major.value}.{minor.value}"


def binary(source: str, architecture: str) -> bytes:
    """Compile CUDA C. Fused multiply-add is on, as always in CUDA; nothing else departs from IEEE arithmetic."""
    library, program = nvrtc(), ctypes.c_void_p()
    created = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    assert created == 0
    try:
        options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
        if library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
            raise RuntimeError(f"NVRTC: {_text(library, program, 'ProgramLog').decode(errors='replace')}")
        return _text(library, program, "CUBIN")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def load(code: bytes, shared_bytes: dict[str, int]) -> list[Kernel]:
    """Load kernels for good, each named with the shared memory it is launched with."""
    library, module = driver(), ctypes.c_void_p()
    status = library.cuLibraryLoadData(ctypes.byref(module), code, None, None, 0, None, None, 0)
    _check(library, status, "cuLibraryLoadData")
    return [_kernel(library, module, name, most) for name, most in shared_bytes.items()]


def _kernel(library: ctypes.CDLL, module: ctypes.c_void_p, name: str, shared_bytes: int) -> Kernel:
    handle, count = ctypes.c_void_p(), ctypes.c_int()
    _check(library, library.cuLibraryGetKernel(ctypes.byref(handle), module, name.encode()), "cuLibraryGetKernel")
    library.cuDeviceGetCount(ctypes.byref(count))
    for number in range(count.value):
        status = library.cuKernelSetAttribute(DYNAMIC_SHARED, shared_bytes, handle, number)
        _check(library, status, "cuKernelSetAttribute")
    figures = []
    for which in (NUM_REGISTERS, LOCAL_BYTES):
        value = ctypes.c_int()
        _check(library, library.cuKernelGetAttribute(ctypes.byref(value), which, handle, 0), "cuKernelGetAttribute")
        figures.append(value.value)
    assert handle.value is not None
    return Kernel(handle.value, *figures)


def function(name: str) -> int:
    """The address of one of the driver's functions."""
    address = ctypes.cast(getattr(driver(), name), ctypes.c_void_p).value
    assert address is not None
    return address
