"""The two functions of a kernel: `prepare` for what all samples share, `compute` for a vector of samples at a time."""

from diffnea.kernels.ir.layout import Plan, runs
from diffnea.kernels.ir.program import IN_LOOP
from diffnea.kernels.llvm.code import Code
from diffnea.kernels.llvm.loops import emit_loop
from diffnea.kernels.llvm.memory import Memory
from diffnea.kernels.llvm.values import Values

# Shared values are read again after so many instructions instead of being kept: reading one into all lanes costs as
# much as reading back a spilled vector, takes an eighth of the memory, and saves writing it.
WINDOW = 200
PARAMETERS = "ptr %arrays,ptr noalias %shared,ptr noalias %sums,i64 %blocks,i64 %stride"  # of `compute`


class Prepare(Values):
    """`prepare(arrays, shared)`: everything that does not vary, as scalars."""

    def __init__(self, plan: Plan, code: Code, suffix: str = ""):
        super().__init__(plan, code, varying=False, block="entry")
        self._name = f"prepare{suffix}"
        self._pointers: dict[int, str] = {}

    def emit(self) -> None:
        """Write the function."""
        code = self.code
        code.lines += [f"define internal void @{self._name}(ptr %arrays,ptr %shared) {{", "entry:", ""]
        room = len(code.lines) - 1
        self.operations()
        for value, place in self.plan.shared.items():
            number = self.value(value)
            if self.plan.is_truth[value]:
                number = code.select(number, code.number(1.0), code.number(0.0))
            code.store(number, code.at("%shared", place))
        code.lines += ["ret void", "}"]
        self.allocate(room)

    def leaf(self, i: int) -> None:
        """An element of an argument."""
        code, (_, argument, element) = self.code, self.plan.program.instructions[i]
        if argument not in self._pointers:
            self._pointers[argument] = code.let(f"load ptr,ptr {code.at('%arrays', argument, 'ptr')}")
        self.values[i] = code.load(code.at(self._pointers[argument], element))


class Compute(Values):
    """`compute(arrays, shared, sums, blocks, stride)`: what varies, for whole blocks of as many samples as lanes.

    `stride` is how far apart the elements of a sample are in arrays whose last axis is that of the samples.
    """

    def __init__(self, plan: Plan, code: Code, suffix: str = ""):
        super().__init__(plan, code, varying=True, block="loop")
        self._name = f"compute{suffix}"
        self._window: dict[int, str] = {}
        self._base, self._window_start = "%shared", 0
        self._memory = Memory(code, (*plan.arguments, *plan.outputs))
        self._inputs: dict[int, dict[int, int]] = {}  # of each argument, the values of its elements
        for value, instruction in enumerate(plan.program.instructions):
            if instruction[0] == "input":
                self._inputs.setdefault(instruction[1], {})[instruction[2]] = value
        self._outputs = list(zip(plan.outputs, plan.program.outputs, strict=True))
        summed = [value for array, output in self._outputs if not array.has_samples for value in output]
        self._sums: dict[int, list[int]] = {}
        for place, value in enumerate(summed):
            self._sums.setdefault(value, []).append(place)

    def emit(self) -> None:
        """Write the function."""
        code = self.code
        code.lines += [f"define internal void @{self._name}({PARAMETERS}) {{", "entry:", ""]
        room = len(code.lines) - 1
        self._memory.open()
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

    def leaf(self, i: int) -> None:
        """An element of an argument; of arguments in rows, elements are read together."""
        argument, element = self.plan.program.instructions[i][1:]
        inputs = self._inputs[argument]
        size = self.plan.arguments[argument].size
        together = runs(inputs) if 2 * len(inputs) < size else [(0, size)]
        if self.plan.arguments[argument].samples_last:
            together = [(element, 1)]
        for start, count in together:
            found = self._memory.load(argument, start, count)
            for place in range(start, start + count):
                if place in inputs:
                    self.values[inputs[place]] = found[place - start]

    def loop(self, i: int) -> list[str]:
        """Run a loop."""
        return emit_loop(self, self._memory, i, ())

    def made(self, value: int) -> None:
        """Add a value to its sums at once: it need not be kept."""
        code = self.code
        for place in self._sums.pop(value, ()):
            here = code.at("%sums", place * code.lanes)
            code.store(code.add(code.load(here), self.number(value)), here)

    def _store(self) -> None:
        for value in list(self._sums):  # what no operation made
            self.made(value)
        outputs = [
            [(p, self.number(v)) for p, v in enumerate(o) if v != IN_LOOP and a.has_samples] for a, o in self._outputs
        ]
        for k, ((array, _), numbers) in enumerate(zip(self._outputs, outputs, strict=True), len(self.plan.arguments)):
            if array.has_samples:
                self._memory.store(k, dict(numbers))

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
