"""The typed foreign-function interface of XLA, as LLVM assembly: `runtime/*.ll` for one element type.

Offsets in structs follow from their declarations there, which are those of XLA's `c_api.h`; the interface's version and
the order of its functions are read from the copy of that file that JAX brings along.
"""

import hashlib
import re
import sys
from functools import cache
from pathlib import Path
from string import Template

import jax

PARTS = ("call.ll", "pages.ll", "threads.ll", "piece.ll")
# From so many bytes on a result is asked to be on large pages, as numpy does; Linux alone can be asked.
LARGE = 2**22 if sys.platform == "linux" else 2**62
MAJOR = 0  # the version of the interface whose structs are declared there
NEEDED = {
    "error_create": "XLA_FFI_Error_Create",
    "error_destroy": "XLA_FFI_Error_Destroy",
    "schedule": "XLA_FFI_ThreadPool_Schedule",
    "num_threads": "XLA_FFI_ThreadPool_NumThreads",
}
ELEMENTS = {
    64: {"real": "double", "bytes": 8, "element_type": 12, "widen": "bitcast", "narrow": "bitcast"},
    32: {"real": "float", "bytes": 4, "element_type": 11, "widen": "fpext", "narrow": "fptrunc"},
}


@cache
def interface() -> dict[str, int]:
    """Version and places of functions of the installed interface; ValueError if it is not one we know."""
    path = Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h"
    try:
        header = path.read_text()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    version = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header))
    functions = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((XLA_FFI_\w+)\);", header)
    if version.get("MAJOR") != str(MAJOR) or not set(NEEDED.values()) <= set(functions):
        raise ValueError(f"{path}: version {version.get('MAJOR')} of the interface; use a JAX with version {MAJOR}")
    places = {name: functions.index(function) for name, function in NEEDED.items()}
    return {"major": MAJOR, "minor": int(version["MINOR"]), "functions": len(functions), **places}


@cache
def _parts(bits: int) -> tuple[str, dict[str, object]]:
    """The text that runs kernels of one element type, and what is to be filled in."""
    text = "\n".join((Path(__file__).with_name("runtime") / part).read_text() for part in PARTS)
    values = {**interface(), **ELEMENTS[bits], "bits": bits, "large": LARGE}
    digest = hashlib.sha256((text + repr(values)).encode()).hexdigest()[:16]
    return text, {**values, "run": f"diffnea_run_{digest}_f{bits}"}


def runtime(bits: int) -> tuple[str, str]:
    """The assembly that runs kernels of one element type, and the name of its function `run`, told by its content."""
    text, values = _parts(bits)
    return expand(Template(text).substitute(values)), str(values["run"])


def helpers(bits: int) -> list[str]:
    """Functions of the runtime that kernels call by name; `run` is the first."""
    return [str(_parts(bits)[1]["run"]), f"diffnea_sincos_f{bits}", f"diffnea_pow_f{bits}"]


def expand(text: str) -> str:
    """Replace the shorthands `struct`, `get`, `set` and `at` by plain assembly."""
    fields: dict[str, tuple[int, str]] = {}
    lines = []
    for number, line in enumerate(text.splitlines()):
        if found := re.fullmatch(r"struct (\w+)\s+\{(.*)\}", line):
            struct, body = found.groups()
            members = re.findall(r"(\[[^]]*\]|%?\w+) (\w+)", body)
            fields |= {f"{struct}.{name}": (place, kind) for place, (kind, name) in enumerate(members)}
            lines.append(f"%{struct} = type {{ {', '.join(kind for kind, _ in members)} }}")
        elif found := re.fullmatch(r"\s+(%[\w.]+) = (get|at) ([\w.]+) (%[\w.]+)", line):
            name, what, field, pointer = found.groups()
            address = name if what == "at" else f"%address.{number}"
            lines.append(_address(address, field, pointer, fields))
            lines += [] if what == "at" else [f"  {name} = load {fields[field][1]}, ptr {address}"]
        elif found := re.fullmatch(r"\s+set ([\w.]+) (%[\w.]+), (\S+)", line):
            field, pointer, value = found.groups()
            lines.append(_address(f"%address.{number}", field, pointer, fields))
            lines.append(f"  store {fields[field][1]} {value}, ptr %address.{number}")
        else:
            lines.append(line)
    return "\n".join(lines)


def _address(name: str, field: str, pointer: str, fields: dict[str, tuple[int, str]]) -> str:
    return f"  {name} = getelementptr %{field.split('.')[0]}, ptr {pointer}, i64 0, i32 {fields[field][0]}"
