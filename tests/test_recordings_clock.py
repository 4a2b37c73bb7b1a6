"""Time stamps: a regular clock behind them is found again, and samples are put on it where that leaves less noise."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from diffnea.cli import inputs
from diffnea.recordings import Recording, diagnose, is_regular, regular, smooth
from diffnea.recordings.diagnosis.diagnose import sampling
from diffnea.recordings.signal.resampling import gaps
from diffnea.recordings.signal.sampling_clock import regular_clock

PANDA = Path(__file__).resolve().parents[2] / "shared" / "cases" / "panda"
RATE, COUNT, NOISE, STEP = 250, 2500, 2e-5, 2 * np.pi / 4096
GRID = np.arange(COUNT) / RATE
# An estimated standard deviation of noise is right within this share.
ROUGHLY = 0.3


def motion(time):
    return 1.3 * np.sin(2 * time) + 0.5 * np.sin(7 * time)


def log(stamps, taken, noise=NOISE, step=0.0, **more):
    """Positions read at `taken` and stamped otherwise, perhaps on the lattice of an encoder."""
    q = motion(taken) + noise * np.random.default_rng(1).normal(size=len(taken))
    return Recording(time=stamps, q=(np.round(q / step) * step if step else q)[:, None], **more)


def jittered(scale=2e-4, seed=0):
    return GRID + scale * np.random.default_rng(seed).normal(size=COUNT)


# The clock ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [20, 64, 65, 1000, 100_000])
@pytest.mark.parametrize("late", ["about", "after"])
def test_dropped_samples_are_told_from_jitter(count, late):
    """Every stamp is given its own period, at the time that clocks of computers have."""
    rng = np.random.default_rng(count)
    index = np.flatnonzero((rng.uniform(size=count) > 0.01) | (np.arange(count) == 0))
    shape = rng.normal(size=len(index)) if late == "about" else rng.exponential(size=len(index)).clip(0, 5)
    found = regular_clock([1.7e9 + index / RATE + 3e-4 * shape])
    assert found is not None and found.missing == index[-1] - index[0] + 1 - len(index)
    np.testing.assert_array_equal(found.indices[0], index)
    assert found.period == pytest.approx(1 / RATE, abs=10 * 3e-4 / count**1.5 + 1e-12)
    assert found.jitter == pytest.approx(3e-4 * np.std(shape), rel=0.05)


def test_single_stamps_far_off_do_not_move_the_clock():
    stamps = GRID.copy()
    stamps[700] += 0.003
    stamps[1500:1506] = stamps[1506] - 1e-4 * np.arange(6, 0, -1)  # a queue that was emptied at once
    found = regular_clock([stamps])
    assert found is not None and (found.odd, found.missing) == (7, 0)
    assert found.period == pytest.approx(1 / RATE, rel=1e-9) and found.jitter < 1e-9
    assert len(gaps(log(stamps, GRID))) == 0 and sampling(log(stamps, GRID)).gaps == 0


def test_stamps_of_few_digits_have_the_mean_rate():
    found = regular_clock([np.round(np.arange(5000) / 300, 3)])
    assert found is not None and found.missing == 0 and 1 / found.period == pytest.approx(300, rel=1e-6)


@pytest.mark.parametrize("spread", [2e-5, 2e-4, 2e-3])
def test_a_program_that_waits_between_samples_is_no_clock(spread):
    steps = np.random.default_rng(0).uniform(-spread, spread, COUNT) + 1 / RATE
    assert regular_clock([np.cumsum(steps)]) is None
    assert regular_clock([np.cumsum(np.repeat([4e-3, 1e-2], COUNT))]) is None


# What is done to a log ----------------------------------------------------------------------------------------------


def test_one_odd_stamp_leaves_values_and_the_encoder_step_alone():
    stamps = GRID.copy()
    stamps[700] += 0.003
    recording = log(stamps, GRID, noise=0.0, step=STEP)
    (found,) = regular(recording)
    np.testing.assert_array_equal(found.q, recording.q)
    np.testing.assert_allclose(found.time, GRID, atol=1e-9)
    assert smooth(found).joints[0].step == pytest.approx(STEP, rel=1e-6)
    assert "1 of 2500 time stamps is off by up to 3 ms; samples are taken as regular at 250 Hz" in found.notes[-1]
    said = str(diagnose(recording).sampling)
    assert said.endswith("250 Hz, regular, 1 odd time stamp")


def test_late_stamps_leave_the_samples_on_their_clock():
    """Interpolated at the stamps, they would have 30 times the noise."""
    recording = log(jittered(), GRID, u=np.sign(motion(GRID))[:, None])
    (found,) = regular(recording)
    np.testing.assert_array_equal(found.q, recording.q)
    np.testing.assert_array_equal(found.u, recording.u)
    assert smooth(found).joints[0].noise == pytest.approx(NOISE, rel=ROUGHLY)
    assert found.notes[-1].startswith("time stamps jitter by 0.2 ms; samples are taken as regular at 250 Hz: this ")
    assert "times less noise than interpolating at the stamps" in found.notes[-1]
    assert sampling(recording).jitter == pytest.approx(2e-4, rel=0.05)


def test_stamps_that_are_right_are_interpolated_at():
    stamps = jittered()
    (found,) = regular(log(stamps, stamps))
    assert smooth(found).joints[0].noise == pytest.approx(NOISE, rel=ROUGHLY)
    assert np.abs(found.q[:, 0] - motion(found.time)).max() < 6 * NOISE
    assert "positions are interpolated at the stamps by cubic splines: this leaves " in found.notes[-1]


def test_stamps_without_a_clock_are_interpolated_at():
    stamps = np.cumsum(1 / RATE + 2e-4 * np.random.default_rng(0).uniform(-1, 1, COUNT))
    (found,) = regular(log(stamps, stamps))
    assert is_regular(found) and np.abs(found.q[:, 0] - motion(found.time)).max() < 6 * NOISE
    assert found.notes[-1].startswith("time stamps follow no regular clock, steps vary by 0.12 ms; positions are inter")


def test_only_missing_samples_are_filled_in_on_the_encoders_lattice():
    keep = np.random.default_rng(3).uniform(size=COUNT) > 0.02
    keep[[0, -1]] = True
    keep[1000:1060] = False
    recording = log(jittered()[keep], GRID[keep], step=STEP, noise=0.0, u=np.arange(COUNT)[keep, None].astype(float))
    pieces = regular(recording)
    assert len(pieces) == 2
    whole = np.concatenate([np.round(piece.time * RATE).astype(int) for piece in pieces])
    kept = np.flatnonzero(keep)
    q, u = (np.concatenate([getattr(piece, key)[:, 0] for piece in pieces]) for key in ("q", "u"))
    np.testing.assert_array_equal(q[np.isin(whole, kept)], recording.q[:, 0])
    assert np.abs(q - motion(GRID[whole])).max() < 2 * STEP
    np.testing.assert_array_equal(u, [kept[kept <= k].max() for k in whole])  # a command is held
    assert all(smooth(piece).joints[0].step == pytest.approx(STEP, rel=1e-6) for piece in pieces)
    missing = len(whole) - len(kept)
    assert f"{missing} missing samples interpolated, 1 longer gaps split the recording" in pieces[0].notes[-1]


def test_another_rate_goes_by_way_of_the_clock():
    (found,) = regular(log(jittered(), GRID), rate=100)
    assert found.rate == pytest.approx(100) and np.abs(found.q[:, 0] - motion(found.time)).max() < 8 * NOISE
    assert "taken as regular" in found.notes[0] and found.notes[1] == "resampled to 100 Hz"


@pytest.mark.parametrize("run", ["run0_mcap", "run1_mcap"])
def test_a_bag_with_jittered_stamps_has_the_noise_of_its_sensors(run):
    """The noise that was put in is 2e-5 rad; splines at the stamps leave 3e-4 and more."""
    if not PANDA.exists():
        pytest.skip("no cases/panda in shared beside the checkout")
    pytest.importorskip("mcap", reason="the formats extra is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = inputs.read_robot(str(PANDA / "panda.urdf"), lock=("panda_finger_joint1", "panda_finger_joint2"))
    (recording,) = inputs.read_recordings((str(PANDA / run),), robot, measured=True)
    (piece,) = regular(recording)
    np.testing.assert_array_equal(piece.q, recording.q)
    assert piece.rate == pytest.approx(250, rel=1e-4)
    assert all(joint.noise == pytest.approx(2e-5, rel=ROUGHLY) for joint in smooth(piece).joints)
