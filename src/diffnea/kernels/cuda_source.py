"""A scalar program as CUDA C: one kernel, a thread a sample, and a second one that adds up what blocks have summed.

What all samples share is computed once a block, by its first thread, and kept in shared memory. A warp moves its rows
between global and shared memory together, so that memory is touched in order. What is summed over samples is summed by
each thread over all of its own, then over the block; the second kernel adds the blocks in order, so that results do not
depend on which came first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffnea.kernels.llvm_functions import Array, Plan
from diffnea.kernels.llvm_ir import Layout, plan_of
from diffnea.kernels.program import Program

THREADS = 128
WARPS = THREADS // 32
REDUCE_WARPS = 4
# A shared value is read again after so many instructions instead of being kept in a register.
WINDOW = 100
# Values that are read from shared memory at once.
GROUP = {"float32": 4, "float64": 2}
# A thread that keeps so many registers at once does with 128 of them, so that four blocks share a multiprocessor.
FEW_REGISTERS = 125
# One that would keep more than this spills, and then spills least if values are computed close to where they are used;
# else the program's own order needs fewer registers.
MANY_REGISTERS = 200

REAL = {
    "neg": "-{0}",
    "add": "{0}+{1}",
    "sub": "{0}-{1}",
    "mul": "{0}*{1}",
    "div": "{0}/{1}",
    "abs": "fabs({0})",
    "sqrt": "sqrt({0})",
    "rsqrt": "rsqrt({0})",
    "exp": "exp({0})",
    "log": "log({0})",
    "tanh": "tanh({0})",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "round": "rint({0})",  # halves to even
    "atan2": "atan2({0},{1})",
    "pow": "pow({0},{1})",
    "sign": "({0}>0?(real)1:{0}<0?(real)-1:{0})",  # zero of either sign and NaN are their own
    "min": "({0}<{1}||{0}!={0}?{0}:{1})",  # NaN if either is
    "max": "({0}>{1}||{0}!={0}?{0}:{1})",
    "select": "({0}?{1}:{2})",
}
TRUTH = {
    "lt": "{0}<{1}",
    "le": "{0}<={1}",
    "gt": "{0}>{1}",
    "ge": "{0}>={1}",
    "eq": "{0}=={1}",
    "ne": "{0}!={1}",
    "and": "{0}&&{1}",
    "or": "{0}||{1}",
    "xor": "{0}!={1}",
    "not": "!{0}",
    "select": "({0}?{1}:{2})",
}


@dataclass(frozen=True)
class Source:
    """CUDA C, and what a launch must know: arrays as they come, bytes of shared memory, how many numbers are summed."""

    text: str
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    shared_bytes: int
    summed: int


def source(program: Program, layout: Layout, dtype: str) -> Source:
    """The two kernels of a program, `compute` and `reduce`."""
    return _Writer(plan_of(program, layout), dtype).source()


def literal(number: float | bool, dtype: str) -> str:
    """A number as CUDA C spells it, exactly."""
    if isinstance(number, bool):
        return "true" if number else "false"
    with np.errstate(over="ignore"):
        number = float(np.dtype(dtype).type(number))
    suffix = "f" if dtype == "float32" else ""
    if np.isnan(number) or np.isinf(number):
        bits = "nan" if np.isnan(number) else "inf"
        return f"({'-' if number < 0 else ''}{bits}_real())"
    return f"({number!r}{suffix})" if str(number).startswith("-") else f"{number!r}{suffix}"


def schedule(plan: Plan) -> list[int]:
    """Values that vary, in an order in which each follows closely what it uses: each output's, depth first."""
    instructions, done = plan.program.instructions, set()
    order: list[int] = []

    def visit(value: int) -> None:
        stack = [value]
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
                continue
            operation, *operands = instructions[top]
            leaf = operation in ("input", "constant") or not plan.varies[top]
            waiting = [] if leaf else [operand for operand in reversed(operands) if operand not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done.add(top)
            if not leaf:
                order.append(top)

    for output in plan.program.outputs:
        for value in output:
            visit(value)
    return order


def pressure(plan: Plan, order: Sequence[int]) -> int:
    """How many values are kept at once, at most, if they are computed in this order."""
    instructions, last = plan.program.instructions, {}
    for time, value in enumerate(order):
        last.update(dict.fromkeys(instructions[value][1:], time))
    ends = [0] * len(order)
    kept = most = 0
    seen: set[int] = set()
    for time, value in enumerate(order):
        for new in (*instructions[value][1:], value):
            if new not in seen and plan.varies[new] and new in last:
                seen.add(new)
                ends[last[new]] += 1
                kept += 1
        most = max(most, kept)
        kept -= ends[time]
    return most


class _Writer:
    """Writes a kernel; `self.lines` is what is written so far."""

    def __init__(self, plan: Plan, dtype: str):
        self.plan, self.dtype = plan, dtype
        self.bytes = np.dtype(dtype).itemsize
        self.arrays = [*plan.arguments, *plan.outputs]
        self.names = [f"x{k}" for k in range(len(plan.arguments))] + [f"y{k}" for k in range(len(plan.outputs))]
        self.summed = [
            (k, element, value)
            for k, (array, output) in enumerate(zip(plan.outputs, plan.program.outputs, strict=True))
            if not array.has_samples
            for element, value in enumerate(output)
        ]
        self.lines: list[str] = []
        self.places: dict[int, int] = {}
        self.order = sorted(schedule(plan))
        if pressure(plan, self.order) * self.bytes // 4 > MANY_REGISTERS:
            self.order = schedule(plan)
        for value in (operand for i in self.order for operand in plan.program.instructions[i][1:]):
            if value in plan.shared:
                self.place(value)
        kept = (pressure(plan, self.order) + len(self.summed)) * self.bytes // 4
        self.blocks = 4 if kept < FEW_REGISTERS else 2
        self.shared_size = -(-len(plan.shared) // GROUP[dtype]) * GROUP[dtype]

    def place(self, value: int) -> int:
        """Where a value that all samples share is kept: in the order in which they are first used."""
        return self.places.setdefault(value, len(self.places))

    def source(self) -> Source:
        parameters = self._parameters()
        self.lines += [
            "typedef " + {"float32": "float", "float64": "double"}[self.dtype] + " real;",
            _HELPERS[self.dtype],
        ]
        self._compute(parameters)
        if self.summed:
            self._reduce(parameters)
        shared = (self.shared_size + WARPS * len(self.summed)) * self.bytes
        return Source("\n".join(self.lines) + "\n", self.plan.arguments, self.plan.outputs, shared, len(self.summed))

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
            f'extern "C" __global__ void __launch_bounds__({THREADS},{self.blocks}) compute({parameters}){{',
            "extern __shared__ __align__(16) real memory[];",
            "real*const shared=memory;",
            "const unsigned at=__cvta_generic_to_shared(memory);",
            "#pragma unroll 1",
            "for(long long model=blockIdx.y;model<models;model+=gridDim.y){",
            *(f"auto const {name}={name}_all+model*{name}_step;" for name in self.names),
        ]
        if self.plan.shared:
            self.lines += ["__syncthreads();", "if(threadIdx.x==0){"]
            _Prologue(self).write()
            self.lines += ["}", "__syncthreads();"]
        self.lines += [f"real a{k}=0;" for k in range(len(self.summed))]
        self.lines += [
            "const long long stride=gridDim.x*(long long)blockDim.x;",
            "#pragma unroll 1",
            "for(long long first=blockIdx.x*(long long)blockDim.x;first<samples;first+=stride){",
            "const bool mine=first+threadIdx.x<samples;",  # threads without a sample of their own do the last one, too
            "const long long i=mine?first+threadIdx.x:samples-1;",
        ]
        _Body(self).write()
        self.lines.append("}")
        if self.summed:
            self._sum_block()
        self.lines += ["}", "}"]

    def _sum_block(self) -> None:
        """Sum over the lanes, then over the warps; one number a block and value."""
        count = len(self.summed)
        self.lines += [
            f"real*const sums=memory+{self.shared_size};",
            "const int lane=threadIdx.x&31,warp=threadIdx.x>>5;",
        ]
        self.lines += [f"a{k}=over_lanes(a{k});if(lane==0)sums[warp*{count}+{k}]=a{k};" for k in range(count)]
        total = "+".join(f"sums[{warp * count}+k]" for warp in range(WARPS))
        self.lines += [
            "__syncthreads();",
            f"for(int k=threadIdx.x;k<{count};k+=blockDim.x)partial[(model*{count}+k)*gridDim.x+blockIdx.x]={total};",
            "__syncthreads();",
        ]

    # The second kernel

    def _reduce(self, parameters: str) -> None:
        """A warp adds the blocks' sums of one value."""
        count = len(self.summed)
        self.lines += [
            f'extern "C" __global__ void __launch_bounds__({32 * REDUCE_WARPS})',
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


class _Values:
    """Operations of a program written as assignments, each value under the name `v…`."""

    def __init__(self, writer: _Writer, varying: bool):
        self.writer, self.plan, self.varying = writer, writer.plan, varying
        self.lines = writer.lines
        self.ready: set[int] = set()
        turns: dict[int, set[str]] = {}
        for operation, *operands in self.plan.program.instructions:
            if operation in ("sin", "cos"):
                turns.setdefault(operands[0], set()).add(operation)
        self.pairs = {angle for angle, both in turns.items() if len(both) == 2}
        self.turned: set[int] = set()

    def input(self, argument: int, element: int) -> str:
        """An element of an argument, where it is."""
        raise NotImplementedError

    def shared(self, value: int) -> str:
        """A value that the prologue computed."""
        raise NotImplementedError

    def value(self, i: int) -> str:
        operation, *operands = self.plan.program.instructions[i]
        if operation == "constant":
            return literal(operands[0], self.writer.dtype)
        if self.plan.varies[i] != self.varying:
            return self.shared(i)
        if operation == "input" and i not in self.ready:
            self.lines.append(f"const real v{i}={self.input(*operands)};")
            self.ready.add(i)
        return f"v{i}"

    def compute(self, i: int) -> None:
        operation, *operands = self.plan.program.instructions[i]
        if operation in ("sin", "cos"):
            self._turn(i, operation, operands[0])
            return
        truth = self.plan.is_truth[i]
        forms = TRUTH if truth else REAL
        values = [self.value(operand) for operand in operands]
        self.lines.append(f"const {'bool' if truth else 'real'} v{i}={forms[operation].format(*values)};")

    def _turn(self, i: int, operation: str, angle: int) -> None:
        if angle not in self.pairs:
            self.lines.append(f"const real v{i}={operation}({self.value(angle)});")
            return
        if angle not in self.turned:
            self.turned.add(angle)
            self.lines.append(f"real s{angle},c{angle};turn({self.value(angle)},&s{angle},&c{angle});")
        self.lines.append(f"const real v{i}={operation[0]}{angle};")


class _Prologue(_Values):
    def __init__(self, writer: _Writer):
        super().__init__(writer, varying=False)

    def input(self, argument: int, element: int) -> str:
        return f"x{argument}[{element}]"

    def write(self) -> None:
        for i, (operation, *_) in enumerate(self.plan.program.instructions):
            if self.plan.varies[i] or operation == "constant":
                continue
            if operation != "input":
                self.compute(i)
            if i in self.plan.shared:
                self.lines.append(f"shared[{self.writer.place(i)}]={self.value(i)};")


class _Body(_Values):
    def __init__(self, writer: _Writer):
        super().__init__(writer, varying=True)
        self.read: dict[int, tuple[int, str]] = {}
        self.group = GROUP[writer.dtype]

    def input(self, argument: int, element: int) -> str:
        return self._at(argument, element)

    def _at(self, k: int, element: int) -> str:
        array, name = self.writer.arrays[k], self.writer.names[k]
        return f"{name}[{element}*samples+i]" if array.samples_last else f"{name}[i*{array.size}+{element}]"

    def shared(self, value: int) -> str:
        place, now = self.writer.place(value), len(self.lines)
        group = place // self.group
        last, name = self.read.get(group, (-WINDOW, ""))
        if now - last >= WINDOW:
            name = f"u{now}_"
            names = [f"{name}{k}" for k in range(self.group)]
            self.lines += [f"real {','.join(names)};", f"read_shared({','.join(names)},at+{group * 16});"]
            self.read[group] = now, name
        read = f"{name}{place % self.group}"
        return f"({read}!=0)" if self.plan.is_truth[value] else read

    def write(self) -> None:
        wanted: dict[int, list[str]] = {}
        count = len(self.plan.arguments)
        for k, (array, output) in enumerate(zip(self.plan.outputs, self.plan.program.outputs, strict=True)):
            for element, value in enumerate(output):
                if array.has_samples:
                    wanted.setdefault(value, []).append(f"if(mine){self._at(count + k, element)}=")
        for k, (_, _, value) in enumerate(self.writer.summed):
            wanted.setdefault(value, []).append(f"if(mine)a{k}+=")
        order = self.writer.order
        inside = set(order)
        for i in order:
            self.compute(i)
            self.lines += [f"{to}{self.value(i)};" for to in wanted.get(i, ())]
        for i, places in wanted.items():
            if i not in inside:
                self.lines += [f"{to}{self.value(i)};" for to in places]


# Sine and cosine to 1.5 units in the last place: the angle less a multiple of a quarter turn in three steps, then
# polynomials. The library's are as exact, but carry code for large angles to every use of them.
_TURN = {
    "float32": """__device__ __noinline__ real far_angle(real x){return atan2f(sinf(x),cosf(x));}
__device__ __forceinline__ void turn(real x,real*s,real*c){
if(!(fabsf(x)<48000.0f))x=far_angle(x);
const float shifted=fmaf(x,0.636619747f,12582912.0f),n=shifted-12582912.0f;
const unsigned quarter=__float_as_uint(shifted);
float r=fmaf(n,-1.57079601e+00f,x);
r=fmaf(n,-3.13916473e-07f,r);
r=fmaf(n,-5.39030253e-15f,r);
const float rr=r*r;
float p=fmaf(2.86567956e-6f,rr,-1.98559923e-4f);
p=fmaf(p,rr,8.33338592e-3f);
p=fmaf(p,rr,-1.66666672e-1f);
p=fmaf(p,rr*r,r);
float q=fmaf(2.44677067e-5f,rr,-1.38877297e-3f);
q=fmaf(q,rr,4.16666567e-2f);
q=fmaf(q,rr,-5.00000000e-1f);
q=fmaf(q,rr,1.0f);
const float a=quarter&1?q:p,b=quarter&1?p:q;
*s=__uint_as_float(__float_as_uint(a)^(quarter<<30&0x80000000u));
*c=__uint_as_float(__float_as_uint(b)^((quarter<<30)+0x40000000u&0x80000000u));
}""",
    "float64": "__device__ __forceinline__ void turn(real x,real*s,real*c){sincos(x,s,c);}",
}
# Volatile, so that the compiler reads again where it is told to, instead of keeping all of it in registers.
_READ = {
    "float32": """__device__ __forceinline__ void read_shared(real&a,real&b,real&c,real&d,unsigned at){
asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];":"=f"(a),"=f"(b),"=f"(c),"=f"(d):"r"(at));
}""",
    "float64": """__device__ __forceinline__ void read_shared(real&a,real&b,unsigned at){
asm volatile("ld.shared.v2.f64 {%0,%1},[%2];":"=d"(a),"=d"(b):"r"(at));
}""",
}
_HELPERS = {
    dtype: f"""__device__ __forceinline__ real inf_real(){{return {inf};}}
__device__ __forceinline__ real nan_real(){{return {nan};}}
__device__ __forceinline__ real over_lanes(real a){{
for(int step=16;step;step>>=1)a+=__shfl_down_sync(0xffffffffu,a,step);
return a;
}}
{_READ[dtype]}
{_TURN[dtype]}"""
    for dtype, inf, nan in (
        ("float32", "__int_as_float(0x7f800000)", "__int_as_float(0x7fc00000)"),
        ("float64", "__longlong_as_double(0x7ff0000000000000ll)", "__longlong_as_double(0x7ff8000000000000ll)"),
    )
}
