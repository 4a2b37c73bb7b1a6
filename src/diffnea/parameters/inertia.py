"""Ten numbers without constraints ⇄ a body's inertia: log-Cholesky, and the square roots of the paper.

Both make a body by its mass, its centre of mass, and its second moments about that centre, a sum of squares. So the
pseudo-inertia `P = [Σ, m·c; (m·c)ᵀ, m]` is positive definite whatever the numbers are. Every body has a thickness of at
least a few roundings, so that this is also true of the rounded result.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from diffnea.formats.urdf import matrix_rpy
from diffnea.parameters import bounds
from diffnea.parameters.angles import rotation
from diffnea.parameters.bounds import bounded, unbounded
from diffnea.spatial import Inertia

LIGHTEST = 2.0**-40  # kg: below, a mass counts as none
_THINNEST = 1e-12  # m
_ROUNDINGS = 16  # least second moment about the centre of mass, in roundings of those about the link's origin


class Body(NamedTuple):
    """Mass, centre of mass (3,), and second moments `Σ_c = ∫ (x − c)(x − c)ᵀ dm` about it (3, 3); JAX or numpy."""

    mass: Any
    centre: Any
    second: Any


class Form(NamedTuple):
    """One way to write a body as ten free numbers."""

    decode: Callable[[Float[Array, "10"]], Body]
    encode: Callable[[Body], list]  # (what, numbers, limit) in the order of the ten numbers
    names: tuple[str, ...]


def inertia(body: Body) -> Inertia:
    """The ten linear parameters about the link's origin, without a subtraction; a thickness makes up for rounding."""
    first = body.mass * body.centre
    shift = jnp.outer(first, body.centre)
    second = body.second + shift
    eps = float(jnp.finfo(second.dtype).eps)
    thickness = _ROUNDINGS * eps * jnp.trace(second) + _THINNEST**2 * body.mass
    xx, yy, zz = (second[k, k] + thickness for k in range(3))
    xy, xz, yz = second[0, 1], second[0, 2], second[1, 2]
    return Inertia(body.mass, first, jnp.stack([yy + zz, -xy, xx + zz, -xz, -yz, xx + yy]))


def without_thickness(body: Body, eps: float) -> Body:
    """The body of which `inertia` makes this one (numpy)."""
    shift = body.mass * float(body.centre @ body.centre)
    total = float(np.trace(body.second)) - 3 * (_ROUNDINGS * eps * shift + _THINNEST**2 * body.mass)
    trace = total / (1 + 3 * _ROUNDINGS * eps)
    thickness = _ROUNDINGS * eps * (trace + shift) + _THINNEST**2 * body.mass
    return body._replace(second=body.second - thickness * np.eye(3))


def _from_log_cholesky(numbers: Float[Array, "10"]) -> Body:
    """`P = U Uᵀ` with `U = e^α [S, t; 0, 1]`, S upper triangular, its diagonal `e^d` (Rucker, Wensing 2022)."""
    mass = jnp.exp(2 * bounded(numbers[0], bounds.LOG_ROOT_MASS))
    d = jnp.exp(bounded(numbers[1:4], bounds.LOG_LENGTH))
    s = bounded(numbers[4:7], bounds.LENGTH)
    zero = jnp.zeros_like(mass)
    rows = [[d[0], s[0], s[2]], [zero, d[1], s[1]], [zero, zero, d[2]]]
    S = jnp.stack([jnp.stack(row) for row in rows])
    return Body(mass, bounded(numbers[7:], bounds.LENGTH), mass * (S @ S.T))


def _to_log_cholesky(body: Body) -> list:
    turned = np.linalg.cholesky(body.second[::-1, ::-1] / body.mass)
    S = turned[::-1, ::-1]  # upper triangular, because the axes were taken in reverse
    return [
        ("mass", [np.log(body.mass) / 2], bounds.LOG_ROOT_MASS),
        ("extent", np.log(np.diagonal(S)), bounds.LOG_LENGTH),
        ("extent", [S[0, 1], S[1, 2], S[0, 2]], bounds.LENGTH),
        ("centre of mass", body.centre, bounds.LENGTH),
    ]


def _from_square_root(numbers: Float[Array, "10"]) -> Body:
    """`m = θ_m²` and `Σ_c = R_J diag(θ_1², θ_2², θ_3²) R_Jᵀ` with R_J by roll, pitch and yaw (Lutter et al. 2020)."""
    root_mass, roots = bounded(numbers[0], bounds.ROOT_MASS), bounded(numbers[1:4], bounds.ROOT_MOMENT)
    R = rotation(bounded(numbers[4:7], bounds.ANGLE)) * roots[None]
    return Body(root_mass**2 + LIGHTEST, bounded(numbers[7:], bounds.LENGTH), R @ R.T)


def _to_square_root(body: Body) -> list:
    moments, axes = np.linalg.eigh(body.second)
    axes = axes * np.linalg.det(axes)  # a rotation, not a reflection
    return [
        ("mass", [np.sqrt(max(body.mass - LIGHTEST, 0.0))], bounds.ROOT_MASS),
        ("second moments", np.sqrt(np.maximum(moments, 0.0)), bounds.ROOT_MOMENT),
        ("principal axes", matrix_rpy(axes), bounds.ANGLE),
        ("centre of mass", body.centre, bounds.LENGTH),
    ]


_CENTRE = ("centre x", "centre y", "centre z")
FORMS: dict[str, Form] = {
    "log-cholesky": Form(
        _from_log_cholesky, _to_log_cholesky, ("alpha", "d1", "d2", "d3", "s12", "s23", "s13", *_CENTRE)
    ),
    "square-root": Form(
        _from_square_root,
        _to_square_root,
        ("root mass", "root L1", "root L2", "root L3", "axes roll", "axes pitch", "axes yaw", *_CENTRE),
    ),
}


def numbers(form: str, body: Body, eps: float) -> np.ndarray:
    """The ten numbers of a body, and a clear line if one is beyond the form's limits (numpy)."""
    parts = FORMS[form].encode(without_thickness(body, eps))
    for what, values, limit in parts:
        if not bounds.within(np.asarray(values), limit):
            raise ValueError(
                f"its {what} is beyond what can be learned (mass {body.mass:g} kg, centre of mass "
                f"{np.linalg.norm(body.centre):g} m from its frame); use 1e-11 to 1e11 kg, 1e-10 to 1e8 m"
            )
    return np.concatenate([unbounded(np.asarray(values), limit) for _, values, limit in parts])
