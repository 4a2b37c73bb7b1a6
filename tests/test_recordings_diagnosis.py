"""Diagnoses: known faults put into simulated recordings are found, and nothing is found where nothing is."""

import math

import numpy as np
import pytest

from diffnea.recordings import (
    Recording,
    RecordingError,
    diagnose,
    differentiate,
    input_delays,
    matched_input,
    regular,
    smooth,
)
from diffnea.recordings.diagnosis.diagnose import sampling, saturation

STEP = 2 * math.pi / 4096


def driven_pendulum(delay: int, rate: float = 250.0, count: int = 2500, seed: int = 0):
    """A pendulum with friction under a held random torque that comes `delay` samples late: q, qd, qdd, u."""
    rng, dt, state = np.random.default_rng(seed), 1 / rate, np.zeros(2)
    u = 3 * np.tanh(np.convolve(rng.normal(size=count), np.ones(12) / 3, mode="same"))

    def rate_of(x, tau):
        return np.array([x[1], (tau - 2 * math.sin(x[0]) - 0.05 * x[1] - 0.1 * math.tanh(x[1] / 0.01)) / 0.05])

    rows = []
    for k in range(count):
        tau = u[k - delay] if k >= delay else 0.0
        rows.append([*state, rate_of(state, tau)[1]])
        for _ in range(4):
            h = dt / 4
            k1 = rate_of(state, tau)
            k2 = rate_of(state + h / 2 * k1, tau)
            k3 = rate_of(state + h / 2 * k2, tau)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate_of(state + h * k3, tau))
    q, qd, qdd = np.array(rows).T
    return q, qd, qdd, u


def recorded(delay: int, **more):
    q, _, _, u = driven_pendulum(delay)
    time = np.arange(len(q)) / 250
    return Recording(time=time, q=np.round(q / STEP)[:, None] * STEP, u=u[:, None], joint_names=["arm"], **more)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_delays_are_found_in_fractions_of_a_sample(delay):
    (found,) = input_delays(recorded(delay))
    assert found.joint == "arm" and found.explained > 0.95
    assert found.seconds == pytest.approx(delay / 250, abs=4e-4)  # a tenth of a sample
    assert found.std < 4e-4


def test_no_delay_is_named_where_the_input_does_nothing_or_the_joint_rests():
    rng = np.random.default_rng(0)
    q, _, _, u = driven_pendulum(0)
    time = np.arange(len(q)) / 250
    assert input_delays(Recording(time=time, q=q[:, None])) == ()
    assert input_delays(Recording(time=time, q=q[:, None], u=rng.normal(size=(len(q), 1)))) == ()
    still = np.round(rng.normal(scale=1e-4, size=(len(q), 1)) / STEP) * STEP
    assert input_delays(Recording(time=time, q=still, u=u[:, None])) == ()


def test_a_matched_input_stands_beside_smoothed_accelerations():
    """With both sides through one filter the torque is explained; with the raw samples half a sample is missing."""
    log = recorded(0)
    found = smooth(log, 20.0)
    kept = slice(found.dropped, len(log) - found.dropped)
    q, qd, qdd = found.q[:, 0], found.recording.qd[:, 0], found.recording.qdd[:, 0]
    terms = np.column_stack([qdd, np.sin(q), qd, np.tanh(qd / 0.01)])

    def left(u):
        return np.std(u - terms @ np.linalg.lstsq(terms, u, rcond=None)[0])

    matched = left(matched_input(log, 20.0)[kept, 0])
    assert matched < 0.04 * np.std(log.u) and left(log.u[kept, 0]) > 3 * matched
    inertia, gravity, damping, friction = np.linalg.lstsq(terms, matched_input(log, 20.0)[kept, 0], rcond=None)[0]
    assert (inertia, gravity) == (pytest.approx(0.05, rel=0.01), pytest.approx(2, rel=0.01))
    assert (damping, friction) == (pytest.approx(0.05, rel=0.1), pytest.approx(0.1, rel=0.2))


def test_a_matched_input_keeps_constants_and_delays_what_changes():
    time = np.arange(1000) / 250
    constant = Recording(time=time, q=np.zeros((1000, 1)), u=np.full((1000, 1), 2.5))
    np.testing.assert_allclose(matched_input(constant, 10), 2.5, atol=1e-12)
    wave = constant.replace(u=np.sin(6 * time)[:, None])
    late = np.sin(6 * (time - 0.02 - 0.5 / 250))
    assert np.abs(matched_input(wave, 20, delay=0.02)[:, 0] - late)[100:-100].max() < 1e-3


def test_sampling_counts_jitter_missing_samples_and_gaps():
    time = np.arange(1000) / 100 + np.random.default_rng(0).uniform(-1e-3, 1e-3, 1000)
    keep = np.ones(1000, bool)
    keep[[50, 51, 700]] = False
    keep[300:350] = False
    found = sampling(Recording(time=time[keep], q=np.zeros((947, 1))))
    assert (found.samples, found.missing, found.gaps) == (947, 3, 1)
    assert found.rate == pytest.approx(100, rel=0.01)
    assert 5e-4 < found.jitter < 1.5e-3
    assert "3 samples missing, 1 gaps" in str(found)
    assert str(sampling(Recording(time=np.arange(99) / 100, q=np.zeros((99, 1))))).endswith("100 Hz, regular")


def test_saturation_is_told_from_peaks_and_from_relays():
    time, zeros = np.arange(2000) / 100, np.zeros((2000, 1))
    wave = np.sin(3 * time)
    for u, expected in [
        (np.clip(2 * wave, -1, 1), 1),
        (wave, 0),
        (np.sign(wave + 1e-9), 0),  # a relay is always at an extreme: that is its signal
        (np.full(2000, 3.0), 0),
    ]:
        assert len(saturation(Recording(time=time, q=zeros, u=u[:, None]))) == expected
    (found,) = saturation(Recording(time=time, q=zeros, u=np.clip(2 * wave, -1, 1)[:, None]))
    assert (found.low, found.high) == (-1, 1) and found.share == pytest.approx(2 / 3, abs=0.02)
    assert found.runs == 19 and "66%" in str(found)


def test_a_whole_diagnosis_says_all_in_words():
    q, qd, _, _ = driven_pendulum(2)
    log = recorded(2, qd=np.roll(qd, 3)[:, None])
    found = diagnose(log)
    (motion,) = found.excitation
    assert (motion.lowest, motion.highest) == (pytest.approx(q.min(), abs=0.01), pytest.approx(q.max(), abs=0.01))
    assert motion.speed == pytest.approx(np.abs(qd).max(), rel=0.1)
    assert motion.moving > 0.8 and motion.reversals > 10 and motion.signal_to_noise > 5
    text = "\n".join(found.lines)
    for words in (
        "2500 samples, 9.996 s at 250 Hz",
        "encoder step 0.00153",
        "reversals",
        "answers its command after 8",
    ):
        assert words in text
    assert "12.2 ms late" in text and all("\n" not in line for line in found.lines)


def test_a_joint_that_rests_is_seen_to_rest():
    time = np.arange(2000) / 250
    rest = np.round(np.random.default_rng(1).normal(scale=0.4, size=2000)) * STEP
    moving, resting = diagnose(Recording(time=time, q=np.column_stack([np.sin(5 * time), rest]))).excitation
    assert moving.moving > 0.9 and resting.moving < 0.3
    assert moving.signal_to_noise > 1e3 and resting.signal_to_noise < 3


def test_a_common_bandwidth_is_the_lowest_of_those_that_move():
    q, _, _, _ = driven_pendulum(0)
    time = np.arange(2500) / 250
    slow = np.round(np.sin(1.5 * time) / STEP) * STEP
    rest = np.round(np.random.default_rng(1).normal(scale=0.4, size=2500)) * STEP
    log = Recording(time=time, q=np.column_stack([np.round(q / STEP) * STEP, slow, rest]))
    single, common = smooth(log), smooth(log, "common")
    lowest = min(joint.bandwidth for joint in single.joints[:2])
    assert {round(joint.bandwidth, 6) for joint in common.joints} == {round(lowest, 6)}
    for bandwidth, message in [("same", 'give numbers in Hz, or "common"'), (-3.0, "positive")]:
        with pytest.raises(RecordingError, match=message):
            differentiate(log, bandwidth)


def test_gaps_do_not_stop_a_diagnosis():
    log = recorded(0)
    keep = np.ones(len(log), bool)
    keep[400:500] = False
    broken = Recording(time=log.time[keep], q=log.q[keep], u=log.u[keep])
    found = diagnose(broken)
    assert found.sampling.gaps == 1 and len(regular(broken)) == 2
    assert len(found.smoothing.recording) > 1900
