"""How a free base goes along with the joints: in the air by momentum, on feet by where they stand.

The equations do not ask where the base is: in a frame that moves with it they need its proper acceleration, its angular
velocity and acceleration (`identify.floating.stretches`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea import batches
from diffnea.frames import forward_kinematics, jacobian
from diffnea.identify import Foot
from diffnea.robot import Robot

BASE = 6
STILL = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
# Newton's steps from the stance, and the time between poses that are differentiated, s.
STEPS, TICK = 6, 1e-3
# A foot holds up at least this share of its part of the weight, and pushes along the ground by this share of that.
LEAST_LOAD, RUBS = 0.1, 0.5
# Feet of a stance are on one plane to within this, m.
EVEN = 0.01
# How far the trunk is moved and turned from its stance at most, m and rad.
TRUNK_REACH = (0.06, 0.06, 0.06, 0.3, 0.3, 0.3)


class Ridden(NamedTuple):
    """The whole robot's motion in a frame that moves with its base, and what the ground does."""

    q: Float[Array, "time nq"]
    qd: Float[Array, "time v"]
    qdd: Float[Array, "time v"]  # proper: less gravity
    reach: Float[Array, "time c v"]  # contact Jacobians of feet that stand; c = 0 in the air
    up: Float[Array, "time 3"]


class Riding(Protocol):
    """From coordinates that are planned to the motion of everything."""

    def __call__(self, y: Array, yd: Array, ydd: Array) -> Ridden: ...


def weightless(robot: Robot) -> Robot:
    """The robot as it is in a frame that falls with it."""
    return replace(robot, gravity=jnp.zeros_like(robot.gravity))


@dataclass(frozen=True)
class InTheAir:
    """Joints are planned; momentum is zero, as after a start at rest, whatever gravity does to all alike.

    All of it can be differentiated in the motion.
    """

    robot: Robot

    def __call__(self, y: Float[Array, "time n"], yd: Float[Array, "time n"], ydd: Float[Array, "time n"]) -> Ridden:
        rest, count = weightless(self.robot), len(y)
        q = jnp.concatenate([jnp.tile(jnp.asarray(STILL), (count, 1)), y], axis=1)
        M = batches.mass_matrix(rest, q)
        own, others = M[:, :BASE, :BASE], M[:, :BASE, BASE:]
        velocity = -_solved(own, jnp.einsum("tij,tj->ti", others, yd))  # M_b v + M_bj q̇ = 0
        qd = jnp.concatenate([jnp.zeros((count, 3)), velocity[:, 3:], yd], axis=1)
        still = jnp.concatenate([jnp.zeros((count, BASE)), ydd], axis=1)
        proper = -_solved(own, batches.inverse_dynamics(rest, q, qd, still)[:, :BASE])
        nothing = jnp.zeros((count, 0, BASE + y.shape[1]))
        return Ridden(q, qd, jnp.concatenate([proper, ydd], axis=1), nothing, jnp.zeros((count, 3)))


def _solved(matrix: Float[Array, "time k k"], right: Float[Array, "time k"]) -> Float[Array, "time k"]:
    return jnp.linalg.solve(matrix, right[:, :, None])[:, :, 0]


@dataclass(frozen=True)
class OnFeet:
    """The trunk's pose is planned, and joints that carry no foot; legs follow, since feet stay where they stand."""

    robot: Robot
    feet: tuple[Foot, ...]
    stance: Float[np.ndarray, " n"]
    legs: np.ndarray  # joints that carry feet
    up: Float[np.ndarray, "3"]  # in the base's axes of the stance

    @classmethod
    def of(cls, robot: Robot, feet: Sequence[Foot], stance: Float[np.ndarray, " n"]) -> "OnFeet":
        """With joints at `stance` when the trunk is at rest; refuses what does not stand."""
        if len(feet) < 3 or any(foot.flat for foot in feet):
            raise ValueError("excite: name three feet or more that touch at a point; others are not planned for")
        q = np.concatenate([STILL, stance])
        slopes = np.concatenate([np.asarray(jacobian(robot, q, foot.link, np.array(foot.point)))[:3] for foot in feet])
        legs = np.flatnonzero(np.abs(slopes[:, BASE:]).max(axis=0) > 1e-9)
        if len(legs) != len(slopes) or np.linalg.matrix_rank(slopes[:, BASE + legs], tol=1e-4) < len(legs):
            raise ValueError(
                f"excite: {len(feet)} feet hang on {len(legs)} joints; a leg needs three that move its foot every way"
            )
        made = cls(robot, tuple(feet), stance, legs, np.zeros(3))
        places = np.asarray(made.places(jnp.asarray(stance)[None]))[0]
        normal = np.linalg.svd(places - places.mean(axis=0))[2][2]
        off = float(np.abs((places - places.mean(axis=0)) @ normal).max())
        if off > EVEN:
            raise ValueError(
                f"excite: in this stance feet are {off:.2g} m off one plane; give the angles of all joints where it "
                "stands, as --stance 0,0.9,-1.8"
            )
        return replace(made, up=normal * np.sign(-normal @ places.mean(axis=0)))

    @property
    def others(self) -> np.ndarray:
        """Joints that carry no foot."""
        return np.setdiff1d(np.arange(self.robot.num_joints), self.legs)

    def places(self, q: Float[Array, "time n"]) -> Float[Array, "time feet 3"]:
        """Where feet are, in the base's frame."""
        whole = jnp.concatenate([jnp.tile(jnp.asarray(STILL), (len(q), 1)), q], axis=1)
        points = [jnp.append(jnp.asarray(foot.point), 1.0) for foot in self.feet]
        poses = [forward_kinematics(self.robot, whole, foot.link) for foot in self.feet]
        return jnp.stack([(pose @ point)[:, :3] for pose, point in zip(poses, points, strict=True)], axis=1)

    @cached_property
    def _walk(self):
        """Jacobians of feet, and one step of Newton's method on the legs, compiled."""

        def slopes(q):
            whole = jnp.concatenate([jnp.tile(jnp.asarray(STILL), (len(q), 1)), q], axis=1)
            parts = [jacobian(self.robot, whole, foot.link, np.array(foot.point))[:, :3] for foot in self.feet]
            return jnp.concatenate(parts, axis=1)

        def step(q, aims):
            off = (self.places(q) - aims).reshape(len(q), -1)
            return q.at[:, self.legs].add(-_solved(slopes(q)[:, :, BASE + self.legs], off))

        return jax.jit(slopes), jax.jit(step)

    def joints(self, y: Float[Array, "time k"]) -> Float[Array, "time n"]:
        """All joints, by Newton's method on the legs."""
        turn = jax.vmap(_turned)(y[:, 3:BASE])
        wanted = jnp.asarray(self.places(jnp.asarray(self.stance)[None]))[0]
        aims = jnp.einsum("tji,tfj->tfi", turn, wanted[None] - y[:, None, :3])  # Rᵀ (P − p)
        q = jnp.tile(jnp.asarray(self.stance), (len(y), 1)).at[:, self.others].set(y[:, BASE:])
        for _ in range(STEPS):
            q = self._walk[1](q, aims)
        return q

    def __call__(self, y: Float[Array, "time k"], yd: Float[Array, "time k"], ydd: Float[Array, "time k"]) -> Ridden:
        """By central differences along `y + t ẏ + t² ÿ / 2`, so that no step of Newton's is differentiated."""
        along = jnp.concatenate([y + t * yd + t**2 / 2 * ydd for t in (-TICK, 0.0, TICK)])
        (q0, q, q1), (R0, R, R1) = (
            each.reshape(3, len(y), *each.shape[1:])
            for each in (self.joints(along), jax.vmap(_turned)(along[:, 3:BASE]))
        )
        qd, turns = (q1 - q0) / (2 * TICK), (R1 - R0) / (2 * TICK)
        qdd, twice = (q1 - 2 * q + q0) / TICK**2, (R1 - 2 * R + R0) / TICK**2
        spin = jnp.einsum("tji,tjk->tik", R, turns)  # Rᵀ Ṙ = [ω]
        change = jnp.einsum("tji,tjk->tik", turns, turns) + jnp.einsum("tji,tjk->tik", R, twice)
        up = jnp.einsum("tji,j->ti", R, jnp.asarray(self.up))
        weight = float(np.linalg.norm(np.asarray(self.robot.gravity)))
        proper = jnp.einsum("tji,tj->ti", R, ydd[:, :3]) + weight * up
        whole = jnp.concatenate([jnp.tile(jnp.asarray(STILL), (len(y), 1)), q], axis=1)
        velocity = jnp.concatenate([jnp.zeros((len(y), 3)), _axial(spin), qd], axis=1)
        acceleration = jnp.concatenate([proper, _axial(change), qdd], axis=1)
        return Ridden(whole, velocity, acceleration, self._walk[0](q), up)


def _turned(r: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The rotation by a vector, by its quaternion: smooth at zero."""
    square = r @ r
    small = square < 1e-8
    half = jnp.sqrt(jnp.where(small, 1.0, square)) / 2
    w = jnp.where(small, 1 - square / 8, jnp.cos(half))
    v = r * jnp.where(small, 0.5 - square / 48, jnp.sin(half) / (2 * half))
    cross = jnp.cross(jnp.eye(3), v)
    return 2 * jnp.outer(v, v) + (w * w - v @ v) * jnp.eye(3) + 2 * w * cross


def _axial(matrix: Float[Array, "time 3 3"]) -> Float[Array, "time 3"]:
    """ω of [ω], by the skew part."""
    pairs = ((2, 1), (0, 2), (1, 0))
    return jnp.stack([(matrix[:, i, j] - matrix[:, j, i]) / 2 for i, j in pairs], axis=1)
