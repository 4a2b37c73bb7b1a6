"""Rules for small matrices, unrolled: products, triangular solves, Cholesky factors."""

from math import prod

import numpy as np

from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.rules.tracer import Operand, Symbols, Tracer, Unsupported, rule


@rule("dot_general")
def _dot_general(tracer: Tracer, left: Operand, right: Operand, *, dimension_numbers, **_) -> Operand:
    (left_sum, right_sum), (left_batch, right_batch) = dimension_numbers
    if not isinstance(left, Symbols) and not isinstance(right, Symbols):
        raise Unsupported("dot_general of whole numbers")
    a, b = tracer.symbols(left).values, tracer.symbols(right).values
    left_free = [axis for axis in range(a.ndim) if axis not in left_sum and axis not in left_batch]
    right_free = [axis for axis in range(b.ndim) if axis not in right_sum and axis not in right_batch]
    batch = [a.shape[axis] for axis in left_batch]
    rows, columns = [a.shape[axis] for axis in left_free], [b.shape[axis] for axis in right_free]
    depth = [a.shape[axis] for axis in left_sum]
    size = [prod(batch), prod(rows), prod(columns), prod(depth)]
    a = a.transpose([*left_batch, *left_free, *left_sum]).reshape(size[0], size[1], size[3]).tolist()
    b = b.transpose([*right_batch, *right_free, *right_sum]).reshape(size[0], size[2], size[3]).tolist()
    product = [_product(tracer.builder, *pair) for pair in zip(a, b, strict=True)]
    return Symbols(np.array(product, np.int64).reshape([*batch, *rows, *columns]))


def _product(builder: Builder, rows: list[list[int]], columns: list[list[int]]) -> list[list[int]]:
    """`rows · columnsᵀ`."""
    return [[inner(builder, row, column) for column in columns] for row in rows]


def inner(builder: Builder, row: list[int], column: list[int]) -> int:
    """The sum of products, in order; terms with a known zero are left out."""
    zero, op = builder.constant(0.0), builder.op
    total = zero
    for a, b in zip(row, column, strict=True):
        if a != zero and b != zero:
            term = op("mul", a, b)
            total = term if total == zero else op("add", total, term)
    return total


@rule("cholesky")
def _cholesky(tracer: Tracer, operand: Operand, **_) -> Operand:
    values = tracer.symbols(operand).values
    op, zero, one = tracer.builder.op, tracer.builder.constant(0.0), tracer.builder.constant(1.0)
    n = values.shape[-1]
    matrices = values.reshape(-1, n, n)
    result = np.full_like(matrices, zero)
    for a, factor in zip(matrices, result, strict=True):
        for j in range(n):
            taken = inner(tracer.builder, factor[j, :j].tolist(), factor[j, :j].tolist())
            factor[j, j] = op("sqrt", op("sub", int(a[j, j]), taken))
            scale = op("div", one, int(factor[j, j]))
            for i in range(j + 1, n):
                taken = inner(tracer.builder, factor[i, :j].tolist(), factor[j, :j].tolist())
                factor[i, j] = op("mul", op("sub", int(a[i, j]), taken), scale)
    return Symbols(result.reshape(values.shape))


@rule("triangular_solve")
def _triangular_solve(
    tracer: Tracer, matrix: Operand, right: Operand, *, left_side, lower, transpose_a, unit_diagonal, **_
) -> Operand:
    a, b = tracer.symbols(matrix).values, tracer.symbols(right).values
    if transpose_a:
        a, lower = np.swapaxes(a, -1, -2), not lower
    if not left_side:  # x A = b is Aᵀ xᵀ = bᵀ
        a, b, lower = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not lower
    n = a.shape[-1]
    systems = zip(a.reshape(-1, n, n), b.reshape(-1, *b.shape[-2:]), strict=True)
    solved = np.array([_substitute(tracer.builder, m, r, lower, unit_diagonal) for m, r in systems], np.int64)
    solved = solved.reshape(b.shape)
    return Symbols(solved if left_side else np.swapaxes(solved, -1, -2))


def _substitute(builder: Builder, a: np.ndarray, b: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    """Forward (lower) or backward substitution for each column of b."""
    n = len(a)
    x = b.copy()
    order = range(n) if lower else range(n - 1, -1, -1)
    for i in order:
        done = slice(0, i) if lower else slice(i + 1, n)
        for k in range(b.shape[1]):
            taken = inner(builder, a[i, done].tolist(), x[done, k].tolist())
            value = builder.op("sub", int(b[i, k]), taken)
            x[i, k] = value if unit else builder.op("div", value, int(a[i, i]))
    return x
