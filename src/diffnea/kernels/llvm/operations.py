"""The operations of scalar programs as LLVM assembly."""

from collections.abc import Callable

from diffnea.kernels.ir.program import LEAVES
from diffnea.kernels.llvm import math as llvm_math
from diffnea.kernels.llvm.code import Code


def _sign(code: Code, a: str) -> str:
    """±1; zero of either sign and NaN are their own."""
    zero = code.number(0.0)
    below = code.select(code.compare("olt", a, zero), code.number(-1.0), a)
    return code.select(code.compare("ogt", a, zero), code.number(1.0), below)


def _rsqrt(code: Code, a: str) -> str:
    return code.div(code.number(1.0), code.call("sqrt", a))


def extremum(code: Code, operation: str, a: str, b: str, a_is_number: bool) -> str:
    """The smaller or larger; NaN if either is: one instruction, which gives b where a NaN is, and a check of a."""
    chosen = code.select(code.compare({"min": "olt", "max": "ogt"}[operation], a, b), a, b)
    return chosen if a_is_number else code.select(code.compare("uno", a, a), a, chosen)


OPERATIONS: dict[str, Callable[..., str]] = {
    "neg": Code.neg,
    "add": Code.add,
    "sub": Code.sub,
    "mul": Code.mul,
    "div": Code.div,
    "select": Code.select,
    "sign": _sign,
    "rsqrt": _rsqrt,
    "exp": llvm_math.exp,
    "log": llvm_math.log,
    "tanh": llvm_math.tanh,
    "atan2": llvm_math.atan2,
    "abs": lambda code, a: code.call("fabs", a),
    "sqrt": lambda code, a: code.call("sqrt", a),
    "floor": lambda code, a: code.call("floor", a),
    "ceil": lambda code, a: code.call("ceil", a),
    "round": lambda code, a: code.call("rint", a),  # halves to even
    "lt": lambda code, a, b: code.compare("olt", a, b),
    "le": lambda code, a, b: code.compare("ole", a, b),
    "gt": lambda code, a, b: code.compare("ogt", a, b),
    "ge": lambda code, a, b: code.compare("oge", a, b),
    "eq": lambda code, a, b: code.compare("oeq", a, b),
    "ne": lambda code, a, b: code.compare("une", a, b),
}

# The same names where the operands are truth values.
ON_TRUTH: dict[str, Callable[..., str]] = {
    "and": lambda code, a, b: code.logic("and", a, b),
    "or": lambda code, a, b: code.logic("or", a, b),
    "xor": lambda code, a, b: code.logic("xor", a, b),
    "not": lambda code, a: code.logic("xor", a, code.bool(True)),
    "eq": lambda code, a, b: code.logic("xor", code.logic("xor", a, b), code.bool(True)),
    "ne": lambda code, a, b: code.logic("xor", a, b),
    "select": lambda code, truth, a, b: code.let(f"select {code.truth} {truth},{code.truth} {a},{code.truth} {b}"),
}

# What each costs, in additions; one if it is not here. Only to cut work into pieces of some size.
COST = {"sin": 15, "cos": 15, "exp": 25, "log": 35, "tanh": 35, "atan2": 45, "pow": 200, "div": 8, "sqrt": 10}
COST |= {"rsqrt": 18} | dict.fromkeys((*LEAVES, "result"), 0)
