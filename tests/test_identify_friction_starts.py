"""Starts with other dry friction: only its curve is drawn anew, and only where there is one."""

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import systems
from diffnea.identify.friction_starts import HEIGHT, WIDTH, with_given_friction, with_other_friction
from diffnea.identify.unknowns import unknowns

CURVE = ("static", "kinetic", "shape", "viscous")


def _friction(free, theta):
    return {
        quantity.name: np.asarray(quantity.values) for quantity in free.model(jnp.asarray(theta)).actuator.physical()
    }


def test_curves_are_drawn_within_their_ends_and_nothing_else_changes():
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck", jax.random.key(0))
    given = _friction(free, free.start)
    drawn = with_other_friction(free, free.start, 20)
    assert len(drawn) == 20
    kept = [k for k, label in enumerate(free.labels) if "raw_shape" not in label and "raw_static" not in label]
    widths = []
    for theta in drawn:
        np.testing.assert_array_equal(theta[kept], free.start[kept])
        found = _friction(free, theta)
        widths.append(found["Stribeck velocity"] / given["Stribeck velocity"])
        heights = found["static friction"] / given["kinetic friction"]
        assert (heights >= HEIGHT[0] * (1 - 1e-6)).all() and (heights <= HEIGHT[1] * (1 + 1e-6)).all()
    assert np.min(widths) >= WIDTH[0] * (1 - 1e-6) and np.max(widths) <= WIDTH[1] * (1 + 1e-6)
    assert np.min(widths) < 0.5 and np.max(widths) > 1.5  # not all alike


def test_without_a_curve_there_is_nothing_to_draw():
    free = unknowns(systems.cartpole().robot, ("inertia",), "viscous", jax.random.key(0))
    assert with_other_friction(free, free.start, 5) == []


def test_the_given_curve_comes_back_and_bodies_stay_as_found():
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck+constant", jax.random.key(0))
    found = with_given_friction(free, free.start - 7.0)
    curve = [any(f"raw_{name}" in label for name in CURVE) for label in free.labels]
    np.testing.assert_array_equal(found, np.where(curve, free.start, free.start - 7.0))
    assert 0 < np.sum(curve) == 4 * 2
