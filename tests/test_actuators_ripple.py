"""Ripple: torque that comes again with every turn of a motor."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from robots import relative

from diffnea import actuators
from diffnea.actuators import make

LAW = 1e-12


def test_ripple_comes_again_with_every_turn_of_its_motor():
    u, q, qd = (jnp.array(row) for row in ([0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [1.0, 2.0, -0.5]))
    given = actuators.Ripple.none([2, -5, 3], 3, harmonics=2).turning_with([[0, 1, 1]])
    filled = eqx.tree_at(
        lambda part: (part.cosine, part.sine),
        given,
        (jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), jnp.array([[0.0, 0.0], [0.0, 0.0], [3.0, 0.0]])),
    )
    felt = 3 * np.sin(3 * (q[1] + q[2]))
    wanted = jnp.array([np.cos(2 * q[0]), 2 * np.cos(2 * 5 * q[1]) + felt, felt])
    assert relative(filled(u, q, qd), wanted) < LAW
    turn = q + 2 * np.pi / jnp.array([2.0, 5.0, 1e99]) - jnp.array([0.0, 0.0, 2 * np.pi / 5])
    assert relative(filled(u, turn, qd), wanted) < 1e-12  # a turn of each motor, the third held


def test_ripple_needs_to_know_how_often_motors_turn():
    with pytest.raises(ValueError, match="Give reduction, as --set reduction=32,45"):
        make("ripple", 2)
    with pytest.raises(ValueError, match=r"reduction is \[0, 3\]; give a ratio other than 0"):
        make("ripple", 2, reduction=[0, 3])
    with pytest.raises(ValueError, match='a reduction is for "ripple", which is not among its parts'):
        make("viscous", 2, reduction=[2, 3])
    both = make("coupling+ripple", 3, reduction=7)
    assert {part.rows for part in both.parts if isinstance(part, actuators.Ripple)} == {
        ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0))
    }


def test_waves_of_each_joint_are_its_own():
    """One wave of the first joint, two of the second, none of the third."""
    part = make("ripple", 3, reduction=[[30.6, 0.0], [32.0, 96.0], [0.0, 0.0]])
    np.testing.assert_allclose(part.often, [[30.6, 0], [32, 96], [0, 0]])
    np.testing.assert_array_equal(part.learned().cosine, part.often > 0)
    filled = eqx.tree_at(lambda each: (each.cosine, each.sine), part, (jnp.ones((3, 2)), 2 * jnp.ones((3, 2))))
    q = jnp.array([0.1, 0.2, 0.3])
    angles = np.array([[30.6 * 0.1], [32 * 0.2]]), np.array([96 * 0.2])
    wanted = [np.cos(a) + 2 * np.sin(a) for a in (angles[0][0], angles[0][1], angles[1])]
    felt = filled(jnp.zeros(3), q, jnp.zeros(3))
    assert relative(felt, jnp.array([wanted[0][0], wanted[1][0] + wanted[2][0], 0.0])) < LAW
    with pytest.raises(ValueError, match="give a row of finite numbers a joint"):
        make("ripple", 3, reduction=[[1.0, 2.0]])
