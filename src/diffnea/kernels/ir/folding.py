"""What folding knows: results of operations on known numbers, and simpler forms of operations on others."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Folder = Any  # makes values: a `Builder`
Operands = tuple[int, ...]
Known = Sequence[float | bool | None]


# What an operation on known numbers gives.
FOLD: dict[str, Callable] = {
    "neg": lambda a: -a,
    "abs": abs,
    "sign": np.sign,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: np.float64(a) / b,
    "min": lambda a, b: np.minimum(a, b),
    "max": lambda a, b: np.maximum(a, b),
    "atan2": math.atan2,
    "pow": lambda a, b: np.float64(a) ** b,
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "xor": lambda a, b: bool(a != b),
    "not": lambda a: not a,
}
# Those that are Python's own arithmetic, which warns of nothing.
PLAIN = frozenset(("neg", "abs", "add", "sub", "mul"))


def _simpler_add(builder: Folder, operands: Operands, known: Known) -> int | None:
    for k, other in ((0, 1), (1, 0)):
        if known[k] == 0:
            return operands[other]
        inner = builder.negated(operands[k])
        if inner is not None:
            return builder.op("sub", operands[other], inner)
    return None


def _simpler_sub(builder: Folder, operands: Operands, known: Known) -> int | None:
    if known[1] == 0:
        return operands[0]
    if known[0] == 0:
        return builder.op("neg", operands[1])
    inner = builder.negated(operands[1])
    if inner is not None:
        return builder.op("add", operands[0], inner)
    inner = builder.negated(operands[0])
    if inner is not None:
        return builder.op("neg", builder.op("add", inner, operands[1]))
    return None


def _simpler_mul(builder: Folder, operands: Operands, known: Known) -> int | None:
    for k, other in ((0, 1), (1, 0)):
        if known[k] == 0:
            return builder.constant(0.0)
        if known[k] == 1:
            return operands[other]
        if known[k] == -1:
            return builder.op("neg", operands[other])
        inner = builder.negated(operands[k])
        if inner is not None:
            return builder.op("neg", builder.op("mul", operands[other], inner))
    return None


def _simpler_div(builder: Folder, operands: Operands, known: Known) -> int | None:
    if known[0] == 0:
        return builder.constant(0.0)
    if known[1] == 1:
        return operands[0]
    for k in (0, 1):
        inner = builder.negated(operands[k])
        if inner is not None:
            pair = (inner, operands[1]) if k == 0 else (operands[0], inner)
            return builder.op("neg", builder.op("div", *pair))
    return None


def _simpler_neg(builder: Folder, operands: Operands, known: Known) -> int | None:
    return builder.negated(operands[0])


def _simpler_select(builder: Folder, operands: Operands, known: Known) -> int | None:
    """`select(truth, if true, if false)`."""
    if known[0] is not None:
        return operands[1] if known[0] else operands[2]
    return operands[1] if operands[1] == operands[2] else None


SIMPLER: dict[str, Callable] = {
    "add": _simpler_add,
    "sub": _simpler_sub,
    "mul": _simpler_mul,
    "div": _simpler_div,
    "neg": _simpler_neg,
    "select": _simpler_select,
}
