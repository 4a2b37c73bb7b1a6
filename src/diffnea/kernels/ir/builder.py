"""The maker of scalar programs: each value once, known numbers folded, loops freed of what does not change.

Equal instructions are the same value; what does not change in a loop belongs before it; `assembly` then leaves out what
no output needs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffnea.kernels.ir.assembly import assemble
from diffnea.kernels.ir.folding import FOLD, PLAIN, SIMPLER
from diffnea.kernels.ir.memory import COLLECTED, MOST_DEPTH, Elements
from diffnea.kernels.ir.program import COMMUTES, Program, Unfit


@dataclass
class Frame:
    """A loop as it is made; frame 0 is the program itself."""

    parent: int = 0
    depth: int = 0
    length: int = 1
    reverse: bool = False
    loop: int = -1  # the value that stands for it in its parent
    initial: list[int] = field(default_factory=list)
    next: list[int] = field(default_factory=list)


_COMMUTES = frozenset(COMMUTES)
_ALIKE = (0.0, 1.0)  # numbers that are equal to others


class Builder:
    """Makes a program instruction by instruction, folding as it goes.

    Folding treats a structural zero as zero: `0 · x` is 0 whatever x is, as a term that is not there. Everything else
    is exact in floating point: signs are moved, nothing is reassociated. A value belongs to the innermost loop of those
    it uses. Numbers below zero are `Elements`, which become instructions when they are used.
    """

    def __init__(self):
        self._instructions: list[tuple] = []
        self._values: dict[tuple, int] = {}
        self._constants: dict[Any, int] = {}
        self._known: dict[int, float | bool] = {}
        self._special: set[int] = set()  # values that are known or negated: with others nothing can be folded
        self._home: list[int] = []  # the frame of each value
        self._read: dict[int, int] = {}
        self.elements = Elements()
        self.frames = [Frame()]
        self.frame = 0  # the loop that is being made

    @property
    def size(self) -> int:
        """How many instructions there are so far, needed or not."""
        return len(self._instructions)

    def input(self, argument: int, element: int) -> int:
        """An element of an argument."""
        return self._make(("input", argument, element))

    def constant(self, number: float | bool) -> int:
        """A known number or truth value."""
        number = bool(number) if isinstance(number, (bool, np.bool_)) else float(number)
        # Zeros of either sign, 1.0 and True, and NaN with itself compare in ways a table must not: go by the bits.
        key = number if number not in _ALIKE and number == number else (type(number), repr(number))
        value = self._constants.get(key)
        if value is None:
            value = self._constants[key] = self._add(("constant", number), 0)
            self._known[value] = number
            self._special.add(value)
        return value

    def each(self, name: str, rows: Iterable[tuple[int, ...]]) -> list[int]:
        """An operation on many operands; sums and products with a structural zero, most of them, at once."""
        op, known, zero = self.op, self._known, self.constant(0.0)
        if name == "mul":
            return [
                zero if a == zero and (b == zero or b not in known) or b == zero and a not in known else op(name, a, b)
                for a, b in rows
            ]
        if name == "add":
            return [
                b
                if a == zero and (b == zero or b not in known)
                else a
                if b == zero and a not in known
                else op(name, a, b)
                for a, b in rows
            ]
        return [op(name, *row) for row in rows]

    def known(self, value: int) -> float | bool | None:
        """The number a value is known to be."""
        return self._known.get(value)

    def op(self, name: str, *operands: int) -> int:
        """The value of an operation, folded where its operands allow."""
        if min(operands) < 0:
            operands = tuple(map(self.read, operands))
        if not self._special.isdisjoint(operands) or name == "select":
            value = self._folded(name, operands)
            if value is not None:
                return value
        if name in _COMMUTES and operands[0] > operands[1]:
            operands = (operands[1], operands[0])
        instruction = (name, *operands)
        value = self._values.get(instruction)
        if value is None and name == "sub" and ("sub", operands[1], operands[0]) in self._values:
            return self.op("neg", self._values["sub", operands[1], operands[0]])
        if value is None:
            home = self._home
            value = self._values[instruction] = self._add(instruction, max([home[operand] for operand in operands]))
            if name == "neg":
                self._special.add(value)
        return value

    def _folded(self, name: str, operands: tuple[int, ...]) -> int | None:
        """What an operation comes to if its operands are known, or negated."""
        known = [self._known.get(operand) for operand in operands]
        if name in FOLD and None not in known:
            if name in PLAIN:
                return self.constant(FOLD[name](*known))
            with np.errstate(all="ignore"):
                return self.constant(FOLD[name](*known))
        simpler = SIMPLER.get(name)
        return None if simpler is None else simpler(self, operands, known)

    def _make(self, instruction: tuple, home: int = 0) -> int:
        value = self._values.get(instruction)
        if value is None:
            value = self._values[instruction] = self._add(instruction, home)
        return value

    def _add(self, instruction: tuple, home: int) -> int:
        self._instructions.append(instruction)
        self._home.append(home)
        return len(self._instructions) - 1

    def negated(self, value: int) -> int | None:
        """x, if the value is −x."""
        instruction = self._instructions[value]
        return instruction[1] if instruction[0] == "neg" else None

    def read(self, number: int) -> int:
        """A value as it is; the value of an element."""
        if number >= 0:
            return number
        if number not in self._read:
            element = self.elements.of(number)
            argument, offset, frame = (int(element[name]) for name in ("argument", "offset", "frame"))
            if argument == COLLECTED:
                raise Unfit("a scan whose collected results are used in the same function")
            strides = tuple(element["strides"][: self.frames[frame].depth].tolist())
            row = ("row", argument, offset, strides, frame)
            self._read[number] = self._make(row, home=frame) if any(strides) else self.input(argument, offset)
        return self._read[number]

    # Loops ------------------------------------------------------------------------------------------------------------

    def begin_loop(self, length: int, reverse: bool, initial: Sequence[int]) -> list[int]:
        """Begin a loop; the numbers that it carries."""
        depth = self.frames[self.frame].depth + 1
        if depth > MOST_DEPTH:
            raise Unfit(f"scans nested more than {MOST_DEPTH} deep")
        self.frames.append(Frame(self.frame, depth, length, reverse, initial=[self.read(value) for value in initial]))
        self.frame = len(self.frames) - 1
        return [self._make(("carry", k, self.frame), home=self.frame) for k in range(len(initial))]

    def end_loop(self, carried: Sequence[int], collected: np.ndarray) -> tuple[list[int], np.ndarray]:
        """End it; the numbers carried out of it, and those that it collects: (length, values)."""
        number, frame = self.frame, self.frames[self.frame]
        frame.next = [self.read(value) for value in carried]
        frame.loop = self._make(("loop", number), home=frame.parent)
        self.frame = frame.parent
        results = [self._make(("result", frame.loop, k), home=frame.parent) for k in range(len(carried))]
        return results, self.elements.collected(number, collected, frame.length)

    def stepped(self, numbers: np.ndarray) -> np.ndarray:
        """The values at a step of the present loop, of (length, values) known for every step."""
        result = numbers[0].copy()
        changes = np.any(numbers != numbers[0], axis=0)
        elements = changes & np.all(numbers < 0, axis=0)
        if np.any(elements):
            found = self.elements.stepped(self.frame, self.frames[self.frame].depth, numbers[:, elements])
            if found is None:
                raise Unfit("a scan over what is not at even distances in an argument")
            result[elements] = found
        for column in np.flatnonzero(changes & ~elements):
            known = [self._known.get(number) for number in numbers[:, column].tolist()]
            if None in known or any(isinstance(number, bool) for number in known):
                raise Unfit("a scan over computed numbers")
            table = ("table", np.array(known, np.float64).tobytes(), self.frame)
            result[column] = self._make(table, home=self.frame)
        return result

    def build(self, outputs: Sequence[np.ndarray | Sequence[int]], argument_sizes: Sequence[int]) -> Program:
        """The program that computes these outputs, without what they do not need."""
        return assemble(self, [np.asarray(output, np.int64).ravel() for output in outputs], tuple(argument_sizes))

    def instruction(self, value: int) -> tuple:
        """As it is kept here: the frame of a leaf in a loop is its last entry."""
        return self._instructions[value]

    def carry(self, frame: int, k: int) -> int:
        """The k-th number that a loop carries."""
        return self._values["carry", k, frame]

    def home(self, value: int) -> int:
        """The frame a value belongs to."""
        return self._home[value]
