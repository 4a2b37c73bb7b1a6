"""Where fits start: the robot as given and perturbed copies of it, or robots of its size and mass and nothing else.

Drawn with numpy: a fit needs a few numbers once, and JAX would take seconds to compile their drawing.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from diffnea import parameters
from diffnea.identify.problem.unknowns import Unknowns
from diffnea.models import FeedForward
from diffnea.parameters import VirtualRobot

# How far perturbed copies are from the given numbers, in units of `spread`.
PERTURBATION = 0.3
# A number that has moved by less, in the same units, has not moved.
UNMOVED = 1e-9
# Shares of the typical length: a centre of mass keeps away from its joint, where gradients vanish.
_CENTRE_SHARE, _EXTENT, _STEP_SHARE, _SKEW = (0.3, 1.0), (0.1, 0.4), (0.5, 1.5), 0.1
_MASS = (0.4, 2.5)  # shares of the mean mass


def near(free: Unknowns, seed: int, count: int) -> Float[np.ndarray, "count p"]:
    """Starts around the given one; the first is the given one itself."""
    noise = np.random.default_rng(seed).standard_normal((count, free.size)) * PERTURBATION * spread(free)
    noise[0] = 0.0
    return free.start + noise


def settled(theta: Float[np.ndarray, " p"], free: Unknowns) -> Float[np.ndarray, " p"]:
    """θ, whose numbers are exactly the given ones where only rounding has moved them."""
    return np.where(np.abs(theta - free.start) < UNMOVED * spread(free), free.start, theta)


def random_starts(free: Unknowns, seed: int, count: int) -> Float[np.ndarray, "count p"]:
    """Starts that know nothing of the given numbers but their scales; actuators and networks start near their own."""
    around = near(free, seed, count)
    if isinstance(free.tree, FeedForward):
        return around
    virtual, masks = free.tree[0], free.masks[0]
    rng = np.random.default_rng(seed)
    drawn = np.stack([np.asarray(parameters.pack(_drawn(virtual, rng), masks)) for _ in range(count)])
    around[:, : drawn.shape[1]] = drawn
    return around


def _drawn(virtual: VirtualRobot, rng: np.random.Generator) -> VirtualRobot:
    """A robot of this mass and length, in the log-Cholesky form."""
    count, mass, length = virtual.own.num_links, float(virtual.mass_scale), float(virtual.length_scale)
    root = np.log(mass * _between(rng, _MASS, (count, 1))) / 2
    extent = np.log(length * _between(rng, _EXTENT, (count, 3)))
    skew = _SKEW * length * rng.standard_normal((count, 3))
    inertia = np.concatenate([root, extent, skew, _vectors(rng, count, length, _CENTRE_SHARE)], axis=1)
    turns = rng.uniform(-np.pi, np.pi, (count, 3))
    turns[:, 1] = np.arcsin(rng.uniform(-1, 1, count))  # so that all rotations are as likely
    new = inertia, _vectors(rng, count, length, _STEP_SHARE), turns, rng.uniform(-2, 1, count)
    return eqx.tree_at(lambda v: (v.inertia, v.translation, v.rpy, v.armature), virtual, tuple(map(jnp.asarray, new)))


def _between(rng: np.random.Generator, ends: tuple[float, float], shape: tuple[int, ...]) -> np.ndarray:
    """Even in the logarithm."""
    return ends[0] * (ends[1] / ends[0]) ** rng.uniform(size=shape)


def _vectors(rng: np.random.Generator, count: int, length: float, ends: tuple[float, float]) -> np.ndarray:
    """Any direction, and a length away from zero."""
    way = rng.standard_normal((count, 3))
    return way * length * _between(rng, ends, (count, 1)) / np.linalg.norm(way, axis=1, keepdims=True)


def spread(free: Unknowns) -> Float[np.ndarray, " p"]:
    """A moderate change of each number: logarithms and angles change by one, lengths by the robot's own length."""
    if isinstance(free.tree, FeedForward):
        return np.ones(free.size)
    virtual: VirtualRobot = free.tree[0]
    size = float(virtual.length_scale)
    ones = jax.tree.map(lambda leaf: np.ones(np.shape(leaf)), free.tree)
    inertia = np.broadcast_to([1.0] * 4 + [size] * 6, np.shape(virtual.inertia))
    steps = np.full(np.shape(virtual.translation), size)
    zeros = np.where(virtual.own.tree.revolute, 1.0, size)
    filled = eqx.tree_at(lambda t: (t[0].inertia, t[0].translation, t[0].zero), ones, (inertia, steps, zeros))
    return np.asarray(parameters.pack(filled, free.masks), np.float64)


def expected(free: Unknowns, torque: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """How far from the given ones numbers may be: `spread`, a torque of usual size, or their own size where that is
    more; of positive coefficients it is a logarithm's."""
    found = np.array(spread(free))
    for k, each in enumerate(free.parameters):
        if each.kind == "actuator" and not each.positive:
            size = torque[each.owner] if each.part in ("Offset", "Ripple") else abs(free.start[k])
            found[k] = max(found[k], float(size))
    return found
