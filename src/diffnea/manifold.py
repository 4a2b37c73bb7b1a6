"""The manifold that q lives on: joints move along their own columns, a free link by `T · exp(step)`.

Positions of balls and free links hold a unit quaternion (w, x, y, z); velocities and steps have three numbers for a
ball and six for a free link, `[linear, angular]` in its own frame.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.robot import Robot
from diffnea.spatial import ad, skew

# Below this square of an angle functions of it are summed from their series: exactly, derivatives included.
SMALL = 0.25
# Taylor coefficients in θ²: sin θ / θ, cos θ, (1 − cos θ) / θ², (θ − sin θ) / θ³, (1 − θ/2 · cot(θ/2)) / θ².
_SINC = [1, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800]
_COSINE = [1, -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200]
_ARC = [1 / 2, -1 / 24, 1 / 720, -1 / 40320, 1 / 3628800, -1 / 479001600, 1 / 87178291200]
_LAG = [1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800]
_BACK = [1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600]
# Taylor coefficients of arctan t / t in t², and the square below which they are used.
_ARCTAN = [1, -1 / 3, 1 / 5, -1 / 7, 1 / 9, -1 / 11]
_SMALL_TANGENT = 1e-3
_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


class Part(NamedTuple):
    """A joint's place in q and q̇: its kind (free, ball or single), where its numbers begin and end, and its link."""

    kind: str
    q: slice
    v: slice
    link: int


def parts(robot: Robot) -> list[Part]:
    """Every joint's place, in order; those that follow others have none."""
    found, at, start = [], 0, 0
    for link, kind in enumerate(robot.tree.kinds):
        if link in robot.followers:
            continue
        kind = kind if kind in ("free", "ball") else "single"
        q, v = {"free": (7, 6), "ball": (4, 3), "single": (1, 1)}[kind]
        found.append(Part(kind, slice(at, at + q), slice(start, start + v), link))
        at, start = at + q, start + v
    return found


def displace(robot: AnyRobot, q: Float[Array, " nq"], step: Float[Array, " n"]) -> Float[Array, " nq"]:
    """`q ⊕ step`: every joint moved along its own columns at a constant rate; quaternions come out with length one."""
    if robot.tree.simple:
        return q + step
    moves = {"free": _move_free, "ball": turned, "single": jnp.add}
    return jnp.concatenate([moves[part.kind](q[part.q], step[part.v]) for part in parts(robot)])


def difference(robot: AnyRobot, q0: Float[Array, " nq"], q1: Float[Array, " nq"]) -> Float[Array, " n"]:
    """`q1 ⊖ q0`, the step with `displace(q0, step) = q1`; of the two ways round a turn the shorter one."""
    if robot.tree.simple:
        return q1 - q0
    steps = {"free": _free_step, "ball": turn_between, "single": lambda a, b: b - a}
    return jnp.concatenate([steps[part.kind](q0[part.q], q1[part.q]) for part in parts(robot)])


def rate(robot: AnyRobot, step: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, " n"]:
    """How the step changes where `displace(q0, step)` moves with q̇: `q̇ + ½ [step, q̇] + ¹⁄₁₂ [step, [step, q̇]]`.

    The series of the inverse of exp's differential; what is left out is of fourth order in the step.
    """
    if robot.tree.simple:
        return qd
    return jnp.concatenate([_rate(part.kind, step[part.v], qd[part.v]) for part in parts(robot)])


def _rate(kind: str, step: Array, v: Array) -> Array:
    if kind == "single":
        return v
    bracket = ad(step) if kind == "free" else skew(step)
    once = bracket @ v
    return v + once / 2 + bracket @ once / 12


def neutral(robot: Robot) -> Float[Array, " nq"]:
    """Every joint at zero, and free links where the robot's file has them."""
    found, dtype = [], robot.axis.dtype
    for part in parts(robot):
        if part.kind == "single":
            found.append(np.zeros(1))
        elif part.kind == "ball":
            found.append(np.eye(4)[0])
        else:
            rotation = np.asarray(robot.placement.rotation[part.link], float)
            found += [np.asarray(robot.placement.translation[part.link], float), quaternion_of(rotation)]
    return jnp.asarray(np.concatenate([*found, np.zeros(0)]), dtype)


# Rotations -----------------------------------------------------------------------------------------------------------


def rotation_of(quaternion: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """The rotation of a quaternion (w, x, y, z) of any length but zero: `1 + 2 (w [u] + [u][u]) / |q|²`."""
    w, u = quaternion[0], skew(quaternion[1:])
    return jnp.eye(3, dtype=quaternion.dtype) + (2 / (quaternion @ quaternion)) * (w * u + u @ u)


def quaternion_of(rotation: np.ndarray) -> np.ndarray:
    """The unit quaternion (w, x, y, z) of a rotation, w ≥ 0, as an eigenvector: nothing divides by a small number."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    matrix = np.array(
        [
            [xx + yy + zz, zy - yz, xz - zx, yx - xy],
            [zy - yz, xx - yy - zz, yx + xy, xz + zx],
            [xz - zx, yx + xy, yy - xx - zz, zy + yz],
            [yx - xy, xz + zx, zy + yz, zz - xx - yy],
        ]
    )
    vector = np.linalg.eigh(matrix)[1][:, -1]
    return vector if vector[0] >= 0 else -vector


def multiply(a: Float[Array, "4"], b: Float[Array, "4"]) -> Float[Array, "4"]:
    """The product of two quaternions: a turn by b in axes that a turned."""
    vector = a[0] * b[1:] + b[0] * a[1:] + skew(a[1:]) @ b[1:]
    return jnp.concatenate([(a[0] * b[0] - a[1:] @ b[1:])[None], vector])


def turned(quaternion: Float[Array, "4"], turn: Float[Array, "3"]) -> Float[Array, "4"]:
    """`q · exp(turn)`, with length one."""
    half = turn / 2
    square = half @ half
    small, angle = _split(square)
    sine = jnp.where(small, _sum(_SINC, square), jnp.sin(angle) / angle)
    cosine = jnp.where(small, _sum(_COSINE, square), jnp.cos(angle))
    product = multiply(quaternion, jnp.concatenate([cosine[None], sine * half]))
    return product / jnp.sqrt(product @ product)


def turn_between(q0: Array, q1: Array) -> Array:
    """The turn from one quaternion to another, by at most half a turn: `2 arctan(|u| / w) u / |u|` of `q0⁻¹ q1`."""
    apart = multiply(q0 * _CONJUGATE.astype(q0.dtype), q1)
    apart = jnp.where(apart[0] < 0, -apart, apart)  # both signs are the same rotation
    w, u = apart[0], apart[1:]
    square = u @ u
    small = square < _SMALL_TANGENT * w * w
    one = jnp.ones_like(w)
    w_safe, sine = jnp.where(small, w, one), jnp.sqrt(jnp.where(small, one, square))
    tangent = jnp.where(small, square, 0 * one) / w_safe**2
    return 2 * u * jnp.where(small, _sum(_ARCTAN, tangent) / w_safe, jnp.arctan2(sine, w) / sine)


def _move_free(q: Array, step: Array) -> Array:
    """`T · exp(step)`: `p + R V(ω) v` with `V = 1 + (1 − cos θ)/θ² [ω] + (θ − sin θ)/θ³ [ω][ω]`."""
    slide, turn = step[:3], skew(step[3:])
    square = step[3:] @ step[3:]
    small, angle = _split(square)
    arc = jnp.where(small, _sum(_ARC, square), 2 * (jnp.sin(angle / 2) / angle) ** 2)
    lag = jnp.where(small, _sum(_LAG, square), (angle - jnp.sin(angle)) / angle**3)
    once = turn @ slide
    moved = slide + arc * once + lag * (turn @ once)
    return jnp.concatenate([q[:3] + rotation_of(q[3:]) @ moved, turned(q[3:], step[3:])])


def _free_step(q0: Array, q1: Array) -> Array:
    """The inverse: `V(ω)⁻¹ Rᵀ (p1 − p0)` with `V⁻¹ = 1 − ½ [ω] + (1 − θ/2 · cot(θ/2))/θ² [ω][ω]`."""
    moved, turn = rotation_of(q0[3:]).T @ (q1[:3] - q0[:3]), turn_between(q0[3:], q1[3:])
    square = turn @ turn
    small, angle = _split(square)
    back = jnp.where(small, _sum(_BACK, square), (1 - angle / 2 / jnp.tan(angle / 2)) / angle**2)
    once = skew(turn) @ moved
    return jnp.concatenate([moved - once / 2 + back * (skew(turn) @ once), turn])


def _split(square: Array) -> tuple[Array, Array]:
    """Whether an angle is small, and one that is not to compute with where it is."""
    small = square < SMALL
    return small, jnp.sqrt(jnp.where(small, jnp.ones_like(square), square))


def _sum(coefficients, x):
    """A polynomial, by Horner's rule."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = coefficient + x * total
    return total
