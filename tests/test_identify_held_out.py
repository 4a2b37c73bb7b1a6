"""What a fit keeps for its page: data that were not fitted, no more than a page needs, and the same from disk."""

import numpy as np
from robots import random_robot, random_tree

from diffnea.identify.judge.held_out import MOST_KEPT, MOST_TRACKS, SIGNALS, from_arrays, held_out, to_arrays
from diffnea.identify.problem.measurements.tracks import Split, Track
from diffnea.models import Model

START = Model(random_robot(random_tree(0, 3), 0))


def track(name, length, seed=0, dt=0.01):
    q, qd, qdd, u, measured = np.random.default_rng(seed).normal(size=(5, length, 3))
    return Track(name, dt, q, qd, qdd, u, measured)


def kept(test):
    fitted = (track("fitted", 50, 1), track("fitted too", 60, 2))
    return held_out(START, Split(fitted[:1], fitted[1:], fitted, tuple(test), (), "some"), np.ones(3)), fitted


def test_little_is_kept_whole_with_the_range_of_what_was_fitted():
    found, fitted = kept([track("test", 40)])
    np.testing.assert_array_equal(found.tracks[0].qdd, track("test", 40).qdd)
    q, qd = (np.concatenate([getattr(each, key) for each in fitted]) for key in ("q", "qd"))
    np.testing.assert_array_equal([found.lowest, found.highest, found.fastest], [q.min(0), q.max(0), abs(qd).max(0)])


def test_much_is_cut_short_and_spread_over_the_stretches():
    found, _ = kept([track(f"test {k}", 300, k) for k in range(100)])
    assert len(found.tracks) == MOST_TRACKS and found.tracks[-1].name == "test 99"
    assert sum(each.q.size for each in found.tracks) <= MOST_KEPT
    found, _ = kept([track(f"test {k}", 4000, k) for k in range(100)])  # of long ones fewer, with room to predict in
    assert len(found.tracks) == 33 and min(map(len, found.tracks)) >= 600
    assert sum(each.q.size for each in found.tracks) <= MOST_KEPT
    single, _ = kept([track("long", 100_000)])
    assert len(single.tracks[0]) == MOST_KEPT // 3


def test_arrays_bring_it_back():
    found, _ = kept([track("one", 40), track("two", 30, 5, dt=None)])
    again = from_arrays(START, *to_arrays(found))
    assert [(each.name, each.dt) for each in again.tracks] == [("one", 0.01), ("two", None)]
    for ours, theirs in zip(again.tracks, found.tracks, strict=True):
        for key in SIGNALS:
            np.testing.assert_array_equal(getattr(ours, key), getattr(theirs, key))
    np.testing.assert_array_equal(again.fastest, found.fastest)
