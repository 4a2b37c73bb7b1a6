"""Links with fewer numbers and the same joint dynamics: what a joint does not move counts as its parent's."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from diffnea.canonical import AnyRobot, Canonical
from diffnea.spatial import Adjoint, Moments


def lumped(robot: AnyRobot) -> Moments:
    """Links with the same joint dynamics and fewer numbers: what a link's joint does not move counts as its parent's.

    That is mass on the axis of a revolute joint, and moments without mass behind a prismatic one. A revolute joint's
    link keeps no mass, no first moment along the axis and no second one. Only the parameters are worked on: once for
    all samples. Derivatives in the parameters go by `rnea`, and take them as they are.
    """
    if isinstance(robot, Canonical):
        return robot.inertia.moments
    bodies, none = robot.inertia.moments, Moments.of_nothing(robot.axis.dtype)
    links = robot.placement, robot.axis, robot.tree.revolute, bodies
    if robot.tree.simple:
        return robot.tree.from_leaves(_pass_on, none, *links)
    single = np.isin(np.arange(robot.num_links), robot.tree.layout.single)
    return robot.tree.from_leaves(_keep_or_pass_on, none, single, *links)


@jax.jit
def _keep_or_pass_on(children, single, T, axis, revolute, body):  # balls and free links move all they carry
    handed, kept = _pass_on(children, T, axis, revolute, body)
    nothing = Moments.of_nothing(axis.dtype)
    choose = partial(jax.tree.map, partial(jnp.where, single))
    return choose(handed, nothing), choose(kept, body + children)


@jax.jit
def _pass_on(children, T, axis, revolute, body):
    body, along = body + children, jnp.outer(axis, axis)
    whole, none = jnp.eye(3, dtype=axis.dtype), jnp.zeros((3, 3), axis.dtype)
    fixed, moving = jnp.where(revolute, along, whole), jnp.where(revolute, whole - along, none)
    on_axis = jnp.where(revolute, jnp.ones((), axis.dtype), jnp.zeros((), axis.dtype))
    handed = Moments(on_axis * body.mass, on_axis * (along @ body.first), fixed @ body.second @ fixed)
    kept = moving @ body.second + fixed @ body.second @ moving  # Σ − F Σ F, exactly zero where it is zero
    first = jnp.where(revolute, whole - along, whole) @ body.first
    return Adjoint(T).carry(handed), Moments((1 - on_axis) * body.mass, first, kept)
