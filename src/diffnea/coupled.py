"""Coupled joints in reduced coordinates: q of all joints from q of those that lead, `q = c(y)`, `q̇ = G(y) ẏ`.

The equations of the tree stay as they are; G carries them over: `τ_y = Gᵀ τ`, `M_y = Gᵀ M G`.
"""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.manifold import parts
from diffnea.robot import Robot
from diffnea.ties import Couplings


class Whole(NamedTuple):
    """A coupled robot as if its joints were independent: itself, its q, G, and the couplings with their leaders' q."""

    robot: Robot
    q: Float[Array, " nq_all"]
    G: Float[Array, "n_all n"]
    leading: Float[Array, " k"]
    couplings: Couplings
    units: np.ndarray  # (k, n_all, n): where each coupling stands in G

    def velocities(self, qd: Float[Array, " n"]) -> Float[Array, " n_all"]:
        """`G ẏ`."""
        return self.G @ qd

    def accelerations(self, qd: Float[Array, " n"], qdd: Float[Array, " n"]) -> Float[Array, " n_all"]:
        """`G ÿ + Ġ ẏ`: a follower gains by its leader's speed squared where its coupling is curved."""
        lead = np.any(self.units, axis=1).astype(float)
        speed = jnp.asarray(lead, qd.dtype) @ qd
        gained = self.couplings.curvatures(self.leading) * speed**2
        return self.G @ qdd + jnp.asarray(np.any(self.units, axis=2).T.astype(float), qd.dtype) @ gained


def gearing(robot: Robot) -> Float[np.ndarray, "joints links"]:
    """How fast each link's joint goes with each of `joint_names`; along curves, where the leader stands at zero."""
    found = np.zeros((robot.num_joints, robot.num_links))
    rows = {link: k for k, link in enumerate(robot.joint_links.tolist())}
    found[list(rows.values()), list(rows)] = 1.0
    if robot.couplings is not None:
        slopes = np.asarray(robot.couplings.slopes(jnp.zeros(len(robot.followers))), float)
        found[[rows[leader] for leader in robot.couplings.leaders], list(robot.followers)] = slopes
    return found


def felt_damping(robot: Robot) -> Float[np.ndarray, " joints"]:
    """Viscous friction at `joint_names`, with that of what follows them: `Σ s² d`."""
    return gearing(robot) ** 2 @ np.asarray(robot.damping, float)


def felt_friction(robot: Robot) -> Float[np.ndarray, " joints"]:
    """Dry friction at `joint_names`, with that of what follows them: `Σ |s| f`."""
    return np.abs(gearing(robot)) @ np.asarray(robot.friction, float)


def handed_back(
    robot: Robot, own: Float[np.ndarray, " links"], felt: Float[np.ndarray, " joints"], power: int
) -> Float[np.ndarray, " links"]:
    """Friction at each link's joint of which so much is felt at `joint_names`: in the shares of the robot's own."""
    weights = np.abs(gearing(robot)) ** power
    total = weights @ own
    leads = np.zeros((robot.num_joints, robot.num_links))
    leads[np.arange(robot.num_joints), robot.joint_links] = felt
    known = total > 0
    share = np.where(known, felt, 0.0) / np.where(known, total, 1.0)
    return np.where(known[:, None], (share[:, None] * (weights > 0)) * own, leads).sum(axis=0)


def whole(robot: Robot, q: Float[Array, " nq"]) -> Whole:
    """All joints of a coupled robot."""
    couplings = robot.couplings
    assert couplings is not None
    free = replace(robot, couplings=None)
    reduced, every = {part.link: part for part in parts(robot)}, parts(free)
    leading = jnp.stack([q[reduced[leader].q.start] for leader in couplings.leaders])
    following = couplings.positions(leading)
    order = {follower: k for k, follower in enumerate(couplings.followers)}
    places = [following[order[i] : order[i] + 1] if i in order else q[reduced[i].q] for i in range(robot.num_links)]
    fixed = np.zeros((free.num_velocities, robot.num_velocities))
    units = np.zeros((len(order), *fixed.shape))
    for part in every:
        if part.link in order:
            k = order[part.link]
            units[k, part.v.start, reduced[couplings.leaders[k]].v.start] = 1.0
        else:
            fixed[part.v, reduced[part.link].v] = np.eye(part.v.stop - part.v.start)
    slopes = couplings.slopes(leading)
    G = jnp.asarray(fixed, q.dtype) + jnp.sum(slopes[:, None, None] * jnp.asarray(units, q.dtype), axis=0)
    return Whole(free, jnp.concatenate(places), G, leading, couplings, units)
