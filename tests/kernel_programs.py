"""Small programs that kernels are made of in tests: every operation, turns, long rows."""

from test_kernels_cpu import PAIRS, REALS, TRUTHS

from diffnea.kernels.ir.builder import Builder
from diffnea.kernels.ir.program import Program


def all_operations() -> Program:
    """Every operation on two varying numbers and a fixed one, an output each."""
    b = Builder()
    x, y, u = b.input(0, 0), b.input(0, 1), b.input(1, 0)
    one, zero = b.constant(1.0), b.constant(0.0)
    results = [b.op(name, x) for name in REALS] + [b.op(name, x, y) for name in PAIRS]
    truths = [b.op(name, x, y) for name in TRUTHS]
    truths += [b.op(name, truths[0], truths[4]) for name in ("and", "or", "xor", "eq", "ne")] + [b.op("not", truths[1])]
    fixed = b.op("lt", u, one)
    truths += [b.op("and", truths[0], fixed), b.op("select", truths[2], truths[3], fixed)]
    results += [b.op("select", truth, one, zero) for truth in truths]
    results += [b.op("mul", b.op("sin", u), x), b.op("select", fixed, x, y), u, b.constant(float("-inf"))]
    return b.build([results], [2, 1])


def swing() -> Program:
    """A small function like those of dynamics: turns of an angle, fixed numbers, two outputs."""
    b = Builder()
    q, qd, m, g = b.input(0, 0), b.input(0, 1), b.input(1, 0), b.input(1, 1)
    s, c = b.op("sin", q), b.op("cos", q)
    weight = b.op("mul", m, g)
    torque = b.op("mul", weight, s)
    rate = b.op("add", b.op("mul", qd, c), b.op("div", torque, b.op("add", m, b.op("mul", c, c))))
    return b.build([[torque, rate], [b.op("mul", rate, s), weight, b.op("mul", qd, qd)]], [2, 2])


def long_rows(count: int = 20) -> Program:
    """Rows that go by way of shared memory: angles, one of them also used as it is, numbers, and a row of results."""
    b = Builder()
    q, u = [b.input(0, k) for k in range(count)], [b.input(1, k) for k in range(count)]
    turned = [(b.op("sin", angle), b.op("cos", angle)) for angle in q]
    results = [b.op("add", b.op("mul", s, x), b.op("mul", c, q[3])) for (s, c), x in zip(turned, u, strict=True)]
    return b.build([results, results[:2]], [count, count])


def many_sums(count: int = 150) -> Program:
    """More numbers to sum over the samples than a thread has room for; one of them twice, one the same for all."""
    b = Builder()
    q, m = [b.input(0, k) for k in range(4)], b.input(1, 0)
    terms = [b.op("mul", q[k % 4], b.op("add", q[(k + 1) % 4], b.constant(float(k)))) for k in range(count)]
    return b.build([[terms[0]], [*terms, terms[3], m, q[2]]], [4, 1])


def small_and_large_angles() -> Program:
    """Several angles whose size is tested at once, and one that comes of them."""
    b = Builder()
    turned = [[b.op(name, b.input(0, k)) for name in ("sin", "cos")] for k in range(3)]
    last = b.op("mul", b.op("add", turned[0][0], turned[1][1]), b.input(0, 3))
    return b.build([[*sum(turned, []), b.op("sin", last), b.op("cos", last)]], [4])
