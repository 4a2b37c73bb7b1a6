"""The Newton-Euler equations in Lie form: recursive Newton-Euler, composite rigid body, articulated body.

Written once, for one sample, to be read beside `docs/maths.md`. `batches` makes the public functions of them.
"""

from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from diffnea.canonical import AnyRobot
from diffnea.coupled import whole
from diffnea.joints import (
    joint_frames,
    joint_motions,
    joint_twists,
    row_bodies,
    row_numbers,
    tree_poses,
)
from diffnea.loops import drift, gap, opened, saddle, slopes, undriven
from diffnea.lumping import lumped
from diffnea.manifold import displace, parts
from diffnea.passive import passive_torques, stored_energy, weightless
from diffnea.robot import Robot, Tree
from diffnea.spatial import Adjoint, Inertia, Moments, Transform, ad, skew

_DIAGONAL, _BELOW = np.eye(3, dtype=bool), np.tri(3, k=-1, dtype=bool)

# The step of a walk through the tree stands beside it, under `jit`: JAX traces it once for all links, and so its
# derivatives. So do the algorithms: a step of a roll-out asks for some of them several times.


def base_acceleration(robot: AnyRobot) -> Float[Array, "6"]:
    """`a_0 = (−g, 0)`: a base that accelerates upwards is a base at rest under gravity."""
    return jnp.concatenate([-robot.gravity, jnp.zeros_like(robot.gravity)])


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
    if _is_deep(robot.tree):
        return checkpoint_name(_articulated(robot, q, qd, tau, free), "kept")  # for gradients of roll-outs
    bodies = lumped(robot)
    qdd = _substitute(robot, factor_mass(robot, q, free, bodies), tau - bias(robot, q, qd, bodies))
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
        if _is_deep(robot.tree):
            return _articulated(rest, q, still, tau, free)
        return _substitute(robot, factor_mass(robot, q, free, lumped(robot)), tau)

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


class Factors(NamedTuple):
    """`M(q) = Lᵀ diag(1/Ψ) L`: a row of L for each joint, over its lineage; branches have nothing in common."""

    L: Float[Array, "n depth"]
    psi: Float[Array, " n"]  # zero where a joint is locked


def factor_mass(robot: AnyRobot, q: Float[Array, " nq"], free: Float[Array, " n"], bodies: Moments) -> Factors:
    """The mass matrix eliminated joint by joint, leaves first, so that its zeros stay zeros."""
    lineage, own = _lineage(robot.tree.rows.parents)
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


def _substitute(robot: AnyRobot, factors: Factors, tau: Float[Array, " n"]) -> Float[Array, " n"]:
    """Solve `Lᵀ diag(1/Ψ) L q̈ = τ`: towards the base, then out again."""
    tree = robot.tree.rows
    own = jnp.asarray(_lineage(tree.parents)[1], tau.dtype)
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
def _lineage(parents: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Each joint's ancestors from the base to itself, −1 after it; and a one where it stands among them."""
    lines: list[list[int]] = []
    for i, parent in enumerate(parents):
        lines.append([*(lines[parent] if parent >= 0 else []), i])
    depth = max(map(len, lines), default=0)
    lineage = np.array([line + [-1] * (depth - len(line)) for line in lines], int).reshape(len(parents), depth)
    return lineage, lineage == np.arange(len(parents))[:, None]


def _is_deep(tree: Tree) -> bool:
    """Whether the articulated body algorithm takes fewer operations than a factor of the mass matrix.

    It spends about 185 more on a link, but no `18 l + d²` for the link's d ancestors, of which l move against the one
    before: counted on chains of the Panda's links, where the two are equal at 14 in a row.
    """
    layout, lineage = tree.layout, _lineage(tree.rows.parents)[0]
    ancestors = np.sum(lineage >= 0, axis=1) - 1
    joints = np.sum((lineage >= 0) & layout.opens[lineage], axis=1) - layout.opens
    return bool(np.sum(18 * joints + ancestors**2) > 185 * len(tree.parents))


@jax.custom_jvp
def aba(robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"], tau: Float[Array, " n"]) -> Float[Array, " n"]:
    """Forward dynamics by the articulated body algorithm, as the paper has it; `forward` uses it for deep trees."""
    if robot.couplings is not None or robot.loops is not None:
        return forward(robot, q, qd, tau)
    return _articulated(robot, q, qd, tau, jnp.ones_like(qd))


def _articulated(robot: AnyRobot, q, qd, tau, free) -> Float[Array, " n"]:
    """The articulated body algorithm, with joints locked where `free` is zero."""
    X, s = Adjoint(joint_frames(robot, q)), joint_twists(robot)
    tau = tau - passive_torques(robot, q) if robot.stores else tau
    still = jnp.zeros(6, q.dtype)
    tree, nothing = robot.tree.rows, (jnp.zeros((6, 6), q.dtype), still)
    bodies, armature = row_bodies(robot, robot.inertia), row_numbers(robot, robot.armature)
    if robot.tree.simple:
        v, eta = tree.from_root(_move_twist, still, X, s, qd)
    else:
        v, eta = tree.from_root(_move_twist_row, still, X, s, joint_motions(robot, s, qd), qd)
    U, psi, tau_free = tree.from_leaves(_articulate, nothing, X, s, bodies, armature, free, v, eta, tau)
    return tree.from_root(_accelerate, base_acceleration(robot), X, s, eta, U, psi, tau_free)


@jax.jit
def _move_twist(v_parent, X, s, qd):  # v_i = Ad v_λ + s_i q̇_i,   η_i = ad(v_i) s_i q̇_i
    v = X @ v_parent + s * qd
    return v, (v, ad(v) @ s * qd)


@jax.jit
def _move_twist_row(v_parent, X, s, joint, qd):  # the same by columns of S; η = ad(Ad v_λ) S q̇, since ad(S q̇) S q̇ = 0
    carried = X @ v_parent
    v = carried + s * qd
    return v, (v, ad(carried) @ joint)


@jax.jit
def _articulate(children, X, s, inertia, armature, free, v, eta, tau):
    M = inertia.matrix()
    M_hat = M + children[0]  # M̂_i = M_i + Σ_k Adᵀ Π_k Ad
    b = -ad(v).T @ (M @ v) + children[1]  # b_i = −ad(v_i)ᵀ M_i v_i + Σ_k Adᵀ (b_k + β_k)
    U = M_hat @ s
    psi = free / (s @ U + armature)  # Ψ_i = 1 / (s_iᵀ M̂_i s_i), rotor included; 0 if locked
    tau_free = tau - s @ b
    Pi = M_hat - psi * jnp.outer(U, U)  # Π_i = M̂_i − M̂_i s_i Ψ_i s_iᵀ M̂_i
    beta = M_hat @ eta + U * psi * (tau_free - U @ eta)  # β_i = M̂_i (η_i + s_i Ψ_i (τ_i − s_iᵀ (M̂_i η_i + b_i)))
    return (X.congruence(Pi), X.T @ (b + beta)), (U, psi, tau_free)


@jax.jit
def _accelerate(a_parent, X, s, eta, U, psi, tau_free):  # a_i = Ad a_λ + η_i + s_i q̈_i
    a = X @ a_parent + eta
    qdd = psi * (tau_free - U @ a)  # q̈_i = Ψ_i (τ_i − s_iᵀ (M̂_i (Ad a_λ + η_i) + b_i))
    return a + s * qdd, qdd


@partial(aba.defjvp, symbolic_zeros=True)
def _aba_tangent(primals, tangents):
    return _implicit_tangent(aba(*primals), (*primals, jnp.ones_like(primals[2])), tangents)


@jax.jit
def rnea(
    robot: AnyRobot,
    q: Float[Array, " nq"],
    qd: Float[Array, " n"],
    qdd: Float[Array, " n"],
    bodies: Moments | None = None,
) -> Float[Array, " n"]:
    """Inverse dynamics by the recursive Newton-Euler algorithm: the joint torques that give `qdd`.

    Here `a_i` is how the link's origin accelerates in space; a point at r of the link accelerates by `a_i + W_i r`.
    """
    if robot.loops is not None:
        tau = rnea(opened(robot), q, qd, qdd, bodies)  # and what loops carry is taken off joints without a motor
        return undriven(robot, q, _without_motor(robot), tau)
    if robot.couplings is not None:
        full = whole(robot, q)  # τ_y = Gᵀ τ
        return full.G.T @ rnea(full.robot, full.q, full.velocities(qd), full.accelerations(qd, qdd), bodies)
    T, s, tree = joint_frames(robot, q), joint_twists(robot), robot.tree.rows
    still, bodies = jnp.zeros(3, q.dtype), row_bodies(robot, robot.inertia.moments if bodies is None else bodies)
    base = still, still, base_acceleration(robot)[:3]
    if robot.tree.simple:
        f = tree.from_root(_move, base, T, s, bodies, qd, qdd)
    else:
        f = tree.from_root(_move_row, base, T, s, joint_motions(robot, s, qd), bodies, qd, qdd)
    tau = tree.from_leaves(_collect, jnp.zeros(6, q.dtype), T, s, f) + row_numbers(robot, robot.armature) * qdd
    return tau + passive_torques(robot, q) if robot.stores else tau


def _without_motor(robot: Robot) -> Float[Array, " n"]:
    """1 at joints that nothing drives, balls and free links among them, 0 elsewhere."""
    own = replace(robot, couplings=None, loops=None)
    rows = row_numbers(own, jnp.where(robot.gear == 0, 1.0, 0.0).astype(robot.axis.dtype))
    every = {part.link: part.v.start for part in parts(own)}
    return jnp.concatenate([rows[every[link] : every[link] + v.stop - v.start] for _, _, v, link in parts(robot)])


@jax.jit
def _move(parent, T, s, body, qd, qdd):
    w, wd, a = parent
    back, slide, turn = T.rotation.T, s[:3], s[3:]
    a = back @ (a + _spin(w, wd) @ T.translation)
    w = back @ w + turn * qd  # ω_i = Rᵀ ω_λ + â_i q̇_i
    wd = back @ wd + turn * qdd + skew(w) @ turn * qd  # ω̇_i = Rᵀ ω̇_λ + â_i q̈_i + ω_i × â_i q̇_i
    a = a + slide * qdd + 2 * (skew(w) @ slide) * qd  # a_i = Rᵀ (a_λ + W_λ p) + â_i q̈_i + 2 ω_i × â_i q̇_i
    return (w, wd, a), _inertial_wrench(body, a, _spin(w, wd))


@jax.jit
def _move_row(parent, T, s, joint, body, qd, qdd):  # the same by columns of S; `joint` is S q̇ = (v, ω) at the first one
    w, wd, a = parent
    back, slide, turn = T.rotation.T, s[:3], s[3:]
    a = back @ (a + _spin(w, wd) @ T.translation)
    w = back @ w
    wd = back @ wd + turn * qdd + skew(w) @ joint[3:]  # ω̇_i = Rᵀ ω̇_λ + S^ω q̈ + Rᵀ ω_λ × ω
    a = a + slide * qdd + skew(2 * w + joint[3:]) @ joint[:3]  # a_i = Rᵀ (a_λ + W_λ p) + S^v q̈ + (2 Rᵀ ω_λ + ω) × v
    w = w + turn * qd
    return (w, wd, a), _inertial_wrench(body, a, _spin(w, wd))


def _spin(w, wd):  # W = [ω̇] + [ω][ω]
    return skew(wd) + skew(w) @ skew(w)


@jax.jit
def _collect(f_children, T, s, f):  # f_i += Σ_k Adᵀ f_k,   τ_i = s_iᵀ f_i
    f = f + f_children
    return Adjoint(T).T @ f, s @ f


def _inertial_wrench(body: Moments, a, W) -> Float[Array, "6"]:
    """`∫ [r̈, r × r̈] dm` where a body's points accelerate by `r̈ = a + W r`: `m a + W h` and, of `N = W Σ`, `N − Nᵀ`.

    Of W's diagonal only differences count, `(W_ii − W_jj) Σ_ij`: three products fewer.
    """
    nothing, diagonal = jnp.zeros_like(W), jnp.diagonal(W)
    differences = (diagonal[:, None] - diagonal[None]) * body.second
    N = jnp.where(_DIAGONAL, nothing, W) @ body.second + jnp.where(_BELOW, differences, nothing)
    turn = jnp.stack([N[2, 1] - N[1, 2], N[0, 2] - N[2, 0], N[1, 0] - N[0, 1]])
    return jnp.concatenate([body.mass * a + W @ body.first, turn + skew(body.first) @ a])


@jax.jit
def crba(robot: AnyRobot, q: Float[Array, " nq"]) -> Float[Array, "n n"]:
    """The mass matrix by the composite rigid body algorithm, rotors included."""
    if robot.couplings is not None:
        full = whole(robot, q)  # M_y = Gᵀ M G
        return full.G.T @ crba(full.robot, full.q) @ full.G
    rows = composite_rows(robot, q)
    return rows + rows.T + jnp.diag(row_numbers(robot, robot.armature) - jnp.diagonal(rows))


def composite_rows(robot: AnyRobot, q: Float[Array, " nq"], bodies: Moments | None = None) -> Float[Array, "n n"]:
    """The mass matrix without rotors, each joint against itself and its descendants only; the other half is zero."""
    X, s, n = Adjoint(joint_frames(robot, q)), joint_twists(robot), robot.num_velocities
    bodies = row_bodies(robot, robot.inertia.moments if bodies is None else bodies)
    nothing = Moments.of_nothing(q.dtype), jnp.zeros((6, n), q.dtype)
    return robot.tree.rows.from_leaves(_compose, nothing, X, s, bodies, jnp.eye(n, dtype=q.dtype))


@jax.jit
def _compose(children, X, s, body, unit):
    body = body + children[0]  # the composite body: link i and all it carries
    F = children[1] + jnp.outer(body @ s, unit)  # column k: the wrench here that accelerates joint k alone
    return (X.carry(body), X.T @ F), s @ F


def link_poses(robot: Robot, q: Float[Array, " nq"]) -> Transform:
    """Each link's frame in the world (the frame at its joint)."""
    if robot.couplings is not None:
        full = whole(robot, q)
        return link_poses(full.robot, full.q)
    return tree_poses(robot, q)


def file_poses(robot: Robot, q: Float[Array, " nq"]) -> Float[Array, "links 4 4"]:
    """Each link's frame in the world, where the robot's file has it."""
    turned = jax.vmap(lambda pose, offset: Transform(pose.rotation, pose.rotation @ offset + pose.translation))
    return jax.vmap(Transform.matrix)(turned(link_poses(robot, q), robot.frame_offset))


class Energy(NamedTuple):
    """Kinetic and potential energy in joules; the potential is zero with all mass at the base's origin."""

    kinetic: Float[Array, "*batch"]
    potential: Float[Array, "*batch"]


@jax.jit
def energies(robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Energy:
    """`½ Σ v_iᵀ M_i v_i + ½ Σ armature_i q̇_i²` and `−g · Σ m_i c_i`, with what is stored otherwise.

    Of a canonical robot without what no joint lifts.
    """
    if robot.couplings is not None:
        full = whole(robot, q)
        return energies(full.robot, full.q, full.velocities(qd))
    base = jnp.zeros(6, q.dtype), robot.gravity, jnp.zeros((), q.dtype)
    links = joint_frames(robot, q), joint_twists(robot), row_bodies(robot, robot.inertia.moments), qd
    twice, lift = robot.tree.rows.from_root(_carry_energy, base, *links)
    kinetic = (jnp.sum(twice) + jnp.sum(row_numbers(robot, robot.armature) * qd**2)) / 2
    potential = -jnp.sum(lift)
    return Energy(kinetic, potential + stored_energy(robot, q) if robot.stores else potential)


@jax.jit
def _carry_energy(parent, T, s, body, qd):
    v, g, fall = parent  # the twist; gravity in the link's axes; and g · p, with p where the origin is in the world
    v, g, fall = Adjoint(T) @ v + s * qd, T.rotation.T @ g, fall + g @ T.translation
    return (v, g, fall), (v @ (body @ v), body.mass * fall + g @ body.first)


def rnea_jacobian(
    robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"], qdd: Float[Array, " n"]
) -> Float[Array, "n p"]:
    """The regressor: RNEA without rotors is linear in the inertial parameters, so its Jacobian is exact."""

    def torque(parameters):
        inertia = Inertia.from_parameters(parameters.reshape(-1, 10))
        bare = replace(robot, inertia=inertia, armature=jnp.zeros_like(robot.armature))
        return rnea(bare, q, qd, qdd)

    return jax.jacfwd(torque)(robot.inertia.parameters.reshape(-1))


def christoffel(robot: Robot, q: Float[Array, " nq"], qd: Float[Array, " n"]) -> Float[Array, "n n"]:
    """`C(q, q̇)` from Christoffel's symbols, `½ (Ṁ + ∂(M q̇)/∂q − (∂(M q̇)/∂q)ᵀ)`, so that `Ṁ − 2C` is skew."""
    still = jnp.zeros_like(qd)
    mass_rate = jax.jvp(lambda step: crba(robot, displace(robot, q, step)), (still,), (qd,))[1]
    momentum_slope = jax.jacfwd(lambda step: crba(robot, displace(robot, q, step)) @ qd)(still)
    C = (mass_rate + momentum_slope - momentum_slope.T) / 2
    return C if robot.tree.simple else C + _turning_axes(robot, crba(robot, q) @ qd, qd)


def _turning_axes(robot: Robot, momentum: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, "n n"]:
    """What is added where a joint's axes turn with its link: `[0, −[P]; −[P], −[L]]` of its momenta, skew itself."""
    found = jnp.zeros((len(momentum), len(momentum)), momentum.dtype)
    for kind, _, place, link in parts(robot):
        p = momentum[place] - robot.armature[link] * qd[place]  # rotors do not turn with the link
        if kind == "ball":
            found = found.at[place, place].set(-skew(p))
        elif kind == "free":
            linear, angular = -skew(p[:3]), -skew(p[3:])
            found = found.at[place, place].set(jnp.block([[0 * linear, linear], [linear, angular]]))
    return found


def bias(
    robot: AnyRobot, q: Float[Array, " nq"], qd: Float[Array, " n"], bodies: Moments | None = None
) -> Float[Array, " n"]:
    """`C(q, q̇) q̇ + g(q)`: the torque that keeps the joints at constant velocity."""
    return rnea(opened(robot), q, qd, jnp.zeros_like(qd), bodies)


def holding(robot: AnyRobot, q: Float[Array, " nq"]) -> Float[Array, " n"]:
    """`g(q)`: the torque that holds the robot still."""
    return bias(robot, q, jnp.zeros(robot.num_velocities, q.dtype))
