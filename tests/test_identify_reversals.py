"""Reversals: rows near them, near stops and at joint limits are left out; enough rows stay, and a note says so."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

import diffnea as dn
from diffnea import actuators
from diffnea.identify.options import ProblemOptions
from diffnea.identify.problem.measurements.equations import equations
from diffnea.identify.problem.measurements.reversals import without_reversals
from diffnea.identify.problem.measurements.tracks import Split, split

DT = 0.004
OPTIONS = ProblemOptions()


def robot(upper: float = np.inf) -> dn.Robot:
    given = dn.systems.furuta().robot
    limits = replace(given.limits, lower=jnp.full(2, -np.inf), upper=jnp.array([upper, np.inf]))
    return replace(given, limits=limits)


def recorded(first: float, second: float, rest: bool = False) -> Split:
    """Two joints that go to and fro at these frequencies, Hz; the first may stop for a while."""
    time = np.arange(0, 12, DT)
    clock = np.where(time < 4, time, np.maximum(time - 2, 4)) if rest else time
    q = np.column_stack([np.sin(2 * np.pi * first * clock), np.sin(2 * np.pi * second * time + 1)])
    q += 1e-6 * np.random.default_rng(0).normal(size=q.shape)
    recording = dn.Recording(time=time, q=q, u=np.zeros_like(q), joint_names=robot().joint_names)
    return split(recording, None, robot().joint_names, 2, 0)


def marked(parts: Split, loss: str, dry=(0.1, 0.1), upper: float = np.inf) -> Split:
    friction = actuators.Stribeck.of(jnp.array(dry), jnp.array(dry), 0.01, num_joints=2)
    return without_reversals(parts, dn.Model(robot(upper), friction), loss, 20, OPTIONS)


def test_a_torque_is_left_out_near_its_own_joints_reversals_only():
    parts = recorded(0.2, 0.7)
    (track,) = marked(parts, "torque").fitted
    assert track.clear is not None and track.terms is not None
    width = 0.5 / track.terms.wide + 0.5 / track.terms.bandwidth
    for j in range(2):
        qd = track.terms.qd[:, j]
        turns = np.flatnonzero(np.sign(qd[1:]) != np.sign(qd[:-1]))
        away = np.abs(np.arange(len(qd))[:, None] - turns - 0.5).min(axis=1) * DT
        assert not track.clear[away < width - 2 * DT, j].any()
        assert track.clear[away > width + 2 * DT, j].all()
    assert np.any(track.clear[:, 0] & ~track.clear[:, 1]) and np.any(track.clear[:, 1] & ~track.clear[:, 0])


def test_rows_before_a_joint_first_slips_are_left_out():
    parts = recorded(0.2, 0.7)
    way = np.sign(parts.fitted[0].qd)
    way[:300, 0] = np.linspace(0, 0.5, 300)  # it gives, and does not slip yet
    slid = replace(parts, fitted=(replace(parts.fitted[0], way=way),))
    (before,), (after,) = marked(parts, "torque").fitted, marked(slid, "torque").fitted
    assert before.clear[:300, 0].any() and not after.clear[:300, 0].any()
    np.testing.assert_array_equal(before.clear[:, 1], after.clear[:, 1])


def test_rows_that_no_filter_reaches_are_twice_as_far_from_reversals():
    (track,) = marked(recorded(0.2, 0.7), "torque").fitted
    assert track.far is not None and track.clear is not None and track.terms is not None
    reach = 1 / track.terms.wide + 1 / track.terms.bandwidth
    qd = track.terms.qd[:, 1]
    turns = np.flatnonzero(np.sign(qd[1:]) != np.sign(qd[:-1]))
    away = np.abs(np.arange(len(qd))[:, None] - turns - 0.5).min(axis=1) * DT
    assert not track.far[away < reach - 2 * DT, 1].any() and track.far[away > reach + 2 * DT, 1].all()
    (rows,) = equations([track], 0, np.ones(2))
    assert rows.far is not None and rows.far.shape == rows.weight.shape
    assert 0 < np.sum(rows.far[:, 1] & (rows.weight[:, 1] > 0)) < np.sum(rows.weight[:, 1] > 0)


def test_an_acceleration_is_left_out_near_any_joints_reversals():
    both = (marked(recorded(0.2, 0.7), loss).fitted[0].clear for loss in ("torque", "acceleration"))
    one, all_of_them = map(np.asarray, both)
    np.testing.assert_array_equal(all_of_them, np.repeat(np.all(one, axis=1, keepdims=True), 2, axis=1))


def test_a_stop_is_left_out_as_a_whole():
    (track,) = marked(recorded(0.2, 0.7, rest=True), "torque").fitted
    assert track.clear is not None and track.before is not None
    first = round(4 / DT) - len(track.before[0])  # samples at the ends are dropped
    assert track.clear[first - 500 : first - 350, 0].all()
    assert not track.clear[first + 30 : first + 400, 0].any()


def test_rows_without_weight_are_not_counted_and_each_joint_has_its_own():
    parts = marked(recorded(0.2, 0.7), "torque")
    (whole,), (rows,) = (equations(each.fitted, 0, np.ones(2)) for each in (recorded(0.2, 0.7), parts))
    counts = np.count_nonzero(rows.weight, axis=0)
    assert rows.count == counts.sum() < whole.count and counts[1] < counts[0]


def test_where_too_few_rows_would_stay_the_farthest_do_and_a_note_says_so():
    parts = marked(recorded(0.2, 8.0), "torque")
    clear = np.concatenate([np.asarray(track.clear) for track in parts.fitted])
    assert (
        OPTIONS.least_rows <= clear[:, 1].mean() < OPTIONS.least_rows + 0.1
    )  # samples at the same distance stay together
    assert [(each.code, each.subject) for each in parts.said] == [("joint-near-reversals", "pendulum")]
    together = marked(recorded(0.2, 8.0), "acceleration")
    assert [each.code for each in together.said] == ["rows-near-reversals"]


def test_without_dry_friction_nothing_is_left_out():
    parts = recorded(0.2, 0.7)
    viscous = dn.Model(robot(), actuators.Viscous.of(0.1, 2))
    assert without_reversals(parts, viscous, "torque", 20, OPTIONS) is parts


def test_given_velocities_are_trusted():
    time = np.arange(0, 8, DT)
    q, qd, qdd = (np.column_stack([f(time), f(2 * time)]) for f in (np.sin, np.cos, lambda t: -np.sin(t)))
    given = dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=q, joint_names=robot().joint_names)
    parts = split(given, None, robot().joint_names, 2, 0)
    assert marked(parts, "torque") is parts


def test_rows_at_a_joint_limit_are_left_out_also_without_friction():
    parts = recorded(0.2, 0.7)
    viscous = dn.Model(robot(0.95), actuators.Viscous.of(0.1, 2))
    found = without_reversals(parts, viscous, "torque", 20, OPTIONS)
    (track,) = found.fitted
    assert track.clear is not None and track.terms is not None
    assert not track.clear[track.terms.q[:, 0] >= 0.95, 0].any() and track.clear[:, 1].all()
    assert [each.code for each in found.said] == ["rows-at-limit"]


def test_limits_that_the_motion_does_not_know_are_not_believed():
    parts = recorded(0.2, 0.7)
    given = replace(robot(), limits=replace(robot().limits, lower=jnp.array([2.0, -9.0]), upper=jnp.array([3.0, 9.0])))
    found = without_reversals(parts, dn.Model(given, actuators.Viscous.of(0.1, 2)), "torque", 20, OPTIONS)
    assert all(np.all(np.asarray(track.clear)) for track in found.fitted)
    assert [each.code for each in found.said] == ["limits-not-believed"]
