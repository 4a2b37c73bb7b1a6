"""Per-sample functions → scalar programs: JAX traces, and here each of its primitives is taken apart into numbers.

An array is a numpy array of values of the program (`Symbols`), or, for indices and fixed truths, of plain numbers.
Primitives that only move data move those; the others are rules in `arithmetic` and `linear_algebra`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from diffnea.kernels.program import Builder, Program

# Larger programs take longer to compile than they are worth.
MOST_INSTRUCTIONS = 300_000
MOST_RESULTS = 1_024


class Unsupported(Exception):
    """A primitive, or a use of one, that has no scalar form; names it."""


class Symbols(NamedTuple):
    """An array whose elements are values of the program: numbers, or truths."""

    values: np.ndarray
    truths: bool = False


Operand = Symbols | np.ndarray
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of these primitives: `(tracer, *operands, **params) → result(s)`."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def trace(function: Callable, *arguments: Any) -> tuple[Program, Any]:
    """The program of a function of arrays and pytrees, and the shapes of its results.

    `arguments` are shapes (`jax.ShapeDtypeStruct`) or numbers; a number is folded into the program. Raises
    `Unsupported` where a primitive has no rule.
    """
    leaves, structure = jax.tree.flatten(arguments)
    free = [leaf for leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)]

    def flat(*given):
        given = iter(given)
        filled = [next(given) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf for leaf in leaves]
        return function(*jax.tree.unflatten(structure, filled))

    closed, shapes = jax.make_jaxpr(flat, return_shape=True)(*free)
    count = sum(int(np.prod(shape.shape)) for shape in jax.tree.leaves(shapes))
    if count > MOST_RESULTS:
        raise Unsupported(f"{count} results")
    tracer = Tracer()
    inputs = [tracer.inputs(i, leaf.shape) for i, leaf in enumerate(free)]
    results = tracer.run(closed, inputs)
    outputs = [tracer.symbols(result).values.ravel().tolist() for result in results]
    return tracer.builder.build(outputs, [int(np.prod(leaf.shape)) for leaf in free]), shapes


class Tracer:
    """Walks a jaxpr with symbols for arrays."""

    def __init__(self):
        self.builder = Builder()

    def inputs(self, argument: int, shape: tuple[int, ...]) -> Symbols:
        """An argument, element by element."""
        values = [self.builder.input(argument, k) for k in range(int(np.prod(shape)))]
        return Symbols(np.array(values, np.int64).reshape(shape))

    def symbols(self, operand: Operand) -> Symbols:
        """An operand as values of the program; plain numbers become constants."""
        if isinstance(operand, Symbols):
            return operand
        operand = np.asarray(operand)
        truths = operand.dtype == np.bool_
        numbers = operand.ravel().tolist() if truths else operand.astype(np.float64).ravel().tolist()
        values = [self.builder.constant(number) for number in numbers]
        return Symbols(np.array(values, np.int64).reshape(operand.shape), truths)

    def each(self, name: str, *operands: Operand) -> np.ndarray:
        """An operation on each element."""
        arrays = np.broadcast_arrays(*(self.symbols(operand).values for operand in operands))
        op = self.builder.op
        rows = zip(*(array.ravel().tolist() for array in arrays), strict=True)
        return np.array([op(name, *row) for row in rows], np.int64).reshape(arrays[0].shape)

    def run(self, jaxpr: ClosedJaxpr | Jaxpr, operands: Sequence[Operand]) -> list[Operand]:
        """Evaluate a jaxpr, with its constants if it brings any."""
        if isinstance(jaxpr, ClosedJaxpr):
            return self.run_open(jaxpr.jaxpr, [_plain(self, const) for const in jaxpr.consts], operands)
        return self.run_open(jaxpr, [], operands)

    def run_open(self, jaxpr: Jaxpr, consts: list[Operand], operands: Sequence[Operand]) -> list[Operand]:
        """Evaluate a jaxpr."""
        known: dict[Any, Operand] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands], strict=True))

        def read(atom) -> Operand:
            return _plain(self, atom.val) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            name = equation.primitive.name
            if name not in RULES:
                raise Unsupported(name)
            if self.builder.size > MOST_INSTRUCTIONS:
                raise Unsupported(f"more than {MOST_INSTRUCTIONS} instructions")
            results = RULES[name](self, *(read(atom) for atom in equation.invars), **equation.params)
            many = results if equation.primitive.multiple_results else [results]
            known.update(zip(equation.outvars, many, strict=True))
        return [read(atom) for atom in jaxpr.outvars]


def _plain(tracer: Tracer, value: Any) -> Operand:
    """A constant: numbers to compute with become symbols, indices and truths stay plain."""
    array = np.asarray(value)
    return tracer.symbols(array) if np.issubdtype(array.dtype, np.floating) else array


def move(function: Callable[..., np.ndarray], *operands: Operand) -> Operand:
    """Apply a function that only moves elements, to symbols and plain arrays alike."""
    first = operands[0]
    if isinstance(first, Symbols):
        return Symbols(function(*(operand.values for operand in operands)), first.truths)  # type: ignore[union-attr]
    return np.asarray(function(*operands))


def alike(tracer: Tracer, *operands: Operand) -> tuple[Operand, ...]:
    """Operands all as symbols if one of them is."""
    if any(isinstance(operand, Symbols) for operand in operands):
        return tuple(tracer.symbols(operand) for operand in operands)
    return operands


# Calls -----------------------------------------------------------------------------------------------------------


@rule("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint", "remat2")
def _call(tracer: Tracer, *operands: Operand, **params: Any):
    return tracer.run(params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"], operands)


@rule("scan")
def _scan(tracer: Tracer, *operands: Operand, jaxpr, length, reverse, **params):
    num_consts, num_carry = _scan_counts(params)
    consts, carry = list(operands[:num_consts]), list(operands[num_consts : num_consts + num_carry])
    rows = operands[num_consts + num_carry :]
    collected: list[list[Operand]] = []
    for step in reversed(range(length)) if reverse else range(length):
        slices = [move(lambda array, step=step: array[step], row) for row in rows]
        results = tracer.run(jaxpr, [*consts, *carry, *slices])
        carry = results[:num_carry]
        collected.append(results[num_carry:])
    if not length:
        raise Unsupported("scan of no steps")
    collected = collected[::-1] if reverse else collected
    stacked = [_stack(tracer, [results[k] for results in collected]) for k in range(len(collected[0]))]
    return [*carry, *stacked]


def _scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """How many operands are constants and how many are carried; from JAX 0.12 on, by the tree they form."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def _stack(tracer: Tracer, arrays: list[Operand]) -> Operand:
    return move(lambda *parts: np.stack(parts), *alike(tracer, *arrays))


@rule("platform_index")
def _platform_index(_tracer: Tracer, *, platforms) -> np.ndarray:
    """A choice by platform: the branch that serves any."""
    if None not in platforms:
        raise Unsupported("platform_index without a default")
    return np.asarray(platforms.index(None))


@rule("cond")
def _cond(tracer: Tracer, index: Operand, *operands: Operand, branches, **_):
    if not isinstance(index, Symbols):
        chosen = int(np.clip(index, 0, len(branches) - 1))
        return tracer.run(branches[chosen], list(operands))
    if not index.truths or len(branches) != 2:
        raise Unsupported("cond between more than two branches")
    otherwise, chosen = (tracer.run(branch, list(operands)) for branch in branches)
    pairs = zip(chosen, otherwise, strict=True)
    return [_select(tracer, index, yes, no) for yes, no in pairs]


def _select(tracer: Tracer, truth: Symbols, yes: Operand, no: Operand) -> Symbols:
    return Symbols(tracer.each("select", truth, yes, no), tracer.symbols(yes).truths)


@rule("custom_linear_solve")
def _custom_linear_solve(tracer: Tracer, *operands: Operand, const_lengths, jaxprs):
    lengths = [const_lengths.matvec, const_lengths.vecmat, const_lengths.solve, const_lengths.transpose_solve]
    start = sum(lengths[:2])
    consts, right = operands[start : start + lengths[2]], operands[sum(lengths) :]
    return tracer.run(jaxprs.solve, [*consts, *right])
