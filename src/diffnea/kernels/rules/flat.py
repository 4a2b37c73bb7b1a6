"""Jaxprs with their loops on the surface: calls that hold loops or marked results are opened, short scans unrolled.

`parts_of` then reads such a jaxpr as a sequence of loops, marked results, and plain arithmetic between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var, jaxpr_as_fun

from diffnea.kernels.rules.function import inlined
from diffnea.kernels.rules.scans import is_long, scan_counts

KEPT = "kept"  # results with this `checkpoint_name` are kept for the backward pass, not computed again
CALLS = ("jit", "pjit", "closed_call", "core_call", "remat", "checkpoint", "remat2")


@dataclass(frozen=True, eq=False)
class Part:
    """A loop, a marked result, or plain equations, with the variables they read and write."""

    kind: str  # "loop", "marked" or "plain"
    equation: Any  # of a loop
    reads: list[Any]
    writes: list[Any]
    closed: ClosedJaxpr

    def run(self, *operands: Any) -> list[Any]:
        """The values of `writes`."""
        return jaxpr_as_fun(self.closed)(*operands)


def is_float(variable: Any) -> bool:
    """Whether derivatives can go through it."""
    return isinstance(variable, Var) and jnp.issubdtype(getattr(variable.aval, "dtype", bool), jnp.floating)


def is_marked(equation: Any) -> bool:
    """A result under the name KEPT: of `checkpoint_name`, or of a function with its own derivative that ends in one."""
    if equation.primitive.name == "name":
        return equation.params["name"] == KEPT
    if equation.primitive.name != "custom_jvp_call":
        return False
    inner = equation.params["call_jaxpr"].jaxpr
    named = {v for one in inner.eqns if one.primitive.name == "name" and is_marked(one) for v in one.outvars}
    return bool(inner.outvars) and all(isinstance(v, Var) and v in named for v in inner.outvars)


def _called(equation: Any) -> ClosedJaxpr | None:
    """What a call calls."""
    name = equation.primitive.name
    if name == "diffnea_kernel":
        return inlined(**equation.params)
    if name not in CALLS:
        return None
    jaxpr = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


_holds: dict[int, tuple[Jaxpr, bool, bool]] = {}


def _what_holds(jaxpr: Jaxpr) -> tuple[bool, bool]:
    """Whether there are scans in a jaxpr, and whether anything in it is to be opened."""
    if id(jaxpr) not in _holds:
        scans = opened = False
        for equation in jaxpr.eqns:
            inner = equation.params["jaxpr"] if equation.primitive.name == "scan" else _called(equation)
            below = (False, is_marked(equation)) if inner is None else _what_holds(inner.jaxpr)
            is_scan = equation.primitive.name == "scan"
            scans, opened = scans or is_scan or below[0], opened or is_scan or below[1]
        if len(_holds) > 10_000:
            _holds.clear()
        _holds[id(jaxpr)] = jaxpr, scans, opened
    return _holds[id(jaxpr)][1:]


def has_scan(jaxpr: ClosedJaxpr) -> bool:
    """Whether there is a scan in it, a loop or not."""
    return _what_holds(jaxpr.jaxpr)[0]


def flattened(jaxpr: ClosedJaxpr) -> ClosedJaxpr:
    """The same function with loops and marked results on the surface, and so the bodies of its loops."""
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.jaxpr.invars]
    return jax.make_jaxpr(lambda *operands: _run(jaxpr, operands))(*shapes)


def _run(jaxpr: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    invars = [*zip(jaxpr.jaxpr.constvars, jaxpr.consts, strict=True), *zip(jaxpr.jaxpr.invars, operands, strict=True)]
    known: dict[Any, Any] = dict(invars)

    def read(atoms):
        return [atom.val if isinstance(atom, Literal) else known[atom] for atom in atoms]

    for part in _parts(jaxpr.jaxpr, _is_to_open):
        known.update(zip(part.writes, _opened(part, read(part.reads)), strict=True))
    return read(jaxpr.jaxpr.outvars)


def _is_to_open(equation: Any) -> str | None:
    if equation.primitive.name == "scan":
        return "scan"
    inner = _called(equation)
    return "call" if inner is not None and _what_holds(inner.jaxpr)[1] else None


def _opened(part: Part, operands: list[Any]) -> list[Any]:
    if part.kind == "call":
        inner = _called(part.equation)
        assert inner is not None
        return _run(inner, operands)
    if part.kind != "scan":
        return part.run(*operands)
    params = part.equation.params
    first, carried = scan_counts(params)
    consts, carry, rows = operands[:first], operands[first : first + carried], operands[first + carried :]
    body = params["jaxpr"]

    def step(carry, row):
        results = _run(body, [*consts, *carry, *row])
        return results[:carried], results[carried:]

    if is_long(params):
        last, ys = jax.lax.scan(step, carry, rows, params["length"], params["reverse"])
        return [*last, *ys]
    collected = []
    for k in range(params["length"])[:: -1 if params["reverse"] else 1]:
        carry, y = step(carry, [row[k] for row in rows])
        collected.append(y)
    collected = collected[:: -1 if params["reverse"] else 1]
    return [*carry, *(jnp.stack(column) for column in zip(*collected, strict=True))]


_parts_kept: dict[int, tuple[Jaxpr, list[Part]]] = {}


def parts_of(jaxpr: Jaxpr) -> list[Part]:
    """A flat jaxpr as loops, marked results and what stands between them."""
    if id(jaxpr) not in _parts_kept:
        if len(_parts_kept) > 1000:
            _parts_kept.clear()
        _parts_kept[id(jaxpr)] = jaxpr, _parts(jaxpr, _kind)
    return _parts_kept[id(jaxpr)][1]


def _kind(equation: Any) -> str | None:
    if equation.primitive.name == "scan" and is_long(equation.params):
        return "loop"
    return "marked" if is_marked(equation) else None


def _parts(jaxpr: Jaxpr, kind_of: Any) -> list[Part]:
    """Equations of a kind by themselves, runs of those that have none together."""
    groups: list[tuple[str, list[Any]]] = []
    for equation in jaxpr.eqns:
        kind = kind_of(equation)
        if kind is None and groups and groups[-1][0] == "plain":
            groups[-1][1].append(equation)
        else:
            groups.append((kind or "plain", [equation]))
    used_later = {v for v in jaxpr.outvars if isinstance(v, Var)}
    parts = []
    for kind, equations in reversed(groups):
        parts.insert(0, _part(jaxpr, kind, equations, used_later))
        used_later.update(v for v in parts[0].reads if isinstance(v, Var))
    return parts


def _part(jaxpr: Jaxpr, kind: str, equations: list[Any], used_later: set[Any]) -> Part:
    made = [v for equation in equations for v in equation.outvars]
    given = [v for equation in equations for v in equation.invars if isinstance(v, Var) and v not in set(made)]
    reads, writes = list(dict.fromkeys(given)), made
    if kind == "plain":
        writes = [v for v in made if v in used_later]
    elif kind != "marked":
        reads = list(equations[0].invars)  # as they stand, numbers among them
    info = jaxpr.debug_info.with_unknown_names()
    inner = jaxpr.replace(
        eqns=equations, constvars=[], invars=list(dict.fromkeys(given)), outvars=writes, debug_info=info
    )
    return Part(kind, equations[0], reads, writes, ClosedJaxpr(inner, ()))
