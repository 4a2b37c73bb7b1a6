"""The order of instructions for a processor: first what the longest chain of others waits for.

A processor looks no more than some hundred instructions ahead for one whose operands are there. In a program's own
order it finds too few of them where one number waits for another: along a chain of links, or behind a division.
"""

import heapq
from collections.abc import Iterator, Sequence

from diffnea.kernels.ir.layout import Layout, turns_before, varying
from diffnea.kernels.ir.program import IN_LOOP, LEAVES, Program, operands
from diffnea.kernels.passes.rewrite import Rewriting, rewritten

# An instruction comes forward by no more than this many: what is computed early has to be kept, in memory if there are
# too many, and a vector that is written takes the place of a product or more (measured on Zen 4). With 100, the Panda's
# forward dynamics write 178 vectors, with 30, 143.
AHEAD = 30
AHEAD_OF_FEW = 8  # the same with sixteen registers: on AVX2, Talos took 7 % less time than with 30, the Panda 1 %
# Cycles until a result is there, and until the next instruction can begin, where these are not four and one.
LATENCY = {"add": 3, "sub": 3, "div": 14, "sqrt": 20, "rsqrt": 34} | dict.fromkeys(("sin", "cos", "exp"), 40)
LATENCY |= {"log": 50, "tanh": 60, "atan2": 60, "pow": 200}
CYCLES = {"sin": 20, "cos": 0, "exp": 20, "log": 20, "tanh": 30, "atan2": 40, "pow": 200}  # both turns come together


def scheduled(program: Program, layout: Layout, ahead: int = AHEAD) -> Program:
    """The same program in a better order, and so its loops; what all samples share counts as given."""
    varies = varying(program, layout)

    def rule(made: Rewriting) -> None:
        does = varies if made.program is program else [True] * len(made.now)
        pairs = zip(does, made.program.instructions, strict=True)
        given = [not one or instruction[0] in LEAVES for one, instruction in pairs]
        for value in _order(made.program, given, made.writes, ahead):
            made.keep(value)

    return rewritten(program, rule)


def _order(program: Program, given: Sequence[bool], writes: Sequence[int], ahead: int) -> list[int]:
    """Of the instructions that can begin, the one with the longest chain behind it, cycle by cycle."""
    waits = _waits(program)
    users = _users(waits)
    fused = _fused(program, users)
    latency = [0 if free or i in fused else _latency(program, i, fused) for i, free in enumerate(given)]
    cycles = [0 if free or i in fused else CYCLES.get(program.instructions[i][0], 1) for i, free in enumerate(given)]
    heights = _heights(waits, users, latency)
    rank = _ranks(program, waits, writes)
    missing, begins = [len(values) for values in waits], [0] * len(waits)
    # Operands are there, or soon will be: `later`.
    found = sorted((rank[value], value) for value, count in enumerate(missing) if not count)
    ready: list[tuple[int, int]] = []
    later: list[tuple[int, int]] = []
    order: list[int] = []
    time = 0
    while len(order) < len(waits):
        while later and later[0][0] <= time:
            value = heapq.heappop(later)[1]
            heapq.heappush(found, (rank[value], value))
        while found and found[0][0] <= len(order) + ahead:
            value = heapq.heappop(found)[1]
            heapq.heappush(ready, (-heights[value], value))
        if not ready and later:
            time = later[0][0]
            continue
        value = heapq.heappop(ready)[1] if ready else heapq.heappop(found)[1]
        order.append(value)
        time += cycles[value]
        for user in users[value]:
            missing[user] -= 1
            begins[user] = max(begins[user], time + latency[value])
            if not missing[user]:
                heapq.heappush(later, (begins[user], user))
    return order


def _ranks(program: Program, waits: list[set[int]], writes: Sequence[int]) -> list[int]:
    """Places depth first, from what is wanted to what it needs: what is computed is soon used, and few values wait."""
    rank = [-1] * len(waits)
    count = 0
    wanted = [value for output in program.outputs for value in output if value != IN_LOOP]
    for root in (*wanted, *writes, *range(len(waits))):
        stack = [] if rank[root] >= 0 else [(root, False)]
        while stack:
            value, ready = stack.pop()
            if ready:
                rank[value], count = count, count + 1
            elif rank[value] == -1:
                rank[value] = -2  # on its way
                stack.append((value, True))
                stack += [(needed, False) for needed in sorted(waits[value], reverse=True) if rank[needed] == -1]
    return rank


def _waits(program: Program) -> list[set[int]]:
    """What must be there before each instruction; for a sine, all angles of its level, to be tested at once."""
    levels, angles = turns_before(program), {}
    waits = [set(operands(instruction)) for instruction in program.instructions]
    turns = [i for i, instruction in enumerate(program.instructions) if instruction[0] in ("sin", "cos")]
    for i in turns:
        angle = program.instructions[i][1]
        angles.setdefault(levels[angle], set()).add(angle)
    for i in turns:
        waits[i] |= angles[levels[program.instructions[i][1]]]
    return waits


def _users(waits: list[set[int]]) -> list[list[int]]:
    users: list[list[int]] = [[] for _ in waits]
    for i, values in enumerate(waits):
        for value in values:
            users[value].append(i)
    return users


def _fused(program: Program, users: list[list[int]]) -> set[int]:
    """Products that are part of the sum they go to, one a sum."""
    instructions, found = program.instructions, set()
    for name, *rest in instructions:
        if name in ("add", "sub"):
            found.update([value for value in rest if instructions[value][0] == "mul" and len(users[value]) == 1][:1])
    return found


def _latency(program: Program, i: int, fused: set[int]) -> int:
    name, *rest = program.instructions[i]
    return 4 if name in ("add", "sub") and not fused.isdisjoint(rest) else LATENCY.get(name, 4)


def _heights(waits: list[set[int]], users: list[list[int]], latency: list[int]) -> list[int]:
    """How long it takes from each instruction's beginning to the end of all that wait for it."""
    heights = [0] * len(waits)
    for i in _last_first(waits, users):
        heights[i] = latency[i] + max((heights[user] for user in users[i]), default=0)
    return heights


def _last_first(waits: list[set[int]], users: list[list[int]]) -> Iterator[int]:
    left = [len(values) for values in users]
    free = [i for i, count in enumerate(left) if not count]
    while free:
        i = free.pop()
        yield i
        for value in waits[i]:
            left[value] -= 1
            if not left[value]:
                free.append(value)
