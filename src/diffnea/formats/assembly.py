"""Description → Robot."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.formats.couplings import couplings_of, tendons_of
from diffnea.formats.description import Description, RobotFileError
from diffnea.formats.inertia import parameters_of
from diffnea.formats.loops import loops_of
from diffnea.formats.merging import Merged, merge, totals
from diffnea.robot import Limits, Robot, Source, Tree
from diffnea.spatial import Inertia, Transform
from diffnea.ties import Lift, Springs


def assemble(description: Description, source: Source | None = None) -> Robot:
    """Merge what is rigidly joined into the link that carries it, and make the robot."""
    merged = merge(description)
    joints, owner, pose = merged.joints, merged.owner, merged.pose
    inertia = totals(description, merged)
    for joint in joints:
        if joint.kind == "free" and owner[joint.parent] >= 0:
            raise RobotFileError(
                f'joint "{joint.name}" is free, but "{joint.parent}" moves; it must stand on the ground'
            )
    placement = np.array([pose[joint.parent] @ joint.origin for joint in joints]).reshape(-1, 4, 4)
    parents = tuple(owner[joint.parent] for joint in joints)
    offsets = {link.name: link.offset for link in description.links}
    tree = Tree(
        parents,
        tuple(joint.kind for joint in joints),
        tuple(joint.name for joint in joints),
        tuple(joint.child for joint in joints),
    )

    def column(name: str) -> jax.Array:
        return jnp.asarray([getattr(joint, name) for joint in joints], float)

    return Robot(
        tree=tree,
        placement=Transform(jnp.asarray(placement[:, :3, :3]), jnp.asarray(placement[:, :3, 3])),
        axis=jnp.asarray(np.array([joint.axis for joint in joints]).reshape(-1, 3)),
        inertia=Inertia.from_parameters(jnp.asarray(parameters_of(inertia))),
        armature=column("armature"),
        damping=column("damping"),
        friction=column("friction"),
        gear=column("gear"),
        limits=Limits(column("lower"), column("upper"), column("velocity"), column("effort")),
        frame_offset=jnp.asarray(np.array([offsets[joint.child] for joint in joints]).reshape(-1, 3)),
        gravity=jnp.asarray(description.gravity, float),
        couplings=couplings_of(description, joints),
        springs=Springs(column("stiffness"), column("rest")) if any(joint.stiffness for joint in joints) else None,
        tendons=tendons_of(description, joints),
        lift=_lift(description, merged),
        loops=loops_of(description, merged),
        name=description.name,
        source=source,
    )


def _lift(description: Description, merged: Merged) -> Lift | None:
    """The share of each moving body's weight that is taken off, and what parts of it have beyond."""
    if not any(link.lift for link in description.links):
        return None
    raised = replace(description, links=tuple(replace(x, inertia=x.lift * x.inertia) for x in description.links))
    own, lifted = totals(description, merged), totals(raised, merged)
    mass = own[:, 3, 3]
    share = np.where(mass > 0, lifted[:, 3, 3] / np.where(mass > 0, mass, 1.0), 0.0)
    excess = lifted[:, :3, 3] - share[:, None] * own[:, :3, 3]
    even = np.abs(excess) <= 1e-14 * np.abs(own[:, :3, 3]).max(axis=1, keepdims=True)
    return Lift(jnp.asarray(share), jnp.asarray(np.where(even, 0.0, excess)))


def massless_note(robot: Robot) -> list[str]:
    """A word on joints that move no mass, where forward dynamics divide by zero."""
    carried = np.asarray(robot.inertia.mass).copy()
    for i in reversed(range(robot.num_links)):
        if robot.tree.parents[i] >= 0:
            carried[robot.tree.parents[i]] += carried[i]
    idle = np.flatnonzero((carried == 0) & (np.asarray(robot.armature) == 0))
    named = ", ".join(f'"{robot.tree.joint_names[i]}"' for i in idle)
    return [f"no mass moves with {named}: no forward dynamics there; give a mass or armature"] if named else []
