"""The function JAX calls to launch kernels on a GPU, as LLVM assembly, so that no Python runs in a call.

It reads the buffers' shapes and launches on JAX's stream. What it has in common with the CPU's is taken from
`runtime/call.ll`; `ffi_frame` expands its shorthands.
"""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

import jax

from diffnea.kernels.ir.layout import Array
from diffnea.kernels.jax import ffi_frame

# Of XLA's interface, and of `runtime/call.ll`
NEEDED = {
    "stream_get": "XLA_FFI_Stream_Get",
    "allocate": "XLA_FFI_DeviceMemory_Allocate",
    "free": "XLA_FFI_DeviceMemory_Free",
}
STRUCTS = ("Version", "Metadata", "Extension", "Buffers", "Buffer", "Frame", "Api", "NewError")
FUNCTIONS = ("function", "fail", "quotient_up")
MOST_MODELS = 65_535  # at once: what CUDA allows a grid's second axis


class Launch(NamedTuple):
    """A kernel as the handler sees it: symbols whose addresses are its handles, its arrays, and how it is cut up."""

    compute: str
    reduce: str
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    threads: int
    reduce_warps: int
    most_blocks: int
    shared_bytes: int
    summed: int


@cache
def interface() -> dict[str, int]:
    """What `ffi_frame` knows of the interface, and the places of functions for devices."""
    known = ffi_frame.interface()
    path = Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h"
    functions = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((XLA_FFI_\w+)\);", path.read_text())
    if not set(NEEDED.values()) <= set(functions):
        raise ValueError(f"{path}: has no functions for devices")
    return {**known, **{name: functions.index(function) for name, function in NEEDED.items()}}


def handler(launch: Launch, bits: int) -> str:
    """The module of the function that JAX calls, `handler`."""
    arrays = [*launch.arguments, *launch.outputs]
    count = len(launch.arguments)
    slots = 2 * len(arrays) + 4  # data and step of each array; then partial sums, samples, models, blocks
    witness = next((k for k in reversed(range(len(arrays))) if arrays[k].has_samples), None)
    reads = []
    for k, array in enumerate(arrays):
        reads += [
            f"  %b{k} = call ptr @buffer(ptr %frame, i1 {k < count:d}, i64 {k if k < count else k - count})",
            f"  %s{k} = getelementptr i64, ptr %slots, i64 {2 * k}",
            f"  %r{k} = call i1 @read(ptr %b{k}, i64 {array.size}, i64 {'%samples' if array.has_samples else 1}, "
            f"i64 %models, i1 {k < count:d}, i1 {array.samples_last:d}, ptr %s{k})",
            f"  %ok{k} = and i1 {f'%ok{k - 1}' if k else 'true'}, %r{k}",
        ]
    measure = ["  %samples = add i64 1, 0"]
    if witness is not None:
        place = 2 if arrays[witness].samples_last else 1
        which = f"i1 {witness < count:d}, i64 {witness if witness < count else witness - count}"
        measure = [
            f"  %witness = call ptr @buffer(ptr %frame, {which})",
            f"  %samples = call i64 @dimension(ptr %witness, i64 {place})",
        ]
    values = {
        **interface(), **ffi_frame.ELEMENTS[bits], **launch._asdict(),
        "slots": slots, "first": 2 * len(arrays), "ins": count, "outs": len(launch.outputs),
        "measure": "\n".join(measure), "reads": "\n".join(reads), "all": f"%ok{len(arrays) - 1}",
        "most_models": MOST_MODELS, "reduce_blocks": -(-launch.summed // launch.reduce_warps),
        "reduce_threads": 32 * launch.reduce_warps, "sum_bytes": launch.summed * bits // 8,
    }  # fmt: skip
    parts = [_common(), _TYPES, _CALL, _SUMMED if launch.summed else _PLAIN]
    return ffi_frame.expand(Template("\n".join(parts)).substitute(values))


def _common() -> str:
    """Structs and functions that calls on the CPU have, too."""
    text = files("diffnea.kernels.jax").joinpath("runtime/call.ll").read_text()
    structs = re.findall(rf"^struct (?:{'|'.join(STRUCTS)}) .*$", text, re.M)
    functions = re.findall(rf"^define internal \S+ @(?:{'|'.join(FUNCTIONS)})\(.*?^}}$", text, re.M | re.S)
    assert len(structs) == len(STRUCTS) and len(functions) == len(FUNCTIONS)
    return "\n".join([*structs, *functions])


_TYPES = """
struct Stream    { i64 bytes, ptr extension, ptr context, ptr stream }
struct Allocate  { i64 bytes, ptr extension, ptr context, i64 size, i64 alignment, ptr data }
struct Free      { i64 bytes, ptr extension, ptr context, i64 size, ptr data }

declare i32 @diffnea_cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @diffnea_cuGetErrorName(i32, ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
@$compute = external global i8
@wrong = internal constant [66 x i8] c"diffnea CUDA kernel: the buffers do not have the shapes it is for\\00"
"""

_CALL = """
define ptr @handler(ptr %frame) nounwind {
  %extension = get Frame.extension %frame
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %call, label %extended
extended:
  %type = get Extension.type %extension
  %asked = icmp eq i32 %type, 1
  br i1 %asked, label %answer, label %call
answer: ; XLA asks which version of its interface this is written for
  %metadata = get Extension.metadata %extension
  %version = at Metadata.version %metadata
  set Version.major %version, $major
  set Version.minor %version, $minor
  set Metadata.traits %metadata, 0
  ret ptr null
call:
  %error = call ptr @execute(ptr %frame)
  ret ptr %error
}

define internal ptr @execute(ptr %frame) nounwind {
  %slots = alloca [$slots x i64]
  %in = at Frame.in %frame
  %out = at Frame.out %frame
  %ins = get Buffers.count %in
  %outs = get Buffers.count %out
  %same.ins = icmp eq i64 %ins, $ins
  %same.outs = icmp eq i64 %outs, $outs
  %same = and i1 %same.ins, %same.outs
  br i1 %same, label %measure, label %wrong
wrong:
  %error = call ptr @fail(ptr %frame, ptr @wrong, i32 3)
  ret ptr %error
measure: ; a result has all models
  %result = call ptr @buffer(ptr %frame, i1 false, i64 0)
  %models = call i64 @dimension(ptr %result, i64 0)
$measure
  %known = icmp sge i64 %samples, 0
  br i1 %known, label %read, label %wrong
read:
$reads
  br i1 $all, label %divide, label %wrong
divide: ; samples among blocks, and if there are many, as many samples to each block
  %rows = call i64 @llvm.smin.i64(i64 %models, i64 $most_models)
  %none = icmp sle i64 %models, 0
  br i1 %none, label %nothing, label %cut
nothing:
  ret ptr null
cut:
  %groups = call i64 @quotient_up(i64 %samples, i64 $threads)
  %share = sdiv i64 $most_blocks, %rows
  %most = call i64 @llvm.smax.i64(i64 %share, i64 1)
  %turns.or.none = call i64 @quotient_up(i64 %groups, i64 %most)
  %turns = call i64 @llvm.smax.i64(i64 %turns.or.none, i64 1)
  %blocks = call i64 @quotient_up(i64 %groups, i64 %turns)
  %at.partial = getelementptr i64, ptr %slots, i64 $first
  %at.samples = getelementptr i64, ptr %at.partial, i64 1
  %at.models = getelementptr i64, ptr %at.partial, i64 2
  %at.blocks = getelementptr i64, ptr %at.partial, i64 3
  store i64 0, ptr %at.partial
  store i64 %samples, ptr %at.samples
  store i64 %models, ptr %at.models
  store i64 %blocks, ptr %at.blocks
  %done = call ptr @run(ptr %frame, ptr %slots, i64 %blocks, i64 %rows, i64 %models)
  ret ptr %done
}

define internal ptr @buffer(ptr %frame, i1 %is.argument, i64 %k) nounwind {
  %in = at Frame.in %frame
  %out = at Frame.out %frame
  %buffers = select i1 %is.argument, ptr %in, ptr %out
  %list = get Buffers.list %buffers
  %at = getelementptr ptr, ptr %list, i64 %k
  %buffer = load ptr, ptr %at
  ret ptr %buffer
}

define internal i64 @dimension(ptr %buffer, i64 %which) nounwind {
  %type = get Buffer.type %buffer
  %rank = get Buffer.rank %buffer
  %right.type = icmp eq i32 %type, $element_type
  %right.rank = icmp eq i64 %rank, 3
  %right = and i1 %right.type, %right.rank
  br i1 %right, label %known, label %unknown
known:
  %dims = get Buffer.dims %buffer
  %at = getelementptr i64, ptr %dims, i64 %which
  %size = load i64, ptr %at
  ret i64 %size
unknown:
  ret i64 -1
}

; Where an array's data are, and how far it is from model to model; false if it is not as the kernel expects.
define internal i1 @read(ptr %buffer, i64 %size, i64 %samples, i64 %models,
                         i1 %is.argument, i1 %last, ptr %slot) nounwind {
  %its.models = call i64 @dimension(ptr %buffer, i64 0)
  %second = call i64 @dimension(ptr %buffer, i64 1)
  %third = call i64 @dimension(ptr %buffer, i64 2)
  %its.samples = select i1 %last, i64 %third, i64 %second
  %its.size = select i1 %last, i64 %second, i64 %third
  %right.samples = icmp eq i64 %its.samples, %samples
  %right.size = icmp eq i64 %its.size, %size
  %all.models = icmp eq i64 %its.models, %models
  %one.model = icmp eq i64 %its.models, 1
  %one.for.all = and i1 %one.model, %is.argument
  %right.models = or i1 %all.models, %one.for.all
  %right.most = and i1 %right.samples, %right.size
  %right = and i1 %right.most, %right.models
  %data = get Buffer.data %buffer
  %whole = mul i64 %samples, %size
  %step = select i1 %all.models, i64 %whole, i64 0
  store ptr %data, ptr %slot
  %at.step = getelementptr i64, ptr %slot, i64 1
  store i64 %step, ptr %at.step
  ret i1 %right
}

define internal ptr @launch(ptr %frame, ptr %kernel, i64 %x, i64 %y, i32 %threads, i32 %shared, ptr %slots) nounwind {
entry:
  %parameters = alloca [$slots x ptr]
  %arguments = alloca %Stream
  br label %point
point:
  %k = phi i64 [ 0, %entry ], [ %next, %point ]
  %slot = getelementptr i64, ptr %slots, i64 %k
  %parameter = getelementptr ptr, ptr %parameters, i64 %k
  store ptr %slot, ptr %parameter
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, $slots
  br i1 %more, label %point, label %ask
ask:
  %context = get Frame.context %frame
  set Stream.bytes %arguments, 32
  set Stream.extension %arguments, null
  set Stream.context %arguments, %context
  set Stream.stream %arguments, null
  %get.stream = call ptr @function(ptr %frame, i64 $stream_get)
  %no.stream = call ptr %get.stream(ptr %arguments)
  %has.stream = icmp eq ptr %no.stream, null
  br i1 %has.stream, label %go, label %stop
stop:
  ret ptr %no.stream
go:
  %stream = get Stream.stream %arguments
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %status = call i32 @diffnea_cuLaunchKernel(ptr %kernel, i32 %x32, i32 %y32, i32 1,
    i32 %threads, i32 1, i32 1, i32 %shared, ptr %stream, ptr %parameters, ptr null)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %started, label %failed
started:
  ret ptr null
failed:
  %name = alloca ptr
  store ptr @unknown, ptr %name
  %_ = call i32 @diffnea_cuGetErrorName(i32 %status, ptr %name)
  %message = load ptr, ptr %name
  %error = call ptr @fail(ptr %frame, ptr %message, i32 13)
  ret ptr %error
}
@unknown = internal constant [23 x i8] c"diffnea: CUDA, unknown\\00"
"""

_PLAIN = """
define internal ptr @run(ptr %frame, ptr %slots, i64 %blocks, i64 %rows, i64 %models) nounwind {
  %none = icmp eq i64 %blocks, 0
  br i1 %none, label %nothing, label %go
nothing:
  ret ptr null
go:
  %error = call ptr @launch(ptr %frame, ptr @$compute, i64 %blocks, i64 %rows,
    i32 $threads, i32 $shared_bytes, ptr %slots)
  ret ptr %error
}
"""

_SUMMED = """
@$reduce = external global i8

define internal ptr @run(ptr %frame, ptr %slots, i64 %blocks, i64 %rows, i64 %models) nounwind {
  %arguments = alloca %Allocate
  %released = alloca %Free
  %none = icmp eq i64 %blocks, 0
  br i1 %none, label %add.nothing, label %allocate
add.nothing: ; sums of no samples are zeros
  %zeros = call ptr @add(ptr %frame, ptr %slots, i64 %rows)
  ret ptr %zeros
allocate: ; a number a model, value and block
  %context = get Frame.context %frame
  %sums = mul i64 %models, %blocks
  %size = mul i64 %sums, $sum_bytes
  set Allocate.bytes %arguments, 48
  set Allocate.extension %arguments, null
  set Allocate.context %arguments, %context
  set Allocate.size %arguments, %size
  set Allocate.alignment %arguments, 16
  set Allocate.data %arguments, null
  %new = call ptr @function(ptr %frame, i64 $allocate)
  %full = call ptr %new(ptr %arguments)
  %got = icmp eq ptr %full, null
  br i1 %got, label %go, label %stop
stop:
  ret ptr %full
go:
  %data = get Allocate.data %arguments
  %at.partial = getelementptr i64, ptr %slots, i64 $first
  store ptr %data, ptr %at.partial
  %failed = call ptr @launch(ptr %frame, ptr @$compute, i64 %blocks, i64 %rows,
    i32 $threads, i32 $shared_bytes, ptr %slots)
  %well = icmp eq ptr %failed, null
  br i1 %well, label %reduce, label %release
reduce:
  %stuck = call ptr @add(ptr %frame, ptr %slots, i64 %rows)
  br label %release
release: ; what is on the stream already runs before anything that is given this memory next
  %error = phi ptr [ %failed, %go ], [ %stuck, %reduce ]
  set Free.bytes %released, 40
  set Free.extension %released, null
  set Free.context %released, %context
  set Free.size %released, %size
  set Free.data %released, %data
  %old = call ptr @function(ptr %frame, i64 $free)
  %kept = call ptr %old(ptr %released)
  %first = icmp eq ptr %error, null
  %either = select i1 %first, ptr %kept, ptr %error
  ret ptr %either
}

define internal ptr @add(ptr %frame, ptr %slots, i64 %rows) nounwind {
  %error = call ptr @launch(ptr %frame, ptr @$reduce, i64 $reduce_blocks, i64 %rows,
    i32 $reduce_threads, i32 0, ptr %slots)
  ret ptr %error
}
"""
