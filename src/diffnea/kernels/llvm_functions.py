"""The two functions of a kernel: `prepare` for what all samples share, `compute` for a vector of samples at a time."""

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from diffnea.kernels import llvm_math
from diffnea.kernels.llvm_code import Code
from diffnea.kernels.llvm_operations import ON_TRUTH, OPERATIONS, extremum
from diffnea.kernels.llvm_rows import load_rows, store_rows
from diffnea.kernels.program import Program

# Shared values are read again after so many instructions instead of being kept: reading one into all lanes costs as
# much as reading back a spilled vector, takes an eighth of the memory, and saves writing it.
WINDOW = 200


class Array(NamedTuple):
    """An argument or output: its size, whether it has samples, and whether they are its last axis."""

    size: int
    has_samples: bool
    samples_last: bool


class Plan(NamedTuple):
    """A program, and for each of its values: does it vary with the sample, is it a truth value; and the shared ones."""

    program: Program
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    varies: tuple[bool, ...]
    is_truth: tuple[bool, ...]
    shared: dict[int, int]  # values that are computed once and used for each sample, and where they are kept


class _Function:
    """Values by their number in the program, and the operations that make them."""

    def __init__(self, plan: Plan, code: Code, varying: bool, block: str):
        self.plan, self.code, self.varying, self.block = plan, code, varying, block
        self.values: dict[int, str] = {}
        self.room = 1  # for how many numbers calls into the library need memory
        instructions = plan.program.instructions
        turns = [operands[0] for operation, *operands in instructions if operation in ("sin", "cos")]
        self._angles = [angle for angle in dict.fromkeys(turns) if plan.varies[angle] == varying]
        self._sincos: dict[int, tuple[str, str]] = {}

    def shared(self, value: int) -> str:
        """A value that another function computed."""
        raise NotImplementedError

    def value(self, i: int) -> str:
        """A value or literal as text."""
        operation, *operands = self.plan.program.instructions[i]
        if operation == "constant":
            return self.code.bool(operands[0]) if self.plan.is_truth[i] else self.code.number(operands[0])
        if self.plan.varies[i] != self.varying:
            return self.shared(i)
        if operation == "input" and i not in self.values:
            self.values[i] = self.input(*operands)
        return self.values[i]

    def input(self, argument: int, element: int) -> str:
        """An element of an argument, read where it is first used: not kept before."""
        raise NotImplementedError

    def operations(self) -> None:
        """Every operation that belongs here, in the program's order."""
        for i, (operation, *operands) in enumerate(self.plan.program.instructions):
            if operation in ("input", "constant") or self.plan.varies[i] != self.varying:
                continue
            if operation in ("sin", "cos"):
                if operands[0] not in self._sincos:
                    self._sines_and_cosines(i)
                self.values[i] = self._sincos[operands[0]][operation == "cos"]
            else:
                self.values[i] = self._operation(operation, operands)
            self.made(i)

    def made(self, value: int) -> None:
        """What else is to be done once a value is there."""

    def _operation(self, operation: str, operands: Sequence[int]) -> str:
        if self.plan.is_truth[operands[-1]]:
            return ON_TRUTH[operation](self.code, *map(self.value, operands))
        if operation in ("min", "max"):
            number, other = sorted(operands, key=self._is_number, reverse=True)
            pair = self.value(number), self.value(other)
            return extremum(self.code, operation, *pair, a_is_number=self._is_number(number))
        if operation == "pow":
            return self._library("pow", [self.value(o) for o in operands], results=1)[0]
        return OPERATIONS[operation](self.code, *map(self.value, operands))

    def _is_number(self, i: int) -> bool:
        """Is it known, and not NaN?"""
        operation, *operands = self.plan.program.instructions[i]
        return operation == "constant" and operands[0] == operands[0]

    def _sines_and_cosines(self, now: int) -> None:
        """Of every angle known by now, so that one test for large ones serves them all."""
        code, on, aside = self.code, f"on{now}", f"aside{now}"
        known = [angle for angle in self._angles if angle < now or self.plan.program.instructions[angle][0] == "input"]
        group = [angle for angle in known if angle not in self._sincos]
        angles = [self.value(angle) for angle in group]
        limit = code.number(llvm_math.largest_angle(code.bits, code.fused))
        small = [code.compare("ule", code.call("fabs", angle), limit) for angle in angles]
        quick = [llvm_math.sincos(code, angle) for angle in angles]
        code.branch(code.not_everywhere(reduce(partial(code.logic, "and"), small)), aside, on)
        code.label(aside)
        found = self._library("sincos", angles, results=2 * len(angles))
        pairs = zip(found[: len(angles)], found[len(angles) :], strict=True)
        # A lane with a small angle keeps the quick answer: a sample's result does not depend on its neighbours.
        slow = [tuple(map(partial(code.select, s), *both)) for s, *both in zip(small, quick, pairs, strict=True)]
        code.jump(on)
        code.label(on)
        for angle, *ways in zip(group, slow, quick, strict=True):
            sine, cosine = (code.phi((s, aside), (q, self.block)) for s, q in zip(*ways, strict=True))
            self._sincos[angle] = sine, cosine
        self.block = on

    def _library(self, name: str, operands: list[str], results: int) -> list[str]:
        """Call into the C library, lane by lane, through memory: operands, then results, a third each."""
        code, count = self.code, len(operands) + results
        self.room = max(self.room, count * code.lanes)
        places = [code.at("%room", code.lanes * k) for k in range(count)]
        for operand, place in zip(operands, places, strict=False):
            code.store(operand, place)
        function = f"@diffnea_{name}_f{code.bits}"
        code.declarations.add(f"declare void {function}(ptr,i64)")
        code.lines.append(f"call void {function}(ptr %room,i64 {count // 3 * code.lanes})")
        return [code.load(place) for place in places[len(operands) :]]

    def allocate(self, line: int) -> None:
        """Set memory for the library aside, on a line kept for it at the beginning of the function."""
        self.code.lines[line] = f"%room=alloca {self.code.scalar},i64 {self.room},align 64"


class Prepare(_Function):
    """`prepare(arrays, shared)`: everything that does not vary, as scalars."""

    def __init__(self, plan: Plan, code: Code):
        super().__init__(plan, code, varying=False, block="entry")
        self._pointers: dict[int, str] = {}

    def emit(self) -> None:
        """Write the function."""
        code = self.code
        code.lines += ["define internal void @prepare(ptr %arrays,ptr %shared) {", "entry:", ""]
        room = len(code.lines) - 1
        self.operations()
        for value, place in self.plan.shared.items():
            number = self.value(value)
            if self.plan.is_truth[value]:
                number = code.select(number, code.number(1.0), code.number(0.0))
            code.store(number, code.at("%shared", place))
        code.lines += ["ret void", "}"]
        self.allocate(room)

    def input(self, argument: int, element: int) -> str:
        """An element of an argument."""
        code = self.code
        if argument not in self._pointers:
            self._pointers[argument] = code.let(f"load ptr,ptr {code.at('%arrays', argument, 'ptr')}")
        return code.load(code.at(self._pointers[argument], element))


class Compute(_Function):
    """`compute(arrays, shared, sums, blocks, stride)`: what varies, for whole blocks of as many samples as lanes.

    `stride` is how far apart the elements of a sample are in arrays whose last axis is that of the samples.
    """

    def __init__(self, plan: Plan, code: Code):
        super().__init__(plan, code, varying=True, block="loop")
        self._window: dict[int, str] = {}
        self._base, self._window_start = "%shared", 0
        self._pointers: list[str] = []
        self._rows: dict[int, list[str]] = {}
        self._outputs = list(zip(plan.outputs, plan.program.outputs, strict=True))
        summed = [value for array, output in self._outputs if not array.has_samples for value in output]
        self._sums: dict[int, list[int]] = {}
        for place, value in enumerate(summed):
            self._sums.setdefault(value, []).append(place)

    def emit(self) -> None:
        """Write the function."""
        code = self.code
        parameters = "ptr %arrays,ptr noalias %shared,ptr noalias %sums,i64 %blocks,i64 %stride"
        code.lines += [f"define internal void @compute({parameters}) {{", "entry:", ""]
        room = len(code.lines) - 1
        self._pointers = [
            code.let(f"load ptr,ptr {code.at('%arrays', k, 'ptr')}") if array.has_samples else ""
            for k, array in enumerate((*self.plan.arguments, *self.plan.outputs))
        ]
        code.branch(code.let("icmp eq i64 %blocks,0"), "done", "loop")
        code.label("loop")
        code.lines.append("%block=phi i64 [0,%entry],[%next,%latch]")
        self.operations()
        self._store()
        code.jump("latch")
        code.label("latch")
        code.lines += ["%next=add i64 %block,1", "%more=icmp ult i64 %next,%blocks"]
        code.lines += ["br i1 %more,label %loop,label %done", "done:", "ret void", "}"]
        self.allocate(room)

    def _here(self, k: int, array: Array) -> str:
        """Where the present block of the k-th array begins."""
        step = self.code.lanes * (1 if array.samples_last else array.size)
        return self.code.at(self._pointers[k], "%block", f"[{step} x {self.code.scalar}]")

    def _column(self, here: str, element: int) -> str:
        """Where an element's samples begin, if samples are the last axis."""
        return self.code.at(here, self.code.let(f"mul i64 %stride,{element}")) if element else here

    def input(self, argument: int, element: int) -> str:
        """An element of an argument; of arguments in rows, all elements are read together."""
        code, array = self.code, self.plan.arguments[argument]
        if array.samples_last:
            return code.load(self._column(self._here(argument, array), element))
        if argument not in self._rows:
            self._rows[argument] = load_rows(code, self._here(argument, array), array.size)
        return self._rows[argument][element]

    def made(self, value: int) -> None:
        """Add a value to its sums at once: it need not be kept."""
        code = self.code
        for place in self._sums.pop(value, ()):
            here = code.at("%sums", place * code.lanes)
            code.store(code.add(code.load(here), self._number(value)), here)

    def _store(self) -> None:
        code = self.code
        for value in list(self._sums):  # what no operation made
            self.made(value)
        outputs = [[self._number(v) for v in o] if a.has_samples else [] for a, o in self._outputs]
        for k, ((array, _), values) in enumerate(zip(self._outputs, outputs, strict=True), len(self.plan.arguments)):
            if not array.has_samples:
                continue
            here = self._here(k, array)
            if array.samples_last:
                for element, value in enumerate(values):
                    code.store(value, self._column(here, element))
            else:
                store_rows(code, here, values)

    def _number(self, i: int) -> str:
        """A value as a real: 1 and 0 for true and false."""
        code, value = self.code, self.value(i)
        return code.select(value, code.number(1.0), code.number(0.0)) if self.plan.is_truth[i] else value

    def shared(self, value: int) -> str:
        """A value from memory, in every lane; the same reading serves for a while."""
        code = self.code
        if len(code.lines) > self._window_start + WINDOW:
            # What comes out of this empty instruction is the same pointer, but LLVM cannot know, and reads anew.
            self._base = code.let('call ptr asm "","=r,0"(ptr %shared)')
            self._window, self._window_start = {}, len(code.lines)
        if value not in self._window:
            number = code.broadcast(code.at(self._base, self.plan.shared[value]))
            if self.plan.is_truth[value]:
                number = code.compare("une", number, code.number(0.0))
            self._window[value] = number
        return self._window[value]
