"""A robot in canonical frames, as the dynamics see it: a pose is `Rz(γ) Rx(α) · Rz(θ₀ + q)` and `(a, b, c)`.

The z-axis of each frame is its joint's axis. Most joints are their parent's main child; for these γ and c are zero
(`frames` chooses the frames so). A link keeps only what its joint moves: seven inertial numbers on a revolute one.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from diffnea.robot import Tree
from diffnea.spatial import Moments, Transform, Turn, Turns, skew

PLACE, SWIVEL = slice(0, 3), slice(3, 6)  # columns of `poses`
MASS, FIRST, SECOND, ROTOR = 0, slice(1, 4), slice(4, 10), 10  # columns of `bodies`
ALPHA, GAMMA, ZERO = range(3)  # columns of `angles`
_UNIQUE = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]], np.int32)


class Known(NamedTuple):
    """Numbers that are known when code is made for them, NaN where they are not: as bytes, so that it can be a key."""

    angles: bytes
    place: bytes
    gravity: bytes

    @classmethod
    def of(cls, angles: np.ndarray, place: np.ndarray, gravity: np.ndarray) -> "Known":
        return cls(*((np.asarray(array, np.float64) + 0.0).tobytes() for array in (angles, place, gravity)))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Angles (n, 3), places (n, 3) and gravity (3)."""
        angles, place, gravity = map(np.frombuffer, (self.angles, self.place, self.gravity))
        return angles.reshape(-1, 3), place.reshape(-1, 3), gravity


class Canonical(eqx.Module):
    """The robot; it stands for a `Robot` wherever no result depends on where the links' frames are.

    `angles` (α, γ, θ₀) are constants: derivatives in the geometry go through the place and the swivel, a small rotation
    between `Rx(α)` and `Rz(θ₀ + q)` that is always zero and moves.
    """

    tree: Tree
    angles: Float[Array, "n 3"]
    poses: Float[Array, "n 6"]
    bodies: Float[Array, "n 11"]  # apart from the poses, so that a gradient in inertial numbers alone stays that
    gravity: Float[Array, "3"]
    known: Known = eqx.field(static=True)
    guess: Known | None = eqx.field(static=True, default=None)  # what may be known: decided where the code runs
    couplings: None = None  # as a robot that has any has no canonical form
    springs: None = None
    tendons: None = None
    loops: None = None
    stores: bool = eqx.field(static=True, default=False)

    @property
    def num_joints(self) -> int:
        """How many joints move."""
        return len(self.tree.parents)

    @property
    def num_links(self) -> int:
        """How many links move."""
        return self.num_joints

    @property
    def num_positions(self) -> int:
        """One a joint."""
        return self.num_joints

    @property
    def num_velocities(self) -> int:
        """One a joint."""
        return self.num_joints

    @property
    def axis(self) -> Float[Array, "n 3"]:
        """z of each frame."""
        return jnp.asarray(np.tile([0.0, 0.0, 1.0], (self.num_joints, 1)), self.bodies.dtype)

    @property
    def armature(self) -> Float[Array, " n"]:
        """Reflected rotor inertia."""
        return self.bodies[:, ROTOR]

    @property
    def inertia(self) -> Moments:
        """What each joint moves of its link and of what was handed on to it."""
        revolute, zero = self.tree.revolute, jnp.zeros((), self.bodies.dtype)
        mass = jnp.where(revolute, zero, self.bodies[:, MASS])
        first = jnp.where(revolute[:, None] & np.array([False, False, True]), zero, self.bodies[:, FIRST])
        kept = revolute[:, None] & np.array([True] * 5 + [False])
        second = jnp.where(kept, self.bodies[:, SECOND], zero)
        return Moments(mass, first, second[:, _UNIQUE])

    def joint_frames(self, q: Float[Array, " n"]) -> Transform:
        """Each link's pose in its parent."""
        angles, place, _ = self.known.arrays()
        turns = [_cosine_and_sine(self.angles[:, k], angles[:, k]) for k in (ALPHA, GAMMA)]
        zero = filled(self.angles[:, ZERO], angles[:, ZERO])
        places = filled(self.poses[:, PLACE], place)
        swivel = filled(self.poses[:, SWIVEL], np.zeros(place.shape))
        return _place_links(*turns, zero, places, swivel, self.tree.revolute, q)

    def matches(self) -> Bool[Array, ""]:
        """Whether the guess is right."""
        assert self.guess is not None
        pairs = zip((self.angles, self.poses[:, PLACE], self.gravity), self.guess.arrays(), strict=True)
        return jnp.all(jnp.concatenate([(jnp.isnan(k) | (x == k)).ravel() for x, k in _typed(pairs)]))


def _typed(pairs):
    return [(x, jnp.asarray(k, x.dtype)) for x, k in pairs]


def with_known(robot: Canonical, known: Known) -> Canonical:
    """The same robot, for code in which so much is known."""
    gravity = filled(robot.gravity, known.arrays()[2])
    return replace(robot, gravity=gravity, known=known, guess=None)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _filled(x: Array, known: tuple[bytes, tuple[int, ...]]) -> Array:
    numbers = np.frombuffer(known[0]).reshape(known[1])
    return jnp.where(np.isnan(numbers), x, jnp.asarray(np.nan_to_num(numbers), x.dtype))


@_filled.defjvp
def _filled_tangent(known, primals, tangents):
    return _filled(*primals, known), tangents[0]


def filled(x: Array, known: np.ndarray) -> Array:
    """Numbers that are known in place of those that are not NaN; they may still move."""
    return x if np.all(np.isnan(known)) else _filled(x, (np.asarray(known, np.float64).tobytes(), known.shape))


def _cosine_and_sine(angle: Float[Array, " n"], known: np.ndarray) -> tuple[Array, Array]:
    """Of angles some of which are known to be multiples of a right one."""
    sure, right = ~np.isnan(known), np.nan_to_num(known)
    cosine, sine = (jnp.asarray(np.round(exact(right)) + 0.0, angle.dtype) for exact in (np.cos, np.sin))
    return jnp.where(sure, cosine, jnp.cos(angle)), jnp.where(sure, sine, jnp.sin(angle))


@jax.jit
@jax.vmap
def _place_links(alpha, gamma, zero, place, swivel, revolute, q):
    at_rest = Turns((Turn(gamma[0], gamma[1], 2), Turn(alpha[0], alpha[1], 0), _swivelled(swivel)))
    angle, nothing = jnp.where(revolute, zero + q, zero), jnp.zeros_like(q)
    slide = jnp.stack([nothing, nothing, jnp.where(revolute, nothing, q)])
    turned = Turns((*at_rest.parts, Turn(jnp.cos(angle), jnp.sin(angle), 2)))
    return Transform(cast(Any, turned), place + at_rest @ slide)


def _swivelled(c: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The rotation by Cayley's formula, `1 + 2 ([c] + [c]²) / (1 + c²)`."""
    S = skew(c)
    return jnp.eye(3, dtype=c.dtype) + 2 / (1 + c @ c) * (S + S @ S)
