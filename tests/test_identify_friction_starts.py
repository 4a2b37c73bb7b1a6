"""Starts with other friction: only its curve is drawn anew, and only where there is one."""

import jax
import jax.numpy as jnp
import numpy as np

from diffnea import systems
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.solve.friction_starts import HEIGHT, VISCOUS, WIDTH, with_given_friction, with_other_friction

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
    drawn_anew = ("raw_shape", "raw_static", "raw_viscous")
    kept = [k for k, label in enumerate(free.labels) if not any(name in label for name in drawn_anew)]
    widths, shares = [], []
    for theta in drawn:
        np.testing.assert_array_equal(theta[kept], free.start[kept])
        found = _friction(free, theta)
        widths.append(found["Stribeck velocity"] / given["Stribeck velocity"])
        shares.append(found["viscous friction"] / given["viscous friction"])
        heights = found["static friction"] / given["kinetic friction"]
        assert (heights >= HEIGHT[0] * (1 - 1e-6)).all() and (heights <= HEIGHT[1] * (1 + 1e-6)).all()
    assert np.min(widths) >= WIDTH[0] * (1 - 1e-6) and np.max(widths) <= WIDTH[1] * (1 + 1e-6)
    assert np.min(widths) < 0.5 and np.max(widths) > 1.5  # not all alike
    assert VISCOUS[0] * (1 - 1e-6) <= np.min(shares) < 0.1 and 1 < np.max(shares) <= VISCOUS[1] * (1 + 1e-6)


def test_without_a_curve_there_is_nothing_to_draw():
    free = unknowns(systems.cartpole().robot, ("inertia",), "viscous", jax.random.key(0))
    assert with_other_friction(free, free.start, 5) == []


def test_the_given_curve_comes_back_and_bodies_stay_as_found():
    free = unknowns(systems.cartpole().robot, ("inertia",), "stribeck+constant", jax.random.key(0))
    found = with_given_friction(free, free.start - 7.0)
    curve = [any(f"raw_{name}" in label for name in CURVE) for label in free.labels]
    np.testing.assert_array_equal(found, np.where(curve, free.start, free.start - 7.0))
    assert 0 < np.sum(curve) == 4 * 2
