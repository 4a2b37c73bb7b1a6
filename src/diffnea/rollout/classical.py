"""Classical Runge-Kutta of fourth order, as in the paper: friction changes with the sign of the velocity."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from diffnea.models import AbstractModel, acceleration


class Stages(NamedTuple):
    """A step's end, and what else was asked of the four stages, averaged with Runge-Kutta's weights."""

    q: Float[Array, " n"]
    qd: Float[Array, " n"]
    mean: Any


def runge_kutta(
    slope: Callable[[Array, Array], tuple[Array, Any]], q: Float[Array, " n"], qd: Float[Array, " n"], dt: float | Array
) -> Stages:
    """One step of `q̈, extra = slope(q, q̇)`; the weights sum to one, so that `mean` is the average over the step."""
    a1, e1 = slope(q, qd)
    v2 = qd + dt / 2 * a1
    a2, e2 = slope(q + dt / 2 * qd, v2)
    v3 = qd + dt / 2 * a2
    a3, e3 = slope(q + dt / 2 * v2, v3)
    v4 = qd + dt * a3
    a4, e4 = slope(q + dt * v3, v4)

    def mean(x1, x2, x3, x4):
        return (x1 + 2 * (x2 + x3) + x4) / 6

    extra = tuple(mean(*values) for values in zip(e1, e2, e3, e4, strict=True))
    return Stages(q + dt * mean(qd, v2, v3, v4), qd + dt * mean(a1, a2, a3, a4), extra)


def rk4_step(
    model: AbstractModel,
    q: Float[Array, " n"],
    qd: Float[Array, " n"],
    u: Float[Array, " n"],
    dt: Float[Array, ""],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The state a time `dt` later under a constant command, for any model; no promise about its energy."""
    step = runge_kutta(lambda q, qd: (acceleration(model, q, qd, u), ()), q, qd, dt)
    return step.q, step.qd
