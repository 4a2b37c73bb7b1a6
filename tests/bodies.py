"""Bodies and an arm to test virtual parameters with, and what makes a body possible."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from robots import depth_first, random_robot, random_tree

import diffnea as dn
from diffnea import parameters

# A singular body is given an extent of 64 roundings of its largest moment, one in each direction.
SINGULAR = 1e-13

POINT = [2.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0]  # 2 kg, half a metre up
CENTRED = [2.0, *[0.0] * 9]  # 2 kg at the origin
ROD = [1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1 / 3, 0.0, 0.0, 1 / 3]
DISC = [1.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.25, 0.0, 0.0, 0.5]
NOTHING = [0.0] * 10
ROTOR = [0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.3, 0.0, 0.0, 0.4]  # inertia but no mass


def draws(seed: int, count: int, dtype) -> np.ndarray:
    """Virtual numbers of every size: up to the limits of floats, mixed by link; ordinary; and zeros among them."""
    rng = np.random.default_rng(seed)
    largest = 300 if dtype == np.float64 else 38
    reach = rng.choice([largest, 9, 1], (count, 1))
    sizes = 10.0 ** (reach * rng.uniform(-1, 1, (count, 10)))
    return (sizes * rng.choice([-1, 1], (count, 10)) * (rng.random((count, 10)) > 0.05)).astype(dtype)


def pseudo_inertia(rows) -> np.ndarray:
    """(…, 10) linear parameters → (…, 4, 4), in double precision."""
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = np.moveaxis(np.asarray(rows, np.float64), -1, 0)
    entries = [(yy + zz - xx) / 2, -xy, -xz, hx, -xy, (xx + zz - yy) / 2, -yz, hy]
    entries += [-xz, -yz, (xx + yy - zz) / 2, hz, hx, hy, hz, m]
    return np.stack(entries, -1).reshape(*m.shape, 4, 4)


def scaled(rows) -> np.ndarray:
    """Pseudo-inertias in units of each body's own mass and length: what is left is its shape."""
    P = pseudo_inertia(rows)
    mass, trace = P[:, 3, 3], np.trace(P[:, :3, :3], axis1=1, axis2=2)
    units = 1 / np.sqrt(np.stack([trace, trace, trace, mass], 1))
    return P * units[:, :, None] * units[:, None, :]


def definite(rows) -> tuple[np.ndarray, np.ndarray]:
    """The least eigenvalue of each scaled pseudo-inertia, and the least slack in the triangle inequality of the
    principal moments about the centre of mass."""
    P = scaled(rows)
    central = P[:, :3, :3] - P[:, :3, 3:] * P[:, 3:, :3]
    moments = np.linalg.eigvalsh(np.trace(central, axis1=1, axis2=2)[:, None, None] * np.eye(3) - central)
    return np.linalg.eigvalsh(P)[:, 0], moments[:, 0] + moments[:, 1] - moments[:, 2]


def sized(robot: dn.Robot, mass: float, length: float) -> dn.Robot:
    """The robot in other units."""
    powers = mass * np.array([1.0, *[length] * 3, *[length**2] * 6])
    placement = dn.Transform(robot.placement.rotation, robot.placement.translation * length)
    changed = dn.Inertia.from_parameters(robot.inertia.parameters * powers[None])
    return replace(robot, inertia=changed, placement=placement)


def links(*rows) -> dn.Robot:
    """A chain whose links have these linear parameters."""
    count = len(rows)
    names = tuple(f"part{i}" for i in range(count))
    tree = dn.Tree(tuple(range(-1, count - 1)), ("revolute",) * count, names, names)
    return replace(random_robot(tree, 0), inertia=dn.Inertia.from_parameters(jnp.asarray(rows)))


def arm() -> dn.Robot:
    tree = depth_first(random_tree(3, 4))  # as MJCF numbers joints
    named = dn.Tree(
        tree.parents, tree.kinds, ("base", "shoulder", "elbow", "wrist"), ("post", "upper", "lower", "hand")
    )
    return replace(random_robot(named, 5), name="arm")


def everything(virtual: parameters.VirtualRobot) -> parameters.VirtualRobot:
    return parameters.learnable(virtual, ("inertia", "kinematics", "armature"))
