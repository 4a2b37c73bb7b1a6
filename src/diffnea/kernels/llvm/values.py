"""Values of a program as names in LLVM assembly, and the operations that make them: what every function has."""

from collections.abc import Sequence
from functools import partial, reduce

from diffnea.kernels.ir.layout import Plan
from diffnea.kernels.ir.program import LEAVES
from diffnea.kernels.llvm import math as llvm_math
from diffnea.kernels.llvm.code import Code
from diffnea.kernels.llvm.operations import ON_TRUTH, OPERATIONS, extremum


class Values:
    """Values by their number in the program, and the operations that make them."""

    def __init__(self, plan: Plan, code: Code, varying: bool, block: str):
        self.plan, self.code, self.varying, self.block = plan, code, varying, block
        self.values: dict[int, str] = {}
        self.room = 1  # for how many numbers calls into the library need memory
        instructions = plan.program.instructions
        turns = [operands[0] for operation, *operands in instructions if operation in ("sin", "cos")]
        self._angles = [angle for angle in dict.fromkeys(turns) if plan.varies[angle] == varying]
        self._sincos: dict[int, tuple[str, str]] = {}
        self._loops: dict[int, list[str]] = {}

    def shared(self, value: int) -> str:
        """A value that another function computed."""
        raise NotImplementedError

    def value(self, i: int) -> str:
        """A value or literal as text."""
        if i not in self.values:
            operation, first = self.plan.program.instructions[i][:2]
            if operation == "constant":
                self.values[i] = self.code.bool(first) if self.plan.is_truth[i] else self.code.number(first)
            elif self.plan.varies[i] != self.varying:
                return self.shared(i)
            elif operation in LEAVES:
                self.leaf(i)
        return self.values[i]

    def number(self, i: int) -> str:
        """A value as a real: 1 and 0 for true and false."""
        code, value = self.code, self.value(i)
        return code.select(value, code.number(1.0), code.number(0.0)) if self.plan.is_truth[i] else value

    def leaf(self, i: int) -> None:
        """Read what is given, where it is first used: not kept before."""
        raise NotImplementedError

    def loop(self, i: int) -> list[str]:
        """Run a loop; the numbers carried out of it."""
        raise NotImplementedError

    def operations(self) -> None:
        """Every operation that belongs here, in the program's order."""
        for i, (operation, *operands) in enumerate(self.plan.program.instructions):
            if operation in LEAVES or self.plan.varies[i] != self.varying:
                continue
            if operation == "loop":
                self._loops[i] = self.loop(i)
                continue
            if operation == "result":
                self.values[i] = self._loops[operands[0]][operands[1]]
            elif operation in ("sin", "cos"):
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
        code, here = self.code, len(self.code.lines)
        on, aside = f"on{here}", f"aside{here}"
        known = [angle for angle in self._angles if angle < now or self.plan.program.instructions[angle][0] in LEAVES]
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
