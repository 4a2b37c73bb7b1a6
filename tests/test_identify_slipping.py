"""Slip lengths: those that made the torques are found."""

from dataclasses import replace

import numpy as np
import pytest

from diffnea.actuators import Coupling, Grease, Stribeck, combine
from diffnea.cli.inputs import read_robot
from diffnea.identify.friction.prandtl import Slip, coordinates, ways
from diffnea.identify.friction.prandtl_fit import HOLDS, LENGTHS, slipping
from diffnea.identify.options import SolveOptions
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.torque_balance import torques
from diffnea.models import Model

ROBOT = read_robot("dfki_double_pendulum")
ACTUATOR = combine(
    Stribeck.of(np.array([0.5, 0.3]), np.array([0.5, 0.3]), np.array([0.1, 0.2])),
    Grease.of(np.array([0.2, 0.4])),
    Coupling.of(0.25, 0.15, [[1, 1]], root=0.35),
)
DT = 1e-3


def recorded(length, hold=1.0, pause=0):
    """Slow motion that turns back again and again, friction by springs of a known length."""
    time = np.arange(0, 20, DT)
    waves = [(0.3, 0.05), (2.1, 0.01), (7.3, 0.004)]
    q, qd, qdd = (
        np.column_stack(
            [sum(a * w**k * np.sin(w * time + shift + k * np.pi / 2) for w, a in waves) for shift in (0, 1)]
        )
        for k in (0, 1, 2)
    )
    rests = len(time) - pause  # from here on it stands still
    q[rests:], qd[rests:], qdd[rests:] = q[rests - 1], 0.0, 0.0
    turns = coordinates(ACTUATOR)
    way = ways(q @ turns.T, qd @ turns.T, DT, Slip(np.full(3, length), hold))
    # The coupling rounds its root off where motors are slow, as no regression does: a tiny speed makes it sharp.
    sharp = combine(*ACTUATOR.parts[:2], Coupling.of(0.25, 0.15, [[1, 1]], 1e-9, root=0.35))
    u = torques(Model(ROBOT, sharp), q, qd, qdd, 0 * q, way).left
    return Track("a", DT, q, qd, qdd, u, q)


@pytest.mark.parametrize("true", [0, 2])
def test_the_length_is_found_that_made_the_torques(true):
    found = slipping(Model(ROBOT, ACTUATOR), [recorded(LENGTHS[true])], np.ones(2), SolveOptions())
    np.testing.assert_allclose(found.lengths, LENGTHS[true])
    np.testing.assert_array_equal(found.hold, HOLDS[0])  # it never rests: nothing tells


def test_what_the_data_do_not_tell_is_the_first_length():
    track = recorded(LENGTHS[2])
    one_way = replace(track, q=track.q + track.dt * np.arange(len(track))[:, None], qd=track.qd + 1)
    np.testing.assert_allclose(
        slipping(Model(ROBOT, ACTUATOR), [one_way], np.ones(2), SolveOptions()).lengths, LENGTHS[0]
    )


def test_what_a_long_rest_leaves_is_found():
    found = slipping(Model(ROBOT, ACTUATOR), [recorded(LENGTHS[1], 0.25, pause=8000)], np.ones(2), SolveOptions())
    np.testing.assert_array_equal(found.hold, 0.25)
    np.testing.assert_allclose(found.lengths, LENGTHS[1])


def test_each_joint_rests_in_its_own_way():
    holds = np.array([1.0, 0.0, 0.5])
    found = slipping(Model(ROBOT, ACTUATOR), [recorded(LENGTHS[1], holds, pause=8000)], np.ones(2), SolveOptions())
    np.testing.assert_array_equal(found.hold[:2], holds[:2])


def test_a_rest_before_the_first_motion_tells_nothing():
    """Whatever holds a joint there: it was left by a motion that was not recorded."""
    track = recorded(LENGTHS[1], 0.25, pause=8000)
    count = 4000

    def rested(values):
        return np.concatenate([np.repeat(values[:1], count, axis=0), values])

    still = np.zeros((count, 2))
    u, q = rested(track.u), rested(track.q)
    u[:count] += 5.0
    late = Track("a", DT, q, np.concatenate([still, track.qd]), np.concatenate([still, track.qdd]), u, q)
    found = slipping(Model(ROBOT, ACTUATOR), [late], np.ones(2), SolveOptions())
    np.testing.assert_array_equal(found.hold, 0.25)
    np.testing.assert_allclose(found.lengths, LENGTHS[1])


def test_friction_that_goes_by_velocity_needs_no_spring():
    track = recorded(LENGTHS[0])
    u = torques(Model(ROBOT, ACTUATOR.parts[0]), track.q, track.qd, track.qdd, 0 * track.q).left
    assert slipping(Model(ROBOT, ACTUATOR.parts[0]), [replace(track, u=u)], np.ones(2), SolveOptions()) is None
