"""Starts with other friction: only its curve is drawn anew, and only where there is one."""

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import systems
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.friction_starts import (
    DRAWN_DRY,
    DRAWN_VELOCITY,
    DRAWN_VISCOUS,
    with_given_friction,
    with_other_friction,
)

CURVE = ("static", "kinetic", "shape", "viscous")


def _friction(free, theta):
    return {
        quantity.name: np.asarray(quantity.values) for quantity in free.model(jnp.asarray(theta)).actuator.physical()
    }


def test_curves_are_drawn_within_their_ends_and_nothing_else_changes():
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck", jax.random.key(0))
    given, speed = _friction(free, free.start), np.array([0.5, 4.0])
    drawn = with_other_friction(free, free.start - 7.0, 40, 3, speed)  # wherever θ is, curves are of the same kind
    assert len(drawn) == 40
    kept = [k for k, label in enumerate(free.labels) if not any(f"raw_{name}" in label for name in CURVE)]
    found = [_friction(free, theta) for theta in drawn]
    for theta in drawn:
        np.testing.assert_array_equal(theta[kept], free.start[kept] - 7.0)
    for name, scale, ends in (
        ("Stribeck velocity", speed, DRAWN_VELOCITY),
        ("static friction", given["kinetic friction"], DRAWN_DRY),
        ("kinetic friction", given["kinetic friction"], DRAWN_DRY),
        ("viscous friction", given["viscous friction"], DRAWN_VISCOUS),
    ):
        shares = np.array([each[name] / scale for each in found])
        assert shares.min() >= ends[0] * (1 - 1e-6) and shares.max() <= ends[1] * (1 + 1e-6)
        assert shares.min() < 1.5 * ends[0] and shares.max() > ends[1] / 1.5  # not all alike


def test_curves_beside_a_coupling_are_drawn_too():
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck+coupling", jax.random.key(0))
    assert len(with_other_friction(free, free.start, 2)) == 2


def test_without_a_curve_there_is_nothing_to_draw():
    free = unknowns(systems.cartpole().robot, ("inertia",), "viscous", jax.random.key(0))
    assert with_other_friction(free, free.start, 5) == []


def test_the_given_curve_comes_back_and_bodies_stay_as_found():
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck+constant", jax.random.key(0))
    found = with_given_friction(free, free.start - 7.0)
    curve = [any(f"raw_{name}" in label for name in CURVE) for label in free.labels]
    np.testing.assert_array_equal(found, np.where(curve, free.start, free.start - 7.0))
    assert 0 < np.sum(curve) == 4 * 2
