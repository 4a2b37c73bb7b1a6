"""The order in which a thread computes a program's values, and how many of them it keeps at once."""

from collections.abc import Sequence

from diffnea.kernels.ir.layout import Plan, turns_before
from diffnea.kernels.ir.program import IN_LOOP, LEAVES, Loop, operands

# One that would keep more than this spills, and then spills least if values are computed close to where they are used;
# else the program's own order needs fewer registers.
MANY_REGISTERS = 200
# Angles whose sine or cosine are so many values apart have their size tested at once.
SIDE_BY_SIDE = 50


def order_of(plan: Plan, words: int, loop: Loop | None = None) -> list[int]:
    """Values that vary, in the order to compute them, of numbers that take so many registers each."""
    close = schedule(plan, loop)
    return close if pressure(plan, sorted(close)) * words > MANY_REGISTERS else sorted(close)


def schedule(plan: Plan, loop: Loop | None = None) -> list[int]:
    """Values that vary, in an order in which each follows closely what it uses: each output's, depth first."""
    instructions, done = plan.program.instructions, set()
    order: list[int] = []

    def visit(value: int) -> None:
        stack = [value]
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
                continue
            leaf = instructions[top][0] in LEAVES or not plan.varies[top]
            waiting = [] if leaf else [used for used in reversed(operands(instructions[top])) if used not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done.add(top)
            if not leaf:
                order.append(top)

    loops = [value for value, instruction in enumerate(instructions) if instruction[0] == "loop"]
    wanted = [value for output in plan.program.outputs for value in output if value != IN_LOOP]
    for value in [*loops, *wanted, *(write.value for write in (loop.writes if loop else ()))]:
        visit(value)
    return order


def pressure(plan: Plan, order: Sequence[int]) -> int:
    """How many values are kept at once, at most, if they are computed in this order."""
    instructions, last = plan.program.instructions, {}
    for time, value in enumerate(order):
        last.update(dict.fromkeys(operands(instructions[value]), time))
    ends = [0] * len(order)
    kept = most = 0
    seen: set[int] = set()
    for time, value in enumerate(order):
        for new in (*operands(instructions[value]), value):
            if new not in seen and plan.varies[new] and new in last:
                seen.add(new)
                ends[last[new]] += 1
                kept += 1
        most = max(most, kept)
        kept -= ends[time]
    return most


def together(plan: Plan, order: Sequence[int]) -> dict[int, list[int]]:
    """For each angle, those near it in the order that can be computed before the sine or cosine of any of them."""
    levels = turns_before(plan.program)
    groups: dict[int, list[int]] = {}
    group, start, level = [], 0, -1
    for time, value in enumerate(order):
        name, *used = plan.program.instructions[value]
        if name in ("sin", "cos") and used[0] not in groups:
            if levels[used[0]] != level or time - start > SIDE_BY_SIDE:
                group, start, level = [], time, levels[used[0]]
            group.append(used[0])
            groups[used[0]] = group
    return groups


def missing(plan: Plan, value: int, done: set[int]) -> list[int]:
    """What must still be computed for a value, in order."""
    found: set[int] = set()
    stack = [value]
    while stack:
        top = stack.pop()
        instruction = plan.program.instructions[top]
        if instruction[0] in LEAVES or not plan.varies[top] or top in done or top in found:
            continue
        found.add(top)
        stack.extend(operands(instruction))
    return sorted(found)
