"""A robot: the tree its joints form, and the physical numbers of its links and joints."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from diffnea.errors import DiffneaError
from diffnea.spatial import Inertia, Transform
from diffnea.ties import Couplings, Lift, Loops, Springs, Tendons

JOINT_KINDS = ("revolute", "continuous", "prismatic")
# Joints of several velocities, each a row of the tree: how a free base and a ball move, in the link's own axes.
SEVERAL = {"free": ("prismatic",) * 3 + ("revolute",) * 3, "ball": ("revolute",) * 3}
STANDARD_GRAVITY = (0.0, 0.0, -9.81)


class Tree(eqx.Module):
    """How the links hang together: link i is moved by joint i, and `parents[i] < i` (−1: the ground).

    Kinds are revolute, continuous, prismatic, ball (position by a unit quaternion), and free (position, quaternion),
    which stands on the ground alone.
    """

    parents: tuple[int, ...] = eqx.field(static=True)
    kinds: tuple[str, ...] = eqx.field(static=True)
    joint_names: tuple[str, ...] = eqx.field(static=True)
    link_names: tuple[str, ...] = eqx.field(static=True)

    def __check_init__(self):
        count = len(self.parents)
        for what, values in (("kinds", self.kinds), ("joint_names", self.joint_names), ("link_names", self.link_names)):
            if len(values) != count:
                raise ValueError(f"Tree: {len(values)} {what} for {count} parents; give one a link")
        for i, parent in enumerate(self.parents):
            if not -1 <= parent < i:
                raise ValueError(f"Tree: parent of link {i} is {parent}; use −1 for the base or an earlier link")
        for name, kind, parent in zip(self.joint_names, self.kinds, self.parents, strict=True):
            _check_kind(name, kind, parent)
        for what, names in (("joint", self.joint_names), ("link", self.link_names)):
            if len(set(names)) != count:
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f'Tree: two {what}s are named "{twice}"; names must differ')

    @property
    def revolute(self) -> np.ndarray:
        """Which joints turn (revolute and continuous), the others slide."""
        return np.array([kind != "prismatic" for kind in self.kinds], dtype=bool)

    @property
    def layout(self) -> "Layout":
        """Where each link's coordinates and velocities stand."""
        return _layout(self.parents, self.kinds)

    @property
    def simple(self) -> bool:
        """Whether every joint has one coordinate."""
        return not any(kind in SEVERAL for kind in self.kinds)

    @property
    def rows(self) -> "Tree":
        """The tree with a row a velocity: a joint of several is as many rows, the last of which is the link."""
        return self if self.simple else self.layout.rows

    def from_root(self, step: Callable[..., tuple[Any, Any]], root: Any, *links: Any) -> Any:
        """Run `carry, output = step(parent's carry, *link)` from the base outwards; the outputs, one row a link."""
        outputs, carry = [], _repeat(root, 1)
        for level in levels(self.parents):
            carry, output = _on_rows(step, _take(carry, level.parents), *_take(links, level.links))
            outputs.append(output)
        return self._gather(step, root, links, outputs)

    def from_leaves(self, step: Callable[..., tuple[Any, Any]], nothing: Any, *links: Any) -> Any:
        """Run `message, output = step(sum of the children's messages, *link)` towards the base; the outputs."""
        outputs, messages = [], _repeat(nothing, 0)
        for level in reversed(levels(self.parents)):
            total = _sum_children(messages, nothing, level.children)
            messages, output = _on_rows(step, total, *_take(links, level.links))
            outputs.append(output)
        return self._gather(step, nothing, links, outputs[::-1])

    def _gather(self, step, carry, links, outputs):
        """Level by level → link by link; a robot without joints still gets outputs of the right shape."""
        if not outputs:
            return jax.vmap(step)(_repeat(carry, 0), *links)[1]
        order = np.argsort(np.concatenate([level.links for level in levels(self.parents)]))
        return _take(jax.tree.map(lambda *rows: jnp.concatenate(rows), *outputs), order)


def _check_kind(name: str, kind: str, parent: int) -> None:
    if kind not in JOINT_KINDS and kind not in SEVERAL:
        raise ValueError(f'Tree: joint "{name}" is "{kind}"; use {", ".join((*JOINT_KINDS, *SEVERAL))}')
    if kind == "free" and parent >= 0:
        raise ValueError(f'Tree: joint "{name}" is free but hangs on a link; free joints stand on the ground')


class Layout(NamedTuple):
    """Where a tree's links have their coordinates and velocities, and which row of `Tree.rows` is whose."""

    first_position: tuple[int, ...]  # of each link
    first_velocity: tuple[int, ...]
    num_positions: int
    num_velocities: int
    links: np.ndarray  # the link of each row
    rows: Tree

    @property
    def single(self) -> np.ndarray:
        """Links whose joint has one coordinate."""
        counts = np.bincount(self.links, minlength=len(self.first_velocity))
        return np.flatnonzero(counts == 1)

    @property
    def opens(self) -> np.ndarray:
        """Whether a row is its joint's first."""
        return np.isin(np.arange(self.num_velocities), self.first_velocity)

    @property
    def closes(self) -> np.ndarray:
        """Whether a row is its joint's last, and so the link itself."""
        return np.append(self.opens[1:], np.ones(min(1, self.num_velocities), bool))


@lru_cache(maxsize=1024)
def _layout(parents: tuple[int, ...], kinds: tuple[str, ...]) -> Layout:
    positions, velocities, links, above, moves, ends = [], [], [], [], [], []
    count = 0
    for i, (parent, kind) in enumerate(zip(parents, kinds, strict=True)):
        columns = SEVERAL.get(kind, (kind,))
        positions.append(count)
        velocities.append(len(links))
        count += len(columns) + (kind in SEVERAL)
        above += [ends[parent] if parent >= 0 else -1, *range(len(links), len(links) + len(columns) - 1)]
        moves += columns
        links += [i] * len(columns)
        ends.append(len(links) - 1)
    names = tuple(map(str, range(len(links))))
    rows = Tree(tuple(above), tuple(moves), names, names)
    return Layout(tuple(positions), tuple(velocities), count, len(links), np.array(links, int), rows)


class _Level:
    """Links of one depth: their indices, where their parents and children stand in the neighbouring levels."""

    def __init__(self, links: list[int], above: list[int], below: list[int], parents: tuple[int, ...]):
        self.links = np.array(links)
        self.parents = np.array([above.index(parents[i]) for i in links])
        families = [[k for k, child in enumerate(below) if parents[child] == i] for i in links]
        most = max(len(family) for family in families)
        # Row r names each link's r-th child; where there is none, the row of zeros after the last.
        self.children = np.array([family + [len(below)] * (most - len(family)) for family in families], int).T


@lru_cache(maxsize=1024)
def levels(parents: tuple[int, ...]) -> tuple[_Level, ...]:
    """Links grouped by depth: one vmapped step a level keeps compile time to the depth, not the size."""
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    groups = [[i for i, d in enumerate(depth) if d == k] for k in range(max(depth, default=-1) + 1)]
    above, below = [[-1], *groups], [*groups[1:], []]
    return tuple(_Level(group, above[k], below[k], parents) for k, group in enumerate(groups))


def _repeat(values: Any, times: int) -> Any:
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (times, *jnp.shape(x))), values)


def _take(values: Any, rows: np.ndarray) -> Any:
    """Rows of every array; neighbours by slicing, which JAX traces ten times faster than an index."""
    first, count = int(rows[0]), len(rows)
    if np.array_equal(rows, np.arange(first, first + count)):
        return jax.tree.map(lambda x: jax.lax.slice_in_dim(x, first, first + count), values)
    rows = rows.astype(np.int32)  # see spatial.py
    return jax.tree.map(lambda x: jnp.asarray(x)[rows], values)


def _on_rows(step: Callable[..., tuple[Any, Any]], *rows: Any) -> tuple[Any, Any]:
    """The step on every row; `vmap` only where there is more than one, since it is slow to trace."""
    if len(jax.tree.leaves(rows)[0]) != 1:
        return jax.vmap(step)(*rows)
    single = jax.tree.map(lambda x: jax.lax.squeeze(x, (0,)), rows)
    return jax.tree.map(lambda x: jax.lax.expand_dims(x, (0,)), step(*single))


def _sum_children(messages: Any, nothing: Any, children: np.ndarray) -> Any:
    """Each link's sum over its children; by gathering, so that NaN in one branch stays in that branch."""
    count = children.shape[1]
    if children.shape[0] == 0:
        return _repeat(nothing, count)

    def total(message, zero):
        padded = jnp.concatenate([message, zero[None]])
        return sum((_take(padded, row) for row in children[1:]), _take(padded, children[0]))

    return jax.tree.map(total, messages, nothing)


class Limits(eqx.Module):
    """What each joint may do: position range, speed and effort, infinite where the file sets none."""

    lower: Float[Array, " n"]
    upper: Float[Array, " n"]
    velocity: Float[Array, " n"]
    effort: Float[Array, " n"]


@dataclass(frozen=True)
class Source:
    """The file a robot came from: what `save_robot` edits, so that everything not learned stays as it was."""

    format: str  # "urdf" or "mjcf"
    path: str
    text: bytes
    locked: tuple[tuple[str, float], ...] = ()  # joints that are held still, and where
    floated: bool = False  # whether the file's root was set free
    coupled: bool = True  # whether joints that follow others do


class Robot(eqx.Module):
    """A kinematic tree with one row a link; every number is an array leaf, the topology is static.

    A link's frame sits at its joint and turns with it. The coordinates of a free joint are the link's pose in the
    world; its `placement` says where the file has it. For URDF that is the file's link frame; `frame_offset` is
    where the file's frame sits in ours (MJCF may anchor a joint away from its body's origin).
    """

    tree: Tree
    placement: Transform  # T_O: the link's frame in its parent's at q = 0
    axis: Float[Array, "n 3"]  # unit vector in the link's frame; free joints and balls have no use for it
    inertia: Inertia
    armature: Float[Array, " n"]  # reflected rotor inertia, added to the mass matrix' diagonal
    damping: Float[Array, " n"]  # viscous friction, N·m·s/rad or N·s/m, as the file gives it
    friction: Float[Array, " n"]  # dry friction, N·m or N
    gear: Float[Array, " n"]  # torque per unit of command; 0 where the file drives other joints but not this one
    limits: Limits
    frame_offset: Float[Array, "n 3"]
    gravity: Float[Array, "3"]
    couplings: Couplings | None = None  # joints that follow others; these are not in q
    springs: Springs | None = None
    tendons: Tendons | None = None
    lift: Lift | None = None  # gravity compensation, as the file has it
    loops: Loops | None = None  # links that are held together; all joints are in q
    name: str = eqx.field(static=True, default="robot")
    source: Source | None = eqx.field(static=True, default=None, repr=False)

    @property
    def base(self) -> Literal["fixed", "floating"]:
        """Whether the first link stands on the ground by a joint, or is free."""
        return "floating" if self.tree.kinds[:1] == ("free",) else "fixed"

    @property
    def num_joints(self) -> int:
        """How many joints of one coordinate there are: revolute, continuous and prismatic ones."""
        return len(self.joint_names)

    @property
    def num_positions(self) -> int:
        """How long q is: a coordinate a joint, four for a ball (w x y z), seven for a free link (x y z, w x y z)."""
        return self.tree.layout.num_positions - len(self.followers)

    @property
    def num_velocities(self) -> int:
        """How long qd is: one a joint, three for a ball, six for a free link (linear, angular in its own frame)."""
        return self.tree.layout.num_velocities - len(self.followers)

    @property
    def followers(self) -> tuple[int, ...]:
        """Links whose joints follow others."""
        return () if self.couplings is None else self.couplings.followers

    @property
    def stores(self) -> bool:
        """Whether energy is stored otherwise than by gravity on links as they are."""
        return not (self.springs is None and self.tendons is None and self.lift is None)

    @property
    def joint_links(self) -> np.ndarray:
        """The links of `joint_names`."""
        return np.setdiff1d(self.tree.layout.single, np.array(self.followers, int))

    @property
    def num_links(self) -> int:
        """Links that move; what is fixed to another link is part of it, what is fixed to the base is left out."""
        return len(self.tree.parents)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The joints of one coordinate in the order of q; others, and followers, are in `tree.joint_names` only."""
        return tuple(self.tree.joint_names[i] for i in self.joint_links)

    @property
    def turning(self) -> np.ndarray:
        """Which of `joint_names` turn (revolute and continuous), the others slide."""
        return self.tree.revolute[self.joint_links]

    @property
    def joint_limits(self) -> Limits:
        """The limits of `joint_names`."""
        links = self.joint_links.astype(np.int32)
        return jax.tree.map(lambda numbers: numbers[links], self.limits)

    @property
    def link_names(self) -> tuple[str, ...]:
        """The links that move, in the order of q."""
        return self.tree.link_names

    def replace(self, *, link: str | None = None, joint: str | None = None, **changes: Any) -> "Robot":
        """The same robot with some numbers of one link or joint changed.

        Args:
            link: the moving link whose body changes, by `mass` (kg), `com` (m, in the link's frame) and `inertia`
                (3 × 3, about the centre of mass). Each keeps the others, but a new mass without an inertia keeps the
                body's shape: its inertia changes in proportion.
            joint: the joint that changes, by `armature`, `damping`, `friction` or `gear`.
            changes: the new numbers.
        """
        if (link is None) == (joint is None):
            raise ValueError("replace: name one link or one joint")
        what, names = ("joint", self.joint_names) if link is None else ("link", self.link_names)
        name = joint if link is None else link
        if name not in names:
            raise ValueError(f'robot "{self.name}" has no {what} "{name}"; it has {", ".join(names)}')
        known = ("armature", "damping", "friction", "gear") if link is None else ("mass", "com", "inertia")
        unknown = [key for key in changes if key not in known]
        if unknown:
            raise ValueError(f'replace: a {what} has no "{unknown[0]}"; give {", ".join(known)}')
        for key in _NEVER_NEGATIVE & set(changes):
            _check_number(f"replace: {key}", changes[key])
        i = names.index(name)
        if link is None:
            return replace(self, **{key: getattr(self, key).at[i].set(value) for key, value in changes.items()})
        body = _changed(jax.tree.map(lambda rows: rows[i], self.inertia), **changes)
        return replace(self, inertia=jax.tree.map(lambda rows, new: rows.at[i].set(new), self.inertia, body))


_NEVER_NEGATIVE = {"mass", "armature", "damping", "friction"}


def _check_number(what: str, value: Any) -> None:
    """One number that is finite and not negative; one that JAX is tracing is not known yet."""
    if isinstance(value, Tracer):
        return
    number = np.asarray(value)
    if number.ndim or not np.issubdtype(number.dtype, np.number) or np.iscomplexobj(number):
        raise TypeError(f"{what} is {value!r}; give one number")
    if not 0 <= float(number) < np.inf:
        raise ValueError(f"{what} is {float(number):g}; give a finite number that is not negative")


def _changed(body: Inertia, mass: Any = None, com: Any = None, inertia: Any = None) -> Inertia:
    """A body with another mass, centre of mass or inertia about that centre."""
    heavier = body.mass if mass is None else jnp.asarray(mass, body.mass.dtype)
    if inertia is None:
        share = jnp.where(body.mass != 0, heavier / jnp.where(body.mass != 0, body.mass, 1.0), 1.0)
        inertia = body.about_com * share
    return Inertia.from_com(heavier, body.com if com is None else com, inertia)


def require_single(robot: Robot, what: str) -> None:
    """Refuse a robot with balls, free links or loops where only joints of one coordinate are served."""
    for name, kind in zip(robot.tree.joint_names, robot.tree.kinds, strict=True):
        if kind in SEVERAL:
            held = 'hold it by load_robot(…, base="fixed") or lock' if kind == "free" else "hold it by lock"
            raise DiffneaError(
                f'{what}: joint "{name}" of robot "{robot.name}" is {kind}; revolute, continuous and prismatic joints '
                f"can be used here, {held}"
            )
    refuse_loops(robot, what)


def refuse_loops(robot: Robot, what: str) -> None:
    """Refuse a robot whose links close a loop."""
    if robot.loops is not None:
        ends = robot.loops.first[0], robot.loops.second[0]
        named = " and ".join("the ground" if end < 0 else f'"{robot.link_names[end]}"' for end in ends)
        raise DiffneaError(
            f'{what}: {named} of robot "{robot.name}" close a loop; trees can be used here, lock its joints or '
            "load_robot(…, couplings=False)"
        )


def pulled(robot: Robot) -> Robot:
    """The robot as gravity pulls it: what a file has of gravity compensation is a simulator's, not the machine's."""
    return robot if robot.lift is None else replace(robot, lift=None)


def astype(robot: Robot, dtype: Any) -> Robot:
    """The same robot with its numbers in another precision."""
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), robot)


def nameless(robot: Robot) -> Robot:
    """The robot reduced to what shapes the computation, so that equal trees share one compilation."""
    kinds = tuple("revolute" if kind == "continuous" else kind for kind in robot.tree.kinds)
    blank = tuple(str(i) for i in range(robot.num_links))
    return replace(robot, tree=Tree(robot.tree.parents, kinds, blank, blank), name="", source=None)
