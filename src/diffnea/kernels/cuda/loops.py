"""Loops of a program as loops in CUDA C, and the memory that they read and write step by step."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from diffnea.kernels.cuda.operations import literal
from diffnea.kernels.cuda.schedule import order_of, pressure
from diffnea.kernels.cuda.values import Values
from diffnea.kernels.ir.layout import Layout, Plan, body_plan, runs
from diffnea.kernels.ir.program import IN_LOOP, Loop, Program, Write, operands

WIDEST = {"float32": 4, "float64": 2}  # numbers that are read or written at once: sixteen bytes
# Rows with samples last are asked for so many steps of the outermost loop before they are read; 0: not at all. Few
# samples are few warps, and none has another one's work to do while it waits. Where a thread keeps more values than it
# has registers, finding these places costs more than it saves.
STEPS_AHEAD = 1
ALL_REGISTERS = 250


class Memory:
    """Arrays by name, at sample `i`."""

    def __init__(self, plan: Plan, names: Sequence[str], lines: list[str], dtype: str):
        self.arrays, self.names, self.lines, self.widest = [*plan.arguments, *plan.outputs], names, lines, WIDEST[dtype]
        words = np.dtype(dtype).itemsize // 4
        self.ahead = STEPS_AHEAD * (loop_pressure(plan, words) * words <= ALL_REGISTERS)

    def at(self, k: int, element: str) -> str:
        """An element of the k-th array."""
        array, name = self.arrays[k], self.names[k]
        if not array.has_samples:
            return f"{name}[{element}]"
        return f"{name}[({element})*samples+i]" if array.samples_last else f"{name}[i*{array.size}+{element}]"

    def together(self, k: int, places: Sequence[int], strides: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Places cut into pieces that are aligned and can be moved at once: first place and number."""
        array = self.arrays[k]
        for start, count in runs(places):
            while count:
                width = 1 if array.samples_last else self.widest
                own = array.size if array.has_samples else 0
                while width > count or any(number % width for number in (start, own, *strides)):
                    width //= 2
                yield start, width
                start, count = start + width, count - width


def by_columns(program: Program, layout: Layout) -> Layout:
    """The layout with samples last in all arrays that loops read or write step by step.

    Threads side by side then find their numbers side by side: 32 of them read one line of memory instead of 32.
    """
    read = set(_read(program))
    arguments = (varies and k in read for k, varies in enumerate(layout.varying))
    outputs = (not summed and IN_LOOP in o for summed, o in zip(layout.summed, program.outputs, strict=True))
    columns = (*arguments, *outputs)
    return replace(layout, columns=columns if any(columns) else ())


def _read(program: Program) -> Iterator[int]:
    """The arguments of which loops read rows."""
    for instruction in program.instructions:
        if instruction[0] == "row":
            yield instruction[1]
        elif instruction[0] == "loop":
            yield from _read(instruction[1].body)


def tables(plan: Plan, dtype: str) -> list[tuple[str, str]]:
    """Names and numbers of the tables in all loops."""
    found = {_table(numbers): np.frombuffer(numbers).tolist() for numbers in _tables(plan.program)}
    return [(name, ",".join(literal(number, dtype) for number in numbers)) for name, numbers in found.items()]


def _tables(program: Program) -> Iterator[bytes]:
    for instruction in program.instructions:
        if instruction[0] == "table":
            yield instruction[1]
        elif instruction[0] == "loop":
            yield from _tables(instruction[1].body)


def _table(numbers: bytes) -> str:
    return f"table_{hashlib.sha256(numbers).hexdigest()[:16]}"


def loop_pressure(plan: Plan, words: int) -> int:
    """How many values are kept at once in any loop, what is carried and what comes from outside included."""
    most = 0
    for value, instruction in enumerate(plan.program.instructions):
        if instruction[0] == "loop":
            inner, loop = body_plan(plan, value), instruction[1]
            kept = sum(plan.varies[operand] for operand in operands(instruction))
            own = pressure(inner, order_of(inner, words, loop))
            most = max(most, kept + own, loop_pressure(inner, words))
    return most


def write_loop(parent: Values, memory: Memory, value: int, steps: tuple[str, ...]) -> list[str]:
    """Write a loop where it stands in `parent`, inside loops with these `steps`; the names of what it carries out."""
    instruction, lines = parent.plan.program.instructions[value], parent.lines
    loop: Loop = instruction[1]
    outer = instruction[2 + loop.num_carries :]
    prefix = f"{parent.prefix}{value}_"
    for used in outer:  # what varies is read before the loop; what is shared, if there is room for it
        own = parent.plan.program.instructions[used][0] != "outer"
        if own and (parent.plan.varies[used] or parent.keeps):
            parent.value(used)
    carried = [f"{prefix}k{k}" for k in range(loop.num_carries)]
    for name, start in zip(carried, instruction[2:], strict=False):
        lines.append(f"{'bool' if parent.plan.is_truth[start] else 'real'} {name}={parent.value(start)};")
    step = f"{prefix}t"
    forwards, backwards = f"{step}=0;{step}<{loop.length};++{step}", f"{step}={loop.length - 1};{step}>=0;--{step}"
    lines += ["#pragma unroll 1", f"for(int {backwards if loop.reverse else forwards}){{"]
    if not steps and memory.ahead:
        later = f"max({step}-{memory.ahead},0)" if loop.reverse else f"min({step}+{memory.ahead},{loop.length - 1})"
        lines.append(f"const int {step}a={later};")
    read = dict(parent.read)
    _Body(parent, memory, value, (*steps, step), carried, outer).write()
    parent.read.clear()  # what is read inside is not known outside
    parent.read.update(read)
    lines.append("}")
    return carried


class _Body(Values):
    def __init__(self, parent: Values, memory: Memory, value: int, steps, carried: list[str], outer):
        plan = body_plan(parent.plan, value)
        super().__init__(plan, parent.dtype, parent.lines, varying=True, prefix=f"{parent.prefix}{value}_")
        self._parent, self._memory, self._steps, self._outer, self._carried = parent, memory, steps, outer, carried
        self._loop: Loop = parent.plan.program.instructions[value][1]
        self.read = parent.read

    def write(self) -> None:
        words = np.dtype(self.dtype).itemsize // 4
        list(self.compute_each(order_of(self.plan, words, self._loop)))
        self._write(self._loop.writes)
        results = [self.value(value) for value in self._loop.body.outputs[0]]
        # What is carried may be exchanged: all new ones are read before one is set.
        self.lines.extend(f"const auto {name}n={new};" for name, new in zip(self._carried, results, strict=True))
        self.lines.extend(f"{name}={name}n;" for name in self._carried)

    def value(self, i: int) -> str:
        operation, *operands = self.plan.program.instructions[i]
        if operation == "outer":
            return self._parent.value(self._outer[operands[0]])
        return self._carried[operands[0]] if operation == "carry" else super().value(i)

    def loop(self, i: int) -> list[str]:
        return write_loop(self, self._memory, i, self._steps)

    def leaf(self, i: int) -> None:
        """This step's row, with what is beside it, or its number of a table."""
        operation, *operands = self.plan.program.instructions[i]
        if operation == "table":
            self.assign(i, f"{_table(operands[0])}[{self._steps[-1]}]")
            return
        argument, offset, strides = operands
        beside = {
            other[2]: value
            for value, other in enumerate(self.plan.program.instructions)
            if other[0] == "row" and (other[1], other[3]) == (argument, strides)
        }
        for start, width in self._memory.together(argument, list(beside), strides):
            if start <= offset < start + width:
                place = self._memory.at(argument, self._element(start, strides))
                if self._memory.ahead and self._memory.arrays[argument].samples_last:
                    later = self._element(start, strides, (f"{self._steps[0]}a", *self._steps[1:]))
                    self.lines.append(f"fetch(&{self._memory.at(argument, later)});")
                if width > 1:
                    self.lines.append(f"const auto {self.prefix}{i}r=*(const wide{width}*)&{place};")
                for k in range(width):
                    self.assign(beside[start + k], f"{self.prefix}{i}r.{'xyzw'[k]}" if width > 1 else place)
                    self.ready.add(beside[start + k])

    def _element(self, offset: int, strides: tuple[int, ...], steps: tuple[str, ...] = ()) -> str:
        moved = zip(steps or self._steps, strides, strict=True)
        return "+".join([str(offset), *(f"{step}*{stride}" for step, stride in moved)])

    def _write(self, writes: Sequence[Write]) -> None:
        groups: dict[tuple, dict[int, str]] = {}
        for write in writes:
            value = self.value(write.value)
            number = f"(real)({value}?1:0)" if self.plan.is_truth[write.value] else value
            groups.setdefault((write.output, write.strides), {})[write.offset] = number
        for (output, strides), numbers in groups.items():
            k = len(self.plan.arguments) + output
            for start, width in self._memory.together(k, list(numbers), strides):
                place = self._memory.at(k, self._element(start, strides))
                new = ",".join(numbers[start + j] for j in range(width))
                self.lines.append(f"if(mine)*(wide{width}*)&{place}=wide{width}{{{new}}};")
