"""Scores of roll-outs: recordings of every rate count, and fast ones do not cost more than slow ones."""

import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.judge.score import constant_velocity, score
from diffnea.identify.judge.windows import MOST_STEPS, MOST_WINDOWS, windows
from diffnea.identify.problem.measurements.tracks import Track

MODEL = dn.Model(dn.systems.cartpole().robot)


def track(dt, seconds, name="swing"):
    """A free swing of the model itself."""
    steps = round(seconds / dt)
    run = dn.rollout(MODEL, jnp.array([0.0, 1.0]), jnp.zeros(2), None, dt, steps=steps)
    q, qd = np.asarray(run.q), np.asarray(run.qd)
    return Track(name, dt, q, qd, np.gradient(qd, dt, axis=0), 0 * q, q)


@pytest.fixture(scope="module")
def tracks():
    return [track(0.0025, 3.0), track(0.002, 6.0), track(0.002 * (1 + 1e-6), 3.0)]


def test_recordings_of_every_rate_are_rolled_out(tracks):
    cut = windows(tracks, np.ones(2))
    assert cut is not None
    assert [each.dt for each in cut.rates] == [0.002, 0.0025]  # the rate with the most windows goes first
    assert {k for each in cut.rates for k, _ in each.places} == {0, 1, 2}
    found = score(MODEL, tracks, cut)
    assert found.windows == sum(len(each.q0) for each in cut.rates) and found.diverged == 0
    assert max(found.error) < 1e-4 and found.horizons == (0.1, 0.5, 1.0, 2.0)
    guess = constant_velocity(cut)
    assert guess is not None and guess.windows == found.windows and guess.error[-1] > 0.1


def test_a_horizon_is_judged_by_the_windows_that_reach_it(tracks):
    short = track(0.004, 0.8)
    cut = windows([tracks[1], short], np.ones(2))
    assert cut is not None
    found = score(MODEL, [tracks[1], short], cut)
    alone = score(MODEL, [tracks[1]], windows([tracks[1]], np.ones(2)))
    assert found.error[2:] == alone.error[2:] and found.windows > alone.windows


def test_fast_recordings_have_fewer_windows():
    q = np.zeros((60_000, 1))
    cut = windows([Track("fast", 1e-4, q, q, q, q, q)], np.ones(1))
    assert cut is not None and len(cut.q0) * cut.u.shape[1] <= MOST_STEPS < MOST_WINDOWS * cut.u.shape[1]
    assert windows([Track("loose", None, q, q, q, q, q)], np.ones(1)) is None
