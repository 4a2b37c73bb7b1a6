"""Arrays out of a pickle that is read and never run: a program that can only build plain data and arrays.

A pickle is a little program, and running one runs whatever it names. Here its instructions are read by a machine that
knows tuples, lists, dictionaries, numbers and text. What the pickle would call is kept as a name with its arguments
(`Called`) and is not even imported; an instruction that is not in the table is refused.
"""

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

ARRAY = "joblib.numpy_pickle NumpyArrayWrapper"
DTYPE = "numpy dtype"
NUMBERS = "biuf"  # kinds of numpy's types: truth values, whole numbers, floating point


@dataclass
class Called:
    """What a pickle would have called: its name, its arguments, and the state it would have set."""

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None


def read(data: bytes) -> dict[str, np.ndarray]:
    """The arrays of the pickled object by the names of its attributes; ValueError where there are none."""
    found = _Machine(BytesIO(data)).run()
    state = found.state if isinstance(found, Called) else found
    if not isinstance(state, dict):
        raise ValueError("the pickle holds no object with attributes")
    arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
    if not arrays:
        raise ValueError("the pickle holds no arrays")
    return arrays


def run(data: bytes, outside: Callable[[Any], Any], makers: dict[str, Callable[[tuple[Any, ...]], Any]]) -> Any:
    """What a pickle builds of plain data; `outside` answers its references, `makers` stand for what it may call."""
    return _Machine(BytesIO(data), outside, makers).run()


def _nothing_outside(reference: Any) -> Any:
    raise ValueError("the pickle refers to something outside of it")


class _Machine:
    """The stack of a pickle, and its memory."""

    def __init__(self, stream: BytesIO, outside: Callable[[Any], Any] = _nothing_outside, makers: Any = None):
        self.stream, self.outside, self.makers = stream, outside, makers or {}
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[int, Any] = {}

    def run(self) -> Any:
        for instruction, argument, _ in pickletools.genops(self.stream):
            if instruction.name == "STOP":
                break
            if instruction.name not in _STEPS:
                raise ValueError(f"the pickle has an instruction {instruction.name} that arrays do not need")
            _STEPS[instruction.name](self, argument)
        return self.stack.pop()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def several(self, count: int) -> list[Any]:
        """The last values."""
        if len(self.stack) < count:
            raise ValueError("the pickle takes what it has not made")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def since_mark(self) -> list[Any]:
        return self.several(len(self.stack) - self.marks.pop())

    def call(self) -> None:
        """A function with its arguments: only its name is kept."""
        function, arguments = self.several(2)
        maker = self.makers.get(function.name)
        self.push(maker(tuple(arguments)) if maker else Called(function.name, tuple(arguments)))

    def refer(self) -> None:
        """A reference to what is kept outside of the pickle."""
        self.push(self.outside(*self.several(1)))

    def extend(self, values: list[Any]) -> None:
        self.stack[-1].extend(values)

    def fill(self, values: list[Any]) -> None:
        self.stack[-1].update(zip(values[::2], values[1::2], strict=True))

    def build(self) -> None:
        """Give what was called its state. The numbers of an array follow in the stream right here."""
        (state,) = self.several(1)
        made = self.stack[-1]
        made.state = state
        if made.name == ARRAY:
            self.stack[-1] = self.array(state)

    def array(self, state: dict[str, Any]) -> Any:
        dtype, shape = state["dtype"], state["shape"]
        if dtype.name != DTYPE:
            raise ValueError(f'the pickle has an array of "{dtype.name}"')
        if dtype.arguments[0].startswith("O"):  # of objects: a pickle of its own, read for its length
            return _Machine(self.stream).run()
        if "numpy_array_alignment_bytes" in state:  # newer files fill up to an even place
            self.stream.seek(self.stream.read(1)[0], 1)
        kind = np.dtype(dtype.state[1] + dtype.arguments[0])
        if kind.kind not in NUMBERS:
            raise ValueError(f"the pickle has an array of {kind}; numbers are accepted")
        numbers = self.stream.read(math.prod(shape) * kind.itemsize)
        return np.frombuffer(numbers, kind).reshape(shape, order=state["order"]).copy(order="C")


Step = Callable[[_Machine, Any], None]


def _keep(machine: _Machine, place: int) -> None:
    machine.memory[place] = machine.stack[-1]


def _recall(machine: _Machine, place: int) -> None:
    machine.push(machine.memory[place])


def _tuple_of(count: int) -> Step:
    return lambda machine, _: machine.push(tuple(machine.several(count)))


def _value(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


_STEPS: dict[str, Step] = {
    "PROTO": lambda machine, version: None,
    "GLOBAL": lambda machine, name: machine.push(Called(name)),
    "REDUCE": lambda machine, _: machine.call(),
    "NEWOBJ": lambda machine, _: machine.call(),
    "BINPERSID": lambda machine, _: machine.refer(),
    "BUILD": lambda machine, _: machine.build(),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "APPEND": lambda machine, _: machine.extend(machine.several(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.fill(machine.several(2)),
    "SETITEMS": lambda machine, _: machine.fill(machine.since_mark()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.since_mark())),
    **{name: _tuple_of(count) for count, name in enumerate(("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"))},
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _keep),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _recall),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "BINBYTES"), _value),
    "SHORT_BINBYTES": _value,
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
}
