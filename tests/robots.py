"""Robots to test with: random branching trees, and the same robot in Pinocchio."""

from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pinocchio
from scipy.spatial.transform import Rotation

import diffnea


def random_tree(seed: int, count: int | None = None) -> diffnea.Tree:
    """A branching tree of 2 to 12 bodies with both kinds of joint."""
    rng = np.random.default_rng(seed)
    count = count or int(rng.integers(2, 13))
    parents = tuple(int(rng.integers(max(-1, i - 3), i)) if i else -1 for i in range(count))
    kinds = tuple(str(kind) for kind in rng.permutation(np.resize(["revolute", "prismatic", "continuous"], count)))
    return diffnea.Tree(parents, kinds, tuple(f"j{i}" for i in range(count)), tuple(f"l{i}" for i in range(count)))


def depth_first(tree: diffnea.Tree) -> diffnea.Tree:
    """The same shape with links numbered depth first, as Pinocchio's crba needs it."""
    order: list[int] = []

    def visit(parent):
        for i, p in enumerate(tree.parents):
            if p == parent:
                order.append(i)
                visit(i)

    visit(-1)
    parents = tuple(order.index(tree.parents[i]) if tree.parents[i] >= 0 else -1 for i in order)
    return diffnea.Tree(parents, tuple(tree.kinds[i] for i in order), tree.joint_names, tree.link_names)


def random_robot(tree: diffnea.Tree, seed: int, module: ModuleType = diffnea, scale: float = 1.0):
    """Skew axes and placements, bodies with full inertia tensors, rotors, tilted gravity; `scale` sizes it."""
    rng = np.random.default_rng(seed)
    count = len(tree.parents)
    axis = rng.normal(size=(count, 3))
    mass = rng.uniform(0.2, 3.0, count)
    centre = rng.normal(scale=0.2 * scale, size=(count, 3))
    first = mass[:, None] * centre
    points = rng.normal(scale=0.1 * scale, size=(count, 5, 3))
    second = mass[:, None, None] * (np.einsum("npi,npj->nij", points, points) + np.einsum("ni,nj->nij", centre, centre))
    rotational = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    unique = rotational[:, [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    placement = module.Transform(
        jnp.asarray(Rotation.random(count, rng=rng).as_matrix().reshape(-1, 3, 3)),
        jnp.asarray(rng.normal(scale=0.4 * scale, size=(count, 3))),
    )
    continuous = np.array([kind == "continuous" for kind in tree.kinds])
    reach = np.where(continuous, np.inf, rng.uniform(0.5, 3.0, count))
    return module.Robot(
        tree=module.Tree(tree.parents, tree.kinds, tree.joint_names, tree.link_names),
        placement=placement,
        axis=jnp.asarray(axis / np.linalg.norm(axis, axis=1, keepdims=True)),
        inertia=module.Inertia(jnp.asarray(mass), jnp.asarray(first), jnp.asarray(unique)),
        armature=jnp.asarray(rng.uniform(0.0, 0.1, count)),
        damping=jnp.asarray(rng.uniform(0.0, 0.5, count)),
        friction=jnp.asarray(rng.uniform(0.0, 0.5, count)),
        gear=jnp.asarray(rng.uniform(0.5, 50.0, count)),
        limits=module.Limits(
            jnp.asarray(-reach),
            jnp.asarray(reach),
            jnp.asarray(rng.uniform(1.0, 5.0, count)),
            jnp.asarray(rng.uniform(1.0, 50.0, count)),
        ),
        frame_offset=jnp.zeros((count, 3)),
        gravity=jnp.asarray(rng.normal(scale=6.0, size=3)),
    )


def random_state(count: int, seed: int, rows: int = 3) -> np.ndarray:
    """q, q̇ and a third row of accelerations or torques."""
    return np.random.default_rng(seed).normal(size=(rows, count)) * np.array([[2.0], [2.0], [5.0]])[:rows]


def in_pinocchio(robot) -> pinocchio.Model:
    """The robot as a Pinocchio model; joint i of the robot is joint i + 1 there if numbered depth first."""
    model = pinocchio.Model()
    identifiers: list[int] = []
    for i, parent in enumerate(robot.tree.parents):
        axis = np.asarray(robot.axis[i])
        prismatic = robot.tree.kinds[i] == "prismatic"
        joint = (pinocchio.JointModelPrismaticUnaligned if prismatic else pinocchio.JointModelRevoluteUnaligned)(axis)
        place = pinocchio.SE3(np.asarray(robot.placement.rotation[i]), np.asarray(robot.placement.translation[i]))
        above = identifiers[parent] if parent >= 0 else 0
        identifiers.append(model.addJoint(above, joint, place, robot.joint_names[i]))
        inertia = pinocchio.Inertia.FromDynamicParameters(np.asarray(robot.inertia.parameters[i]))
        model.appendBodyToJoint(identifiers[-1], inertia, pinocchio.SE3.Identity())
    model.gravity.linear = np.asarray(robot.gravity)
    model.armature = np.asarray(robot.armature)
    return model


def relative(found, wanted) -> float:
    """The largest error as a share of the largest value."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    return float(np.abs(found - wanted).max(initial=0.0) / max(np.abs(wanted).max(initial=0.0), 1e-300))
