"""What is learned: masks over the leaves of a module, and the flat vector they choose."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.parameters.inertia import FORMS
from diffnea.parameters.virtual import Decoded, VirtualRobot
from diffnea.robot import SEVERAL, Robot

LEARNABLE = ("inertia", "kinematics", "armature", "calibration")
_OF_JOINTS = LEARNABLE[1:]


def learnable(
    virtual: VirtualRobot,
    learn: Iterable[str] = ("inertia", "kinematics"),
    links: Iterable[str] | None = None,
    joints: Iterable[str] | None = None,
) -> VirtualRobot:
    """Masks of what is learned: a tree like `virtual`, with True in numpy arrays where a number is free.

    `unpack` with these masks gives a robot whose other numbers are its own, to the last bit.

    Args:
        virtual: the numbers of a robot, as `encode` gives them.
        learn: any of inertia, kinematics, armature, calibration.
        links: those whose inertia is learned; None: all.
        joints: those whose placement, armature or zero position (`calibration`) is; None: all.
    """
    learn = _names(learn, LEARNABLE, "learn")
    for what, chosen, parts in (("links", links, {"inertia"}), ("joints", joints, set(_OF_JOINTS))):
        if chosen is not None and not parts & set(learn):
            raise ValueError(f"{what} are named, but learn has no {' or '.join(sorted(parts))}")
    tree, moves = virtual.own.tree, np.array([kind not in SEVERAL for kind in virtual.own.tree.kinds], bool)
    rows = {part: moves & _chosen(part in learn, joints, tree.joint_names, "joints") for part in _OF_JOINTS}
    free = {"kinematics": moves, **_leading(virtual.own)}  # balls and free links have no rotor, no zero, no placement
    rows = {part: row & free[part] for part, row in rows.items()}
    _check_named(virtual.own, joints, learn, free)
    rows["inertia"] = _chosen("inertia" in learn, links, tree.link_names, "links")
    decoded = Decoded(**{part: tuple(row.tolist()) for part, row in rows.items()})
    blank = jax.tree.map(lambda leaf: np.zeros(np.shape(leaf), bool), replace(virtual, decoded=decoded))
    wide = [np.repeat(rows[part][:, None], width, 1) for part, width in (("inertia", 10), ("kinematics", 3))]
    filled = (wide[0], wide[1], wide[1], rows["armature"], rows["calibration"])
    return eqx.tree_at(lambda v: (v.inertia, v.translation, v.rpy, v.armature, v.zero), blank, filled)


def _leading(robot: Robot) -> dict[str, np.ndarray]:
    """Which links' joints have a rotor of their own, and which a zero: a curve would have to move with its leader's."""
    leads = np.isin(np.arange(robot.num_links), robot.joint_links)
    tied = robot.couplings
    if tied is None:
        return {"armature": leads, "calibration": leads}
    curved = np.any(np.asarray(tied.coefficients)[:, 2:] != 0, axis=1)
    bent = [leader for leader, bends in zip(tied.leaders, curved.tolist(), strict=True) if bends]
    return {"armature": leads, "calibration": leads & ~np.isin(np.arange(robot.num_links), bent)}


def _check_named(
    robot: Robot, joints: Iterable[str] | None, learn: tuple[str, ...], free: dict[str, np.ndarray]
) -> None:
    """Refuse joints of which nothing can be learned because of others that are tied to them."""
    asked = [part for part in _OF_JOINTS if part in learn]
    for name in () if joints is None or robot.couplings is None else _names(joints, robot.tree.joint_names, "joints"):
        link = robot.tree.joint_names.index(name)
        if not any(free[part][link] for part in asked):
            why = "it follows another" if link in robot.followers else "others follow it by a curve"
            raise ValueError(f'joints: {" and ".join(asked)} of "{name}" is not learned, {why}; name other joints')


def _names(given: Iterable[str], accepted: tuple[str, ...], what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in accepted:
            raise ValueError(f'{what}: there is no "{name}"; use any of {", ".join(accepted)}')
    return names


def _chosen(learned: bool, given: Iterable[str] | None, accepted: tuple[str, ...], what: str) -> np.ndarray:
    names = accepted if given is None else _names(given, accepted, what)
    return np.array([learned and name in names for name in accepted], bool)


def pack(tree: Any, masks: Any) -> Float[Array, " p"]:
    """The chosen numbers of any module as one vector, leaf by leaf and row by row.

    Args:
        tree: any module.
        masks: which of its numbers are chosen, a tree like it.
    """
    parts = [jnp.ravel(leaf)[_places(mask)] for leaf, mask in _pairs(tree, masks) if np.any(mask)]
    if not parts:
        return jnp.zeros(0)
    dtype = np.result_type(*(part.dtype for part in parts))
    return jnp.concatenate([part.astype(dtype) for part in parts])


def unpack(tree: Any, masks: Any, vector: Float[Array, " p"]) -> Any:
    """The module with the vector's numbers in the chosen places: `pack(unpack(tree, masks, v), masks) == v`.

    Leaves keep their precision. What is static comes from the masks: they say which rows of a robot are decoded.

    Args:
        tree: any module.
        masks: which of its numbers are chosen, a tree like it.
        vector: their numbers.
    """
    pairs = _pairs(tree, masks)
    sizes = [int(np.sum(mask)) for _, mask in pairs]
    if vector.shape != (sum(sizes),):
        raise ValueError(f"vector has shape {vector.shape}; the masks choose {sum(sizes)} numbers")
    leaves, start = [], 0
    for (leaf, mask), size in zip(pairs, sizes, strict=True):
        leaves.append(_filled(leaf, mask, vector[start : start + size]) if size else leaf)
        start += size
    return jax.tree.unflatten(jax.tree.structure(masks), leaves)


def _pairs(tree: Any, masks: Any) -> list[tuple[Any, np.ndarray]]:
    """Each leaf with its mask as wide as the leaf."""
    leaves, choices = jax.tree.leaves(tree), jax.tree.leaves(masks)
    if len(leaves) != len(choices):
        raise ValueError(f"masks have {len(choices)} leaves for {len(leaves)}; give one a leaf")
    return [(leaf, _mask(leaf, choice)) for leaf, choice in zip(leaves, choices, strict=True)]


def _mask(leaf: Any, choice: Any) -> np.ndarray:
    mask = np.asarray(choice)
    if mask.dtype != bool or mask.shape not in ((), np.shape(leaf)):
        found = f"{mask.dtype} of shape {mask.shape}"
        raise ValueError(f"a mask is {found}; its leaf needs bool of shape () or {np.shape(leaf)}")
    if mask.any() and not eqx.is_inexact_array(jnp.asarray(leaf) if eqx.is_array_like(leaf) else leaf):
        raise ValueError(f"a mask chooses a {type(leaf).__name__}; only arrays of floats are learned")
    return np.broadcast_to(mask, np.shape(leaf)) if eqx.is_array_like(leaf) else mask


def _places(mask: np.ndarray) -> np.ndarray | slice:
    return slice(None) if mask.all() else np.flatnonzero(mask).astype(np.int32)


def _filled(leaf: Any, mask: np.ndarray, values: Array) -> Array:
    """By gathering from the leaf and the values behind it, which kernels do at no cost."""
    shape, dtype = np.shape(leaf), jnp.asarray(leaf).dtype
    if mask.all():
        return values.astype(dtype).reshape(shape)
    source = np.where(mask.ravel(), mask.size + np.cumsum(mask.ravel()) - 1, np.arange(mask.size))
    return jnp.concatenate([jnp.ravel(leaf), values.astype(dtype)])[source].reshape(shape)


def labels(virtual: VirtualRobot, masks: VirtualRobot) -> list[str]:
    """A name for each entry of the packed vector, as "hand log-cholesky alpha" or "elbow roll".

    Args:
        virtual: the numbers of a robot, as `encode` gives them.
        masks: what is learned, as `learnable` gives them.
    """
    tree, form = virtual.own.tree, virtual.form
    parts = [
        (masks.inertia, tree.link_names, [f"{form} {name}" for name in FORMS[form].names]),
        (masks.translation, tree.joint_names, ["x", "y", "z"]),
        (masks.rpy, tree.joint_names, ["roll", "pitch", "yaw"]),
        (np.reshape(masks.armature, (-1, 1)), tree.joint_names, ["softplus armature"]),
        (np.reshape(masks.zero, (-1, 1)), tree.joint_names, ["zero"]),
    ]
    return [f"{rows[i]} {columns[k]}" for mask, rows, columns in parts for i, k in np.argwhere(np.asarray(mask))]
