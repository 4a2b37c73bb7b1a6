"""From values in the order they were made to a `Program`: only what outputs need, each loop with its own body."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from diffnea.kernels.ir.memory import COLLECTED, pattern
from diffnea.kernels.ir.program import IN_LOOP, LEAVES, Loop, Program, Unfit, Write

if TYPE_CHECKING:
    from diffnea.kernels.ir.builder import Builder


class Collected(NamedTuple):
    """A value that goes to an output at every step of its loop."""

    output: int
    offset: int
    strides: tuple[int, ...]
    value: int
    frame: int


def assemble(builder: "Builder", outputs: list[np.ndarray], argument_sizes: tuple[int, ...]) -> Program:
    """The program of these outputs, given by the numbers of their elements."""
    writes: list[Collected] = []
    values = []
    for k, numbers in enumerate(outputs):
        in_loop = _is_collected(builder, numbers)
        writes += _writes(builder, k, numbers[in_loop], np.flatnonzero(in_loop))
        values.append(
            [IN_LOOP if there else builder.read(n) for n, there in zip(numbers.tolist(), in_loop, strict=True)]
        )
    roots = [value for output in values for value in output if value != IN_LOOP]
    assembly = _Assembly(builder, writes, _needed(builder, roots, writes))
    return assembly.program(values, argument_sizes)


def _is_collected(builder: "Builder", numbers: np.ndarray) -> np.ndarray:
    found = numbers < 0
    found[found] = builder.elements.of(numbers[found])["argument"] == COLLECTED
    return found


def _writes(builder: "Builder", output: int, numbers: np.ndarray, positions: np.ndarray) -> list[Collected]:
    """Where in an output each collected value goes: `positions` of `numbers`."""
    rows = builder.elements.of(numbers)
    steps, chain = [rows["step"]], [rows["frame"]]
    while len(rows) and np.all(_is_collected(builder, rows["value"])):
        rows = builder.elements.of(rows["value"])
        steps, chain = [*steps, rows["step"]], [*chain, rows["frame"]]
    if np.any(_is_collected(builder, rows["value"])):
        raise Unfit("a scan that collects its own and another's results in one array")
    keys = np.stack([*chain, rows["column"], rows["value"]], 1)
    found = []
    for key in np.unique(keys, axis=0):
        mine = np.all(keys == key, axis=1)
        frames = key[: len(chain)].tolist()
        nested = [builder.frames[frame].parent for frame in frames] == [0, *frames[:-1]]
        lengths = tuple(builder.frames[frame].length for frame in frames)
        place = pattern(positions[mine], np.stack(steps, 1)[mine], lengths) if nested else None
        if place is None:
            raise Unfit("a scan whose collected results are not in the results as a whole, in order")
        found.append(Collected(output, *place, builder.read(int(key[-1])), frames[-1]))
    return found


def _needed(builder: "Builder", roots: list[int], writes: list[Collected]) -> set[int]:
    """All values that outputs and writes depend on; of loops, only what is carried to some use."""
    waiting = [*roots, *(write.value for write in writes)]
    for write in writes:
        waiting += _loops_around(builder, write.frame)
    needed: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value in needed:
            continue
        needed.add(value)
        waiting += _loops_around(builder, builder.home(value))
        name, *rest = builder.instruction(value)
        if name == "carry":
            frame = builder.frames[rest[1]]
            waiting += [frame.initial[rest[0]], frame.next[rest[0]]]
        elif name == "result":
            number = builder.instruction(rest[0])[1]
            waiting += [rest[0], builder.carry(number, rest[1])]
        elif name not in (*LEAVES, "loop"):
            waiting += rest
    return needed


def _loops_around(builder: "Builder", frame: int) -> list[int]:
    loops = []
    while frame:
        loops.append(builder.frames[frame].loop)
        frame = builder.frames[frame].parent
    return loops


class _Assembly:
    def __init__(self, builder: "Builder", writes: list[Collected], needed: set[int]):
        self.builder, self.writes = builder, writes
        self.homes: dict[int, list[int]] = {}
        for value in sorted(needed):
            self.homes.setdefault(builder.home(value), []).append(value)
        self.carries: dict[int, list[int]] = {}  # of each frame, which of the carried numbers are needed
        for frame, values in self.homes.items():
            instructions = [builder.instruction(value) for value in values]
            self.carries[frame] = [k for name, k, *_ in instructions if name == "carry"]

    def program(self, outputs: list[list[int]], argument_sizes: tuple[int, ...]) -> Program:
        body = _Body(self, 0)
        numbered = tuple(tuple(IN_LOOP if value == IN_LOOP else body.local(value) for value in o) for o in outputs)
        assert not body.outer, "nothing is outside of the program"
        return Program(tuple(body.instructions), numbered, argument_sizes)


class _Body:
    """The instructions of one frame, renumbered; `outer` are values from outside, in the order of their numbers."""

    def __init__(self, assembly: _Assembly, frame: int):
        self.assembly, self.builder, self.frame = assembly, assembly.builder, frame
        self.number: dict[int, int] = {}
        self.outer: dict[int, int] = {}
        self.instructions: list[tuple] = []
        for value in assembly.homes.get(frame, ()):
            if self.builder.instruction(value)[0] != "constant":
                self.number[value] = self._add(self._renumbered(self.builder.instruction(value)))

    def _add(self, instruction: tuple) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def local(self, value: int) -> int:
        """A value's number here; constants and values from outside are brought in where they are first used."""
        if value not in self.number:
            instruction = self.builder.instruction(value)
            if instruction[0] != "constant":
                instruction = ("outer", self.outer.setdefault(value, len(self.outer)))
            self.number[value] = self._add(instruction)
        return self.number[value]

    def _renumbered(self, instruction: tuple) -> tuple:
        name, *rest = instruction
        if name == "loop":
            return self._loop(rest[0])
        if name == "result":
            frame = self.builder.instruction(rest[0])[1]
            return (name, self.number[rest[0]], self.assembly.carries[frame].index(rest[1]))
        if name == "carry":
            return (name, self.assembly.carries[self.frame].index(rest[0]))
        if name in ("row", "table"):
            return (name, *rest[:-1])
        return (name, *rest) if name in LEAVES else (name, *map(self.local, rest))

    def _loop(self, number: int) -> tuple:
        frame, carries = self.builder.frames[number], self.assembly.carries.get(number, [])
        body = _Body(self.assembly, number)
        following = tuple(body.local(frame.next[k]) for k in carries)
        collected = [write for write in self.assembly.writes if write.frame == number]
        writes = tuple(Write(w.output, w.offset, w.strides, body.local(w.value)) for w in collected)
        program = Program(tuple(body.instructions), (following,), ())
        loop = Loop(frame.length, frame.reverse, program, writes)
        return ("loop", loop, *(self.local(frame.initial[k]) for k in carries), *map(self.local, body.outer))
