"""Presliding: friction points the way a joint last moved, whatever the noise in its velocity."""

from dataclasses import replace

import jax
import numpy as np

from diffnea.actuators import Coupling, Stribeck, combine
from diffnea.cli.inputs import read_robot
from diffnea.identify.friction.prandtl import LASTING, SEEN_REVERSAL, Slip, coordinates, known, ways
from diffnea.identify.problem.measurements.noise import white_noise
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import Model
from diffnea.recordings.signal.terms import Terms

DT, LENGTH = 0.01, 1e-4
ROBOT = read_robot("dfki_double_pendulum")
ACTUATOR = combine(Stribeck.of(2.0, 2.0, 0.1, num_joints=2), Coupling.of(1.0, 0.1, [[1, 1]]))


def stop(back, count=200):
    """One radian forward, a little back, then rest with trembling velocities."""
    way = np.concatenate([np.linspace(0, 1, count), 1 - np.linspace(0, back, 20), np.full(count, 1 - back)])
    tremble = np.where(np.arange(len(way)) >= count + 20, 1e-9 * (-1.0) ** np.arange(len(way)), 0.0)
    return way[:, None], (np.gradient(way) / DT + tremble)[:, None]


def one(q, qd, length=LENGTH):
    return ways(q, qd, DT, Slip(np.array([length])))[:, 0]


def test_sliding_is_one_way_and_what_never_moved_holds_nothing():
    q, qd = stop(0.0)
    np.testing.assert_allclose(one(q, qd)[1:], 1.0)
    assert not one(0 * q, 0 * qd).any()


def test_rest_holds_the_way_of_the_last_motion_and_turns_over_twice_the_length():
    ends = [one(*stop(back))[-50:] for back in (0.0, LENGTH, 2 * LENGTH, 10 * LENGTH)]
    np.testing.assert_allclose([np.mean(end) for end in ends], [1, 0, -1, -1], atol=1e-4)
    assert all(np.ptp(end) < 1e-6 for end in ends)  # no trembling


def test_a_long_rest_leaves_a_share_and_a_short_one_all():
    q, qd = stop(10 * LENGTH)
    found = ways(q, qd, DT, Slip(np.array([LENGTH]), 0.25))[:, 0]
    rest = np.arange(len(q)) >= 220
    np.testing.assert_allclose(found[rest], -0.25, atol=1e-6)
    np.testing.assert_allclose(found[~rest], one(q, qd)[~rest], atol=1e-6)
    time = DT * np.arange(400)
    q, qd = (function(time)[:, None] for function in (np.sin, np.cos))
    assert LASTING > 2 * 0.005  # it is slow for less than that where it turns back
    np.testing.assert_array_equal(ways(q, qd, DT, Slip(np.array([LENGTH]), 0.0))[:, 0], one(q, qd))


def test_turning_back_between_two_samples_is_seen():
    """Half a sample before the one that shows it: position goes up, and back to where it was."""
    time = DT * (np.arange(41) - 20.5)
    found = one(-(time**2)[:, None], -2 * time[:, None], 1e-9)
    np.testing.assert_allclose(found[1:], -np.sign(time[1:]))
    coarse = one(-(time[::4] ** 2)[:, None], -2 * time[::4, None], 1e-9)
    np.testing.assert_allclose(coarse[1:], -np.sign(time[4::4]))


def test_standing_still_between_two_ways_goes_over_from_one_to_the_other():
    """No spring tells when: the torque went there while nothing moved. So it comes neither early nor late."""
    q = np.concatenate([np.linspace(-1, 0, 101), np.zeros(99), np.linspace(0, -1, 101)])[:, None]
    trembling = q + 1e-4 * np.random.default_rng(4).uniform(-1, 1, size=q.shape)
    found = ways(trembling, 0 * q, DT, Slip(np.array([1e-6])), 4e-4)[:, 0]
    assert np.abs(found[100:201] - np.linspace(1, -1, 101)).max() < 0.1
    np.testing.assert_allclose(found[[50, 250]], [1, -1])


def test_what_a_spring_takes_is_never_given_back_in_full():
    """Over any closed way the work against friction is positive: else it would be a motor."""
    rng = np.random.default_rng(0)
    q = np.cumsum(rng.normal(size=4000)) * LENGTH / 4
    q = np.concatenate([q, np.linspace(q[-1], q[0], 200)])[:, None]
    found = one(q, np.gradient(q, DT, axis=0))
    work = np.sum((found[1:] + found[:-1]) / 2 * np.diff(q[:, 0]))
    assert work > 0 and np.abs(found).max() <= 1 + 1e-12


def test_coupled_motors_are_coordinates_of_their_own():
    np.testing.assert_array_equal(coordinates(ACTUATOR), [[1, 0], [0, 1], [1, 1]])
    np.testing.assert_array_equal(coordinates(Stribeck.of(1.0, 1.0, 1.0, num_joints=2)), np.eye(2))
    way = np.array([[0.5, -0.25, -1.0]])
    still = np.zeros((1, 2))
    left = torques(Model(ROBOT, ACTUATOR), still, still, still, still, way).left
    none = torques(Model(ROBOT, ACTUATOR), still, still, still, still, 0 * way).left
    np.testing.assert_allclose(left - none, [[0.5 * 2 - 1, -0.25 * 2 - 1]], atol=1e-12)


def test_without_a_past_friction_goes_by_the_velocity():
    rng = np.random.default_rng(1)
    q, qd, qdd, u = rng.normal(size=(4, 5, 2))
    plain = Model(ROBOT, Stribeck.of(2.0, 2.0, 0.1, num_joints=2))
    pair = [torques(plain, q, qd, qdd, u, way) for way in (None, np.sign(qd))]
    np.testing.assert_allclose(pair[0].left, pair[1].left, atol=1e-12)
    np.testing.assert_array_equal(pair[0].driven, u)
    one_by_one = jax.vmap(plain.actuator)(u, q, qd)
    still = torques(plain, q, qd, qdd, 0 * u).left - np.asarray(one_by_one)
    np.testing.assert_allclose(pair[0].left, still + np.asarray(jax.vmap(plain.actuator)(0 * u, q, qd)), atol=1e-12)


def track_of(q, qd, **more):
    return Track("a", DT, q, qd, 0 * q, 0 * q, q, **more)


def test_noise_of_readings_is_no_motion_and_samples_without_order_stay():
    q, qd = (np.hstack([array, 0 * array]) for array in stop(10 * LENGTH))
    read = q + 6 * LENGTH * np.random.default_rng(2).normal(size=q.shape)
    np.testing.assert_allclose(white_noise(read), 6 * LENGTH, rtol=0.2)
    rough = replace(track_of(q, qd, noise=1.0), measured=read, terms=Terms(q, qd, 0 * q, 0 * q, 10.0, 5.0))
    assert SEEN_REVERSAL * 6 > 10  # it came back by less than noise can show
    found, clean = known([rough, track_of(q, qd)], ACTUATOR, Slip(np.full(3, LENGTH)))
    np.testing.assert_allclose([found.way[-1, 0], clean.way[-1, 0]], [1, -1], atol=1e-6)
    loose = replace(track_of(q, qd), dt=None)
    assert known([loose], ACTUATOR, Slip(np.full(3, LENGTH)))[0] is loose


def test_small_steps_to_and_fro_count_for_nothing_and_large_ones_from_where_they_began():
    """Beside a plain loop over the path: what goes back by more than `least` acts from its turning point on."""
    rng = np.random.default_rng(3)
    q = np.sin(np.linspace(0, 20, 3000))[:, None]
    qd = np.gradient(q, DT, axis=0)
    clean = ways(q, qd, DT, Slip(np.array([1e-2])))
    tremble = 1e-3 * rng.uniform(-1, 1, size=q.shape)
    found = ways(q + tremble, 0 * qd, DT, Slip(np.array([1e-2])), 4e-3)
    assert np.abs(found - clean).max() <= 0.4  # what noise may hide, in lengths
    slider, plain = q[0, 0], []
    for place in q[:, 0]:
        slider = min(max(slider, place - 1e-2), place + 1e-2)
        plain.append((place - slider) / 1e-2)
    np.testing.assert_allclose(ways(q, 0 * qd, DT, Slip(np.array([1e-2])))[:, 0], plain, atol=1e-12)
