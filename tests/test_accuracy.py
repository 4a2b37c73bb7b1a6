"""Rounding of the dynamics, measured against fifty-digit arithmetic; docs/accuracy.md has the table."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_dynamics import Exact, relative_error
from robots import random_robot, random_state

import diffnea as dn
from diffnea.robot import astype

# Error of the worst joint in units of the precision's own rounding (2.2e-16, 1.2e-7), with a margin of about ten to
# what was measured; forward dynamics lose what the condition of the mass matrix takes.
ULPS = {2: (10, 10), 7: (10, 90), 20: (20, 500), 100: (130, 1400)}


def chain(count: int, seed: int = 0):
    """Links in a row, every third joint slides; sized so that a hundred links are no longer than two."""
    kinds = tuple("prismatic" if k % 3 == 2 else "revolute" for k in range(count))
    names = tuple(f"j{k}" for k in range(count)), tuple(f"l{k}" for k in range(count))
    return random_robot(dn.Tree(tuple(range(-1, count - 1)), kinds, *names), seed, scale=2 / count)


def errors(count: int, kind: type) -> tuple[float, float]:
    """Relative errors of inverse and forward dynamics, for the numbers as they are in that precision."""
    robot = astype(chain(count), jnp.dtype(kind))
    q, qd, x = (jnp.asarray(row, kind) for row in random_state(count, 1))
    exact = Exact(robot)
    inverse = relative_error(dn.inverse_dynamics(robot, q, qd, x), exact.torques(q, qd, x))
    forward = relative_error(dn.forward_dynamics(robot, q, qd, x), exact.accelerations(q, qd, x))
    return inverse, forward


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("count", [2, 7, *(pytest.param(count, marks=pytest.mark.slow) for count in (20, 100))])
def test_errors_are_a_few_roundings(count, kind, record_property):
    inverse, forward = errors(count, kind)
    record_property("table: accuracy", [count, np.dtype(kind).name, f"{inverse:.1e}", f"{forward:.1e}"])
    unit = np.finfo(kind).eps
    assert inverse < ULPS[count][0] * unit and forward < ULPS[count][1] * unit


def test_masses_from_a_millionth_of_a_gram_to_a_million_tonnes_give_the_same_motion():
    """Accelerations under gravity alone do not depend on the unit of mass."""
    robot = chain(7)
    q, qd, _ = random_state(7, 2)
    found = []
    for factor in (1e-9, 1.0, 1e9):
        heavier = jax.tree.map(lambda leaf, factor=factor: factor * leaf, robot.inertia)
        scaled = replace(robot, inertia=heavier, armature=factor * robot.armature)
        found.append(np.asarray(dn.forward_dynamics(scaled, q, qd, np.zeros(7))))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-9)


def test_singular_poses_are_no_special_case():
    """An arm with all axes in a row: its end cannot move along them, and yet its dynamics are finite."""
    robot = chain(7)
    placement = dn.Transform(jnp.broadcast_to(jnp.eye(3), (7, 3, 3)), robot.placement.translation)
    lined = replace(robot, axis=jnp.broadcast_to(jnp.array([0.0, 0.0, 1.0]), (7, 3)), placement=placement)
    tau = random_state(7, 3)[2]
    qdd = dn.forward_dynamics(lined, np.zeros(7), np.zeros(7), tau)
    assert np.isfinite(qdd).all()
    np.testing.assert_allclose(dn.inverse_dynamics(lined, np.zeros(7), np.zeros(7), qdd), tau, atol=1e-9)


def test_complex_numbers_are_refused():
    robot = chain(2)
    with pytest.raises(TypeError, match="qd"):
        dn.forward_dynamics(robot, np.zeros(2), np.zeros(2, complex), np.zeros(2))
