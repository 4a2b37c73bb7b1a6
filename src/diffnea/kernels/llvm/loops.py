"""Loops of a program as loops in LLVM assembly, one for a vector of samples.

What is carried stays in registers or on the stack. Rows are read when they are first used; what was there before the
step's arithmetic is written before it, the rest after.
"""

import numpy as np

from diffnea.kernels.ir.layout import body_plan, runs
from diffnea.kernels.ir.program import LEAVES, Loop, Program
from diffnea.kernels.llvm.memory import Memory
from diffnea.kernels.llvm.values import Values

# Rows are asked for so many steps of the outermost loop before they are read, if they are of more arrays than this:
# eight samples of each are read side by side, and a processor foresees about twenty such streams.
STEPS_AHEAD = 4
FORESEEN = 2


def emit_loop(parent: Values, memory: Memory, value: int, steps: tuple[str, ...]) -> list[str]:
    """Write a loop where it stands in `parent`, inside loops with these `steps`; the numbers it carries out."""
    code, instruction = parent.code, parent.plan.program.instructions[value]
    loop: Loop = instruction[1]
    initial, outer = instruction[2 : 2 + loop.num_carries], instruction[2 + loop.num_carries :]
    starts = [parent.value(start) for start in initial]
    for name in outer:  # what varies is read before the loop; what is shared, again and again inside
        if parent.plan.varies[name] and parent.plan.program.instructions[name][0] != "outer":
            parent.value(name)
    before, head, done = parent.block, f"step{len(code.lines)}", f"stepped{len(code.lines)}"
    code.jump(head)
    code.label(head)
    place = len(code.lines)
    names = [code.let("") for _ in range(1 + loop.num_carries)]
    body = _Body(parent, memory, value, (*steps, names[0]), names[1:], outer)
    body.block = head
    body.emit()
    first, last, by = (loop.length - 1, 0, -1) if loop.reverse else (0, loop.length - 1, 1)
    following = code.let(f"add i64 {names[0]},{by}")
    results = [body.value(carried) for carried in loop.body.outputs[0]]
    more = code.let(f"icmp ne i64 {names[0]},{last}")
    code.lines.append(f"br i1 {more},label %{head},label %{done}")
    code.label(done)
    kinds = [code.truth if parent.plan.is_truth[start] else code.real for start in initial]
    ways = zip(["i64", *kinds], names, [str(first), *starts], [following, *results], strict=True)
    for k, (kind, name, start, later) in enumerate(ways):
        code.lines[place + k] = f"{name}=phi {kind} [{start},%{before}],[{later},%{body.block}]"
    parent.block, parent.room = done, max(parent.room, body.room)
    return results


def _read(program: Program) -> set[int]:
    """The arguments of which a loop, or one in it, reads rows."""
    inside = (_read(instruction[1].body) for instruction in program.instructions if instruction[0] == "loop")
    return {i[1] for i in program.instructions if i[0] == "row"}.union(*inside)


class _Body(Values):
    def __init__(self, parent: Values, memory: Memory, value: int, steps, carried: list[str], outer):
        super().__init__(body_plan(parent.plan, value), parent.code, varying=True, block="")
        self._parent, self._memory, self._steps, self._outer = parent, memory, steps, outer
        self._loop: Loop = parent.plan.program.instructions[value][1]
        self._moves: dict[tuple[int, ...], str] = {}
        outermost = not isinstance(parent, _Body)
        backwards, many = self._loop.reverse, len(_read(self._loop.body)) > FORESEEN
        self._ahead: int = (-STEPS_AHEAD if backwards else STEPS_AHEAD) * many if outermost else parent._ahead
        for i, instruction in enumerate(self.plan.program.instructions):
            if instruction[0] == "carry":
                self.values[i] = carried[instruction[1]]

    def emit(self) -> None:
        given = [write for write in self._loop.writes if self._is_given(write.value)]
        self._write(given)
        self.operations()
        self._write([write for write in self._loop.writes if not self._is_given(write.value)])

    def _is_given(self, value: int) -> bool:
        return self.plan.program.instructions[value][0] in LEAVES

    def value(self, i: int) -> str:
        """A value of the body, or one from outside."""
        operation, first = self.plan.program.instructions[i][:2]
        return self._parent.value(self._outer[first]) if operation == "outer" else super().value(i)

    def loop(self, i: int) -> list[str]:
        return emit_loop(self, self._memory, i, self._steps)

    def leaf(self, i: int) -> None:
        """This step's row, with all that is beside it, or its number of a table."""
        operation, *operands = self.plan.program.instructions[i]
        if operation == "table":
            self.values[i] = self._table(operands[0])
            return
        argument, offset, strides = operands
        beside = {
            other[2]: value
            for value, other in enumerate(self.plan.program.instructions)
            if other[0] == "row" and (other[1], other[3]) == (argument, strides)
        }
        start, count = next(run for run in runs(beside) if run[0] <= offset < sum(run))
        found = self._memory.load(argument, start, count, self._moved(strides))
        if self._ahead:
            ahead = self.code.let(f"add i64 {self._moved(strides)},{self._ahead * strides[0]}")
            self._memory.fetch(argument, start, ahead)
        self.values.update({beside[start + j]: found[j] for j in range(count)})

    def _moved(self, strides: tuple[int, ...]) -> str:
        """How far this step is from the first, in elements."""
        if strides not in self._moves:
            code, total = self.code, "0"
            for stride, step in zip(strides, self._steps, strict=True):
                total = code.let(f"add i64 {total},{code.let(f'mul i64 {step},{stride}')}")
            self._moves[strides] = total
        return self._moves[strides]

    def _table(self, numbers: bytes) -> str:
        code = self.code
        return code.broadcast(code.at(code.table(np.frombuffer(numbers).tolist()), self._steps[-1]))

    def _write(self, writes) -> None:
        groups: dict[tuple, dict[int, str]] = {}
        for write in writes:
            groups.setdefault((write.output, write.strides), {})[write.offset] = self.number(write.value)
        for (output, strides), numbers in groups.items():
            self._memory.store(len(self.plan.arguments) + output, numbers, self._moved(strides))
