"""Excitation: how surely these recordings foretell torques of a machine's whole range, of larger and faster motion.

A model may explain small or slow motion well and say nothing of any other: dry friction hides what little accelerations
and weights do. The regression that chooses parts has a posterior: its precision is that of the rows and of the file
(bodies within `FILE_WIDTH`). Reference motion goes through all of each joint's limits, with accelerations that take the
torques which were recorded. The standard error of its torques under the posterior, as a share of their size, is what a
fit of these recordings may be off by there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from diffnea.batches import mass_matrix
from diffnea.identify.notes import Note, note
from diffnea.identify.options import JudgeOptions
from diffnea.identify.problem.measurements.rows import Batch
from diffnea.robot import Robot

# States of the reference motion; the half range of a joint without limits: rad, or ranges seen of one that slides.
REFERENCE_STATES, TURN, SLIDES = 400, np.pi, 2.0
# Limits further apart than this, in rad, are none.
MOST_TURNS = 8 * np.pi


@dataclass(frozen=True)
class Excitation:
    """By joint, and whether it has a command and moved at all."""

    error: Float[np.ndarray, " n"]  # standard error of torques of the reference motion, as a share of their size
    accelerated: Float[np.ndarray, " n"]  # share of the recorded torques that accelerations take
    moved: Float[np.ndarray, " n"]  # share of the range that was gone through
    told: Bool[np.ndarray, " n"]

    def lacking(self, names: Sequence[str], options: JudgeOptions) -> tuple[Note, ...]:
        """The joint that these recordings say least of, where no joint's accelerations are seen in its torques."""
        return self.slowest(names, options) if np.array_equal(self._poor(options), self.told) else ()

    def _poor(self, options: JudgeOptions) -> Bool[np.ndarray, " n"]:
        """Joints whose accelerations are lost in friction and weights, and foretold badly."""
        return self.told & (self.accelerated < options.accelerated) & (self.error > options.foretold)

    def slowest(self, names: Sequence[str], options: JudgeOptions) -> tuple[Note, ...]:
        """The worst of such joints, if there is one."""
        poor = self._poor(options)
        if not poor.any():
            return ()
        j = int(np.argmax(np.where(poor, self.error, -1.0)))
        code = "hint-small-motion" if self.moved[j] < options.moved else "hint-slow-motion"
        return (note(code, names[j], moved=self.moved[j], took=self.accelerated[j], error=min(self.error[j], 9.99)),)

    def scope(self, names: Sequence[str], options: JudgeOptions) -> tuple[Note, ...]:
        """What a model that is good for motions like these is not known to be good for."""
        slowest = self.slowest(names, options)
        if slowest:
            return slowest
        j = int(np.argmax(np.where(self.told, self.error, -1.0)))
        if not self.told[j] or self.error[j] <= 2 * options.foretold:
            return ()
        return (note("foretold", names[j], error=min(self.error[j], 9.99)),)


def reference_motion(robot: Robot, q: Float[np.ndarray, "sample n"], torque: Float[np.ndarray, " n"]) -> Batch:
    """States all over the range: angles even within limits, accelerations and speeds of waves of such torques."""
    rng, n = np.random.default_rng(0), q.shape[1]
    lower, upper = whole_range(robot, q)
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    at = middle + half * rng.uniform(-1, 1, (REFERENCE_STATES, n))
    felt = np.diagonal(np.asarray(mass_matrix(robot, jnp.asarray(middle)), float))
    push = torque / np.maximum(felt, 1e-300)
    speed = np.sqrt(push * half / np.sqrt(2))  # of a wave through half the range
    qd, qdd = (rng.standard_normal((REFERENCE_STATES, n)) * size for size in (speed, push))
    return Batch(at, qd, qdd, np.zeros((REFERENCE_STATES, 1, n)), np.ones((REFERENCE_STATES, n)))


def whole_range(robot: Robot, q: Float[np.ndarray, "sample n"]) -> tuple[np.ndarray, np.ndarray]:
    """Of each joint: its limits, or a turn; what was recorded is within."""
    lowest, highest = q.min(axis=0), q.max(axis=0)
    wide = np.where(robot.turning, TURN, SLIDES * (highest - lowest))
    limits = robot.joint_limits
    lower, upper = np.asarray(limits.lower, float), np.asarray(limits.upper, float)
    known = np.isfinite(lower) & np.isfinite(upper) & ~(robot.turning & (upper - lower > MOST_TURNS))
    middle = (lowest + highest) / 2
    lower, upper = np.where(known, lower, middle - wide), np.where(known, upper, middle + wide)
    return np.minimum(lower, lowest), np.maximum(upper, highest)
