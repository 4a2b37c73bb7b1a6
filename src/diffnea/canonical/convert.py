"""From a `Robot` to its canonical form: by numpy where its numbers are there, traced where they are not."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from diffnea.canonical.frames import (
    Chosen,
    Geometry,
    Moved,
    above,
    chosen,
    lumped,
    lumping,
    moved,
    placed,
    structure,
)
from diffnea.canonical.robot import ZERO, Canonical, Known
from diffnea.robot import Robot, nameless
from diffnea.spatial import Inertia

MOST_GUESSES = 1000
POSE = 6  # so many columns are a pose's, the others a body's
_guesses: dict[Any, tuple[Any, Known | None]] = {}  # of each tree, the geometry of the last robot, and its pattern

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


def canonical(robot: Robot, compile: Compile, dtype: Any) -> Canonical:
    """The canonical form of a robot; `compile` makes kernels of what is computed where JAX traces."""
    tree = nameless(robot).tree
    geometry = Geometry(robot.placement.rotation, robot.placement.translation, robot.axis)
    bodies = robot.inertia, robot.armature
    if _traced(geometry):
        at, inertia, armature = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), (geometry, *bodies))
        angles, numbers = _converted(compile, tree, at, inertia, armature)
        parts = numbers[:, :POSE], numbers[:, POSE:]
        return Canonical(tree, angles, *parts, jnp.asarray(robot.gravity, dtype), structure(tree), guess(tree))
    note(robot)
    geometry = Geometry(*(np.asarray(leaf, np.float64) for leaf in geometry))
    frames = chosen(tree, geometry)
    if _traced(bodies):
        inertia, armature = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), bodies)
        rows = _linear(lumping(tree, geometry, frames, inertia), inertia, armature)
    else:
        inertia, armature = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), bodies)
        rows = _numbers(tree, geometry, inertia, armature, frames)[:, POSE:]
    known = pattern(tree, geometry, frames, robot.gravity)
    with jax.ensure_compile_time_eval():  # numbers that are there stay so where something else is traced
        given = frames.angles, _poses(tree, placed(tree, geometry, frames)), rows, robot.gravity
        angles, poses, rows, gravity = (one if _traced(one) else jnp.asarray(one, dtype) for one in given)
    return Canonical(tree, angles, poses, rows, gravity, known)


def _linear(matrix: np.ndarray, inertia: Inertia, armature: Any) -> Any:
    """The columns of bodies by the matrix that known geometry gives: a product takes nothing to compile."""
    given = jnp.concatenate([inertia.mass[:, None], inertia.first_moment, inertia.rotational], -1)
    with jax.ensure_compile_time_eval():
        factors = jnp.asarray(matrix, given.dtype)
    # GPUs would round what they multiply to ten bits
    found = jnp.matmul(factors, given.reshape(-1), precision=jax.lax.Precision.HIGHEST).reshape(given.shape)
    return jnp.concatenate([found, armature[:, None]], -1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _converted(compile: Compile, tree, geometry: Geometry, inertia: Inertia, armature) -> tuple[Any, Any]:
    """Angles, and the columns of poses and bodies: one small kernel. Its derivatives are kernels over the joints."""
    frames, numbers = _split(compile(_frames_and_numbers)(tree, geometry, inertia, armature), Chosen)
    return frames.angles, numbers


@_converted.defjvp
def _converted_tangent(compile: Compile, primals, tangents):
    tree = primals[0]
    constants = jax.tree.map(jax.lax.stop_gradient, primals)
    frames, _ = _split(compile(_frames_and_numbers)(*constants), Chosen)

    def again(geometry, inertia, armature):
        parent, axis_above = above(tree, frames, geometry.axis)
        rows = jax.vmap(compile(_one_moved))(geometry, inertia, frames, axis_above, parent)
        return compile(_gathered)(tree, rows, armature)

    return _converted(compile, *primals), (jnp.zeros_like(frames.angles), jax.jvp(again, primals[1:], tangents[1:])[1])


# What a kernel that is kept by name gives is one array: `Chosen` and `Moved` side by side, a row a link.
_SHAPES = {Chosen: ((3, 3), (3,), (), (3,)), Moved: ((3, 3), (3,), (3,), (), (3,), (3, 3))}


def _row(parts: Chosen | Moved) -> Any:
    return jnp.concatenate([part.reshape(len(part), -1) for part in parts], -1)


def _split(rows: Any, kind: type) -> tuple[Any, Any]:
    """The parts of a kind, and what follows them."""
    sizes = [int(np.prod(shape)) for shape in _SHAPES[kind]]
    *columns, rest = jnp.split(rows, np.cumsum(sizes), -1)
    return kind(*(x.reshape(len(rows), *shape) for x, shape in zip(columns, _SHAPES[kind], strict=True))), rest


def _one_moved(*link: Any) -> Any:
    """`moved` of one link."""
    return _row(moved(*jax.tree.map(lambda x: x[None], link)))[0]


def _frames_and_numbers(tree, geometry: Geometry, inertia: Inertia, armature) -> Any:
    frames = chosen(tree, geometry)
    return jnp.concatenate([_row(frames), _numbers(tree, geometry, inertia, armature, frames)], -1)


def _numbers(tree, geometry: Geometry, inertia: Inertia, armature, frames: Chosen) -> Any:
    parent, axis_above = above(tree, frames, geometry.axis)
    return _columns(tree, moved(geometry, inertia, frames, axis_above, parent), armature)


def _gathered(tree, rows: Any, armature) -> Any:
    return _columns(tree, _split(rows, Moved)[0], armature)


def _columns(tree, bodies: Moved, armature) -> Any:
    """The columns of `Canonical.poses` and `Canonical.bodies`."""
    xp = np if isinstance(armature, np.ndarray) else jnp
    return xp.concatenate([_poses(tree, bodies.place, bodies.swivel), lumped(tree, bodies), armature[:, None]], -1)


def _poses(tree, place: Any, swivel: Any = None) -> Any:
    xp, at_base = np if isinstance(place, np.ndarray) else jnp, (np.array(tree.parents) < 0)[:, None]
    nothing = xp.zeros_like(place)
    return xp.concatenate([xp.where(at_base, nothing, place), nothing if swivel is None else swivel], -1)


def is_simple(robot: Robot) -> bool:
    """Whether there are joints, each with one coordinate of its own, and no springs: others have no canonical form."""
    tied = robot.couplings is not None or robot.loops is not None or robot.stores
    return robot.num_links > 0 and robot.tree.simple and not tied


def _traced(leaves: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(leaves))


def pattern(tree: Any, geometry: Geometry, frames: Chosen, gravity: Any) -> Known:
    """Which angles are multiples of a right one, and which other numbers are zero."""
    angles, place, pull = structure(tree).arrays()
    found = frames.angles
    right = found / (np.pi / 2) == np.round(found / (np.pi / 2))
    right[:, ZERO] = found[:, ZERO] == 0
    places = placed(tree, geometry, frames)
    pull = pull if _traced(gravity) else np.where(np.asarray(gravity) == 0, 0.0, pull)
    return Known.of(
        np.where(np.isnan(angles) & right, found, angles),
        np.where(np.isnan(place) & (places == 0), 0.0, place),
        pull,
    )


def note(robot: Robot) -> None:
    """Remember the geometry as a guess for robots with the same tree whose numbers are not there yet."""
    geometry = robot.placement.rotation, robot.placement.translation, robot.axis, robot.gravity
    key = robot.tree.parents, robot.tree.revolute.tobytes()
    held = _guesses.get(key)
    if _traced(geometry) or held is not None and all(a is b for a, b in zip(held[0], geometry, strict=True)):
        return
    if len(_guesses) > MOST_GUESSES:
        _guesses.clear()
    _guesses[key] = geometry, None


def guess(tree: Any) -> Known | None:
    """What was known of the last robot with this tree; None if that is no more than the tree says."""
    key = tree.parents, tree.revolute.tobytes()
    if key not in _guesses:
        return None
    geometry, known = _guesses[key]
    if known is None:
        arrays = [np.asarray(leaf, np.float64) for leaf in geometry]
        placements = Geometry(*arrays[:3])
        known = pattern(tree, placements, chosen(tree, placements), arrays[3])
        _guesses[key] = geometry, known
    return None if known == structure(tree) else known
