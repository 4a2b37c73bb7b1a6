"""Derivatives from positions: against known truth, clean, noisy and quantised, and what is said about them."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.signal import butter, lfilter

from diffnea.recordings import Recording, RecordingError, differentiate, prepare, regular, smooth, velocity_lag
from diffnea.recordings.signal.smoothing import derivatives, encoder_step

# How far a chosen bandwidth may be from the best one in hindsight, as a ratio of errors.
NEARLY_BEST = 1.35
# An estimated standard deviation from one record is right within this ratio.
ROUGHLY = 2.5


def cart_and_pole(x, force):
    """A driven cart with a pole: x = (cart, pole angle from hanging, and their rates)."""
    mass, pole, length, gravity = 1.0, 0.13, 0.17, 9.81
    s, c, w = math.sin(x[1]), math.cos(x[1]), x[3]
    m11, m12, m22 = mass + pole, pole * length * c, 4 / 3 * pole * length**2
    b1, b2 = force - 5 * x[2] + pole * length * s * w * w, -pole * gravity * length * s - 0.0005 * w
    det = m11 * m22 - m12 * m12
    return np.array([x[2], x[3], (b1 * m22 - m12 * b2) / det, (m11 * b2 - m12 * b1) / det])


@pytest.fixture(scope="module")
def swing_up():
    """Seven seconds at 250 Hz of pumping a pole with a held force, as a swing-up does: q, qd, qdd."""
    dt, x, rows = 1 / 250, np.array([0.0, 0.02, 0.0, 0.0]), []
    force = 0.0
    for _ in range(1750):
        missing = 9.81 * 0.17 * (1 + math.cos(x[1])) - 4 / 6 * 0.17**2 * x[3] ** 2  # energy to upright, per kg of pole
        wanted = float(np.clip(-20 * missing * np.tanh(x[3] * math.cos(x[1])) - 25 * x[0], -9, 9))
        # The acceleration at a sample is that of both inputs that meet there: the smoother sees their mean.
        rows.append(np.concatenate([x, (cart_and_pole(x, force) + cart_and_pole(x, wanted))[2:] / 2]))
        force = wanted
        for _ in range(4):
            h = dt / 4
            k1 = cart_and_pole(x, force)
            k2 = cart_and_pole(x + h / 2 * k1, force)
            k3 = cart_and_pole(x + h / 2 * k2, force)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + cart_and_pole(x + h * k3, force))
    rows = np.array(rows)
    assert 2.5 < np.abs(rows[:, 1]).max() < 10  # it swings up, and does not spin for ever
    return rows[:, :2], rows[:, 2:4], rows[:, 4:]


def arm(count=10_000, rate=1000.0):
    """A slow excitation at 1 kHz: harmonics up to 2.2 Hz."""
    rng, time = np.random.default_rng(5), np.arange(count) / rate
    omega = 2 * np.pi * 0.2 * np.arange(1, 12)
    a, b = rng.normal(size=(2, 11)) / np.arange(1, 12)
    sines, cosines = np.sin(np.outer(time, omega)), np.cos(np.outer(time, omega))
    return (
        sines @ a + cosines @ b,
        cosines @ (omega * a) - sines @ (omega * b),
        -(sines @ (omega**2 * a) + cosines @ (omega**2 * b)),
    )


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def error(y, truth, dt, bandwidth=None):
    found = derivatives(y, dt, bandwidth)
    # The same samples whatever the bandwidth, so that errors compare.
    return rms((found.qdd - truth)[len(y) // 10 : -len(y) // 10])


def test_clean_signals_are_differentiated_all_but_exactly():
    time = np.arange(2500) / 250
    for hertz in (0.5, 2, 10):
        omega = 2 * np.pi * hertz
        found = derivatives(np.sin(omega * time + 0.3), 1 / 250)
        inner = slice(found.edge, len(time) - found.edge)
        assert found.edge < 70
        assert np.abs(found.qd - omega * np.cos(omega * time + 0.3))[inner].max() < 1e-6 * omega
        assert np.abs(found.qdd + omega**2 * np.sin(omega * time + 0.3))[inner].max() < 1e-6 * omega**2


def test_a_free_pendulum_from_an_integrator_is_exact_too():
    time = np.arange(2000) / 250
    run = solve_ivp(
        lambda _, x: (x[1], -20 * math.sin(x[0]) - 0.1 * x[1]), (0, 8), (2.5, 0.0), t_eval=time, rtol=1e-12, atol=1e-12
    )
    angle, speed = run.y
    done = differentiate(Recording(time=time, q=angle[:, None]))
    inner = np.searchsorted(time, done.time)
    truth = -20 * np.sin(angle) - 0.1 * speed
    assert rms(done.qd[:, 0] - speed[inner]) < 1e-6
    assert rms(done.qdd[:, 0] - truth[inner]) < 1e-6 * rms(truth)


@pytest.mark.parametrize("kind", ["quantised", "white"])
@pytest.mark.parametrize(("joint", "step"), [(0, 22.7e-6), (1, 2 * np.pi / 4096), (1, 2 * np.pi / 2048)])
def test_the_chosen_bandwidth_is_nearly_the_best_in_hindsight(swing_up, joint, step, kind):
    q, _, qdd = (signal[:, joint] for signal in swing_up)
    y = (
        np.round(q / step) * step
        if kind == "quantised"
        else q + np.random.default_rng(1).normal(scale=step, size=q.shape)
    )
    best = min(error(y, qdd, 1 / 250, hertz) for hertz in np.geomspace(3, 100, 30))
    assert error(y, qdd, 1 / 250) < NEARLY_BEST * best
    found = derivatives(y, 1 / 250)
    if kind == "quantised":
        assert found.step == pytest.approx(step, rel=1e-6)
        assert found.noise == pytest.approx(step / math.sqrt(12), rel=0.25)
    else:
        assert found.step == 0
        assert found.noise == pytest.approx(step, rel=0.25)


def test_expected_errors_are_roughly_the_real_ones(swing_up):
    q, qd, qdd = (signal[:, 1] for signal in swing_up)
    for seed in range(5):
        y = q + np.random.default_rng(seed).normal(scale=2e-3, size=q.shape)
        found = derivatives(y, 1 / 250)
        inner = slice(len(q) // 10, -len(q) // 10)  # the estimate looks at the middle most
        for expected, real in ((found.qd_std, found.qd - qd), (found.qdd_std, found.qdd - qdd)):
            assert 1 / ROUGHLY < expected / rms(real[inner]) < ROUGHLY


def test_expected_noise_and_its_independent_samples_on_pure_noise():
    # With the bandwidth given and nothing moving, the error is noise alone: its size and its spread are known.
    rng, corner, dt = np.random.default_rng(0), 10.0, 1 / 250
    runs = [derivatives(rng.normal(size=4000), dt, corner) for _ in range(40)]
    powers = [np.mean(run.qdd[200:-200] ** 2) for run in runs]
    assert np.mean(powers) == pytest.approx(np.median([run.qdd_std**2 for run in runs]), rel=0.1)
    # The mean square of n independent values scatters by a share √(2/n) of itself.
    worth = 2 * np.mean(powers) ** 2 / np.var(powers)
    assert 0.5 < worth / (runs[0].independent * 3600) < 2


def test_an_arm_at_1_khz_is_smoothed_to_a_few_hertz():
    q, qd, qdd = arm()
    step = 2e-5
    for y in (np.round(q / step) * step, q + np.random.default_rng(2).normal(scale=step, size=q.shape)):
        found = derivatives(y, 1e-3)
        inner = slice(found.edge, len(q) - found.edge)
        assert rms((found.qdd - qdd)[inner]) < 3e-3 * rms(qdd)
        assert rms((found.qd - qd)[inner]) < 3e-4 * rms(qd)
        assert 3 < found.bandwidth < 40


def test_edges_that_are_kept_are_as_good_as_the_middle(swing_up):
    q, _, qdd = (signal[:, 1] for signal in swing_up)
    rng, edges, middle = np.random.default_rng(3), [], []
    for start in range(0, 1200, 25):
        y = q[start : start + 500] + rng.normal(scale=5e-4, size=500)
        found = derivatives(y, 1 / 250)
        wrong = found.qdd - qdd[start : start + 500]
        edges.append(np.mean(wrong[found.edge : found.edge + 10] ** 2))
        middle.append(np.mean(wrong[200:300] ** 2))
        assert found.edge <= 50
    assert np.sqrt(np.median(edges)) < 2 * np.sqrt(np.median(middle))


def test_encoder_steps_are_found_and_not_invented():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=5000)) * 1e-2
    for step in (1e-3, 3.1e-3, 0.1):
        assert encoder_step(np.round(walk / step) * step) == pytest.approx(step, rel=1e-6)
        assert encoder_step(np.round(walk / step) * step + 0.123) == pytest.approx(step, rel=1e-6)
    assert encoder_step(walk) == 0
    assert encoder_step(np.zeros(100)) == 0
    assert encoder_step(np.round(walk / 1e-3) * 1e-3 + rng.normal(scale=2e-4, size=5000)) == 0


def test_a_joint_that_rests_has_zero_acceleration_and_costs_few_samples():
    found = derivatives(np.full(1000, 0.7), 1e-3)
    assert found.edge <= 100 and rms(found.qdd) < 1e-9 and found.noise == 0
    flicker = 0.7 + 1e-3 * (np.random.default_rng(0).random(1000) < 0.5)
    found = derivatives(flicker, 1e-3)
    assert found.edge <= 100 and found.step == pytest.approx(1e-3)
    assert rms(found.qdd[100:-100]) < 0.5  # differences would give 1000


def test_a_million_samples_take_seconds():
    import time

    y = np.sin(np.arange(1_000_000) * 0.01) + np.random.default_rng(0).normal(scale=1e-3, size=1_000_000)
    start = time.process_time()
    derivatives(y, 1e-3)
    assert time.process_time() - start < 5


def test_wrapped_angles_are_recognised_and_said():
    time = np.arange(1000) / 250
    angle = 3 * np.sin(2 * time) + 5 * time
    wrapped = np.angle(np.exp(1j * angle))
    found = smooth(
        Recording(time=time, q=np.column_stack([wrapped, 2 + 0.1 * np.sin(time)]), joint_names=["pole", "arm"])
    )
    assert np.ptp(found.recording.q[:, 0] - angle[found.dropped : 1000 - found.dropped]) < 1e-9
    assert found.joints[0].unwrapped > 2 and found.joints[1].unwrapped == 0
    assert any("pole" in note and "jumps of a whole turn" in note for note in found.recording.notes)
    slider = Recording(time=time, q=20 * np.sin(9 * time)[:, None])  # metres: beyond a turn, so not an angle
    np.testing.assert_array_equal(
        smooth(slider).recording.q, slider.q[smooth(slider).dropped : 1000 - smooth(slider).dropped]
    )


@pytest.mark.parametrize("gap", [False, True])
def test_wrapped_angles_are_unwrapped_before_they_are_resampled(gap):
    """A joint that turns through ±π, with stamps that jitter: splines across a jump would look like noise of 24°."""
    rng, noise = np.random.default_rng(0), 1e-4
    time = np.arange(2500) / 250
    angle = 3 * np.sin(2 * time) + 2 * time + noise * rng.normal(size=2500)
    keep = np.ones(2500, bool)
    keep[1200 : 1260 if gap else 1202] = False
    log = Recording(
        time=(time + 2e-4 * rng.uniform(-1, 1, 2500))[keep], q=np.angle(np.exp(1j * angle))[keep, None], name="run"
    )
    pieces = [smooth(piece) for piece in regular(log)]
    assert len(pieces) == 1 + gap
    jumps = (np.abs(np.diff(log.q[:, 0])) > 5).sum()
    assert sum(piece.joints[0].unwrapped for piece in pieces) == jumps > 3
    for piece in pieces:
        assert piece.joints[0].noise == pytest.approx(noise, rel=0.3)
        assert any(f"{piece.joints[0].unwrapped} jumps of a whole turn" in note for note in piece.recording.notes)
        apart = piece.recording.q[:, 0] - np.interp(piece.recording.time, time, angle)
        assert np.ptp(apart) < 0.01


def test_notes_say_what_was_done_and_a_bandwidth_can_be_set(swing_up):
    q = np.round(swing_up[0] / 1e-3) * 1e-3
    log = Recording(time=np.arange(len(q)) / 250, q=q, joint_names=["cart", "pole"], qd=np.zeros_like(q))
    done = differentiate(log, bandwidth=[12, 15])
    text = "\n".join(done.notes)
    for words in (
        "in place of the recorded ones",
        "non-causally",
        "dropped at each end",
        "cart: position noise",
        "0.001",
    ):
        assert words in text
    assert "12 Hz" in text and "15 Hz" in text
    assert len(done) == len(log) - 2 * smooth(log, [12, 15]).dropped


def test_prepare_does_the_whole_way_and_leaves_alone_what_is_complete():
    time = np.arange(3000) / 250 + np.random.default_rng(0).uniform(-5e-4, 5e-4, 3000)
    keep = np.ones(3000, bool)
    keep[1500:1600] = False
    log = Recording(time=time[keep], q=np.sin(4 * time[keep])[:, None])
    pieces = prepare(log)
    assert len(pieces) == 2
    for piece in pieces:
        assert rms(piece.qdd[:, 0] + 16 * np.sin(4 * piece.time)) < 2e-2 * 16
        assert len(piece.notes) == 3
    assert prepare(pieces) == pieces
    with pytest.raises(RecordingError, match="irregular; use prepare"):
        differentiate(log)
    with pytest.raises(RecordingError, match="15 samples are too few"):
        differentiate(Recording(time=np.arange(15.0), q=np.zeros((15, 1))))


@pytest.mark.parametrize("corner", [50.0, 120.0, math.inf])
def test_the_filter_behind_recorded_velocities_is_found(swing_up, corner):
    q, qd, _ = swing_up
    filtered = qd if math.isinf(corner) else lfilter(*butter(1, corner / (2 * np.pi), fs=250), qd, axis=0)
    step = 2 * np.pi / 4096
    found = velocity_lag(Recording(time=np.arange(len(q)) / 250, q=np.round(q / step) * step, qd=filtered))[1]
    assert found.lag == pytest.approx(1 / corner, abs=1e-3)
    assert found.explained > 0.99 and found.gain == pytest.approx(1, abs=0.02)
    if math.isinf(corner):
        assert math.isinf(found.corner) and "0" in str(found)
    else:
        assert found.corner == pytest.approx(corner, rel=0.1)


def test_a_pure_delay_and_a_wrong_unit_are_told_from_a_filter(swing_up):
    q, qd, _ = swing_up
    late = np.roll(qd, 4, axis=0) * 180 / np.pi
    found = velocity_lag(Recording(time=np.arange(1700) / 250, q=q[40:-10], qd=late[40:-10]))[1]
    assert math.isinf(found.corner) and found.delay == pytest.approx(4 / 250, abs=5e-4)
    assert found.gain == pytest.approx(180 / np.pi, rel=0.01) and "times too large" in str(found)
    with pytest.raises(RecordingError, match="no recorded velocities"):
        velocity_lag(Recording(time=np.arange(99.0), q=np.zeros((99, 1))))
