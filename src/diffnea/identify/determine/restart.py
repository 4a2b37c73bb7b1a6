"""A fit once more from the friction that its profiles prefer: a search of θ seldom finds a narrow Stribeck curve."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from diffnea.actuators.base import Role
from diffnea.actuators.coefficients import raw_of
from diffnea.identify.determine.findings import linearised
from diffnea.identify.determine.uncertainty.friction_profile import profiles_of
from diffnea.identify.problem.friction_places import curve_places
from diffnea.identify.problem.least_squares import Problem
from diffnea.identify.problem.measurements.rows import Rows
from diffnea.identify.problem.residuals import problem
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.identify.solve.levenberg_marquardt import minimise

_RESTART_ITERATIONS, _RESTART_ROUNDS = 60, 3


@dataclass(frozen=True)
class Restarted:
    """Another minimum: θ, its loss, and by which share losses may differ by chance."""

    theta: Float[np.ndarray, " p"]
    loss: float
    slack: float


def restarted(
    free: Unknowns,
    data: Sequence[Rows],
    theta: Float[np.ndarray, " p"],
    loss: str,
    before: float,
    regularised: Callable[[Problem], Problem] = lambda problem: problem,
) -> Restarted | None:
    """The fit from the best curves, again as long as that helps, if it is as good as the one before up to noise.

    `before` is the loss of θ; `regularised` adds a prior to a problem. Of two fits that are as good, the one whose
    static friction is not below kinetic counts.
    """
    places, found = curve_places(free), None
    for _ in range(_RESTART_ROUNDS if places else 0):
        again = _once(free, data, theta, loss, before, places, regularised)
        if again is None:
            break
        enough = again.loss > before * (1 - again.slack)
        theta, before, found = again.theta, again.loss, again
        if enough:
            break
    return found


def _once(
    free: Unknowns,
    data: Sequence[Rows],
    theta: Float[np.ndarray, " p"],
    loss: str,
    before: float,
    places: dict[Role, Int[np.ndarray, " n"]],
    regularised: Callable[[Problem], Problem],
) -> Restarted | None:
    profiles = profiles_of(linearised(free, data, theta, loss))
    if not profiles:
        return None
    start = np.array(theta)
    for each in profiles:
        for role, value in each.best.items():
            start[places[role][each.joint]] = _raw(role, value)
    whole = problem(loss, free, data, 1)
    run = minimise(regularised(whole), start[None], _RESTART_ITERATIONS)
    lost, slack = float(whole.loss(run.theta)[0]), max(each.slack for each in profiles)
    ends = [all(_is_expected(each, places, one.joint) for one in profiles) for each in (run.theta[0], theta)]
    allowed = slack if ends[0] and not ends[1] else 0.0
    if not np.isfinite(lost) or lost >= before * (1 + allowed) * (1 - 1e-9):
        return None
    return Restarted(run.theta[0], lost, slack)


def _raw(role: Role, value: float) -> float:
    """The entry of θ that stands for a coefficient."""
    wanted = 1 / max(value, 1e-9) ** 2 if role is Role.STRIBECK_VELOCITY else max(value, 0.0)
    return float(raw_of(jnp.asarray(wanted)))


def _is_expected(theta: Float[np.ndarray, " p"], places: dict[Role, Int[np.ndarray, " n"]], joint: int) -> bool:
    """Whether static friction is not below kinetic; raw numbers are in the same order."""
    return bool(theta[places[Role.STATIC][joint]] >= theta[places[Role.KINETIC][joint]] - 1e-9)
