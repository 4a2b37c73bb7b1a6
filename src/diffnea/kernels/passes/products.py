"""Fewer products: they bound kernels, and processors add beside multiplying.

A turn of a plane takes three instead of four. `c x + s y` and `c y − s x`, with c and s of one angle, share one: with
`k = c (x + y)` they are `k + (s − c) y` and `k − (s + c) x`. That rounds a little more, as numbers of the vector's
length do. An infinite component still gives no finite number, but may give NaN where four products give infinity. And
`2 x` is `x + x`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from diffnea.kernels.ir.program import IN_LOOP, LEAVES, Loop, Program, operands


class Half(NamedTuple):
    """`± cosine · x ± sine · y`: one of the two numbers that a turn gives."""

    cosine: int
    sine: int
    x: int
    y: int
    minus: str  # which of the two is subtracted: "cosine", "sine" or neither

    @property
    def of_same(self) -> tuple[int, int, int]:
        """By which the other half is found."""
        return self.cosine, self.y, self.x


def with_fewer_products(program: Program) -> Program:
    """The same program, and so its loops, with sums in place of products."""
    return _rewritten(program, ())[0]


def _rewritten(program: Program, writes: Sequence[int]) -> tuple[Program, list[int]]:
    """The program, and where each of its values is now; `writes` are values that are needed beside its outputs."""
    halves, gone = _turns(program, writes)
    twos = [instruction == ("constant", 2.0) for instruction in program.instructions]
    made = _Instructions()
    now: list[int] = []
    for i, instruction in enumerate(program.instructions):
        if i in gone:
            now.append(-1)
        elif i in halves:
            now.append(made.half(halves[i], now))
        elif instruction[0] == "mul" and (twos[instruction[1]] or twos[instruction[2]]):
            doubled = now[instruction[2] if twos[instruction[1]] else instruction[1]]
            now.append(made.add(("add", doubled, doubled)))
        else:
            now.append(made.add(_moved(instruction, now)))
    outputs = tuple(tuple(IN_LOOP if value == IN_LOOP else now[value] for value in o) for o in program.outputs)
    return replace(program, instructions=tuple(made.instructions), outputs=outputs), now


def _moved(instruction: tuple, now: list[int]) -> tuple:
    name = instruction[0]
    if name in LEAVES:
        return instruction
    if name == "result":
        return name, now[instruction[1]], instruction[2]
    if name == "loop":
        return name, _loop(instruction[1]), *[now[value] for value in instruction[2:]]
    return name, *[now[value] for value in instruction[1:]]


def _loop(loop: Loop) -> Loop:
    body, now = _rewritten(loop.body, [write.value for write in loop.writes])
    return replace(loop, body=body, writes=tuple(replace(write, value=now[write.value]) for write in loop.writes))


class _Instructions:
    """Instructions as they are made; what halves have in common, once."""

    def __init__(self):
        self.instructions: list[tuple] = []
        self._common: dict[tuple, int] = {}

    def add(self, instruction: tuple) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def half(self, half: Half, now: list[int]) -> int:
        c, s, x, y = (now[value] for value in half[:4])
        k = self._once("mul", c, self._once("add", min(x, y), max(x, y)))
        if half.minus:
            term = self.add(("mul", y, self._once("add", c, s)))
            return self.add(("sub", k, term) if half.minus == "sine" else ("sub", term, k))
        return self.add(("add", k, self.add(("mul", y, self._once("sub", s, c)))))

    def _once(self, *instruction) -> int:
        if instruction not in self._common:
            self._common[instruction] = self.add(instruction)
        return self._common[instruction]


def _turns(program: Program, writes: Sequence[int]) -> tuple[dict[int, Half], set[int]]:
    """The halves that have their other half here; and the products that are then not needed."""
    instructions = program.instructions
    turns = {i: (one[1], one[0]) for i, one in enumerate(instructions) if one[0] in ("sin", "cos")}
    if not turns:
        return {}, set()
    uses = Counter(value for instruction in instructions for value in operands(instruction))
    uses.update(value for values in (*program.outputs, writes) for value in values)
    found: dict[tuple[int, int, int], tuple[int, Half]] = {}
    for i, (name, *rest) in enumerate(instructions):
        if name in ("add", "sub") and all(instructions[v][0] == "mul" and uses[v] == 1 for v in rest):
            for half in _halves(name, instructions[rest[0]][1:], instructions[rest[1]][1:], turns):
                found[half.cosine, half.x, half.y] = i, half
    halves: dict[int, Half] = {}
    for i, half in found.values():
        other = found.get(half.of_same)
        if other is not None and i not in halves and other[0] not in halves:
            halves |= {i: half, other[0]: other[1]}
    return halves, {product for i in halves for product in instructions[i][1:]}


def _halves(name: str, first: Sequence[int], second: Sequence[int], turns: dict) -> Iterator[Half]:
    """The ways in which a sum or difference of two products is half of a turn."""
    for a, x in (first, first[::-1]):
        for b, y in (second, second[::-1]):
            if a in turns and b in turns and turns[a][0] == turns[b][0] and turns[a][1] != turns[b][1] and x != y:
                if turns[a][1] == "cos":
                    yield Half(a, b, x, y, "sine" if name == "sub" else "")
                else:
                    yield Half(b, a, y, x, "cosine" if name == "sub" else "")
