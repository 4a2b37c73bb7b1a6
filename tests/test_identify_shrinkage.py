"""The weight of the robot file: its pull is a gradient, and it is left out where data are better without."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.cli.inputs import read_robot
from diffnea.identify.problem.residuals import problem
from diffnea.identify.problem.tracks import equations, split
from diffnea.identify.problem.unknowns import late, unknowns
from diffnea.identify.solve import shrinkage
from diffnea.identify.solve.levenberg_marquardt import minimise
from diffnea.identify.solve.multistart import Found
from diffnea.identify.solve.shrinkage import BLOCKS, _Fold, _Prior, shrunk

ROBOT = read_robot("dfki_double_pendulum")
WEIGHT = np.ones(2)


def moved(noise=0.0):
    """A recording with exact derivatives and noisy torques."""
    time = 0.01 * np.arange(400)
    rates = np.array([[1.0, 1.7], [2.3, 3.1]])
    q, qd, qdd = (
        sum(
            a * rate**k * np.sin(rate * time[:, None] + k * np.pi / 2)
            for a, rate in zip((0.7, 0.4), rates, strict=True)
        )
        for k in range(3)
    )
    u = np.asarray(dn.inverse_dynamics(ROBOT, q, qd, qdd)) + noise * np.random.default_rng(0).normal(size=q.shape)
    return dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=ROBOT.joint_names)


@pytest.fixture(scope="module")
def free():
    return unknowns(ROBOT, ("inertia",), "viscous", jax.random.key(0))


def tracks(recording):
    return split(recording, None, ROBOT.joint_names, 2, 0).fitted


def found(free, some, start):
    rows = equations(some, late(free), WEIGHT)
    run = minimise(problem("torque", free, rows, 1), start[None], 200)
    return Found(run.theta[0], float(run.loss[0]), (), True, (), rows)


def test_the_pull_is_the_slope_of_what_it_adds(free):
    some = tracks(moved())
    pulled = _Prior(free.start, np.linspace(0.5, 2, free.size)).added(
        problem("torque", free, equations(some, late(free), WEIGHT), 1), 0.3
    )
    theta = free.start + 0.1 * np.random.default_rng(1).normal(size=free.size)
    step = 1e-6 * np.eye(free.size)
    slopes = [(pulled.loss((theta + s)[None])[0] - pulled.loss((theta - s)[None])[0]) / 4e-6 for s in step]
    np.testing.assert_allclose(pulled.normal(theta[None]).gradient[0], slopes, rtol=1e-5, atol=1e-7)
    assert pulled.normal(theta[None]).loss[0] == pytest.approx(pulled.loss(theta[None])[0])


def test_blocks_are_apart(free):
    some = tracks(moved())
    folds = [_Fold.of(free, some, WEIGHT, "torque", k) for k in range(BLOCKS)]
    whole = problem("torque", free, equations(some, late(free), WEIGHT), 1).rows
    assert sum(fold.apart.rows for fold in folds) == whole
    assert all(fold.apart.rows + fold.seen.rows == whole for fold in folds)


def test_exact_data_need_no_prior_and_poor_ones_are_helped_by_it(free, monkeypatch):
    some = tracks(moved())
    away = free.start + 0.3 * np.random.default_rng(2).normal(size=free.size)
    exact = found(free, some, away)
    assert shrunk(exact, free, some, WEIGHT, "torque") is exact
    monkeypatch.setattr(shrinkage, "ABOUT_AS_WELL", 0.0)  # white noise alone would not ask for it
    poor = tracks(moved(noise=5.0))
    before = found(free, poor, free.start)
    after = shrunk(before, free, poor, WEIGHT, "torque")
    assert after.notes and after.loss > before.loss
    fresh = np.random.default_rng(3).normal(size=(3, 200, 2))
    truth = np.asarray(dn.inverse_dynamics(ROBOT, *fresh))
    wrong = [
        np.asarray(dn.inverse_dynamics(free.model(jnp.asarray(f.theta)).robot, *fresh)) - truth for f in (before, after)
    ]
    assert np.mean(wrong[1] ** 2) < 0.7 * np.mean(wrong[0] ** 2)


def test_a_stribeck_curve_that_data_determine_does_not_go_back_to_its_start():
    """What is learned of it may be in the hundreds: a prior of ±3 would hold it."""
    clean = moved()
    truth = dn.actuators.Stribeck.of(np.array([0.9, 0.4]), np.array([0.4, 0.8]), np.array([0.2, 0.1]), 30.0)
    lost = jax.vmap(lambda q, qd: truth(jnp.zeros_like(q), q, qd))(jnp.asarray(clean.q), jnp.asarray(clean.qd))
    noise = 0.02 * np.random.default_rng(0).normal(size=clean.q.shape)
    recording = replace(clean, u=clean.u - np.asarray(lost) + noise)
    fit = dn.fit(ROBOT, recording, learn=("inertia",), actuator="stribeck", loss="torque", method="lm")
    curves = [each for each in fit.identifiable if each.formula.startswith("Stribeck velocity")]
    assert len(curves) == 2
    assert all(abs(each.value - each.of(dn.Model(ROBOT, truth))) < 2 * each.std for each in curves)
