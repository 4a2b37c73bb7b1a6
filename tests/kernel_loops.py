"""Functions with scans that kernels keep as loops, of x (3,) and a (4, 3)."""

import jax
import jax.numpy as jnp
from jax import lax

from diffnea import kernels


def swing(carry, row):
    return jnp.sin(carry) * row, jnp.cos(carry)


def counted(x, a):
    return lax.fori_loop(0, 4, lambda i, carry: jnp.sin(carry) * a[i] + 0.1 * i, x)


def nested(x, a):
    def outer(carry, rows):
        return lax.scan(lambda inner, row: (jnp.sin(inner) * row + carry, (inner, carry)), carry, rows)

    return lax.scan(outer, x, a.reshape(2, 2, 3))


def flagged(x, a):
    def step(carry, row):
        x, seen = carry
        return (jnp.sin(x) * row, seen | (x[0] > 0.2)), jnp.where(seen, x, row)

    return lax.scan(step, (x, x[0] > 3), a)[1]


def exchanged(x, a):
    return lax.scan(lambda c, row: ((c[1] * row, c[0]), c[1]), (x, jnp.cos(x)), a)


LOOPS = {
    "carried and collected": lambda x, a: lax.scan(swing, x, a),
    "reversed": lambda x, a: lax.scan(swing, x, a, reverse=True),
    "part of an argument": lambda x, a: lax.scan(swing, x, jnp.flip(a[1:])),
    "columns": lambda x, a: lax.scan(lambda c, row: (jnp.sin(c) * jnp.sum(row), jnp.outer(c, row)), x, a.T)[1].T,
    "known numbers": lambda x, a: lax.scan(swing, x, 0.1 * jnp.arange(5.0)),
    "the same at each step": lambda x, a: lax.scan(swing, x, jnp.broadcast_to(a[0], (5, 3))),
    "after a first row": lambda x, a: jnp.concatenate([x[None], lax.scan(swing, x, a)[1]]),
    "one after another": lambda x, a: lax.scan(swing, lax.scan(swing, x, a)[0], a),
    "steps that are counted": counted,
    "nested": nested,
    "truths": flagged,
    "exchanged": exchanged,
    "kernels inside": lambda x, a: lax.scan(kernels.compile(swing), x, a),
    "vmapped kernels inside": lambda x, a: lax.scan(jax.vmap(kernels.compile(swing)), x, a),
    "nothing collected": lambda x, a: lax.scan(lambda c, row: (jnp.sin(c) * row, (c, jnp.outer(c[:0], row))), x, a),
    "checkpoints": lambda x, a: lax.scan(jax.checkpoint(swing), x, a),
    "tangents": lambda x, a: jax.jvp(lambda x, a: lax.scan(swing, x, a), (x, a), (a[0], a)),
}
