"""Friction near reversals: what side lobes of the comparison filter carry of it into rows that are kept.

A fit leaves out the rows whose main lobe sees a reversal: friction jumps there, or gives, or holds a joint. The side
lobes reach twice as far, and have the other sign. What they bring goes with the sign of the acceleration, and moves
inertias by some tenths of a percent: little for predictions, much for an interval. So intervals are of the rows that no
reversal reaches, and are moved by what the other rows have done to the estimates.
"""

import numpy as np
from jaxtyping import Float

from diffnea.identify.problem.linearised import Linearised

# A joint that has fewer of its rows left than this share turns back so often that they tell little without the others.
ENOUGH_FAR = 1 / 3
# What is told least may be told by the rows that are left so much less sharply, no more.
LEAST_TOLD = 0.1


def without_friction_jumps(
    problem: Linearised, steps: Float[np.ndarray, "p r"]
) -> tuple[Linearised, Float[np.ndarray, " r"]]:
    """The problem without rows that a reversal reaches, and how far these have moved the estimates along `steps`."""
    nothing = np.zeros(steps.shape[1])
    if problem.far is None or problem.far.all() or not steps.size:
        return problem, nothing
    joints = int(problem.joint.max(initial=0)) + 1
    left = np.bincount(problem.joint, problem.far, joints) / np.maximum(np.bincount(problem.joint, None, joints), 1)
    kept = problem.far | (left < ENOUGH_FAR)[problem.joint]
    clear = problem.only(kept)
    scale = np.linalg.norm(problem.jacobian @ steps, axis=0)
    steps = steps / np.where(scale > 0, scale, 1.0)
    told = [np.linalg.norm(each.jacobian @ steps, -2) for each in (problem, clear)]
    if len(clear.residuals) <= steps.shape[1] or not told[1] > LEAST_TOLD * told[0]:
        return problem, nothing
    whole, part = (-np.linalg.lstsq(each.jacobian @ steps, each.residuals, rcond=None)[0] for each in (problem, clear))
    return clear, (whole - part) / np.where(scale > 0, scale, 1.0)
