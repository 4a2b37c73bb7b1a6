"""Programs written anew: a pass says what stands where, and all references follow, into the bodies of loops."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from diffnea.kernels.ir.program import IN_LOOP, LEAVES, Loop, Program


class Rewriting:
    """One program, or one loop's body, as it is written anew.

    `writes` are values that are needed beside the program's outputs: those that a loop writes at each step.
    """

    def __init__(self, program: Program, writes: Sequence[int], rule: "Rule"):
        self.program, self.writes = program, writes
        self.instructions: list[tuple] = []
        self.now = [-1] * len(program.instructions)  # where each value of the program is; −1: nowhere
        self._rule = rule

    def add(self, instruction: tuple) -> int:
        """Add an instruction on new values; its own value."""
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def keep(self, value: int) -> None:
        """Add an instruction of the program as it is, on what its operands are now."""
        name, *rest = self.program.instructions[value]
        now = self.now
        if name == "result":
            rest = now[rest[0]], rest[1]
        elif name == "loop":
            rest = self._loop(rest[0]), *[now[operand] for operand in rest[1:]]
        elif name not in LEAVES:
            rest = [now[operand] for operand in rest]
        now[value] = self.add((name, *rest))

    def _loop(self, loop: Loop) -> Loop:
        body, now = _rewritten(loop.body, [write.value for write in loop.writes], self._rule)
        return replace(loop, body=body, writes=tuple(replace(write, value=now[write.value]) for write in loop.writes))


Rule = Callable[[Rewriting], None]  # keeps or replaces every value that outputs and writes need


def rewritten(program: Program, rule: Rule) -> Program:
    """The program by a rule, and so its loops."""
    return _rewritten(program, (), rule)[0]


def _rewritten(program: Program, writes: Sequence[int], rule: Rule) -> tuple[Program, list[int]]:
    made = Rewriting(program, writes, rule)
    rule(made)
    outputs = tuple(tuple(IN_LOOP if value == IN_LOOP else made.now[value] for value in o) for o in program.outputs)
    return replace(program, instructions=tuple(made.instructions), outputs=outputs), made.now
