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
