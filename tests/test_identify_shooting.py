"""Multiple shooting: its normal equations are those of finite differences, and outliers count less."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffnea import systems
from diffnea.actuators import Viscous
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.unknowns import unknowns
from diffnea.identify.trajectory import segments as shooting_kernels
from diffnea.identify.trajectory.shooting import Shooting, shots
from diffnea.models import Model
from diffnea.simulate import rollout

STEP = 1e-6


@pytest.fixture(scope="module")
def problem():
    system = systems.cartpole()
    model = Model(system.robot, Viscous.of(np.asarray(system.robot.damping)))
    u = np.zeros((61, 2))
    u[:, 0] = 3 * np.sin(np.arange(61) / 5)
    run = rollout(model, jnp.asarray([0.0, 0.5]), jnp.zeros(2), u, system.dt)
    q, qd = np.asarray(run.q), np.asarray(run.qd)
    noise = 1e-3 * np.random.default_rng(0).standard_normal(q.shape)
    track = Track("swing", system.dt, q, qd, np.zeros_like(q), u, q + noise)
    free = unknowns(system.robot, ("inertia",), "viscous", jax.random.key(0))
    cut = shots([track], free, 20, np.full(2, 1e-3), np.array([1e-2, 1e-2, 0.1, 0.1]))
    assert cut is not None
    return Shooting(free, cut, cut.measured.size)


def test_slopes_are_those_of_finite_differences(problem):
    theta, x0 = problem.free.start + 1e-3, problem.shots.x0 + 1e-3
    sums = problem.sums(theta, x0)
    np.testing.assert_allclose(sums.loss, problem.loss(theta, x0), rtol=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(3):
        along, moved = rng.standard_normal(theta.shape), rng.standard_normal(x0.shape)
        there, back = (problem.loss(theta + s * STEP * along, x0 + s * STEP * moved) for s in (1, -1))
        expected = 2 * (sums.g_theta @ along + np.sum(sums.g_start * moved))
        np.testing.assert_allclose((there - back) / (2 * STEP), expected, rtol=1e-5, atol=1e-8)


def test_a_window_that_is_left_out_does_not_count(problem):
    weight = np.array(problem.shots.weight)
    weight[:, 0] = 0.0
    part = Shooting(problem.free, problem.shots._replace(weight=weight), problem.rows)
    x0 = np.array(problem.shots.x0)
    before = part.loss(problem.free.start, x0)
    x0[0] += 0.3
    assert part.loss(problem.free.start, x0) == before < problem.loss(problem.free.start, problem.shots.x0)


def test_reduced_rows_are_blind_to_what_a_start_can_do(problem):
    theta, x0 = problem.free.start, np.asarray(problem.shots.x0)
    sums = problem.sums(theta, x0)
    r, J, starts = problem.reduced_rows(theta, x0)
    assert r.shape == (9, 44) and J.shape == (9, 44, problem.free.size)  # 20 times and two rows of the hold, two joints
    np.testing.assert_allclose(np.swapaxes(starts, 1, 2) @ starts, np.broadcast_to(np.eye(4), (9, 4, 4)), atol=1e-12)
    np.testing.assert_allclose(np.swapaxes(starts, 1, 2) @ J, 0.0, atol=1e-9 * np.abs(J).max())
    flat = J.reshape(-1, problem.free.size)
    schur = sums.theta - np.einsum(
        "wpk,wkj->pj", sums.cross, np.linalg.solve(sums.start, np.swapaxes(sums.cross, 1, 2))
    )
    # Where starts are held, some of the Schur complement is in the holding: with its rows all of it is there.
    np.testing.assert_allclose(flat.T @ flat, schur * problem.rows, atol=1e-9 * np.abs(schur).max() * problem.rows)


def test_reduced_rows_of_held_starts_tell_how_far_they_were_moved(problem):
    theta, x0 = problem.free.start, np.asarray(problem.shots.x0) + 1e-3
    r = problem.reduced_rows(theta, x0).residuals
    np.testing.assert_allclose(r[:, -4:], np.broadcast_to(1e-3 * problem.shots.hold, (9, 4)), rtol=1e-9)


def test_pieces_in_one_kernel_and_in_several_agree(problem, monkeypatch):
    theta, x0 = problem.free.start, np.asarray(problem.shots.x0)
    whole = problem.sums(theta, x0)
    monkeypatch.setattr(shooting_kernels, "MOST_RESULTS", 2 * (problem.free.size + 5))
    shooting_kernels._sloped_course.cache_clear()
    parts = problem.sums(theta, x0)
    shooting_kernels._sloped_course.cache_clear()
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12 * np.abs(one).max())


def test_a_step_of_several_samples_takes_the_mean_command(problem):
    u = np.arange(61.0)[:, None] * np.ones(2)
    q = np.zeros((61, 2))
    track = Track("ramp", 0.001, q, q, q, u, q + u)
    cut = shots([track], problem.free, 10, np.ones(2), np.ones(4), every=3)
    assert cut is not None
    np.testing.assert_allclose(cut.u[:, 0, 0, 0], 1 + 3 * np.arange(10))
    np.testing.assert_allclose(cut.measured[:, 1, 0], 30 + 3 * np.arange(10))
    np.testing.assert_allclose(cut.dt, 0.003)
