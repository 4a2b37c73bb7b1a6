"""Timing of measured inputs: nothing says at which instant within a sample a drive has read its torque.

A torque τ that acts δ later than it stands in the log changes residuals by `δ dτ/dt`, nearly what friction and inertia
do: for a wave of frequency ω it looks like `δ J ω²` of viscous friction. So data tell little of δ, and it moves what
they tell. It is one more unknown: even within half a sample to either side before the data, told by what no estimate
can take up of it. Intervals are moved by what it has done to the estimates, and widened by what is not known of it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.actuators.base import Role
from diffnea.identify.determine.uncertainty.covariance import NORMAL_QUANTILE, Noise, Uncertainty
from diffnea.identify.determine.uncertainty.friction_curves import FrictionProfile
from diffnea.identify.problem.linearised import Linearised
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import Model

# What the instant moves of a friction curve, and with what: a peak rests on few moments of the motion and tells nothing
# of the instant, so that it goes where kinetic friction does.
_MOVES = {Role.KINETIC: Role.KINETIC, Role.STATIC: Role.KINETIC, Role.VISCOUS: Role.VISCOUS}
# One over the variance of a number that is even over one sample.
_EVEN = 12.0


class Timing(NamedTuple):
    """What the unknown instant does to estimates: how far it has moved them, and what it adds to their covariance."""

    bias: Float[np.ndarray, " r"]
    covariance: Float[np.ndarray, "r r"]

    def added(self, found: Uncertainty) -> Uncertainty:
        """An uncertainty with that of the instant."""
        both = found.covariance + self.covariance, found.stationary + self.covariance
        return replace(found, covariance=both[0], stationary=both[1])


def timing(problem: Linearised, steps: Float[np.ndarray, "p r"], noise: Noise) -> Timing:
    """Of the estimates whose steps in θ are the columns of `steps`."""
    count = steps.shape[1]
    nothing = Timing(np.zeros(count), np.zeros((count, count)))
    if not problem.untimed or problem.redrawn is None or problem.effect is None:
        return nothing
    model = problem.effect.model
    change = problem.redrawn(lambda rows: _later(model, rows)).residuals - problem.residuals
    slopes = problem.jacobian @ steps
    scale = np.linalg.norm(slopes, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    moved = -np.linalg.lstsq(slopes / scale, change, rcond=None)[0] / scale
    if not np.isfinite(moved).all():
        return nothing
    left = change + slopes @ moved  # what no estimate takes up
    memory = len(left) / max(noise.effective_samples, 1.0)
    told = 1 / max(noise.variance * memory, 1e-300)
    precision = _EVEN + told * float(left @ left)
    late = -told * float(left @ problem.residuals) / precision
    return Timing(-late * moved, np.outer(moved, moved) / precision)


def with_timing(found: Sequence[FrictionProfile], problem: Linearised, noise: Noise) -> list[FrictionProfile]:
    """Profiles of friction, moved and widened likewise; ends that are open stay so."""
    if not found or not problem.untimed:
        return list(found)
    when = timing(problem, np.eye(len(problem.theta)), noise)
    slopes = jax.jacobian(lambda theta: _forces(problem.unpack(theta)))(jnp.asarray(problem.theta))
    changed = []
    for each in found:
        rows = zip(_MOVES, np.asarray(slopes)[:, each.joint], strict=True)
        ends = {role: _widened(each, role, row, when) for role, row in rows}
        changed.append(replace(each, intervals=each.intervals | ends))
    return changed


def _forces(model: Model) -> Float[Array, "3 n"]:
    found = {each.role: each.values for each in model.actuator.physical()}
    return jnp.stack([found[role] for role in _MOVES.values()])


def _widened(found: FrictionProfile, role: Role, slopes: Float[np.ndarray, " p"], when: Timing) -> tuple[float, float]:
    value, (lower, upper) = found.best[role], found.intervals[role]
    centre = value - float(slopes @ when.bias)
    more = NORMAL_QUANTILE * float(np.sqrt(max(slopes @ when.covariance @ slopes, 0.0)))
    below, above = (float(np.hypot(max(half, 0.0), more)) for half in (value - lower, upper - value))
    return max(0.0, centre - below), max(0.0, centre + above)


def _later(model: Model, rows: Rows) -> Rows:
    """Inputs that act a sample later, to first order; by the model's torques, which have no noise of their own."""
    q, qd, qdd, u = (np.asarray(getattr(rows.batch, key)) for key in ("q", "qd", "qdd", "u"))
    tau = torques(model, q, qd, qdd, 0 * u[:, 0], rows.batch.way).left
    return replace(rows, batch=rows.batch._replace(u=u - np.gradient(tau, axis=0)[:, None]))
