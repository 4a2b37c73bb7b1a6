"""The benchmark's systems against the equations their recordings' authors publish, and their controller at work."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea import dynamics, kernels
from diffnea.systems import cartpole, furuta, varied


def states(count=50):
    rng = np.random.default_rng(0)
    return rng.uniform(-3, 3, (count, 2)), rng.uniform(-9, 9, (count, 2)), rng.uniform(-1, 1, (count, 2)) * [1, 0]


def test_cartpole_obeys_the_textbook_equations():
    q, qd, u = states()
    qdd = np.asarray(dn.forward_dynamics(cartpole().robot, q, qd, u))
    m, lever, inertia, s, c = 0.127, 0.16825, 1.1983e-3 + 0.127 * 0.16825**2, np.sin(q[:, 1]), np.cos(q[:, 1])
    push = (0.57 + m) * qdd[:, 0] + m * lever * c * qdd[:, 1] - m * lever * s * qd[:, 1] ** 2
    turn = m * lever * c * qdd[:, 0] + inertia * qdd[:, 1] + m * 9.81 * lever * s
    np.testing.assert_allclose(push, u[:, 0], atol=1e-10)
    np.testing.assert_allclose(turn, 0, atol=1e-10)


def test_furuta_obeys_the_equations_of_its_recordings():
    q, qd, u = states()
    u = 0.02 * u
    qdd = np.asarray(dn.forward_dynamics(furuta().robot, q, qd, u))
    m, arm, lever, about_centre = 0.024, 0.085, 0.0645, 3.3282e-5
    c1, thin = m * lever**2 + about_centre - 2.7e-7, 2.7e-7  # the pendulum's inertia along its own axis, barely there
    c0, c2, c3, c4 = 5.72e-5 + m * arm**2 + thin, m * arm * lever, m * lever**2 + about_centre, m * 9.81 * lever
    s, c, s2 = np.sin(q[:, 1]), np.cos(q[:, 1]), np.sin(2 * q[:, 1])
    (th, al), (thdd, aldd) = qd.T, qdd.T
    push = (c0 + c1 * s**2) * thdd + c2 * c * aldd + c1 * s2 * th * al - c2 * s * al**2
    turn = c2 * c * thdd + c3 * aldd - c1 / 2 * s2 * th**2 + c4 * s
    np.testing.assert_allclose(push, u[:, 0], atol=1e-12)
    np.testing.assert_allclose(turn, 0, atol=1e-12)


@kernels.compile
def _step(system, state, t):
    q, qd = state
    u = system.swing_up(t, q, qd)
    half = system.dt / 2

    def slope(q, qd):
        return dynamics.aba(system.robot, q, qd, u - system.robot.damping * qd)

    middle = qd + half * slope(q, qd)  # the midpoint rule is accurate enough to judge a controller
    return (q + system.dt * middle, qd + system.dt * slope(q + half * qd, middle)), (q, qd, u)


@pytest.mark.parametrize("make", [cartpole, furuta])
def test_the_controller_swings_up_and_lets_fall(make):
    system = make()
    varieties = [
        varied(system.swing_up, jax.random.key(seed), 0.2 * float(system.limits.upper[0])) for seed in range(3)
    ]
    times = jnp.arange(0.0, 20.0, system.dt)
    for controller in (system.swing_up, *varieties):
        used = type(system)(system.robot, system.limits, system.sensors, controller, system.name, system.dt)
        start = (jnp.array([0.0, 0.1]), jnp.zeros(2))
        _, (q, qd, u) = jax.lax.scan(lambda x, t, used=used: _step(used, x, t), start, times)
        upright = np.cos(q[:, 1]) < -0.9
        assert upright.any() and (np.diff(upright.astype(int)) == 1).sum() >= 2, "the pole rises, and rises again"
        assert np.abs(q[:, 0]).max() < 2 * float(system.limits.upper[0]), "it coasts, but not away"
        assert np.abs(u[:, 0]).max() <= float(system.limits.effort[0]) and not np.any(u[:, 1])
        assert 0.2 < np.mean(np.asarray(u[:, 0]) == 0) < 0.6, "it lets go for part of the time"


def test_facts():
    for system in (cartpole(), furuta()):
        assert system.dt == 1 / 250 and system.robot.num_joints == 2
        assert list(system.driven) == [True, False]
        assert system.robot.tree.kinds[1] == "continuous"
