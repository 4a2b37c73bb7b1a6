"""What depends on what in a flat jaxpr, through its loops; and which arrays are kept of them, in which order."""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, Var

from diffnea.kernels.rules.flat import Part, is_float, parts_of
from diffnea.kernels.rules.scans import scan_counts


class Loop:
    """A scan taken apart."""

    def __init__(self, part: Part):
        params = part.equation.params
        self.body: ClosedJaxpr = params["jaxpr"]
        self.length, self.reverse = params["length"], params["reverse"]
        self.num_consts, self.num_carry = scan_counts(params)
        self.num_kept = count_kept(self.body)

    def split(self, given: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """What belongs to constants, carried numbers and rows."""
        first, second = self.num_consts, self.num_consts + self.num_carry
        return list(given[:first]), list(given[first:second]), list(given[second:])

    def collected_carries(self) -> dict[int, int]:
        """Carried numbers that the scan collects as they are: where among its collected results."""
        collected = enumerate(self.body.jaxpr.outvars[self.num_carry :])
        ys = {variable: j for j, variable in collected if isinstance(variable, Var)}
        carried = self.split(self.body.jaxpr.invars)[1]
        return {k: ys[variable] for k, variable in enumerate(carried) if variable in ys}

    def later(self) -> dict[int, int]:
        """Carried numbers that are, one step later, what is kept anyway: where that is in what the loop keeps.

        That is a marked result, a collected one, or another number that the loop carries.
        """
        if self.reverse:
            return {}
        outvars, first = self.body.jaxpr.outvars, 2 * self.num_carry + self.num_kept
        kept = {v: first + j for j, v in enumerate(outvars[self.num_carry :]) if isinstance(v, Var)}
        place = self.num_carry
        for part in parts_of(self.body.jaxpr):
            if part.kind == "marked":
                kept.update({v: place + j for j, v in enumerate(part.writes)})
            place += num_kept(part)
        collected, carried = self.collected_carries(), self.split(self.body.jaxpr.invars)[1]
        found: dict[int, int] = {}
        for _ in carried:  # a number may follow one that follows another
            known = kept | {v: k for k, v in enumerate(carried) if k in found or k in collected}
            found |= {
                k: known[v]
                for k, v in enumerate(outvars[: self.num_carry])
                if isinstance(v, Var) and v in known and k not in collected and known[v] != k
            }
        return found


def shifts(jaxpr: ClosedJaxpr, depth: int = 0) -> dict[int, tuple[int, int]]:
    """Of what is not kept by itself: which other kept array it is, a step later, and along which axis."""
    found: dict[int, tuple[int, int]] = {}
    start = 0
    for part in parts_of(jaxpr.jaxpr):
        if part.kind == "loop":
            loop = Loop(part)
            found |= {start + k: (start + source, depth) for k, source in loop.later().items()}
            inner = shifts(loop.body, depth + 1)
            base = start + loop.num_carry
            found |= {base + k: (base + source, axis) for k, (source, axis) in inner.items()}
        start += num_kept(part)
    return found


def num_kept(part: Part) -> int:
    if part.kind == "loop":
        loop = Loop(part)
        return loop.num_carry + loop.num_kept + len(part.writes)
    return len(part.writes) if part.kind == "marked" else 0


def count_kept(jaxpr: ClosedJaxpr) -> int:
    """How many arrays `forward` keeps."""
    return sum(map(num_kept, parts_of(jaxpr.jaxpr)))


def active_of(jaxpr: Jaxpr, wanted: Sequence[bool]) -> set[Var]:
    """Numbers that change with the operands wanted."""
    active = {v for v, want in zip(jaxpr.invars, wanted, strict=True) if want}
    for part in parts_of(jaxpr):
        if part.kind == "loop":
            out = spread(Loop(part), [is_in(v, active) for v in part.reads])[0]
            active.update(v for v, moved in zip(part.writes, out, strict=True) if moved and is_float(v))
        else:
            for equation in part.closed.jaxpr.eqns:
                if any(is_in(v, active) for v in equation.invars):
                    active.update(filter(is_float, equation.outvars))
    return active


def spread(loop: Loop, moves: Sequence[bool]) -> tuple[list[bool], list[bool]]:
    """Which results of a loop move with its operands, and which of the numbers that it carries."""
    consts, carry, rows = loop.split(moves)
    while True:
        found = active_of(loop.body.jaxpr, [*consts, *carry, *rows])
        out = [is_in(v, found) for v in loop.body.jaxpr.outvars]
        grown = [a or b for a, b in zip(carry, out, strict=False)]
        if grown == carry:
            return [*grown, *out[loop.num_carry :]], grown
        carry = grown


def relevant_of(jaxpr: Jaxpr, given: Sequence[bool]) -> set[Var]:
    """Numbers that results with a cotangent depend on."""
    relevant = {v for v, has in zip(jaxpr.outvars, given, strict=True) if has and isinstance(v, Var)}
    for part in reversed(parts_of(jaxpr)):
        if part.kind == "loop":
            into = spread_back(Loop(part), [v in relevant for v in part.writes])[0]
            relevant.update(v for v, counts in zip(part.reads, into, strict=True) if counts and is_float(v))
        else:
            for equation in reversed(part.closed.jaxpr.eqns):
                if not relevant.isdisjoint(equation.outvars):
                    relevant.update(filter(is_float, equation.invars))
    return relevant


def spread_back(loop: Loop, matters: Sequence[bool]) -> tuple[list[bool], list[bool]]:
    """Which operands of a loop its results depend on, and which of the numbers that it carries."""
    carry, ys = list(matters[: loop.num_carry]), list(matters[loop.num_carry :])
    while True:
        found = relevant_of(loop.body.jaxpr, [*carry, *ys])
        into = [v in found for v in loop.body.jaxpr.invars]
        grown = [a or b for a, b in zip(carry, loop.split(into)[1], strict=True)]
        if grown == carry:
            consts, _, rows = loop.split(into)
            return [*consts, *grown, *rows], grown
        carry = grown


def is_in(atom: Any, variables: set[Var]) -> bool:
    return isinstance(atom, Var) and atom in variables
