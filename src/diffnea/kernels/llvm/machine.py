"""The machine that kernels are compiled for and run on, through LLVM from the `llvmlite` package."""

import ctypes
import os
import platform
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from diffnea.kernels.llvm.module import Vectors

# Machines one can ask for with DIFFNEA_CPU: to try older ones, or to make code that runs on all of a kind.
LEVELS = {
    "x86-64": Vectors(16, fused=False),
    "x86-64-v2": Vectors(16, fused=False),
    "x86-64-v3": Vectors(32, fused=True),
    "x86-64-v4": Vectors(64, fused=True, registers=32),
}
OLDEST_LLVM = 19  # the first whose assembly has `splat`
# Code generation is set to few optimisations: on straight-line code more of them take a third longer and find nothing.
EFFORT = 1
# Addresses in full: relative ones would be shorter, but the parts of a program are only by chance within their reach.
CODE_MODEL = "jitdefault"


@dataclass(frozen=True)
class Machine:
    """What LLVM is told about a machine, and its vectors."""

    triple: str
    cpu: str
    features: str
    vectors: Vectors


@cache
def _llvm() -> Any:
    """LLVM, imported when first needed."""
    import llvmlite.binding as llvm

    if llvm.llvm_version_info[0] < OLDEST_LLVM:
        found = ".".join(map(str, llvm.llvm_version_info))
        raise ValueError(f"llvmlite has LLVM {found}; kernels need {OLDEST_LLVM} or newer")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.check_jit_execution()
    return llvm


@cache
def version() -> str:
    """Of LLVM, its wrapper and what we ask of it: code of one version is not used with another."""
    import llvmlite

    numbers = ".".join(map(str, _llvm().llvm_version_info))
    return f"llvmlite {llvmlite.__version__}, LLVM {numbers}, effort {EFFORT}, code model {CODE_MODEL}"


def host() -> Machine:
    """This machine, or the lesser one that DIFFNEA_CPU names."""
    return _host(os.environ.get("DIFFNEA_CPU", ""))


@cache
def _host(level: str) -> Machine:
    llvm = _llvm()
    triple = llvm.get_process_triple()
    if level:
        if level not in LEVELS or not triple.startswith("x86_64"):
            raise ValueError(
                f'DIFFNEA_CPU is "{level}" on {triple}; use {", ".join(LEVELS)} on x86_64, or leave it unset'
            )
        return Machine(triple, level, "-prefer-256-bit", LEVELS[level])
    features = llvm.get_host_cpu_features()
    # Some processors are said to prefer half-long vectors, for the sake of clock speed in mixed code: ours is not.
    flags = ",".join([features.flatten(), "-prefer-256-bit"] if triple.startswith("x86_64") else [features.flatten()])
    return Machine(triple, llvm.get_host_cpu_name(), flags, _vectors(features))


def _vectors(features: dict[str, bool]) -> Vectors:
    """The longest vectors that this processor has."""
    kind = platform.machine().lower()
    if kind in ("arm64", "aarch64"):
        return Vectors(16, fused=True, registers=32)
    if kind not in ("x86_64", "amd64"):
        raise ValueError(f"processor {kind}; kernels are made for x86_64 and aarch64")
    has = features.get
    long = has("avx512f") and has("avx512vl") and has("avx512bw") and has("avx512dq")
    return Vectors(64 if long else 32 if has("avx2") else 16, bool(has("fma")), registers=32 if long else 16)


def _target_machine(machine: Machine) -> Any:
    target = _llvm().Target.from_triple(machine.triple)
    return target.create_target_machine(machine.cpu, machine.features, EFFORT, codemodel=CODE_MODEL, jit=True)


def object_code(assembly: str, machine: Machine) -> bytes:
    """Compile a module."""
    llvm = _llvm()
    target = _target_machine(machine)
    module = llvm.parse_assembly(assembly)
    module.triple, module.data_layout = machine.triple, str(target.target_data)
    module.verify()
    return target.emit_object(module)


_LOADED: list[Any] = []  # engines: their code is called until the process ends


def is_object(code: bytes) -> bool:
    """Whether this is compiled code from end to end; LLVM itself ends the process where it is not."""
    if code[:4] == b"\xcf\xfa\xed\xfe":  # Mach-O, 64 bits
        return len(code) > 32 and struct.unpack_from("<I", code, 12)[0] == 1
    if code[:5] != b"\x7fELF\x02" or len(code) < 64:
        return False
    order = "<" if code[5] == 1 else ">"
    (start,), (size, count) = struct.unpack_from(f"{order}Q", code, 40), struct.unpack_from(f"{order}HH", code, 58)
    return start > 0 and count > 0 and start + size * count <= len(code)


def load(code: bytes, machine: Machine, *functions: str) -> list[int]:
    """Make compiled code ready to run, for good; the addresses of some of its functions."""
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(machine))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _LOADED.append(engine)
    return [engine.get_function_address(name) for name in functions]


def publish(name: str, address: int) -> None:
    """Let code that is loaded later call this function by name."""
    _llvm().add_symbol(name, address)


@cache
def publish_library() -> None:
    """Let code call the C library's sine, cosine and power, which need not be visible in the process."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "sin"):
        library = ctypes.CDLL("libm.so.6")
    for name in ("sin", "cos", "pow"):
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None
        publish(name, address)
