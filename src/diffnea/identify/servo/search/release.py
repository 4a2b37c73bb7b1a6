"""Limits of goals' profiles that the motions do not need are let go: quicker motions would be held back by them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree

from diffnea import parameters
from diffnea.actuators import Combined, Profile
from diffnea.actuators.coefficients import positive, raw_of
from diffnea.identify.servo.loop_unknowns import Freedom
from diffnea.identify.servo.search.descent import Searched
from diffnea.identify.servo.search.objective import Objective

# So many times as high, a limit that motions hardly meet is none; the error may rise by this share where it is let go:
# roll-outs are as rough.
HIGHER, ROUGH = 4.0, 1e-3


def released(objective: Objective, found: Searched) -> Searched:
    """The same without the limits that training motions do not need, each tried alone, then all of these together."""
    places = _places(objective.free)
    if not len(places):
        return found
    most, theta = (1 + ROUGH) * found.rms.mean(), found.theta
    raised = np.asarray(raw_of(HIGHER * positive(jnp.asarray(theta[places]))))
    alone = np.repeat(theta[None], len(places), axis=0)
    alone[np.arange(len(places)), places] = raised
    left = np.array([each.rms.mean() for each in objective.compared(alone)])
    for count in range(int(np.sum(left <= most)), 0, -1):  # the cheapest first, as many as go together
        free = np.argsort(left, kind="stable")[:count]
        tried = theta.copy()
        tried[places[free]] = raised[free]
        here = objective.compared(tried[None])[0]
        if here.rms.mean() <= most:
            return replace(found, theta=tried, loss=here.loss, rms=here.rms)
    return found


def _places(free: Freedom) -> Int[np.ndarray, " k"]:
    """Entries of θ that are limits of a profile."""
    robot, actuator, table = (jax.tree.map(_nowhere, part) for part in free.tree)
    if isinstance(actuator, Combined):
        parts = tuple(
            jax.tree.map(np.ones_like, mark) if isinstance(part, Profile) else mark
            for mark, part in zip(actuator.parts, free.tree[1].parts, strict=True)
        )
        actuator = replace(actuator, parts=parts)
    return np.flatnonzero(np.asarray(parameters.pack((robot, actuator, table), free.masks)))


def _nowhere(leaf: PyTree) -> np.ndarray:
    return np.zeros(np.shape(leaf))
