"""Rigid motions in Lie form: poses, twists, wrenches and inertias, six-vectors always [linear, angular].

Everything here is written for one frame or one body; `jax.vmap` gives the rest. `docs/maths.md` lists
the symbols.
"""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from diffnea.arrays import Rows

# [x]_ij = Σ_k SKEW_ijk x_k, the Levi-Civita symbol up to sign.
_SKEW = np.zeros((3, 3, 3))
_SKEW[[2, 0, 1], [1, 2, 0], [0, 1, 2]] = 1.0
_SKEW[[1, 2, 0], [2, 0, 1], [0, 1, 2]] = -1.0

# Where xx, xy, yy, xz, yz, zz stand in a symmetric 3 × 3 matrix, and back.
# Indices are int32: JAX keeps index arrays between calls, and int64 ones fail where double precision is switched off.
_ROWS, _COLUMNS = np.array([0, 0, 1, 0, 1, 2], np.int32), np.array([0, 1, 1, 2, 2, 2], np.int32)
_UNIQUE = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]], np.int32)
_UPPER = np.triu(np.ones((3, 3), bool))


def skew(x: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The matrix `[x]` of the cross product: `[x] y = x × y`."""
    return jnp.asarray(_SKEW, x.dtype) @ x


def ad(v: Float[Array, "6"]) -> Float[Array, "6 6"]:
    """The Lie bracket of twists as a matrix, `ad_v = [[ω], [v]; 0, [ω]]`; `ad_vᵀ` acts on wrenches."""
    linear, angular = skew(v[:3]), skew(v[3:])
    return jnp.block([[angular, linear], [jnp.zeros_like(angular), angular]])


def _turn(axis: Float[Array, "3"], cosine: Float[Array, ""], sine: Float[Array, ""]) -> Float[Array, "3 3"]:
    """The rotation about a unit axis: `aaᵀ + cos·(1 − aaᵀ) + sin·[a]`."""
    along = jnp.outer(axis, axis)
    return along + cosine * (jnp.eye(3, dtype=axis.dtype) - along) + sine * skew(axis)


class Turn(eqx.Module):
    """A turn about the x- or the z-axis by its cosine and sine: four products a vector, where a matrix takes nine."""

    cosine: Float[Array, "*frames"]
    sine: Float[Array, "*frames"]
    about: int = eqx.field(static=True)  # 0: x, 2: z

    @property
    def T(self) -> "Turn":
        return Turn(self.cosine, -self.sine, self.about)

    def __matmul__(self, v: Float[Array, "3 *k"]) -> Float[Array, "3 *k"]:
        c, s, (x, y, z) = self.cosine, self.sine, v
        return jnp.stack([c * x - s * y, s * x + c * y, z] if self.about else [x, c * y - s * z, s * y + c * z])

    def conjugate(self, S: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """`R S Rᵀ` of a symmetric matrix; the trace of the plane that turns stays."""
        c, s, i, j, k = self.cosine, self.sine, *((0, 1, 2) if self.about else (1, 2, 0))
        left, right = s * S[i, i] + c * S[i, j], s * S[i, j] + c * S[j, j]
        new = {(j, j): s * left + c * right, (i, j): c * left - s * right, (k, k): S[k, k]}
        new |= {(i, i): S[i, i] + S[j, j] - new[j, j]}
        new |= {(i, k): c * S[i, k] - s * S[j, k], (j, k): s * S[i, k] + c * S[j, k]}
        new |= {(b, a): number for (a, b), number in new.items()}
        return jnp.stack([jnp.stack([new[a, b] for b in range(3)]) for a in range(3)])


class Turns(eqx.Module):
    """A rotation as a product of turns and of matrices, the last of which acts first."""

    parts: tuple[Turn | Float[Array, "*frames 3 3"], ...]

    @property
    def T(self) -> "Turns":
        return Turns(tuple(part.T for part in reversed(self.parts)))

    def __matmul__(self, v: Float[Array, "3 *k"]) -> Float[Array, "3 *k"]:
        for part in reversed(self.parts):
            v = part @ v
        return v

    def __rmatmul__(self, M: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        return (self.T @ M.T).T

    def conjugate(self, S: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """`R S Rᵀ` of a symmetric matrix."""
        for part in reversed(self.parts):
            S = part.conjugate(S) if isinstance(part, Turn) else _mirror(part @ S @ part.T)
        return S


if TYPE_CHECKING:
    Rotation = Array  # what either can do, a matrix can
else:
    Rotation = Float[Array, "*frames 3 3"] | Turns


class Transform(eqx.Module):
    """A pose `T = (R, p)`; `T_ab @ T_bc` is `T_ac`, and carries coordinates in c to coordinates in a."""

    rotation: Rotation
    translation: Float[Array, "*frames 3"]

    def __matmul__(self, other: "Transform") -> "Transform":
        return Transform(
            self.rotation @ other.rotation,
            self.rotation @ other.translation + self.translation,
        )

    def matrix(self) -> Float[Array, "4 4"]:
        """The homogeneous matrix `[R, p; 0, 1]`."""
        dtype = self.rotation.dtype
        top = jnp.concatenate([self.rotation, self.translation[:, None]], axis=1)
        return jnp.concatenate([top, jnp.asarray([[0.0, 0.0, 0.0, 1.0]], dtype)])


def identity(dtype) -> Transform:
    """The pose that moves nothing."""
    return Transform(jnp.eye(3, dtype=dtype), jnp.zeros(3, dtype))


def joint_transform(axis: Float[Array, "3"], revolute, q: Float[Array, ""]) -> Transform:
    """`T_q`: the turn about, or the slide along, a joint's axis by its coordinate `q`."""
    one, zero = jnp.ones_like(q), jnp.zeros_like(q)
    rotation = _turn(axis, jnp.where(revolute, jnp.cos(q), one), jnp.where(revolute, jnp.sin(q), zero))
    return Transform(rotation, axis * jnp.where(revolute, zero, q))


def joint_twist(axis: Float[Array, "3"], revolute) -> Float[Array, "6"]:
    """`s`: the twist of a joint at unit rate, `(0, a)` for a revolute and `(a, 0)` for a prismatic one."""
    zero = jnp.zeros_like(axis)
    return jnp.concatenate([jnp.where(revolute, zero, axis), jnp.where(revolute, axis, zero)])


class Adjoint(eqx.Module):
    """`X = Ad(T⁻¹)` for a child's pose `T = (R, p)` in its parent, kept as R and p, never as a 6 × 6 matrix.

    `X @ v` takes a twist from the parent to the child, `X.T @ f` a wrench from the child to the parent, and
    `X.congruence(M)` is `Xᵀ M X`, of a rigid body `X.carry(body)`. Twists and wrenches may also be the columns of a
    matrix.
    """

    pose: Transform

    def __matmul__(self, v: Float[Array, "6 *k"]) -> Float[Array, "6 *k"]:
        R, p = self.pose.rotation, self.pose.translation
        return jnp.concatenate([R.T @ (v[:3] - skew(p) @ v[3:]), R.T @ v[3:]])

    @property
    def T(self) -> "TransposedAdjoint":
        return TransposedAdjoint(self.pose)

    def congruence(self, M: Float[Array, "6 6"]) -> Float[Array, "6 6"]:
        """`Xᵀ M X` for a symmetric M: an inertia of the child as the parent feels it."""
        R, S = self.pose.rotation, skew(self.pose.translation)
        A, B, C = _mirror(R @ M[:3, :3] @ R.T), R @ M[:3, 3:] @ R.T, R @ M[3:, 3:] @ R.T
        B_moved = B - A @ S
        C_moved = _mirror(C + S @ B_moved - B.T @ S)
        return jnp.block([[A, B_moved], [B_moved.T, C_moved]])

    def carry(self, body: "Moments") -> "Moments":
        """`Xᵀ M X` for a rigid body, in its ten numbers: a body fixed to the child as one fixed to the parent."""
        R, p = self.pose.rotation, self.pose.translation
        turned = R @ body.first
        moved = turned + body.mass * p
        about_parent = _mirror(jnp.outer(p, moved) + jnp.outer(turned, p))
        return Moments(body.mass, moved, _rotated(R, body.second) + about_parent)


def _rotated(R, S: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """`R S Rᵀ` of a symmetric matrix; its first row by symmetry and by the trace, which rotations keep."""
    if isinstance(R, Turns):
        return R.conjugate(S)
    rows = R[1:] @ S @ R.T
    first = jnp.stack([jnp.trace(S) - rows[0, 1] - rows[1, 2], rows[0, 0], rows[1, 0]])
    return _mirror(jnp.concatenate([first[None], rows]))


def _mirror(A: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """A symmetric matrix by its upper triangle alone: what stands below need not be computed."""
    return jnp.where(_UPPER, A, A.T)


class TransposedAdjoint(eqx.Module):
    """`Ad(T⁻¹)ᵀ`, see `Adjoint`."""

    pose: Transform

    def __matmul__(self, f: Float[Array, "6 *k"]) -> Float[Array, "6 *k"]:
        R, p = self.pose.rotation, self.pose.translation
        force = R @ f[:3]
        return jnp.concatenate([force, R @ f[3:] + skew(p) @ force])


class Inertia(eqx.Module):
    """A body's ten inertial parameters about its link's origin, in its link's axes.

    The dynamics are linear in them, and none divides by the mass. `rotational` holds J's xx, xy, yy, xz, yz, zz.
    """

    mass: Float[Array, "*bodies"]
    first_moment: Float[Array, "*bodies 3"]
    rotational: Float[Array, "*bodies 6"]

    @classmethod
    def from_parameters(cls, parameters: Float[Array, "*bodies 10"]) -> "Inertia":
        """From `(m, m·c, J)`, in the order of `parameters`.

        Args:
            parameters: ten numbers a body, with any leading axes.
        """
        return cls(parameters[..., 0], parameters[..., 1:4], parameters[..., 4:])

    @classmethod
    def from_moments(
        cls, mass: Float[Array, ""], first_moment: Float[Array, "3"], rotational: Float[Array, "3 3"]
    ) -> "Inertia":
        """From the mass, `m·c` and the matrix J about the origin.

        Args:
            mass: kg.
            first_moment: m·c in kg·m.
            rotational: J, 3 × 3 in kg·m².
        """
        return cls(mass, first_moment, rotational[_ROWS, _COLUMNS])

    @classmethod
    def from_com(cls, mass: ArrayLike, com: ArrayLike | Rows, inertia: ArrayLike | Rows) -> "Inertia":
        """A body by its centre of mass.

        Args:
            mass: kg.
            com: the centre of mass in the link's frame, m.
            inertia: 3 × 3, about that centre, kg·m².
        """
        mass, com, inertia = (jnp.asarray(each, float) for each in (mass, com, inertia))
        away = jnp.sum(com**2) * jnp.eye(3, dtype=com.dtype) - jnp.outer(com, com)
        return cls.from_moments(mass, mass * com, inertia + mass * away)

    @property
    def com(self) -> Float[Array, "*bodies 3"]:
        """The centre of mass in the link's frame; the origin for a body without mass."""
        heavy = self.mass[..., None] != 0
        return jnp.where(heavy, self.first_moment, 0.0) / jnp.where(heavy, self.mass[..., None], 1.0)

    @property
    def about_com(self) -> Float[Array, "*bodies 3 3"]:
        """The rotational inertia about the centre of mass, in the link's axes."""
        c = self.com
        outer = c[..., :, None] * c[..., None, :]
        away = jnp.sum(c**2, -1)[..., None, None] * jnp.broadcast_to(jnp.eye(3, dtype=c.dtype), outer.shape) - outer
        return self.rotational_matrix - self.mass[..., None, None] * away

    @property
    def parameters(self) -> Float[Array, "*bodies 10"]:
        """`(m, m·c_x, m·c_y, m·c_z, J_xx, J_xy, J_yy, J_xz, J_yz, J_zz)`."""
        return jnp.concatenate([self.mass[..., None], self.first_moment, self.rotational], axis=-1)

    @property
    def rotational_matrix(self) -> Float[Array, "*bodies 3 3"]:
        """J about the link's origin as a matrix."""
        return self.rotational[..., _UNIQUE]

    def __add__(self, other: "Inertia") -> "Inertia":
        """Two bodies as one."""
        return jax.tree.map(jnp.add, self, other)

    def __matmul__(self, v: Float[Array, "6"]) -> Float[Array, "6"]:
        """`M v`: the momentum of the body at the twist v."""
        h = skew(self.first_moment)
        return jnp.concatenate([self.mass * v[:3] - h @ v[3:], h @ v[:3] + self.rotational_matrix @ v[3:]])

    def matrix(self) -> Float[Array, "6 6"]:
        """`M = [m·1, −m[c]; m[c], J]`."""
        h = skew(self.first_moment)
        return jnp.block([[self.mass * jnp.eye(3, dtype=h.dtype), -h], [h, self.rotational_matrix]])

    @property
    def moments(self) -> "Moments":
        """The same as moments of mass."""
        J = self.rotational_matrix
        half = jnp.trace(J, axis1=-2, axis2=-1) / 2
        return Moments(
            self.mass,
            self.first_moment,
            half[..., None, None] * jnp.broadcast_to(jnp.eye(3, dtype=J.dtype), J.shape) - J,
        )


class Moments(eqx.Module):
    """A body, by its moments about its link's origin: `m = ∫ dm`, `h = ∫ r dm`, `Σ = ∫ r rᵀ dm`; `J = tr(Σ)·1 − Σ`."""

    mass: Float[Array, "*bodies"]
    first: Float[Array, "*bodies 3"]
    second: Float[Array, "*bodies 3 3"]

    @classmethod
    def of_nothing(cls, dtype) -> "Moments":
        """All zero."""
        return cls(jnp.zeros((), dtype), jnp.zeros(3, dtype), jnp.zeros((3, 3), dtype))

    def __add__(self, other: "Moments") -> "Moments":
        """Two bodies as one."""
        return jax.tree.map(jnp.add, self, other)

    def __matmul__(self, v: Float[Array, "6"]) -> Float[Array, "6"]:
        """`M v`: the momentum of the body at the twist v."""
        h, J = skew(self.first), self._rotational_matrix
        return jnp.concatenate([self.mass * v[:3] - h @ v[3:], h @ v[:3] + J @ v[3:]])

    @property
    def _rotational_matrix(self) -> Float[Array, "3 3"]:
        return jnp.trace(self.second) * jnp.eye(3, dtype=self.second.dtype) - self.second

    def matrix(self) -> Float[Array, "6 6"]:
        """`M = [m·1, −[h]; [h], J]`."""
        h = skew(self.first)
        return jnp.block([[self.mass * jnp.eye(3, dtype=h.dtype), -h], [h, self._rotational_matrix]])

    @property
    def moments(self) -> "Moments":
        """Itself: where a robot has an `Inertia`, it may have this."""
        return self
