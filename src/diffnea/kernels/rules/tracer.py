"""Per-sample functions → scalar programs: JAX traces, and here each of its primitives is taken apart into numbers.

An array is a numpy array of values of the program (`Symbols`), or, for indices and fixed truths, of plain numbers.
Primitives that only move data move those; the others are rules beside this file.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.program import IN_LOOP, Program, Unfit
from diffnea.kernels.rules.function import inlined

# Larger programs take longer to compile than they are worth: so many results take LLVM about two seconds, and CUDA's
# compiler up to a minute. Results that loops write do not count.
MOST_INSTRUCTIONS = 300_000
MOST_RESULTS = 1_536
# A scan of so few steps gains little as a loop, only shorter code.
FEW = 8


class Unsupported(Exception):
    """A primitive, or a use of one, that has no scalar form; names it."""


class Symbols(NamedTuple):
    """An array whose elements are values of the program: numbers, or truths."""

    values: np.ndarray
    truths: bool = False


class Steps(NamedTuple):
    """Whole numbers or truths that are known, but change from step to step of a loop: (step, *shape)."""

    values: np.ndarray


Operand = Any  # Symbols, Steps or np.ndarray
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
    return program_of(closed), shapes


def program_of(closed: ClosedJaxpr) -> Program:
    """The program of a jaxpr: with loops if its scans are fit for them, at least those of many steps."""
    try:
        return _program(closed)
    except Unfit:
        pass
    try:
        return _program(closed, fewest=FEW + 1)
    except Unfit as reason:
        return _program(closed, no_loops=str(reason))


def _program(closed: ClosedJaxpr, **loops: Any) -> Program:
    """The program for where nothing likely holds; if there is any such, with the one for where all of it does."""
    tracer = Tracer(**loops)
    program = _traced(closed, tracer)
    if not tracer.conditions:
        return program
    return replace(program, shortcut=_traced(closed, Tracer(**loops, likely=True)))


def _traced(closed: ClosedJaxpr, tracer: "Tracer") -> Program:
    shapes = [variable.aval.shape for variable in closed.jaxpr.invars]
    inputs = [tracer.inputs(i, shape) for i, shape in enumerate(shapes)]
    outputs = [tracer.symbols(result).values for result in tracer.run(closed, inputs)]
    if tracer.likely:
        outputs.append(np.array([reduce(partial(tracer.builder.op, "and"), tracer.conditions)]))
    program = tracer.builder.build(outputs, [int(np.prod(shape)) for shape in shapes])
    count = sum(value != IN_LOOP for output in program.outputs for value in output)
    if count > MOST_RESULTS:
        raise Unsupported(f"{count} results")
    return program


class Tracer:
    """Walks a jaxpr with symbols for arrays; `no_loops` says why scans must be unrolled, if they must.

    Scans of fewer than `fewest` steps are unrolled, too.
    What is said to be likely is taken as true or as false everywhere (`likely`), and collected (`conditions`).
    """

    def __init__(self, no_loops: str = "", likely: bool = False, fewest: int = 2):
        self.builder, self.no_loops, self.likely, self.fewest = Builder(), no_loops, likely, fewest
        self.conditions: list[int] = []
        self._constants: dict[int, tuple[Any, Operand]] = {}  # by identity: jaxprs that are run again share them

    def inputs(self, argument: int, shape: tuple[int, ...]) -> Symbols:
        """An argument, element by element."""
        return Symbols(self.builder.elements.arguments(argument, int(np.prod(shape))).reshape(shape))

    def symbols(self, operand: Operand) -> Symbols:
        """An operand as values of the program; plain numbers become constants."""
        if isinstance(operand, Symbols):
            return operand
        operand = np.asarray(operand)
        truths = operand.dtype == np.bool_
        numbers = operand.ravel().tolist() if truths else operand.astype(np.float64).ravel().tolist()
        if not truths and len(numbers) > 1 and not any(numbers) and not np.signbit(operand).any():
            return Symbols(np.full(operand.shape, self.builder.constant(0.0), np.int64))
        values = [self.builder.constant(number) for number in numbers]
        return Symbols(np.array(values, np.int64).reshape(operand.shape), truths)

    def each(self, name: str, *operands: Operand) -> np.ndarray:
        """An operation on each element."""
        arrays = [self.symbols(operand).values for operand in operands]
        if any(array.shape != arrays[0].shape for array in arrays):
            arrays = np.broadcast_arrays(*arrays)
        rows = zip(*[array.ravel().tolist() for array in arrays], strict=True)
        return np.array(self.builder.each(name, rows), np.int64).reshape(arrays[0].shape)

    def run(self, jaxpr: ClosedJaxpr | Jaxpr, operands: Sequence[Operand]) -> list[Operand]:
        """Evaluate a jaxpr, with its constants if it brings any."""
        if isinstance(jaxpr, ClosedJaxpr):
            return self.run_open(jaxpr.jaxpr, [self._plain(const) for const in jaxpr.consts], operands)
        return self.run_open(jaxpr, [], operands)

    def run_open(self, jaxpr: Jaxpr, consts: list[Operand], operands: Sequence[Operand]) -> list[Operand]:
        """Evaluate a jaxpr."""
        known: dict[Any, Operand] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *operands], strict=True))

        def read(atom) -> Operand:
            return self._plain(atom.val) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            name = equation.primitive.name
            if name not in RULES:
                raise Unsupported(name)
            if self.builder.size > MOST_INSTRUCTIONS:
                raise Unsupported(f"more than {MOST_INSTRUCTIONS} instructions")
            results = self._apply(RULES[name], [read(atom) for atom in equation.invars], equation.params)
            many = results if equation.primitive.multiple_results else [results]
            known.update(zip(equation.outvars, many, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _apply(self, rule: Rule, operands: Sequence[Operand], params: dict[str, Any]) -> Any:
        """A rule's result; if an operand changes from step to step, of every step."""
        length = next((len(operand.values) for operand in operands if isinstance(operand, Steps)), None)
        if length is None:
            return rule(self, *operands, **params)
        at = [[o.values[k] if isinstance(o, Steps) else o for o in operands] for k in range(length)]
        results = [rule(self, *now, **params) for now in at]
        if isinstance(results[0], list):
            return [self.stepped(list(column)) for column in zip(*results, strict=True)]
        return self.stepped(results)

    def stepped(self, each: list[Operand]) -> Operand:
        """What is known of every step, as it is at one."""
        if not any(isinstance(one, Symbols) for one in each):
            return Steps(np.stack(each))
        symbols = [self.symbols(one) for one in each]
        return self.at_step(Symbols(np.stack([one.values for one in symbols]), symbols[0].truths))

    def at_step(self, rows: Symbols) -> Symbols:
        """A row at a step of the present loop, of one row a step."""
        values = rows.values
        return Symbols(self.builder.stepped(values.reshape(len(values), -1)).reshape(values.shape[1:]), rows.truths)

    def _plain(self, value: Any) -> Operand:
        """A constant: numbers to compute with become symbols, indices and truths stay plain."""
        if id(value) not in self._constants:
            array = np.asarray(value)
            found = self.symbols(array) if np.issubdtype(array.dtype, np.floating) else array
            self._constants[id(value)] = value, found
        return self._constants[id(value)][1]


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


@rule("stop_gradient", "name")
def _identity(_tracer: Tracer, *operands: Operand, **_: Any):
    return operands[0]


@rule("diffnea_kernel")
def _kernel(tracer: Tracer, *operands: Operand, **params: Any):
    return tracer.run(inlined(**params), operands)


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
