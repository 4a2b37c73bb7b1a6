"""A program and how it meets memory: which values vary with the sample, which all samples share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from diffnea.kernels.ir.program import COMPARE, LEAVES, LOGIC, Loop, Program, operands

_TRUTHS = frozenset((*COMPARE, *LOGIC))
_GIVEN = frozenset((*LEAVES, "loop", "result"))


@dataclass(frozen=True)
class Layout:
    """How a program meets memory, array by array.

    `varying`, for each argument: it differs from sample to sample; else one copy serves all samples. `summed`, for each
    output: it is summed over the samples. `columns`, for each argument and then each output, or empty for none: the
    samples are its last axis, `(outer, size, samples)` instead of `(outer, samples, size)`.
    """

    varying: tuple[bool, ...]
    summed: tuple[bool, ...]
    columns: tuple[bool, ...] = ()


class Array(NamedTuple):
    """An argument or output: its size, whether it has samples, and whether they are its last axis."""

    size: int
    has_samples: bool
    samples_last: bool


class Plan(NamedTuple):
    """A program, and for each of its values: does it vary with the sample, is it a truth value; and the shared ones."""

    program: Program
    arguments: tuple[Array, ...]
    outputs: tuple[Array, ...]
    varies: tuple[bool, ...]
    is_truth: tuple[bool, ...]
    shared: dict[int, int]  # values that are computed once and used for each sample, and where they are kept


def plan_of(program: Program, layout: Layout) -> Plan:
    """Follow which values vary and which are truth values; what is fixed but used with what varies is shared."""
    varies, is_truth = _follow(program, layout.varying)
    used = {value for output in program.outputs for value in output}
    for instruction, does in zip(program.instructions, varies, strict=True):
        if does:
            used.update(operands(instruction))
    kept = [i for i, instruction in enumerate(program.instructions) if i in used and instruction[0] != "constant"]
    places = {value: place for place, value in enumerate(value for value in kept if not varies[value])}
    return Plan(program, *_arrays(program, layout), tuple(varies), tuple(is_truth), places)


def varying(program: Program, layout: Layout) -> list[bool]:
    """Which values vary with the sample."""
    return _follow(program, layout.varying)[0]


def body_plan(plan: Plan, value: int) -> Plan:
    """The plan of a loop's body: everything in it varies."""
    loop: Loop = plan.program.instructions[value][1]
    given = [plan.is_truth[operand] for operand in operands(plan.program.instructions[value])]
    varies, is_truth = _follow(loop.body, (), given[: loop.num_carries], given[loop.num_carries :])
    return plan._replace(program=loop.body, varies=tuple(varies), is_truth=tuple(is_truth), shared={})


def _follow(program: Program, varying, carried=(), outer=()) -> tuple[list[bool], list[bool]]:
    """Which values vary, and which are truth values, given the same of what comes from outside."""
    varies: list[bool] = []
    is_truth: list[bool] = []
    for instruction in program.instructions:
        name, first = instruction[:2]
        if name not in _GIVEN:
            is_truth.append(name in _TRUTHS or name == "select" and is_truth[instruction[2]])
            varies.append(True in [varies[operand] for operand in instruction[1:]])
        elif name == "result":
            is_truth.append(is_truth[program.instructions[first][2 + instruction[2]]])
            varies.append(True)
        else:  # a loop is run sample by sample, whatever it depends on
            given = {"carry": carried, "outer": outer}.get(name)
            is_truth.append(given[first] if given is not None else name == "constant" and isinstance(first, bool))
            varies.append(varying[first] if name == "input" else name != "constant")
    return varies, is_truth


def _arrays(program: Program, layout: Layout) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    count = len(layout.varying)
    columns = layout.columns or (False,) * (count + len(layout.summed))
    arguments = zip(program.argument_sizes, layout.varying, columns[:count], strict=True)
    outputs = zip(program.outputs, layout.summed, columns[count:], strict=True)
    return (
        tuple(Array(size, varying, last) for size, varying, last in arguments),
        tuple(Array(len(output), not summed, last) for output, summed, last in outputs),
    )


def cost(program: Program, costs: dict[str, int]) -> list[int]:
    """What each instruction costs, one if it is not in `costs`; a loop, all of its steps."""
    return [
        instruction[1].length * sum(cost(instruction[1].body, costs))
        if instruction[0] == "loop"
        else costs.get(instruction[0], 1)
        for instruction in program.instructions
    ]


def turns_before(program: Program) -> list[int]:
    """For each value, how many sines, cosines and loops follow each other up to it: of one number, none needs another.

    So angles of one number can all be there before the sine of any of them.
    """
    counts: list[int] = []
    for instruction in program.instructions:
        before = max((counts[used] for used in operands(instruction)), default=0)
        counts.append(before + (instruction[0] in ("sin", "cos", "loop")))
    return counts


def runs(places: Iterable[int]) -> list[tuple[int, int]]:
    """Places that follow each other, as first place and number."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and sum(found[-1]) == place:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((place, 1))
    return found
