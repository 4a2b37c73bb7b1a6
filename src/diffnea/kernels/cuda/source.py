"""A scalar program as CUDA C: one kernel, a thread a sample, and a second one that adds up what blocks have summed.

What all samples share is computed once a block, by its first thread, and kept in shared memory. What is summed over
samples is summed by each thread over all of its own, then over the block; the second kernel adds the blocks in order,
so that results do not depend on which came first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffnea.kernels.cuda.loops import Memory, loop_pressure, tables, write_loop
from diffnea.kernels.cuda.operations import HELPERS
from diffnea.kernels.cuda.schedule import order_of, pressure
from diffnea.kernels.cuda.tiles import Tiles
from diffnea.kernels.cuda.values import Values
from diffnea.kernels.ir.layout import Array, Layout, Plan, plan_of
from diffnea.kernels.ir.program import IN_LOOP, Program, operands

THREADS = 128  # a block, unless there are too few samples for that
WARP = 32
REDUCE_WARPS = 4
# A shared value is read again after so many instructions instead of being kept in a register.
WINDOW = 100
# After so many instructions a block's threads wait for each other, so that they fetch the same ones from the cache.
IN_STEP = 2000
# Values that are read from shared memory at once.
GROUP = {"float32": 4, "float64": 2}
# A thread that keeps so many registers at once does with 128 of them, so that four blocks share a multiprocessor.
FEW_REGISTERS = 125
# More sums over samples than this are no thread's own, which would be in local memory, read and written with every
# sample: a warp adds eight numbers at once over its lanes, and that to its sums in shared memory.
MANY_SUMS = 128
SUMMED_AT_ONCE = 8


@dataclass(frozen=True)
class Source:
    """CUDA C, and what a launch must know: arrays as they come, bytes of shared memory, how many numbers are summed."""

    text: str
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    shared_bytes: int
    summed: int
    threads: int


def source(program: Program, layout: Layout, dtype: str, threads: int = THREADS) -> Source:
    """The two kernels of a program, `compute`, with so many threads a block, and `reduce`."""
    return _Writer(plan_of(program, layout), dtype, threads).source()


class _Writer:
    """Writes a kernel; `self.lines` is what is written so far."""

    def __init__(self, plan: Plan, dtype: str, threads: int):
        self.plan, self.dtype, self.threads = plan, dtype, threads
        self.bytes = np.dtype(dtype).itemsize
        self.names = [f"x{k}" for k in range(len(plan.arguments))] + [f"y{k}" for k in range(len(plan.outputs))]
        self.summed = [
            (k, element, value)
            for k, (array, output) in enumerate(zip(plan.outputs, plan.program.outputs, strict=True))
            if not array.has_samples
            for element, value in enumerate(output)
        ]
        self.by_warps = len(self.summed) > MANY_SUMS
        self.sum_slots: list[int] = []  # where warps add, the number whose sum is at each place
        self.num_slots = -(-len(self.summed) // SUMMED_AT_ONCE) * SUMMED_AT_ONCE
        self.lines: list[str] = []
        self.places: dict[int, int] = {}
        words = self.bytes // 4
        self.order = order_of(plan, words)
        for value in (operand for i in self.order for operand in operands(plan.program.instructions[i])):
            if value in plan.shared:
                self.place(value)
        own_sums = 0 if self.by_warps else len(self.summed)
        kept = (max(pressure(plan, self.order), loop_pressure(plan, words)) + own_sums) * words
        self.blocks = 4 if kept < FEW_REGISTERS else 2
        loops = any(instruction[0] == "loop" for instruction in plan.program.instructions)
        self.keeps_shared = loops and kept + len(plan.shared) * words < FEW_REGISTERS
        self.shared_size = -(-len(plan.shared) // GROUP[dtype]) * GROUP[dtype]
        self.tiles = Tiles(plan, self.shared_size, threads, dtype, self.bytes)

    def place(self, value: int) -> int:
        """Where a value that all samples share is kept: in the order in which they are first used."""
        return self.places.setdefault(value, len(self.places))

    def source(self) -> Source:
        parameters = self._parameters()
        self.lines += [
            "typedef " + {"float32": "float", "float64": "double"}[self.dtype] + " real;",
            HELPERS[self.dtype],
            *(f"__device__ const real {name}[]={{{numbers}}};" for name, numbers in tables(self.plan, self.dtype)),
        ]
        self._compute(parameters)
        if self.summed:
            self._reduce(parameters)
        shared = (self.shared_size + self.tiles.size + self.threads // WARP * self.num_slots) * self.bytes
        arrays = self.plan.arguments, self.plan.outputs
        return Source("\n".join(self.lines) + "\n", *arrays, shared, len(self.summed), self.threads)

    def _parameters(self) -> str:
        count = len(self.plan.arguments)
        pairs = [
            f"{'const ' if k < count else ''}real*__restrict__ {name}_all,const long long {name}_step"
            for k, name in enumerate(self.names)
        ]
        return ",".join([*pairs, "real*__restrict__ partial,const long long samples,const long long models"])

    # The first kernel

    def _compute(self, parameters: str) -> None:
        self.lines += [
            f'extern "C" __global__ void __launch_bounds__({self.threads},{self.blocks}) compute({parameters}){{',
            "extern __shared__ __align__(16) real memory[];",
            "real*const shared=memory;",
            "const unsigned at=__cvta_generic_to_shared(memory);",
            "const int lane=threadIdx.x&31,warp=threadIdx.x>>5;",
            f"real*const sums=memory+{self.shared_size + self.tiles.size};",
            "#pragma unroll 1",
            "for(long long model=blockIdx.y;model<models;model+=gridDim.y){",
            *(f"auto const {name}={name}_all+model*{name}_step;" for name in self.names),
        ]
        if self.plan.shared:
            self.lines += ["__syncthreads();", "if(threadIdx.x==0){"]
            _Prologue(self).write()
            self.lines += ["}", "__syncthreads();"]
        if self.by_warps:
            self.lines.append(f"for(int k=lane;k<{self.num_slots};k+=32)sums[warp*{self.num_slots}+k]=0;")
            self.lines.append("__syncwarp();")
        else:
            self.lines += [f"real a{k}=0;" for k in range(len(self.summed))]
        self.lines += [
            "const long long stride=gridDim.x*(long long)blockDim.x;",
            "#pragma unroll 1",
            "for(long long first=blockIdx.x*(long long)blockDim.x;first<samples;first+=stride){",
            "const bool mine=first+threadIdx.x<samples;",  # threads without a sample of their own do the last one, too
            "const long long i=mine?first+threadIdx.x:samples-1;",
            *self._load(),
        ]
        _Body(self).write()
        self.lines += [*self.tiles.store(self.names), "}"]
        if self.summed:
            self._sum_block()
        self.lines += ["}", "}"]

    def _load(self) -> list[str]:
        """Rows by way of shared memory, and where this thread finds its own."""
        if not self.tiles.width:
            return []
        start, stride = self.tiles.start * self.bytes, self.tiles.stride * self.bytes
        own = ["const int row=(int)(i-first);", f"const unsigned at_row=at+{start}+row*{stride};"]
        return [*own, *self.tiles.load(self.names)]

    def _sum_block(self) -> None:
        """Sum over the lanes, then over the warps; one number a block and value."""
        count, slots = len(self.summed), self.num_slots
        place = "k"
        if self.by_warps:
            place = "places[k]"
            numbers = ",".join(str(k) for k in self.sum_slots)
            self.lines.append(f"static const __device__ short places[]={{{numbers}}};")
        else:
            self.lines += [f"a{k}=over_lanes(a{k});if(lane==0)sums[warp*{slots}+{k}]=a{k};" for k in range(count)]
        total = "+".join(f"sums[{warp * slots}+k]" for warp in range(self.threads // WARP))
        written = f"partial[(model*{count}+{place})*gridDim.x+blockIdx.x]={total};"
        self.lines += [
            "__syncthreads();",
            f"for(int k=threadIdx.x;k<{count};k+=blockDim.x){written}",
            "__syncthreads();",
        ]

    # The second kernel

    def _reduce(self, parameters: str) -> None:
        """A warp adds the blocks' sums of one value."""
        count = len(self.summed)
        self.lines += [
            f'extern "C" __global__ void __launch_bounds__({WARP * REDUCE_WARPS})',
            f"reduce({parameters},const int blocks){{",
            f"const int lane=threadIdx.x&31,k=blockIdx.x*{REDUCE_WARPS}+(threadIdx.x>>5);",
            f"if(k>={count})return;",
            "for(long long model=blockIdx.y;model<models;model+=gridDim.y){",
            "real sum=0;",
            f"for(int block=lane;block<blocks;block+=32)sum+=partial[(model*{count}+k)*blocks+block];",
            "sum=over_lanes(sum);",
            "if(lane)continue;",
        ]
        start = 0
        for output, array in enumerate(self.plan.outputs):
            if not array.has_samples and array.size:
                end = start + array.size
                self.lines.append(f"if(k>={start}&&k<{end})y{output}_all[model*y{output}_step+k-{start}]=sum;")
                start = end
        self.lines += ["}", "}"]


class _Prologue(Values):
    def __init__(self, writer: _Writer):
        super().__init__(writer.plan, writer.dtype, writer.lines, varying=False)
        self.writer = writer

    def leaf(self, i: int) -> None:
        _, argument, element = self.plan.program.instructions[i]
        self.assign(i, f"x{argument}[{element}]")

    def write(self) -> None:
        for i, (operation, *_) in enumerate(self.plan.program.instructions):
            if self.plan.varies[i] or operation == "constant":
                continue
            if operation != "input":
                self.compute(i)
            if i in self.plan.shared:
                self.lines.append(f"shared[{self.writer.place(i)}]={self.value(i)};")


class _Body(Values):
    def __init__(self, writer: _Writer):
        super().__init__(writer.plan, writer.dtype, writer.lines, varying=True)
        self.writer, self.keeps = writer, writer.keeps_shared
        self.memory = Memory(writer.plan, writer.names, writer.lines, writer.dtype)
        self.group = GROUP[writer.dtype]
        self.rows: dict[int, tuple[int, str]] = {}  # numbers of this thread's row: where they were read, as what
        self.waiting: list[str] = []  # numbers that are to be summed

    def leaf(self, i: int) -> None:
        _, argument, element = self.plan.program.instructions[i]
        self.assign(i, self.memory.at(argument, str(element)))

    def value(self, i: int) -> str:
        column = self.writer.tiles.column(i) if self.plan.varies[i] else None
        return super().value(i) if column is None else self._again(column)

    def compute(self, i: int) -> None:
        if self.writer.tiles.column(i) is None:
            super().compute(i)

    def _again(self, column: int) -> str:
        """A number of this thread's row, read anew where it was not read just before."""
        now = len(self.lines)
        last, name = self.rows.get(column, (-WINDOW, ""))
        if not name or now - last >= WINDOW:
            name = f"t{now}_"
            self.lines.append(f"real {name};read_row({name},at_row+{column * self.writer.bytes});")
            self.rows[column] = now, name
        return name

    def loop(self, i: int) -> list[str]:
        return write_loop(self, self.memory, i, ())

    def shared(self, value: int) -> str:
        place, now = self.writer.place(value), len(self.lines)
        group = place // self.group
        last, name = self.read.get(group, (-WINDOW, ""))
        if not name or now - last >= WINDOW and not self.keeps:
            name = f"u{now}_"
            names = [f"{name}{k}" for k in range(self.group)]
            self.lines += [f"real {','.join(names)};", f"read_shared({','.join(names)},at+{group * 16});"]
            self.read[group] = now, name
        read = f"{name}{place % self.group}"
        return f"({read}!=0)" if self.plan.is_truth[value] else read

    def write(self) -> None:
        wanted, order = self._wanted(), self.writer.order
        for number, i in enumerate(self.compute_each(order), 1):
            self._give(i, wanted.pop(i, ()))
            if number % IN_STEP == 0:
                self.lines.append("__syncthreads();")
        for i, places in wanted.items():
            self._give(i, places)
        self._add_up()

    def _wanted(self) -> dict[int, list[str | int]]:
        """Where values go: statements that take them, or the numbers of sums that warps add to."""
        wanted: dict[int, list[str | int]] = {}
        count = len(self.plan.arguments)
        for k, (array, output) in enumerate(zip(self.plan.outputs, self.plan.program.outputs, strict=True)):
            for element, value in enumerate(output):
                if array.has_samples and value != IN_LOOP:
                    column = self.writer.tiles.result(k, element)
                    place = f"if(mine){self.memory.at(count + k, str(element))}={{}};"
                    if column is not None:  # the last sample's, from several threads, is the same from each
                        place = f"write_row(at_row+{column * self.writer.bytes},{{}});"
                    wanted.setdefault(value, []).append(place)
        for k, (_, _, value) in enumerate(self.writer.summed):
            wanted.setdefault(value, []).append(k if self.writer.by_warps else f"if(mine)a{k}+={{}};")
        return wanted

    def _give(self, i: int, places: Sequence[str | int]) -> None:
        """A value to where it is wanted; to sums of warps once there are enough others."""
        for place in places:
            if isinstance(place, str):
                self.lines.append(place.format(self.value(i)))
                continue
            self.waiting.append(self.value(i))
            self.writer.sum_slots.append(place)
            if len(self.waiting) == SUMMED_AT_ONCE:
                self._add_up()

    def _add_up(self) -> None:
        """What waits, summed over the warp's samples and added to its sums."""
        if self.waiting:
            start = (len(self.writer.sum_slots) - 1) // SUMMED_AT_ONCE * SUMMED_AT_ONCE
            numbers = [*self.waiting, *["0"] * (SUMMED_AT_ONCE - len(self.waiting))]
            values = ",".join(f"mine?{number}:0" if number != "0" else number for number in numbers)
            self.lines.append(f"add_up(sums+warp*{self.writer.num_slots}+{start},lane,{values});")
            self.waiting.clear()
