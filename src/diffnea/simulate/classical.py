"""Classical Runge-Kutta of fourth order, as in the paper: friction changes with the sign of the velocity."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from diffnea.models import AbstractModel, acceleration

# Of each stage: how far into the step it looks, how far the stage before did, and its weight, in sixths.
STAGES = ((0.0, 0.0, 1.0), (0.5, 0.0, 2.0), (0.5, 0.5, 2.0), (1.0, 0.5, 1.0))


class Stages(NamedTuple):
    """A step's end, and what else was asked of the four stages, averaged with Runge-Kutta's weights."""

    q: Float[Array, " nq"]
    qd: Float[Array, " n"]
    mean: Any


def runge_kutta(
    model: AbstractModel,
    slope: Callable[[Array, Array], tuple[Array, Any]],
    q: Float[Array, " nq"],
    qd: Float[Array, " n"],
    dt: float | Array,
) -> Stages:
    """One step of `q̈, extra = slope(q, q̇)`; the weights sum to one, so that `mean` is the average over the step.

    Where q is no vector, it is the step from the start that is integrated (Munthe-Kaas), and `k` are its rates.
    """
    flat = q.shape == qd.shape  # then k is the velocity of the stage before: by an acceleration that is kept anyway

    def stage(before, row):
        (a, source), sums = before
        ahead, ahead_before, weight = row[0] * dt, row[1] * dt, row[2]
        k = qd + ahead_before * source if flat else source
        step, v = ahead * k, qd + ahead * a
        a_here, extra = slope(model.displace(q, step), v)
        rates = model.rate(step, v), a_here
        sums = jax.tree.map(lambda total, x: total + weight * x, sums, (*rates, extra))
        return ((a_here, a if flat else rates[0]), sums), None

    still, nothing = jnp.zeros_like(qd), jax.tree.map(jnp.zeros_like, jax.eval_shape(slope, q, qd)[1])
    start = (still, still if flat else qd), (still, still, nothing)
    (_, (k, a, extra)), _ = jax.lax.scan(stage, start, jnp.array(STAGES, qd.dtype))
    mean = jax.tree.map(lambda total: total / 6, extra)
    return Stages(*model.close(model.displace(q, dt / 6 * k), qd + dt / 6 * a), mean)


def rk4_step(
    model: AbstractModel,
    q: Float[Array, " nq"],
    qd: Float[Array, " n"],
    u: Float[Array, " joints"],
    dt: Float[Array, ""],
) -> tuple[Float[Array, " nq"], Float[Array, " n"]]:
    """The state a time `dt` later under a constant command, for any model; no promise about its energy.

    Args:
        model: as `Model(robot)`.
        q: joint positions of one sample.
        qd: joint velocities.
        u: the command.
        dt: the step in seconds.
    """
    step = runge_kutta(model, lambda q, qd: (acceleration(model, q, qd, u), ()), q, qd, dt)
    return step.q, step.qd
