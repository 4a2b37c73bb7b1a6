"""Gradients of functions with loops, in two passes that are loops: one forward that keeps, one backward that reads.

What is kept are the numbers that each loop carries, at every step, and results marked with `checkpoint_name(x, KEPT)`.
The backward pass runs each loop's body again from these, and pulls cotangents through it; cotangents of what a loop
does not change are summed over its steps. A loop in a loop is treated alike. Everything here maps jaxprs to functions
that JAX traces: derivatives of derivatives need nothing more.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.extend.core import ClosedJaxpr, Literal, Var, jaxpr_as_fun

from diffnea.kernels.rules.flat import KEPT, Part, parts_of
from diffnea.kernels.rules.flow import Loop, active_of, is_in, relevant_of, spread, spread_back

__all__ = ["KEPT", "forward", "pull"]


def forward(jaxpr: ClosedJaxpr, operands: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The results of a flat jaxpr, and what is kept of it, in an order that `pull` knows; None where `shifts` tells."""
    values, kept = _Values(jaxpr, operands), []
    for part in parts_of(jaxpr.jaxpr):
        if part.kind == "loop":
            results, more = _keep_loop(part, values.read(part.reads))
            kept += more
        else:
            results = part.run(*values.read(part.reads))
            kept += results if part.kind == "marked" else []
        values.write(part.writes, results)
    return values.read(jaxpr.jaxpr.outvars), kept


def _keep_loop(part: Part, operands: list[Any]) -> tuple[list[Any], list[Any]]:
    """A scan's results; and of each step what it began with and what its body keeps, and the results themselves."""
    loop = Loop(part)
    consts, carry, rows = loop.split(operands)
    collected, later = loop.collected_carries(), loop.later()

    def step(carry, row):
        results, inner = forward(loop.body, [*consts, *carry, *row])
        own = [None if k in collected or k in later else one for k, one in enumerate(carry)]
        return results[: loop.num_carry], (results[loop.num_carry :], own, inner)

    last, (ys, own, inner) = jax.lax.scan(step, carry, rows, loop.length, loop.reverse)
    began = [ys[collected[k]] if k in collected else one for k, one in enumerate(own)]
    return [*last, *ys], [*began, *inner, *last, *ys]


def pull(
    jaxpr: ClosedJaxpr,
    operands: Sequence[Any],
    kept: Iterator[Any],
    cotangents: Sequence[Any],
    wanted: Sequence[bool],
    variable: Sequence[bool] | None = None,
) -> list[Any]:
    """Cotangents of the operands wanted, None where there is none; from those of the results, None for zero.

    `variable` says which operands anyone may ever differentiate in; None: all.
    """
    can_move = active_of(jaxpr.jaxpr, [True] * len(operands) if variable is None else variable)
    flow = _Flow(
        active_of(jaxpr.jaxpr, wanted), relevant_of(jaxpr.jaxpr, [c is not None for c in cotangents]), can_move
    )
    values, tape = _Values(jaxpr, operands), []
    for piece in _pieces(parts_of(jaxpr.jaxpr)):
        if piece[0].kind == "loop":
            (part,) = piece
            tape.append(_LoopPull(part, values.read(part.reads), kept, flow))
            values.write(part.writes, tape[-1].results)
        else:
            tape.append(_StraightPull(piece, values, kept, flow))
    sums: dict[Var, Any] = {}
    for variable, cotangent in zip(jaxpr.jaxpr.outvars, cotangents, strict=True):
        _add(sums, variable, cotangent)
    for entry in reversed(tape):
        for variable, cotangent in entry.pull(sums):
            _add(sums, variable, cotangent)
    invars = zip(jaxpr.jaxpr.invars, wanted, strict=True)
    return [sums.get(variable) for variable, want in invars if want]


class _Flow(NamedTuple):
    """Variables that move with what is wanted, those that results depend on, and those that could ever move."""

    active: set[Var]
    relevant: set[Var]
    can_move: set[Var]


def _add(sums: dict[Var, Any], variable: Any, cotangent: Any) -> None:
    if cotangent is not None and isinstance(variable, Var):
        sums[variable] = cotangent if variable not in sums else sums[variable] + cotangent


def _pieces(parts: Sequence[Part]) -> list[list[Part]]:
    """Loops by themselves, and runs of what stands between them."""
    pieces: list[list[Part]] = []
    for part in parts:
        if part.kind == "loop" or not pieces or pieces[-1][0].kind == "loop":
            pieces.append([part])
        else:
            pieces[-1].append(part)
    return pieces


class _StraightPull:
    """Arithmetic without loops: JAX's own derivative of it, with marked results as they were kept."""

    def __init__(self, parts: list[Part], values: "_Values", kept: Iterator[Any], flow: _Flow):
        active, relevant, can_move = flow
        writes = [variable for part in parts for variable in part.writes]
        self.given = [v for v in dict.fromkeys(v for part in parts for v in part.reads) if v in values.known]
        self.free = [variable for variable in self.given if variable in active and variable in relevant]
        self.pulled = [variable for variable in writes if variable in active and variable in relevant]
        marks = [[next(kept) for _ in part.writes] if part.kind == "marked" else [] for part in parts]
        others = [variable for variable in writes if variable not in self.pulled]

        def run(*moved):
            inside = _Values.of({v: values.known[v] for v in self.given} | dict(zip(self.free, moved, strict=True)))
            for part, mark in zip(parts, marks, strict=True):
                operands = inside.read(part.reads)
                moves = any(variable in can_move for variable in part.reads)
                mark = _as_kept(part, mark, operands) if mark and moves else mark
                inside.write(part.writes, mark or part.run(*operands))
            return inside.read(self.pulled), inside.read(others)

        found, self.transposed, rest = jax.vjp(run, *values.read(self.free), has_aux=True)
        values.write([*self.pulled, *others], [*found, *rest])
        self.zeros = [jnp.zeros_like(one) for one in found]

    def pull(self, sums: dict[Var, Any]) -> Iterator[tuple[Var, Any]]:
        given = [sums.get(variable) for variable in self.pulled]
        if all(one is None for one in given):
            return iter(())
        filled = [zero if one is None else one for one, zero in zip(given, self.zeros, strict=True)]
        return zip(self.free, self.transposed(filled), strict=True)


class _LoopPull:
    """A loop: its results are kept ones; cotangents go through it backwards."""

    def __init__(self, part: Part, operands: list[Any], kept: Iterator[Any], flow: _Flow):
        active, relevant, can_move = flow
        self.part, self.loop, self.operands = part, Loop(part), operands
        self.began = [next(kept) for _ in range(self.loop.num_carry)]
        self.inner = [next(kept) for _ in range(self.loop.num_kept)]
        self.results = [next(kept) for _ in part.writes]
        later = self.loop.later()
        self.chains = {k: _chain(later, k) for k in later}
        self.most_late = max(map(len, self.chains.values()), default=0)
        moves, matters = ([is_in(v, found) for v in part.reads] for found in (active, relevant))
        moving = spread(self.loop, moves)[1]
        mattering = spread_back(self.loop, [v in relevant for v in part.writes])[1]
        consts, _, rows = self.loop.split([a and b for a, b in zip(moves, matters, strict=True)])
        consts_move, _, rows_move = self.loop.split([is_in(v, can_move) for v in part.reads])
        carry_moves = spread(self.loop, [is_in(v, can_move) for v in part.reads])[1]
        self.variable = [*consts_move, *carry_moves, *rows_move]
        self.wanted = [*consts, *(a and b for a, b in zip(moving, mattering, strict=True)), *rows]

    def _started(self, began: list[Any], initial: list[Any], firsts: list[Any]) -> list[Any]:
        """What a step began with; what is kept a step later is not there in the first ones, which begin as the loop."""
        found = list(began)
        for k, chain in self.chains.items():
            for j, source in reversed(list(enumerate(chain))):
                found[k] = jnp.where(firsts[j] > 0, initial[source], found[k])
        return found

    def pull(self, sums: dict[Var, Any]) -> Iterator[tuple[Var, Any]]:
        loop = self.loop
        given = [sums.get(variable) for variable in self.part.writes]
        consts, carry, rows = loop.split(self.operands)
        want_consts, live, want_rows = loop.split(self.wanted)
        if not any(self.wanted) or all(one is None for one in given):
            return iter(())
        began_with = zip(given[: loop.num_carry], carry, live, strict=True)
        start = [jnp.zeros_like(c) if g is None else g for g, c, lives in began_with if lives]
        totals = [jnp.zeros_like(c) for c, want in zip(consts, want_consts, strict=True) if want]

        def step(state, row):
            at_end, totals = state
            began, inner, x, ys, firsts = row
            began = self._started(began, carry, firsts)
            at_end = iter(at_end)
            cotangents = [next(at_end) if lives else None for lives in live] + ys
            given = [*consts, *began, *x]
            found = iter(pull(loop.body, given, iter(inner), cotangents, self.wanted, self.variable))
            totals = [total if (more := next(found)) is None else total + more for total in totals]
            before = [_filled(next(found), one) for one, lives in zip(began, live, strict=True) if lives]
            return (before, totals), [_filled(next(found), one) for one, w in zip(x, want_rows, strict=True) if w]

        firsts = [jnp.zeros(loop.length, start[0].dtype).at[k].set(1.0) for k in range(self.most_late)]
        along = (self.began, self.inner, rows, given[loop.num_carry :], firsts)
        (before, totals), by_row = jax.lax.scan(step, (start, totals), along, loop.length, not loop.reverse)
        variables = [v for v, want in zip(self.part.reads, self.wanted, strict=True) if want]
        return zip(variables, [*totals, *before, *by_row], strict=True)


def _chain(later: dict[int, int], k: int) -> list[int]:
    """The carried numbers that the k-th begins with: itself at the first step, then those that it follows."""
    return [k, *(_chain(later, later[k]) if later[k] in later else [])]


def _filled(cotangent: Any, like: Any) -> Any:
    return jnp.zeros_like(like) if cotangent is None else cotangent


# Marked results ------------------------------------------------------------------------------------------------------


def _as_kept(part: Part, kept: list[Any], operands: list[Any]) -> list[Any]:
    """Results as they were kept, with derivatives as if they were computed here: those of `part` at its operands."""

    @jax.custom_jvp
    def value(kept, *_):
        return list(kept)

    @partial(value.defjvp, symbolic_zeros=True)
    def tangent(primals, tangents):
        kept, *operands = primals
        moved = tuple(not isinstance(one, SymbolicZero) for one in tangents[1:])
        results = value(kept, *operands)
        if not any(moved):
            return results, [jnp.zeros_like(one) for one in results]
        moving = [one for one, moves in zip(tangents[1:], moved, strict=True) if moves]
        return results, _tangent_of(part, moved)(results, operands, moving)

    return value(kept, *operands)


@lru_cache(maxsize=1024)
def _tangent_of(part: Part, moved: tuple[bool, ...]) -> Callable[..., list[Any]]:
    """`(results, operands, tangents of those that move) → tangents of the results`, which uses results as given."""
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in part.reads]
    moving = [shape for shape, moves in zip(shapes, moved, strict=True) if moves]
    count = len(part.writes)

    def both(operands, tangents):
        def of_moving(*given):
            given = iter(given)
            return part.run(*(next(given) if moves else one for one, moves in zip(operands, moved, strict=True)))

        results, pushed = jax.jvp(of_moving, [o for o, m in zip(operands, moved, strict=True) if m], tangents)
        return [*results, *pushed]

    traced = jax.make_jaxpr(both)(shapes, moving)
    jaxpr = traced.jaxpr
    results, pushed = jaxpr.outvars[:count], jaxpr.outvars[count:]
    makers = [equation for equation in jaxpr.eqns if not set(results).isdisjoint(equation.outvars)]
    free = {*jaxpr.invars, *jaxpr.constvars}
    if any(not isinstance(v, Var) or v in free for v in results):  # results that are operands: nothing to put in
        return lambda _, operands, tangents: jaxpr_as_fun(traced)(*operands, *tangents)[count:]
    rest = [equation for equation in jaxpr.eqns if equation not in makers]
    made = {v for equation in makers for v in equation.outvars if v not in results}
    if any(v in made for equation in rest for v in equation.invars if isinstance(v, Var)):
        return lambda _, operands, tangents: jaxpr_as_fun(traced)(*operands, *tangents)[count:]
    unique = list(dict.fromkeys(results))
    info = jaxpr.debug_info.with_unknown_names()
    changed = jaxpr.replace(eqns=rest, invars=[*unique, *jaxpr.invars], outvars=pushed, debug_info=info)
    run = jaxpr_as_fun(ClosedJaxpr(changed, traced.consts))
    places = [results.index(v) for v in unique]
    return lambda results, operands, tangents: run(*(results[k] for k in places), *operands, *tangents)


# Values of variables --------------------------------------------------------------------------------------------------


class _Values:
    """What the variables of a jaxpr are."""

    def __init__(self, jaxpr: ClosedJaxpr, operands: Sequence[Any]):
        pairs = [
            *zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True),
            *zip(jaxpr.jaxpr.invars, operands, strict=True),
        ]
        self.known: dict[Any, Any] = dict(pairs)

    @classmethod
    def of(cls, known: dict[Any, Any]) -> "_Values":
        found = cls.__new__(cls)
        found.known = known
        return found

    def read(self, atoms: Sequence[Any]) -> list[Any]:
        return [atom.val if isinstance(atom, Literal) else self.known[atom] for atom in atoms]

    def write(self, variables: Sequence[Var], values: Sequence[Any]) -> None:
        self.known.update(zip(variables, values, strict=True))
