"""Where canonical frames are: from a robot to the numbers of its canonical form, exact with their derivatives.

z lies on the joint's axis; x is `z × z of the main child`, which needs no common normal and no division by sin α; the
origin is slid along the axis to the height of the main child's origin, and a sliding joint's stands there. The frames
are constants to derivatives, except that they turn with their axis: the dynamics do not depend on them.

Written over all joints at once, for numpy where the numbers are there and for JAX where it traces.
"""

from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.canonical.robot import Known
from diffnea.robot import Tree, levels
from diffnea.spatial import Inertia

_Z = np.array([0.0, 0.0, 1.0])
_EVERYWHERE = np.array([0, 0, 1, 0, 1, 2], np.int32), np.array([0, 1, 1, 2, 2, 2], np.int32)


def tolerance(dtype: Any) -> float:
    """What is no farther than this from zero, or from a right angle, is that."""
    return 1e-13 if np.dtype(dtype) == np.float64 else 2e-6


@lru_cache(maxsize=1024)
def main_children(parents: tuple[int, ...]) -> np.ndarray:
    """Of each link the child with the most links behind it, −1 where there is none."""
    behind = np.ones(len(parents), int)
    for i in reversed(range(len(parents))):
        if parents[i] >= 0:
            behind[parents[i]] += behind[i]
    main = np.full(len(parents), -1, np.int32)
    for i, parent in enumerate(parents):
        if parent >= 0 and (main[parent] < 0 or behind[i] > behind[main[parent]]):
            main[parent] = i
    return main


def structure(tree: Tree) -> Known:
    """What is known of every robot with this tree."""
    return _structure(tree.parents, tree.kinds)


@lru_cache(maxsize=1024)
def _structure(parents: tuple[int, ...], kinds: tuple[str, ...]) -> Known:
    main, above = main_children(parents), np.array(parents, int)
    slides = np.array([kind == "prismatic" for kind in kinds], bool)
    is_main = np.array([parent >= 0 and main[parent] == i for i, parent in enumerate(parents)], bool)
    angles, place = np.full((len(parents), 3), np.nan), np.full((len(parents), 3), np.nan)
    angles[is_main, 1], place[is_main, 2] = 0.0, 0.0
    place[is_main & slides[above]] = 0.0
    place[above < 0] = 0.0  # the base stands still: where on it a joint is makes no difference
    return Known.of(angles, place, np.full(3, np.nan))


class Chosen(NamedTuple):
    """Each joint's frame in its link's, constants to derivatives; and the angles of its pose in its parent's."""

    axes: Any  # n 3 3, as columns
    origin: Any  # n 3
    height: Any  # n: how far along a revolute joint's axis the origin is, 0 for others
    angles: Any  # n 3


class Geometry(NamedTuple):
    """A robot's placements and axes."""

    rotation: Any  # n 3 3
    translation: Any  # n 3
    axis: Any  # n 3


class Moved(NamedTuple):
    """Each link in its canonical frame: pose in its parent's, and moments of mass."""

    rotation: Any  # n 3 3
    place: Any  # n 3
    swivel: Any  # n 3
    mass: Any  # n
    first: Any  # n 3
    second: Any  # n 3 3


def _xp(x: Any) -> ModuleType:
    return np if isinstance(x, np.ndarray) else jnp


def _times(R: Any, v: Any) -> Any:
    """Matrices times vectors, row by row."""
    return (R @ v[..., None])[..., 0]


def _dot(a: Any, b: Any) -> Any:
    return (a * b).sum(-1)


def _scaled(number: Any, v: Any) -> Any:
    return number[..., None] * v


def _with_base(rows: Any, base: np.ndarray) -> Any:
    """A last row for the base, which index −1 finds."""
    xp = _xp(rows)
    return xp.concatenate([rows, xp.asarray(base, rows.dtype)[None]])


def chosen(tree: Tree, geometry: Geometry) -> Chosen:
    """The canonical frames."""
    R, p, axis = map(_constant, geometry)
    xp, main, parents = _xp(axis), main_children(tree.parents), np.array(tree.parents, np.int32)
    z = axis / xp.sqrt(_dot(axis, axis))[:, None]
    here = _times(R, z)  # each joint's axis in its parent
    origin = _origins(tree, R, p, z)
    child = _times(R, origin)[main] + p[main]
    beside = child - _scaled(_dot(child, z), z)
    across = xp.cross(z, here[main])
    x = _first_unit(z, across, beside)
    # A link without children: x such that nothing is left of the turn, θ₀ = 0.
    back = _transposed(R)
    above = _with_base(z, _Z)[parents], _with_base(x, np.array([1.0, 0.0, 0.0]))[parents]
    last = _first_unit(z, _times(back, xp.cross(above[0], here)), _times(back, above[1]))
    x = xp.where((main < 0)[:, None], last, x)
    x = x - _scaled(_dot(x, z), z)
    x = x / xp.sqrt(_dot(x, x))[:, None]
    axes = xp.stack([x, xp.cross(z, x), z], -1)
    height = xp.where(tree.revolute, _dot(origin, z), xp.zeros_like(z[:, 0]))
    return Chosen(axes, origin, height, _angles(tree, _transposed(_with_base(axes, np.eye(3))[parents]) @ R @ axes))


def _constant(x: Any) -> Any:
    return x if isinstance(x, np.ndarray) else jax.lax.stop_gradient(x)


def _transposed(R: Any) -> Any:
    return _xp(R).swapaxes(R, -1, -2)


def _first_unit(z: Any, *candidates: Any) -> Any:
    """The first of these that is not zero, as a unit vector; at last some perpendicular of z."""
    xp, tiny = _xp(z), tolerance(z.dtype)
    least = xp.abs(z) <= xp.min(xp.abs(z), axis=-1, keepdims=True)
    first = least & (xp.cumsum(xp.where(least, xp.ones_like(z), xp.zeros_like(z)), -1) == 1)
    unit = xp.where(first, xp.ones_like(z), xp.zeros_like(z))
    found = unit - _scaled(_dot(unit, z), z)
    for candidate in reversed(candidates):
        square = _dot(candidate, candidate)[:, None]
        found = xp.where(square > tiny**2, candidate, found)
    return found / xp.sqrt(_dot(found, found))[:, None]


def _origins(tree: Tree, R: Any, p: Any, z: Any) -> Any:
    """From the leaves: on a revolute joint's axis at the height of the main child's origin, else at that origin."""
    xp, rows, main = _xp(z), [], main_children(tree.parents)
    below = None
    for level in reversed(levels(tree.parents)):
        links = level.links
        leaf = main[links] < 0
        if below is None:
            origin = xp.zeros_like(z[links])
        else:
            at = [below[0].index(k) if k >= 0 else 0 for k in main[links].tolist()]
            child = below[1][np.array(at, np.int32)]
            along = _scaled(_dot(child, z[links]), z[links])
            origin = xp.where(tree.revolute[links][:, None], along, child)
            origin = xp.where(leaf[:, None], xp.zeros_like(origin), origin)
        rows.append(origin)
        below = links.tolist(), _times(R[links], origin) + p[links]
    return _in_order(tree, rows)


def _in_order(tree: Tree, rows: list[Any]) -> Any:
    """Rows level by level, the deepest first → link by link."""
    order = np.argsort(np.concatenate([level.links for level in reversed(levels(tree.parents))]))
    return _xp(rows[0]).concatenate(rows)[order.astype(np.int32)]


def above(tree: Tree, frames: Chosen, axis: Any) -> tuple[Chosen, Any]:
    """Frames and axes of each link's parent."""
    parents = np.array(tree.parents, np.int32)
    bases = Chosen(np.eye(3), np.zeros(3), np.zeros(()), np.zeros(3))
    return Chosen(*(_with_base(x, base)[parents] for x, base in zip(frames, bases, strict=True))), _with_base(axis, _Z)[
        parents
    ]


def moved(geometry: Geometry, inertia: Inertia, own: Chosen, axis_above: Any, parent: Chosen) -> Moved:
    """Links in frames that turn with their axes; rows are links, and know nothing of each other."""
    R, p, axis = geometry
    m, h, S = inertia.mass, inertia.first_moment, _second(inertia.rotational)
    (C, o), (C_parent, o_parent) = _live(own, axis), _live(parent, axis_above)
    rotation = _transposed(C_parent) @ R @ C
    place = _times(_transposed(C_parent), _times(R, o) + p - o_parent)
    cross = o[:, :, None] * h[:, None, :]
    S = S - cross - _transposed(cross) + m[:, None, None] * o[:, :, None] * o[:, None, :]
    h = _times(_transposed(C), h - _scaled(m, o))
    return Moved(rotation, _snapped(place), _swivels(rotation, own.angles), m, h, _transposed(C) @ S @ C)


def placed(tree: Tree, geometry: Geometry, frames: Chosen) -> np.ndarray:
    """Where the frames are in their parents', of numbers that are there."""
    parent, _ = above(tree, frames, geometry.axis)
    there = _times(geometry.rotation, frames.origin) + geometry.translation - parent.origin
    return _snapped(_times(_transposed(parent.axes), there))


def _live(frame: Chosen, axis: Any) -> tuple[Any, Any]:
    """Axes and origin of a frame that turns with its axis, the origin on it."""
    if isinstance(axis, np.ndarray):
        return frame.axes, frame.origin
    axes = _turned_with(frame.axes, axis)
    return axes, frame.origin + _scaled(frame.height, axes[..., 2] - frame.axes[..., 2])


def _turned_with(axes: Any, axis: Any) -> Any:
    """The frames turned by the smallest rotation that keeps z on the axis; by none, but not its derivative."""
    u = _pinned(_times(_transposed(axes), axis), _Z)
    u = u / jnp.sqrt(_dot(u, u))[:, None]
    zero = jnp.zeros_like(u[:, 0])
    v = _skews(jnp.stack([-u[:, 1], u[:, 0], zero], -1))
    return axes @ (jnp.eye(3, dtype=u.dtype)[None] + v + v @ v / (1 + u[:, 2])[:, None, None])


def _skews(v: Any) -> Any:
    xp = _xp(v)
    x, y, z, o = v[:, 0], v[:, 1], v[:, 2], xp.zeros_like(v[:, 0])
    return xp.stack([xp.stack(row, -1) for row in ((o, -z, y), (z, o, -x), (-y, x, o))], -2)


def _pinned(x: Any, value: np.ndarray) -> Any:
    """A known value that moves as x does."""
    fixed = jnp.broadcast_to(jnp.asarray(value, x.dtype), x.shape)
    return _moving(fixed, x)


@jax.custom_jvp
def _moving(value: Any, like: Any) -> Any:
    return value


@_moving.defjvp
def _moving_tangent(primals, tangents):
    return _moving(*primals), tangents[1]


def _snapped(x: Any) -> Any:
    """What is next to zero is zero, and moves on."""
    xp = _xp(x)
    value = xp.where(xp.abs(x) < tolerance(x.dtype), xp.zeros_like(x), x)
    return value if xp is np else _moving(_constant(value), x)


def _angles(tree: Tree, rotation: Any) -> Any:
    """α, γ, θ₀ of `Rz(γ) Rx(α) Rz(θ₀)`, multiples of a right angle exact; constants."""
    xp = _xp(rotation)
    A = _snapped(_constant(rotation))
    straight = ~np.isnan(structure(tree).arrays()[0][:, 1])
    sine = xp.sqrt(A[:, 0, 2] ** 2 + A[:, 1, 2] ** 2)
    across = sine > 0
    sine = xp.where(straight, -A[:, 1, 2], sine)
    alpha = _right(xp.arctan2(sine, A[:, 2, 2]))
    gamma = xp.where(across & ~straight, xp.arctan2(A[:, 0, 2], -A[:, 1, 2]), xp.zeros_like(sine))
    gamma = _right(gamma)
    c, s = xp.cos(gamma), xp.sin(gamma)
    ahead = -s * A[:, 0, 0] + c * A[:, 1, 0]
    y = xp.cos(alpha) * ahead + xp.sin(alpha) * A[:, 2, 0]
    return xp.stack([alpha, gamma, _right(xp.arctan2(y, c * A[:, 0, 0] + s * A[:, 1, 0]))], -1)


def _right(angle: Any) -> Any:
    """An angle next to a multiple of a right one is that; −π is π."""
    xp = _xp(angle)
    count = xp.round(angle / (np.pi / 2))
    count = xp.where(count == -2, xp.full_like(count, 2), count)
    exact = xp.asarray(count * (np.pi / 2), angle.dtype)
    near = xp.abs(xp.abs(angle) - xp.abs(exact)) < tolerance(angle.dtype)
    return xp.where(near, exact, angle)


def _swivels(rotation: Any, angles: Any) -> Any:
    """What a rotation has beyond its angles, by Cayley's formula: nothing, but it moves."""
    if isinstance(rotation, np.ndarray):
        return np.zeros((len(rotation), 3))
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    one, zero = jnp.ones_like(cosine[:, 0]), jnp.zeros_like(cosine[:, 0])

    def about_z(c, s):
        return jnp.stack([jnp.stack(row, -1) for row in ((c, -s, zero), (s, c, zero), (zero, zero, one))], -2)

    c, s = cosine[:, 0], sine[:, 0]
    about_x = jnp.stack([jnp.stack(row, -1) for row in ((one, zero, zero), (zero, c, -s), (zero, s, c))], -2)
    before = about_z(cosine[:, 1], sine[:, 1]) @ about_x
    E = _transposed(before) @ rotation @ about_z(cosine[:, 2], -sine[:, 2])
    vee = jnp.stack([E[:, 2, 1] - E[:, 1, 2], E[:, 0, 2] - E[:, 2, 0], E[:, 1, 0] - E[:, 0, 1]], -1)
    return _pinned(vee / (1 + jnp.trace(E, axis1=-2, axis2=-1))[:, None], np.zeros(3))


# Bodies ---------------------------------------------------------------------------------------------------------------


def _second(J: Any) -> Any:
    """Σ of J's xx, xy, yy, xz, yz, zz."""
    xp = _xp(J)
    xx, xy, yy, xz, yz, zz = (J[:, k] for k in range(6))
    half = (xx + yy + zz) / 2
    rows = ((half - xx, -xy, -xz), (-xy, half - yy, -yz), (-xz, -yz, half - zz))
    return xp.stack([xp.stack(row, -1) for row in rows], -2)


def lumped(tree: Tree, bodies: Moved) -> Any:
    """`(m, h, Σ)`, ten numbers a link, from the leaves: what a link's joint does not move is handed on to its parent.

    That is mass on a revolute joint's axis, and moments without mass behind a sliding one.
    """
    rows, message = [], None
    for level in reversed(levels(tree.parents)):
        links = level.links
        body = bodies.mass[links], bodies.first[links], bodies.second[links]
        if message is not None:
            body = tuple(own + _sum(theirs, level.children) for own, theirs in zip(body, message, strict=True))
        mass, first, second = body
        rows.append(_ten(mass, first, second))
        pose = bodies.rotation[links], bodies.place[links]
        message = _handed(tree.revolute[links], *pose, mass, first, second)
    return _in_order(tree, rows)


def lumping(tree: Tree, geometry: Geometry, frames: Chosen, inertia: Inertia) -> np.ndarray:
    """`lumped` as a matrix on mass, first moment and rotational inertia of all links, of geometry that is there.

    Of `inertia` only the form counts.
    """
    form = jax.tree.structure(inertia)
    count, (parent, axis_above) = len(tree.parents), above(tree, frames, geometry.axis)
    own, handed = np.empty((2, count, 10, 10))
    for k in range(10):
        unit = np.zeros((count, 10))
        unit[:, k] = 1.0
        bodies = moved(geometry, form.unflatten([unit[:, 0], unit[:, 1:4], unit[:, 4:]]), frames, axis_above, parent)
        own[:, :, k] = _ten(bodies.mass, bodies.first, bodies.second)
        second = np.zeros((count, 3, 3))
        second[:, _EVERYWHERE[0], _EVERYWHERE[1]] = second[:, _EVERYWHERE[1], _EVERYWHERE[0]] = unit[:, 4:]
        handed[:, :, k] = _ten(*_handed(tree.revolute, *bodies[:2], unit[:, 0], unit[:, 1:4], second))
    matrix = np.zeros((count, 10, count, 10))
    for link, block in enumerate(own):
        place = link
        while place >= 0:  # a link's body goes to itself, then on to each one above it
            matrix[place, :, link] = block
            block, place = handed[place] @ block, tree.parents[place]
    return matrix.reshape(10 * count, 10 * count)


def _ten(mass: Any, first: Any, second: Any) -> Any:
    """m, h and six numbers of Σ, side by side."""
    return _xp(mass).concatenate([mass[:, None], first, second[:, _EVERYWHERE[0], _EVERYWHERE[1]]], -1)


def _sum(message: Any, children: np.ndarray) -> Any:
    xp = _xp(message)
    padded = xp.concatenate([message, xp.zeros_like(message[:1])])
    return sum(padded[row.astype(np.int32)] for row in children)


def _handed(revolute: np.ndarray, R: Any, p: Any, m: Any, h: Any, S: Any) -> tuple[Any, Any, Any]:
    """What is handed on, as the parent has it."""
    xp, axis = _xp(m), R[..., 2]
    m = xp.where(revolute, m, xp.zeros_like(m))
    turned = _scaled(xp.where(revolute, h[:, 2], xp.zeros_like(m)), axis)
    second = S[:, 2, 2][:, None, None] * axis[:, :, None] * axis[:, None, :]
    if not np.all(revolute):
        second = xp.where(revolute[:, None, None], second, R @ S @ _transposed(R))
    moved = turned + _scaled(m, p)
    return m, moved, second + p[:, :, None] * moved[:, None, :] + turned[:, :, None] * p[:, None, :]
