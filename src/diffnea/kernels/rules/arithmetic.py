"""Rules for what works element by element: arithmetic, comparisons, choice, conversion, and sums along axes."""

from collections.abc import Callable

import numpy as np

from diffnea.kernels.rules.tracer import Operand, Symbols, Tracer, Unsupported, alike, move, rule

_SAME = {
    "add": "add", "add_any": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "max", "min": "min", "pow": "pow",
    "atan2": "atan2", "neg": "neg", "abs": "abs", "sign": "sign", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin",
    "cos": "cos", "exp": "exp", "log": "log", "tanh": "tanh", "floor": "floor", "ceil": "ceil",
}  # fmt: skip
_TRUTHS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
_LOGIC = {"and": "and", "or": "or", "xor": "xor", "not": "not"}

# The same on whole numbers and truths that are known, which indexing computes with.
_PLAIN: dict[str, Callable] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "neg": np.negative,
    "abs": np.abs, "sign": np.sign, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert,
}  # fmt: skip


def _elementwise(primitive: str, name: str, truths: bool) -> None:
    @rule(primitive)
    def apply(tracer: Tracer, *operands: Operand, **_) -> Operand:
        if not any(isinstance(operand, Symbols) for operand in operands):
            if name not in _PLAIN:
                raise Unsupported(f"{primitive} of whole numbers")
            return np.asarray(_PLAIN[name](*operands))
        return Symbols(tracer.each(name, *operands), truths)


for _primitive, _name in _SAME.items():
    _elementwise(_primitive, _name, truths=False)
for _primitive, _name in {**_TRUTHS, **_LOGIC}.items():
    _elementwise(_primitive, _name, truths=True)


def _composed(primitive: str) -> Callable:
    """A rule written with the operations of numbers: `(op, constant, *elements) → element`."""

    def register(formula: Callable) -> Callable:
        @rule(primitive)
        def apply(tracer: Tracer, *operands: Operand, **params) -> Symbols:
            arrays = np.broadcast_arrays(*(tracer.symbols(operand).values for operand in operands))
            rows = zip(*(array.ravel().tolist() for array in arrays), strict=True)
            builder = tracer.builder
            values = [formula(builder.op, builder.constant, *row, **params) for row in rows]
            return Symbols(np.array(values, np.int64).reshape(arrays[0].shape), formula.__name__ == "is_finite")

        return formula

    return register


@_composed("square")
def square(op, _constant, x, **_):
    return op("mul", x, x)


@_composed("integer_pow")
def integer_pow(op, constant, x, *, y, **_):
    """By repeated squaring, as XLA does."""
    result, factor, power = None, x, abs(y)
    while power:
        if power & 1:
            result = factor if result is None else op("mul", result, factor)
        power >>= 1
        factor = op("mul", factor, factor) if power else factor
    result = constant(1.0) if result is None else result
    return op("div", constant(1.0), result) if y < 0 else result


@_composed("one_minus_square")
def one_minus_square(op, constant, x, **_):
    """Without the cancellation of `1 − x·x` near one."""
    return op("mul", op("sub", constant(1.0), x), op("add", constant(1.0), x))


@_composed("tan")
def tan(op, _constant, x, **_):
    return op("div", op("sin", x), op("cos", x))


@_composed("atan")
def atan(op, constant, x, **_):
    return op("atan2", x, constant(1.0))


@_composed("asin")
def asin(op, constant, x, **_):
    one = constant(1.0)
    return op("atan2", x, op("sqrt", op("mul", op("sub", one, x), op("add", one, x))))


@_composed("acos")
def acos(op, constant, x, **_):
    one = constant(1.0)
    return op("atan2", op("sqrt", op("mul", op("sub", one, x), op("add", one, x))), x)


@_composed("exp2")
def exp2(op, constant, x, **_):
    return op("exp", op("mul", x, constant(float(np.log(2.0)))))


@_composed("expm1")
def expm1(op, constant, x, **_):
    """`2 t / (1 − t)` with `t = tanh(x / 2)`, which keeps small x; plain where t would saturate."""
    t = op("tanh", op("mul", x, constant(0.5)))
    small = op("div", op("mul", constant(2.0), t), op("sub", constant(1.0), t))
    return op("select", op("lt", op("abs", x), constant(1.0)), small, op("sub", op("exp", x), constant(1.0)))


@_composed("log1p")
def log1p(op, constant, x, **_):
    """`log(u) · x / (u − 1)` with `u = 1 + x`, which makes up for what the sum rounds off; x where u is 1."""
    one = constant(1.0)
    u = op("add", one, x)
    exact = op("mul", op("log", u), op("div", x, op("sub", u, one)))
    near = op("select", op("eq", u, one), x, exact)
    return op("select", op("lt", op("abs", x), constant(1.0)), near, op("log", u))


@_composed("logistic")
def logistic(op, constant, x, **_):
    return op("div", constant(1.0), op("add", constant(1.0), op("exp", op("neg", x))))


@_composed("sinh")
def sinh(op, constant, x, **_):
    grown = expm1(op, constant, x)
    return op("mul", constant(0.5), op("add", grown, op("div", grown, op("add", grown, constant(1.0)))))


@_composed("cosh")
def cosh(op, constant, x, **_):
    return op("mul", constant(0.5), op("add", op("exp", x), op("exp", op("neg", x))))


@_composed("is_finite")
def is_finite(op, constant, x, **_):
    return op("lt", op("abs", x), constant(float("inf")))


@_composed("clamp")
def clamp(op, _constant, low, x, high, **_):
    return op("min", op("max", x, low), high)


@_composed("round")
def round_(op, constant, x, *, rounding_method, **_):
    if int(rounding_method) == 1:  # to even
        return op("round", x)
    away = op("floor", op("add", op("abs", x), constant(0.5)))
    return op("select", op("lt", x, constant(0.0)), op("neg", away), away)


@rule("select_n")
def _select_n(tracer: Tracer, which: Operand, *cases: Operand) -> Operand:
    if not isinstance(which, Symbols):
        index = which.astype(int)
        return move(lambda *arrays: np.choose(np.broadcast_to(index, arrays[0].shape), arrays), *alike(tracer, *cases))
    if len(cases) != 2:
        raise Unsupported("select_n between more than two cases")
    no, yes = (tracer.symbols(case) for case in cases)
    return Symbols(tracer.each("select", which, yes, no), yes.truths)


@rule("convert_element_type")
def _convert(tracer: Tracer, operand: Operand, *, new_dtype, **_) -> Operand:
    to_number, to_truth = np.issubdtype(new_dtype, np.floating), new_dtype == np.bool_
    if not isinstance(operand, Symbols):
        return tracer.symbols(operand.astype(np.float64)) if to_number else operand.astype(new_dtype)
    if operand.truths and to_number:
        return Symbols(tracer.each("select", operand, np.ones(()), np.zeros(())))
    if to_truth and not operand.truths:
        return Symbols(tracer.each("ne", operand, np.zeros(())), truths=True)
    if to_number or operand.truths:  # a truth as a whole number is only ever an index between two branches
        return operand
    raise Unsupported("convert_element_type to whole numbers")


@rule("copy", "copy_p", "reduce_precision")
def _identity(_tracer: Tracer, operand: Operand, **_) -> Operand:
    return operand


@rule("optimization_barrier")
def _identities(_tracer: Tracer, *operands: Operand, **_) -> list[Operand]:
    return list(operands)


def _reduction(primitive: str, name: str, plain: Callable, empty: float | bool | None) -> None:
    @rule(primitive)
    def apply(tracer: Tracer, operand: Operand, *, axes, **_) -> Operand:
        if not isinstance(operand, Symbols):
            return np.asarray(plain(operand, axis=tuple(axes)))
        kept = [axis for axis in range(operand.values.ndim) if axis not in axes]
        shape = tuple(operand.values.shape[axis] for axis in kept)
        count = int(np.prod([operand.values.shape[axis] for axis in axes]))
        rows = np.transpose(operand.values, [*kept, *axes]).reshape(*shape, count)
        if count == 0:
            if empty is None:
                raise Unsupported(f"{primitive} of nothing")
            return tracer.symbols(np.full(shape, empty))
        total = rows[..., 0]
        for k in range(1, count):
            total = tracer.each(name, Symbols(total), Symbols(rows[..., k]))
        return Symbols(total, operand.truths)


_reduction("reduce_sum", "add", np.sum, 0.0)
_reduction("reduce_prod", "mul", np.prod, 1.0)
_reduction("reduce_max", "max", np.max, None)
_reduction("reduce_min", "min", np.min, None)
_reduction("reduce_and", "and", np.all, True)
_reduction("reduce_or", "or", np.any, False)


@rule("cumsum")
def _cumsum(tracer: Tracer, operand: Operand, *, axis, reverse) -> Operand:
    if not isinstance(operand, Symbols):
        turned = np.flip(operand, axis) if reverse else operand
        summed = np.cumsum(turned, axis)
        return np.flip(summed, axis) if reverse else summed
    rows = np.moveaxis(operand.values, axis, 0)
    rows = rows[::-1] if reverse else rows
    sums = [rows[0]] if len(rows) else []
    for row in rows[1:]:
        sums.append(tracer.each("add", Symbols(sums[-1]), Symbols(row)))
    stacked = np.stack(sums[::-1] if reverse else sums) if sums else rows
    return move(lambda array: np.moveaxis(array, 0, axis), Symbols(stacked))
