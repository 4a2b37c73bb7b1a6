"""Scalar programs: what a per-sample function is once every array is taken apart and every known number folded.

A `Program` is a list of instructions on single numbers. The `Builder` makes it: each value is made once (equal
instructions are the same value), known numbers are computed on the spot, and what no output needs is left out.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# Operations by what they take and give. Truth values only flow between comparisons, logic and `select`.
UNARY = (
    "neg", "abs", "sign", "sqrt", "rsqrt", "sin", "cos", "exp", "log", "tanh", "floor", "ceil", "round",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "min", "max", "atan2", "pow")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "xor", "not")
COMMUTES = ("add", "mul", "min", "max", "eq", "ne", "and", "or", "xor")


@dataclass(frozen=True)
class Program:
    """Instructions in an order in which each follows what it uses; a value is the index of its instruction.

    An instruction is `(operation, *operands)`, where operands are values, except for `("input", argument, element)` and
    `("constant", number)`. `outputs` holds, for each result array, the values of its elements in row-major order.
    """

    instructions: tuple[tuple, ...]
    outputs: tuple[tuple[int, ...], ...]
    argument_sizes: tuple[int, ...]

    @property
    def num_operations(self) -> int:
        """Arithmetic per sample: everything but inputs and constants."""
        return sum(instruction[0] not in ("input", "constant") for instruction in self.instructions)


class Builder:
    """Makes a program instruction by instruction, folding as it goes.

    Folding treats a structural zero as zero: `0 · x` is 0 whatever x is, as a term that is not there. Everything else
    is exact in floating point: signs are moved, nothing is reassociated.
    """

    def __init__(self):
        self._instructions: list[tuple] = []
        self._values: dict[tuple, int] = {}
        self._known: dict[int, float | bool] = {}

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
        value = self._make(("constant", number), key=("constant", type(number), repr(number)))
        self._known[value] = number
        return value

    def known(self, value: int) -> float | bool | None:
        """The number a value is known to be."""
        return self._known.get(value)

    def op(self, name: str, *operands: int) -> int:
        """The value of an operation, folded where its operands allow."""
        known = [self._known.get(operand) for operand in operands]
        if name in _FOLD and None not in known:
            with np.errstate(all="ignore"):
                return self.constant(_FOLD[name](*known))
        simpler = _SIMPLER.get(name)
        if simpler is not None:
            value = simpler(self, operands, known)
            if value is not None:
                return value
        if name in COMMUTES and operands[0] > operands[1]:
            operands = (operands[1], operands[0])
        return self._make((name, *operands))

    def _make(self, instruction: tuple, key: tuple | None = None) -> int:
        key = instruction if key is None else key
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = len(self._instructions)
            self._instructions.append(instruction)
        return value

    def negated(self, value: int) -> int | None:
        """x, if the value is −x."""
        instruction = self._instructions[value]
        return instruction[1] if instruction[0] == "neg" else None

    def build(self, outputs: Sequence[Sequence[int]], argument_sizes: Sequence[int]) -> Program:
        """The program that computes these outputs, without what they do not need."""
        needed = bytearray(len(self._instructions))
        for value in (value for output in outputs for value in output):
            needed[value] = 1
        for value in reversed(range(len(self._instructions))):
            if needed[value]:
                for operand in _operands(self._instructions[value]):
                    needed[operand] = 1
        kept = [value for value in range(len(self._instructions)) if needed[value]]
        number = {value: i for i, value in enumerate(kept)}
        instructions = []
        for value in kept:
            instruction = self._instructions[value]
            operands = _operands(instruction)
            instructions.append((instruction[0], *(number[o] for o in operands)) if operands else instruction)
        renumbered = tuple(tuple(number[value] for value in output) for output in outputs)
        return Program(tuple(instructions), renumbered, tuple(argument_sizes))


def _operands(instruction: tuple) -> tuple[int, ...]:
    return () if instruction[0] in ("input", "constant") else instruction[1:]


# What an operation on known numbers gives.
_FOLD: dict[str, Callable] = {
    "neg": lambda a: -a,
    "abs": abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: np.float64(a) / b,
    "min": lambda a, b: np.minimum(a, b),
    "max": lambda a, b: np.maximum(a, b),
    "atan2": math.atan2,
    "pow": lambda a, b: np.float64(a) ** b,
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "xor": lambda a, b: bool(a != b),
    "not": lambda a: not a,
}


def _simpler_add(builder: Builder, operands, known) -> int | None:
    for k, other in ((0, 1), (1, 0)):
        if known[k] == 0:
            return operands[other]
        inner = builder.negated(operands[k])
        if inner is not None:
            return builder.op("sub", operands[other], inner)
    return None


def _simpler_sub(builder: Builder, operands, known) -> int | None:
    if known[1] == 0:
        return operands[0]
    if known[0] == 0:
        return builder.op("neg", operands[1])
    inner = builder.negated(operands[1])
    if inner is not None:
        return builder.op("add", operands[0], inner)
    inner = builder.negated(operands[0])
    if inner is not None:
        return builder.op("neg", builder.op("add", inner, operands[1]))
    return None


def _simpler_mul(builder: Builder, operands, known) -> int | None:
    for k, other in ((0, 1), (1, 0)):
        if known[k] == 0:
            return builder.constant(0.0)
        if known[k] == 1:
            return operands[other]
        if known[k] == -1:
            return builder.op("neg", operands[other])
        inner = builder.negated(operands[k])
        if inner is not None:
            return builder.op("neg", builder.op("mul", operands[other], inner))
    return None


def _simpler_div(builder: Builder, operands, known) -> int | None:
    if known[0] == 0:
        return builder.constant(0.0)
    if known[1] == 1:
        return operands[0]
    for k in (0, 1):
        inner = builder.negated(operands[k])
        if inner is not None:
            pair = (inner, operands[1]) if k == 0 else (operands[0], inner)
            return builder.op("neg", builder.op("div", *pair))
    return None


def _simpler_neg(builder: Builder, operands, known) -> int | None:
    return builder.negated(operands[0])


def _simpler_select(builder: Builder, operands, known) -> int | None:
    """`select(truth, if true, if false)`."""
    if known[0] is not None:
        return operands[1] if known[0] else operands[2]
    return operands[1] if operands[1] == operands[2] else None


_SIMPLER: dict[str, Callable] = {
    "add": _simpler_add,
    "sub": _simpler_sub,
    "mul": _simpler_mul,
    "div": _simpler_div,
    "neg": _simpler_neg,
    "select": _simpler_select,
}
