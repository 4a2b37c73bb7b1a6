"""Fewer products: they bound kernels, and processors add beside multiplying.

A turn of a plane takes three instead of four. `c x + s y` and `c y − s x`, with c and s of one angle, share one: with
`k = c (x + y)` they are `k + (s − c) y` and `k − (s + c) x`. That rounds a little more, as numbers of the vector's
length do. An infinite component still gives no finite number, but may give NaN where four products give infinity. And
`2 x` is `x + x`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diffnea.kernels.ir.program import Program, operands
from diffnea.kernels.passes.rewrite import Rewriting, rewritten


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
    return rewritten(program, _rule)


def _rule(made: Rewriting) -> None:
    halves, gone = _turns(made.program, made.writes)
    instructions, common = made.program.instructions, _Common(made)
    twos = [instruction == ("constant", 2.0) for instruction in instructions]
    for i, instruction in enumerate(instructions):
        if i in halves:
            made.now[i] = common.half(halves[i])
        elif instruction[0] == "mul" and (twos[instruction[1]] or twos[instruction[2]]):
            doubled = made.now[instruction[2] if twos[instruction[1]] else instruction[1]]
            made.now[i] = made.add(("add", doubled, doubled))
        elif i not in gone:
            made.keep(i)


class _Common:
    """What halves have in common, once."""

    def __init__(self, made: Rewriting):
        self._made = made
        self._values: dict[tuple, int] = {}

    def half(self, half: Half) -> int:
        c, s, x, y = (self._made.now[value] for value in half[:4])
        add = self._made.add
        k = self._once("mul", c, self._once("add", min(x, y), max(x, y)))
        if half.minus:
            term = add(("mul", y, self._once("add", c, s)))
            return add(("sub", k, term) if half.minus == "sine" else ("sub", term, k))
        return add(("add", k, add(("mul", y, self._once("sub", s, c)))))

    def _once(self, *instruction) -> int:
        if instruction not in self._values:
            self._values[instruction] = self._made.add(instruction)
        return self._values[instruction]


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
