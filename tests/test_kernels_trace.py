"""Scalar programs compute what the functions they were traced from compute, with what is known folded away."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot, random_state, random_tree, relative

from diffnea import dynamics
from diffnea.kernels.ir import folding
from diffnea.kernels.ir import program as programs
from diffnea.kernels.rules.tracer import Unsupported, trace
from diffnea.robot import nameless

ROUNDING = 1e-12


KNOWN = {**folding.FOLD, "select": lambda truth, yes, no: yes if truth else no}


class Machine:
    """Runs a program one instruction after the other."""

    def __init__(self, program: programs.Program, arguments):
        self.arguments = [np.ravel(argument) for argument in arguments]
        self.outputs = [np.full(len(output), np.nan) for output in program.outputs]
        with np.errstate(all="ignore"):
            values = self.values(program, (), (), ())
        for output, numbers in zip(program.outputs, self.outputs, strict=True):
            for place, value in enumerate(output):
                if value != programs.IN_LOOP:
                    assert np.isnan(numbers[place])  # written once
                    numbers[place] = values[value]

    def values(self, program: programs.Program, carry, outer, steps) -> list:
        values: list = []
        for name, *operands in program.instructions:
            if name == "input":
                values.append(self.arguments[operands[0]][operands[1]])
            elif name == "constant":
                values.append(operands[0])
            elif name == "row":
                values.append(self.arguments[operands[0]][operands[1] + np.dot(operands[2], steps)])
            elif name == "table":
                values.append(np.frombuffer(operands[0])[steps[-1]])
            elif name in ("carry", "outer"):
                values.append({"carry": carry, "outer": outer}[name][operands[0]])
            elif name == "result":
                values.append(values[operands[0]][operands[1]])
            elif name == "loop":
                values.append(self.loop(operands[0], [values[operand] for operand in operands[1:]], steps))
            else:
                values.append(KNOWN[name](*(values[operand] for operand in operands)))
        return values

    def loop(self, loop: programs.Loop, given: list, steps) -> list:
        carry, outer = given[: loop.num_carries], given[loop.num_carries :]
        for step in range(loop.length)[:: -1 if loop.reverse else 1]:
            values = self.values(loop.body, carry, outer, (*steps, step))
            for write in loop.writes:
                place = write.offset + np.dot(write.strides, (*steps, step))
                assert np.isnan(self.outputs[write.output][place])
                self.outputs[write.output][place] = values[write.value]
            carry = [values[value] for value in loop.body.outputs[0]]
        return carry


def evaluate(program: programs.Program, *arguments) -> list[np.ndarray]:
    """A program's outputs, each number written once."""
    return Machine(program, arguments).outputs


def shape(value):
    return jax.ShapeDtypeStruct(np.shape(value), np.asarray(value).dtype)


def assert_traced(function, *arguments):
    program, _ = trace(function, *map(shape, arguments))
    found = evaluate(program, *arguments)
    wanted = jax.tree.leaves(function(*map(jnp.asarray, arguments)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, np.ravel(other), rtol=ROUNDING, atol=1e-14)
    return program


X = np.array([0.3, -1.7, 2.2])
A = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 3.0]])
POSITIVE = np.array([0.3, 1.7, 1e-9])
ROWS = np.array([2, 0, 0])

FUNCTIONS = {
    "what is held": (lambda x: jax.lax.stop_gradient(jnp.sin(x)) * x, X),
    "arithmetic": (lambda x: (x + 1) * x / (2 - x) - x, X),
    "powers": (lambda x: [x**2, x**3, x**-1, x**-2, x**7, jnp.square(x)], X),
    "real powers": (lambda x: x**1.5 + x**x, POSITIVE),
    "trigonometry": (lambda x: [jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.arctan(x), jnp.arctan2(x, x[::-1])], X),
    "inverse trigonometry": (lambda x: [jnp.arcsin(x / 3), jnp.arccos(x / 3)], X),
    "exponentials": (lambda x: [jnp.exp(x), jnp.exp2(x), jnp.expm1(x), jnp.tanh(x), jnp.sinh(x), jnp.cosh(x)], X),
    "small exponentials": (lambda x: [jnp.expm1(x), jnp.log1p(x), jnp.sinh(x)], 1e-9 * X),
    "logarithms": (lambda x: [jnp.log(x), jnp.log1p(x), jnp.sqrt(x), jax.lax.rsqrt(x)], POSITIVE),
    "network pieces": (lambda x: [jax.nn.softplus(x), jax.nn.sigmoid(x), jax.nn.relu(x), jax.nn.silu(x)], X),
    "steps": (lambda x: [jnp.sign(x), jnp.abs(x), jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.clip(x, -1, 1)], X),
    "choice": (lambda x: jnp.where((x > 0) & (x < 1) | ~(x != 2.2), x, -x), X),
    "finite": (lambda x: jnp.where(jnp.isfinite(x / 0), x, 3.0), X),
    "extremes": (lambda x: [jnp.max(x), jnp.min(x), jnp.maximum(x, 0.5), jnp.prod(x), jnp.mean(x)], X),
    "truths": (lambda x: [jnp.where(jnp.any(x > 2), x, 0), jnp.where(jnp.all(x > 2), x, 0)], X),
    "running sums": (lambda x: [jnp.cumsum(x), jax.lax.cumsum(x, reverse=True)], X),
    "sums of nothing": (lambda x: [jnp.sum(x[:0]), jnp.sum(jnp.outer(x[:0], x), axis=1), x], X),
    "products": (lambda a, x: [a @ x, a @ a, x @ a, jnp.outer(x, x), jnp.einsum("ij,kj,k->i", a, a, x)], A, X),
    "batched products": (lambda a: jnp.einsum("bij,bjk->bik", a, a), np.stack([A, A + 1])),
    "shapes": (lambda a: [a.T, a.reshape(-1), a[None], jnp.flip(a), jnp.stack([a, a]), jnp.tile(a, 2)], A),
    "slices": (lambda a: [a[0], a[1:], a[::2, ::-1], a[-1, 0], jnp.split(a, 3)[1], jnp.pad(a, 1)], A),
    "gathers": (lambda a: [a[ROWS], a[ROWS, ROWS], a[:, ROWS], a[np.array([[0, 1], [2, 2]])]], A),
    "scatters": (lambda a: [a.at[1].set(0.0), a.at[ROWS].add(1.0), a.at[ROWS, ROWS].add(a[0]), a.at[:, 1].set(2.0)], A),
    "updates": (lambda a: jax.lax.dynamic_update_slice(a, a[:2, :2] * 2, (1, 1)), A),
    "Cholesky": (lambda a, x: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a, lower=True), x), A, X),
    "triangles": (lambda a, x: jax.scipy.linalg.solve_triangular(a, x, trans=1, lower=True), A, X),
    "scan": (lambda x: jax.lax.scan(lambda c, row: (c * row + 1, c - row), x[0], x), X),
    "reversed scan": (lambda x: jax.lax.scan(lambda c, row: (c * row + 1, c), x[0], x, reverse=True), X),
    "loop": (lambda x: jax.lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) * x, x), X),
    "branches": (lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), X),
    "nested calls": (lambda x: jax.jit(jax.checkpoint(lambda y: jnp.sin(y) ** 2))(x), X),
    "own derivative": (jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.linalg.norm(x))), X),
    "vmapped": (lambda a: jax.vmap(lambda row: row[ROWS] * row.sum())(a), A),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_compute_what_jax_computes(name):
    assert_traced(*FUNCTIONS[name])


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("truths", "finite", "steps")])
def test_programs_of_derivatives_do_too(name):
    function, *arguments = FUNCTIONS[name]

    def pulled(*arguments):
        results, pull = jax.vjp(function, *arguments)
        return pull(jax.tree.map(jnp.cos, results))

    assert_traced(pulled, *arguments)


def test_what_is_known_costs_nothing():
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    program, _ = trace(lambda x: turn @ (turn.T @ x), shape(X))
    assert program.num_operations == 0
    program, _ = trace(lambda x: -((x * 0 - 1) * x) + jnp.where(np.array([True, False, True]), 0, x), shape(X))
    assert program.num_operations == 1


def test_equal_terms_are_computed_once_and_unused_ones_never():
    program, _ = trace(lambda x: (jnp.sin(x[0]) + jnp.sin(x[0]) * x[1] * x[2], jnp.exp(x))[0], shape(X))
    names = [instruction[0] for instruction in program.instructions]
    assert names.count("sin") == 1 and "exp" not in names


@pytest.mark.parametrize(
    ("function", "primitive"),
    [(lambda x: jnp.sort(x), "sort"), (lambda x: jax.lax.erf(x), "erf"), (lambda x: x[jnp.argmax(x)], "argmax"),
     (lambda x: jax.lax.while_loop(lambda c: c[0] < 10, lambda c: c * 2, x), "while")],
)  # fmt: skip
def test_what_has_no_scalar_form_is_named(function, primitive):
    with pytest.raises(Unsupported, match=primitive):
        trace(function, shape(X))


@pytest.mark.parametrize("seed", [0, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 3))])
def test_dynamics_of_random_trees_and_their_derivatives(seed):
    robot = nameless(random_robot(random_tree(seed), seed))
    q, qd, third = random_state(robot.num_joints, seed)

    def everything(inertia, q, qd, third):
        changed = replace(robot, inertia=inertia)
        qdd, pull = jax.vjp(lambda *of: dynamics.aba(replace(robot, inertia=of[0]), *of[1:]), inertia, q, qd, third)
        return qdd, dynamics.rnea(changed, q, qd, third), dynamics.crba(changed, q), pull(third)

    program, _ = trace(everything, jax.tree.map(shape, robot.inertia), shape(q), shape(qd), shape(third))
    found = evaluate(program, *jax.tree.leaves(robot.inertia), q, qd, third)
    wanted = jax.jit(everything)(robot.inertia, *map(jnp.asarray, (q, qd, third)))
    for one, other in zip(found, jax.tree.leaves(wanted), strict=True):
        assert relative(one, np.ravel(other)) < 1e-10
