"""Scalar programs: what a per-sample function is once every array is taken apart and every known number folded.

A `Program` is a list of instructions on single numbers; a `Loop` in it has a program for a body.
"""

from dataclasses import dataclass

# Truth values only flow between comparisons, logic and `select`.
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "xor", "not")
COMMUTES = ("add", "mul", "min", "max", "eq", "ne", "and", "or", "xor")
# What follows these names in an instruction are not values.
LEAVES = ("input", "constant", "carry", "outer", "row", "table")
_NOT_VALUES = frozenset((*LEAVES, "loop", "result"))
IN_LOOP = -1  # in place of an output's value: a loop writes it


class Unfit(Exception):
    """A scan that cannot be a loop; says why."""


@dataclass(frozen=True)
class Write:
    """At each step of a loop, a value of its body goes to element `offset + strides · steps` of an output.

    There is a stride for each enclosing loop, the outermost first.
    """

    output: int
    offset: int
    strides: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class Loop:
    """A body, run `length` times. Its only output are the numbers carried to the next step."""

    length: int
    reverse: bool
    body: "Program"
    writes: tuple[Write, ...]

    @property
    def num_carries(self) -> int:
        return len(self.body.outputs[0])


@dataclass(frozen=True)
class Program:
    """Instructions in an order in which each follows what it uses; a value is the index of its instruction.

    An instruction is `(operation, *operands)`, where operands are values, except for these:

    - `("input", argument, element)` and `("constant", number)`;
    - `("loop", Loop, *initial, *outer)`: the values its carried numbers begin with, then those its body uses;
    - `("result", loop, k)`: the k-th carried number after the last step, of the loop that is this value;
    - in a body, `("carry", k)`: the k-th carried number; `("outer", k)`: the k-th of the loop's outer values;
      `("row", argument, offset, strides)`: element `offset + strides · steps` of an argument; `("table", numbers)`:
      a known number for each step, all as the bytes of float64.

    `outputs` holds, for each result array, the values of its elements in row-major order, or `IN_LOOP`. A `shortcut`
    gives the same where the truth that is its last output holds.
    """

    instructions: tuple[tuple, ...]
    outputs: tuple[tuple[int, ...], ...]
    argument_sizes: tuple[int, ...]
    shortcut: "Program | None" = None

    @property
    def num_operations(self) -> int:
        """Arithmetic per sample: everything but what is given, at every step of a loop."""
        return sum(map(_operations, self.instructions))


def _operations(instruction: tuple) -> int:
    if instruction[0] == "loop":
        return instruction[1].length * instruction[1].body.num_operations
    return instruction[0] not in (*LEAVES, "result")


def operands(instruction: tuple) -> tuple[int, ...]:
    """The values that an instruction uses."""
    name = instruction[0]
    if name in _NOT_VALUES:
        return {"loop": instruction[2:], "result": instruction[1:2]}.get(name, ())
    return instruction[1:]
