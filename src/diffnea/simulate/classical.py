"""Classical Runge-Kutta of fourth order, as in the paper: friction changes with the sign of the velocity."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float

from diffnea.models import AbstractModel, acceleration


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
    a1, e1 = slope(q, qd)
    v2, step = qd + dt / 2 * a1, dt / 2 * qd
    a2, e2 = slope(model.displace(q, step), v2)
    k2 = model.rate(step, v2)
    v3, step = qd + dt / 2 * a2, dt / 2 * k2
    a3, e3 = slope(model.displace(q, step), v3)
    k3 = model.rate(step, v3)
    v4, step = qd + dt * a3, dt * k3
    a4, e4 = slope(model.displace(q, step), v4)
    k4 = model.rate(step, v4)

    def mean(x1, x2, x3, x4):
        return (x1 + 2 * (x2 + x3) + x4) / 6

    extra = tuple(mean(*values) for values in zip(e1, e2, e3, e4, strict=True))
    return Stages(model.displace(q, dt * mean(qd, k2, k3, k4)), qd + dt * mean(a1, a2, a3, a4), extra)


def rk4_step(
    model: AbstractModel,
    q: Float[Array, " nq"],
    qd: Float[Array, " n"],
    u: Float[Array, " joints"],
    dt: Float[Array, ""],
) -> tuple[Float[Array, " nq"], Float[Array, " n"]]:
    """The state a time `dt` later under a constant command, for any model; no promise about its energy."""
    step = runge_kutta(model, lambda q, qd: (acceleration(model, q, qd, u), ()), q, qd, dt)
    return step.q, step.qd
