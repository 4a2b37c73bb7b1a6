"""Standstill: friction at rest holds the way a joint last moved, whatever the noise in its velocity."""

from dataclasses import replace

import numpy as np

from diffnea.cli.inputs import read_robot
from diffnea.identify.data import Track
from diffnea.identify.standstill import GIVES, LASTING, SLOW, at_rest, held

ROBOT = read_robot("dfki_double_pendulum")
DT = 0.01


def stop(back, count=200):
    """One radian forward, a little back, then rest with trembling velocities; the other joint never moves."""
    way = np.concatenate([np.linspace(0, 1, count), 1 - np.linspace(0, back, 20), np.full(count, 1 - back)])
    rate = np.gradient(way)
    tremble = np.where(np.arange(len(way)) >= count + 20, 1e-9 * (-1.0) ** np.arange(len(way)), 0.0)
    return np.column_stack([way, 0 * way]), np.column_stack([rate + tremble, 0 * way])


def test_motion_stays_as_it_is():
    q, qd = stop(0.0)
    found = at_rest(ROBOT, q, qd, DT)
    fast = np.abs(qd) >= SLOW * np.abs(qd).max(0)
    np.testing.assert_array_equal(found[fast], qd[fast])
    assert not found[:, 1].any()  # what never moved holds nothing


def test_rest_holds_the_way_of_the_last_motion_and_turns_over_a_small_length():
    ends = [at_rest(ROBOT, *stop(back), DT)[-50:, 0] for back in (0.0, GIVES, 2 * GIVES, 10 * GIVES)]
    top = SLOW * np.abs(stop(0.0)[1]).max()
    np.testing.assert_allclose([np.mean(end) / top for end in ends], [1, 0, -1, -1], atol=1e-6)
    assert all(np.ptp(end) == 0 for end in ends)  # no trembling


def test_turning_back_is_no_rest():
    time = DT * np.arange(400)
    q, qd = (np.column_stack([function(time), function(time)]) for function in (np.sin, np.cos))
    assert (np.abs(qd) < SLOW).any() and 2 * SLOW < LASTING
    np.testing.assert_array_equal(at_rest(ROBOT, q, qd, DT), qd)


def test_noise_makes_the_length_longer_and_samples_without_order_stay():
    q, qd = stop(10 * GIVES)
    track = Track("a", DT, q, qd, qd, q, q, noise=20 * GIVES / q[:, 0].std())
    assert held([track], ROBOT)[0].qd[-1, 0] > 0  # it came back by less than noise can show
    assert held([replace(track, noise=0.0)], ROBOT)[0].qd[-1, 0] < 0
    loose = replace(track, dt=None)
    assert held([loose], ROBOT)[0] is loose
