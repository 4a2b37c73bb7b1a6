"""Forward dynamics: how `M q̈ = τ − C q̇ − g` is solved, with joints locked and loops closed, and its derivative."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.dynamics.articulated import articulated
from diffnea.dynamics.composite import crba
from diffnea.dynamics.factors import factor_mass, lineage_of, substitute
from diffnea.dynamics.newton_euler import bias, rnea
from diffnea.loops import drift, gap, opened, saddle, slopes
from diffnea.lumping import lumped
from diffnea.manifold import displace
from diffnea.passive import weightless
from diffnea.robot import Robot, Tree


def forward(
    robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"], tau: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Forward dynamics, `q̈ = M(q)⁻¹ (τ − C q̇ − g)`: joint accelerations under joint torques `tau`."""
    return constrained(robot, q, qd, tau, jnp.ones_like(qd))


@jax.jit
def constrained(
    robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"], tau: Float[Array, " n"], free: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Forward dynamics with joints locked: `free` is 1 where a joint moves, 0 where its acceleration is held at zero.

    Nothing depends smoothly on `free`: its derivative is taken as zero.
    """
    if robot.loops is not None:
        pushed = tau - bias(robot, q, qd)
        return closed(robot, q, pushed, -drift(robot, q, qd), free)
    return _constrained(robot, q, qd, tau, free)


@jax.custom_jvp
def _constrained(robot: AnyRobot, q, qd, tau, free) -> Float[Array, " n"]:
    if robot.couplings is not None:
        return _dense(robot, q, free, tau - bias(robot, q, qd))
    if is_deep(robot.tree):
        return checkpoint_name(articulated(robot, q, qd, tau, free), "kept")  # for gradients of roll-outs
    bodies = lumped(robot)
    qdd = substitute(robot, factor_mass(robot, q, free, bodies), tau - bias(robot, q, qd, bodies))
    return checkpoint_name(qdd, "kept")


@partial(_constrained.defjvp, symbolic_zeros=True)
def _constrained_tangent(primals, tangents):
    return _implicit_tangent(constrained(*primals), primals, tangents)


def _implicit_tangent(qdd, primals, tangents):
    """`M δq̈ = δτ − δrnea`: the implicit derivative, cheaper than that of the algorithm, and its transpose with it."""
    robot, q, _, tau, free = primals
    leaves, structure = jax.tree.flatten(primals[:3])
    slopes = jax.tree.leaves(tangents[:3])
    moving = [i for i, slope in enumerate(slopes) if not isinstance(slope, SymbolicZero)]

    def torque(*moved):
        changed = dict(zip(moving, moved, strict=True))
        robot, q, qd = jax.tree.unflatten(structure, [changed.get(i, leaf) for i, leaf in enumerate(leaves)])
        return rnea(robot, q, qd, qdd)

    change = jax.jvp(torque, [leaves[i] for i in moving], [slopes[i] for i in moving])[1] if moving else 0 * tau
    pushed = jnp.zeros_like(tau) if isinstance(tangents[3], SymbolicZero) else tangents[3]
    return qdd, solve_mass(robot, q, pushed - change, free)


def solve_mass(
    robot: AnyRobot, q: Float[Array, " nq"], tau: Float[Array, " n"], free: Float[Array, " n"] | None = None
) -> Float[Array, " n"]:
    """`M(q)⁻¹ τ`; with joints locked, the same among those that are `free`, and zero for the others."""
    free = jnp.ones_like(tau) if free is None else free
    rest, still = weightless(robot), jnp.zeros_like(tau)

    def solve(_, tau):
        if robot.couplings is not None:
            return _dense(robot, q, free, tau)
        if is_deep(robot.tree):
            return articulated(rest, q, still, tau, free)
        return substitute(robot, factor_mass(robot, q, free, lumped(robot)), tau)

    return jax.lax.custom_linear_solve(lambda qdd: free * rnea(rest, q, still, free * qdd), tau, solve, symmetric=True)


def closed(
    robot: Robot, q: Float[Array, " nq"], push: Float[Array, " n"], rate: Float[Array, " m"], free=None
) -> Float[Array, " n"]:
    """x with `M x − Jᵀ λ = push` and `J x = rate`, J the slope of the gaps of loops, among joints that are `free`."""
    free = jnp.ones_like(push) if free is None else free
    tree, J = opened(robot), slopes(robot, q) * free[None, :]
    still, rest = jnp.zeros_like(push), weightless(tree)
    M = crba(tree, q) * free[:, None] * free[None, :] + jnp.diag(1 - free)

    def mass(x):
        return free * rnea(rest, q, still, free * x) + (1 - free) * x

    return saddle(mass, J, M, free * push, rate)


def projected(
    robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"]
) -> tuple[Float[Array, " nq"], Float[Array, " n"]]:
    """A step of Newton's method to where loops are closed, the shortest by M, and q̇ less what opens them."""
    still = jnp.zeros_like(qd)
    step = closed(robot, q, still, -gap(robot, q))
    opening = jax.jvp(lambda t: gap(robot, displace(robot, q, t * qd)), (still[0],), (jnp.ones_like(still[0]),))[1]
    return displace(robot, q, step), qd + closed(robot, q, still, -opening)


def _dense(robot: AnyRobot, q, free, tau) -> Float[Array, " n"]:
    """`M(q)⁻¹ τ` among joints that are free, for mass matrices without the tree's zeros."""
    M = crba(robot, q) * free[:, None] * free[None, :] + jnp.diag(1 - free)
    factor = jax.lax.linalg.cholesky(M, symmetrize_input=False)
    half = jax.lax.linalg.triangular_solve(factor, (free * tau)[:, None], left_side=True, lower=True)
    return jax.lax.linalg.triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)[:, 0]


def is_deep(tree: Tree) -> bool:
    """Whether the articulated body algorithm takes fewer operations than a factor of the mass matrix.

    It spends about 185 more on a link, but no `18 l + d²` for the link's d ancestors, of which l move against the one
    before: counted on chains of the Panda's links, where the two are equal at 14 in a row.
    """
    layout, lineage = tree.layout, lineage_of(tree.rows.parents)[0]
    ancestors = np.sum(lineage >= 0, axis=1) - 1
    joints = np.sum((lineage >= 0) & layout.opens[lineage], axis=1) - layout.opens
    return bool(np.sum(18 * joints + ancestors**2) > 185 * len(tree.parents))


@jax.custom_jvp
def aba(robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"], tau: Float[Array, " n"]) -> Float[Array, " n"]:
    """Forward dynamics by the articulated body algorithm, as the paper has it; `forward` uses it for deep trees."""
    if robot.couplings is not None or robot.loops is not None:
        return forward(robot, q, qd, tau)
    return articulated(robot, q, qd, tau, jnp.ones_like(qd))


@partial(aba.defjvp, symbolic_zeros=True)
def _aba_tangent(primals, tangents):
    return _implicit_tangent(aba(*primals), (*primals, jnp.ones_like(primals[2])), tangents)
