"""Recordings and samples: what they accept, what they refuse, and how they are cut and joined."""

import jax
import numpy as np
import pytest

from diffnea.recordings import Recording, RecordingError, Samples, as_list, concatenate, is_regular, regular, samples_of


def swing(count=200, rate=100.0, joints=2):
    time = np.arange(count) / rate
    return Recording(time=time, q=np.sin(np.outer(time, 1 + np.arange(joints))), u=np.cos(time)[:, None] * [1.0, 0.0])


def test_a_recording_knows_its_rate_its_length_and_which_joints_are_driven():
    recording = swing()
    assert (len(recording), recording.num_joints, recording.driven) == (200, 2, (True, False))
    assert recording.rate == pytest.approx(100)
    assert recording.duration == pytest.approx(1.99)
    assert Recording(time=[0, 1], q=[[0], [1]]).driven == (False,)
    assert Recording(time=[0, 1], q=[[0], [1]]).u.tolist() == [[0], [0]]


def test_precision_is_kept_and_whole_numbers_become_double():
    assert Recording(time=[0, 1], q=np.zeros((2, 1), np.float32)).q.dtype == np.float32
    assert Recording(time=[0, 1], q=[[1], [2]]).q.dtype == np.float64


def test_cutting_keeps_everything_else():
    recording = swing().replace(joint_names=("a", "b"), name="run", notes=("first",))
    part = recording.between(0.5, 1.0)
    assert part.time[0] == 0.5 and part.time[-1] == pytest.approx(0.99)
    assert (part.joint_names, part.name, part.notes, part.driven) == (("a", "b"), "run", ("first",), (True, False))
    np.testing.assert_array_equal(concatenate([recording[:77], recording[77:]]).q, recording.q)
    assert recording[190:].replace(u=np.zeros((10, 2))).driven == (
        True,
        False,
    )  # cutting does not change what is driven


def test_a_recording_is_a_tree_of_arrays():
    recording = swing()
    doubled = jax.tree.map(lambda x: 2 * x, recording)
    np.testing.assert_array_equal(doubled.q, 2 * recording.q)


def test_samples_gather_what_recordings_hold():
    recording = swing().replace(qd=np.ones((200, 2)), qdd=np.zeros((200, 2)))
    samples = samples_of([recording, recording[:10], Samples(q=[[0, 0]], qd=[[0, 0]], qdd=[[0, 0]])])
    assert len(samples) == 211 and samples.driven == (True, False)
    with pytest.raises(RecordingError, match="recording 1 has no qd or qdd; differentiate it first"):
        samples_of([recording, swing()])


GOOD = {"time": np.arange(4.0), "q": np.zeros((4, 2))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.zeros(4)}, r"q has shape \(4,\); give \(samples, joints\)"),
        ({"q": np.zeros((0, 2)), "time": []}, r"q has shape \(0, 2\)"),
        ({"q": [[1, 2], [3], [4, 5], [6, 7]]}, "q has rows of different lengths"),
        ({"q": np.array([["a", "b"]] * 4)}, "q holds <U1 values; give real numbers"),
        ({"q": np.zeros((4, 2), complex)}, "q holds complex128 values"),
        ({"q": [[0, 0], [0, 0], [np.nan, 0], [0, np.inf]]}, r"q is not finite in row 2 \(the first of 2\)"),
        ({"u": np.zeros((4, 1))}, r"u has shape \(4, 1\), q has \(4, 2\)"),
        ({"qdd": np.zeros((3, 2))}, r"qdd has shape \(3, 2\)"),
        ({"time": np.arange(3.0)}, r"time has shape \(3,\), q has 4 rows"),
        ({"time": [0, 1, np.nan, 3]}, "time is not finite in row 2"),
        ({"time": [0, 1, 0.5, 3]}, r"time goes backwards in row 2 \(1 then 0.5 s\)"),
        ({"time": [0, 1, 1, 3]}, "time stands still in row 2"),
        ({"joint_names": ["a"]}, "give 2 different names"),
        ({"joint_names": ["a", "a"]}, "give 2 different names"),
        ({"driven": [True]}, "driven has 1 entries for 2 joints"),
    ],
)
def test_what_cannot_be_a_recording_is_refused_in_one_line(change, message):
    with pytest.raises(RecordingError, match=message) as caught:
        Recording(**{**GOOD, **change})
    assert "\n" not in str(caught.value)


def test_lists_of_recordings_must_be_of_one_robot():
    named = swing().replace(joint_names=("a", "b"))
    assert len(as_list(named)) == 1 and len(as_list([named, swing()])) == 2
    for several, message in [
        ([], "give at least one"),
        ([named, 3], "recording 1 is a int"),
        ([named, Recording(time=[0.0], q=[[0.0]])], "recording 1 has 1 joints"),
        ([named, swing().replace(joint_names=("b", "a"))], "same joints in the same order"),
    ]:
        with pytest.raises(RecordingError, match=message):
            as_list(several)
    with pytest.raises(RecordingError, match="no sample between 5 and 6 s; it runs from 0 to 1.99 s"):
        named.between(5.0, 6.0)


def test_a_regular_recording_is_left_alone():
    recording = swing()
    rounded = recording.replace(time=np.round(recording.time + 1e-5 * np.sin(np.arange(200)), 5))
    assert regular(rounded) == [rounded]
    assert is_regular(recording)


def test_jitter_is_resampled_small_gaps_filled_and_long_ones_split():
    rng = np.random.default_rng(0)
    time = np.arange(1000) / 250 + rng.uniform(-4e-4, 4e-4, 1000)
    truth = lambda t: np.sin(5 * t)[:, None]  # noqa: E731
    keep = np.ones(1000, bool)
    keep[[100, 101, 300]] = False  # two short gaps
    keep[600:640] = False  # a long one
    log = Recording(time=time[keep], q=truth(time[keep]), u=np.sign(truth(time[keep])))
    first, second = regular(log)
    assert is_regular(first) and is_regular(second)
    assert first.rate == pytest.approx(250, rel=1e-3)
    assert "3 missing samples interpolated, 1 longer gaps split" in first.notes[-1]
    assert second.time[0] == time[640]
    for piece in (first, second):
        assert np.abs(piece.q - truth(piece.time)).max() < 1e-6  # linear interpolation would err by 5e-5
        assert set(np.unique(piece.u)) <= {-1.0, 0.0, 1.0}  # a command is held, never blended
    (halved,) = regular(swing(), rate=50)
    assert halved.rate == pytest.approx(50) and len(halved) == 100
    with pytest.raises(RecordingError, match="gaps leave no piece of 16 samples"):
        regular(Recording(time=np.cumsum([1, 1, 1, 30] * 9), q=np.zeros((36, 1))))
