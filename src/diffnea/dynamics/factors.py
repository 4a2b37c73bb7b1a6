"""The mass matrix as a product, eliminated joint by joint: `M(q) = Lᵀ diag(1/Ψ) L`, its zeros left out."""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.dynamics.composite import composite_rows
from diffnea.joints import row_numbers
from diffnea.spatial import Moments


class Factors(NamedTuple):
    """`M(q) = Lᵀ diag(1/Ψ) L`: a row of L for each joint, over its lineage; branches have nothing in common."""

    L: Float[Array, "n depth"]
    psi: Float[Array, " n"]  # zero where a joint is locked


def factor_mass(robot: AnyRobot, q: Float[Array, " nq"], free: Float[Array, " n"], bodies: Moments) -> Factors:
    """The mass matrix eliminated joint by joint, leaves first, so that its zeros stay zeros."""
    lineage, own = lineage_of(robot.tree.rows.parents)
    rows = composite_rows(robot, q, bodies).T + jnp.diag(row_numbers(robot, robot.armature))
    on_lineage = jnp.where(lineage >= 0, jnp.take_along_axis(rows, lineage, axis=1), jnp.zeros((), q.dtype))

    nothing = jnp.zeros((own.shape[1], own.shape[1]), q.dtype)
    return robot.tree.rows.from_leaves(_eliminate, nothing, on_lineage, jnp.asarray(own, q.dtype), free)


@jax.jit
def _eliminate(children, row, own, free):
    row = row + own @ children  # what is left of row i: M_i − Σ_k L_ki M_k over the descendants k
    psi = free / (row @ own)  # Ψ_i = 1 / M_ii, rotor included
    L = psi * row
    return children - jnp.outer(L, row), Factors(L, psi)


def substitute(robot: AnyRobot, factors: Factors, tau: Float[Array, " n"]) -> Float[Array, " n"]:
    """Solve `Lᵀ diag(1/Ψ) L q̈ = τ`: towards the base, then out again."""
    tree = robot.tree.rows
    own = jnp.asarray(lineage_of(tree.parents)[1], tau.dtype)
    nothing = jnp.zeros(own.shape[1], tau.dtype)
    left = tree.from_leaves(_press, nothing, own, factors.L, tau)
    return tree.from_root(_accelerate_on_lineage, nothing, own, *factors, left)


@jax.jit
def _press(children, own, L, tau):
    left = tau - own @ children  # what the descendants leave of τ_i: τ_i − Σ_k L_ki left_k
    return children + L * left, left


@jax.jit
def _accelerate_on_lineage(above, own, L, psi, left):
    qdd = psi * left - L @ above  # q̈_i = Ψ_i left_i − Σ_j L_ij q̈_j over the ancestors j
    return above + own * qdd, qdd


@lru_cache(maxsize=1024)
def lineage_of(parents: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Each joint's ancestors from the base to itself, −1 after it; and a one where it stands among them."""
    lines: list[list[int]] = []
    for i, parent in enumerate(parents):
        lines.append([*(lines[parent] if parent >= 0 else []), i])
    depth = max(map(len, lines), default=0)
    lineage = np.array([line + [-1] * (depth - len(line)) for line in lines], int).reshape(len(parents), depth)
    return lineage, lineage == np.arange(len(parents))[:, None]
