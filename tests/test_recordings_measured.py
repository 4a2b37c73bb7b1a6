"""Measured inputs: neither late nor early, and a fit of them comes nearer to the truth than with them as commands."""

import numpy as np
import pytest

import diffnea as dn
from diffnea.cli.inputs import read_recordings, read_robot
from diffnea.recordings import RecordingError, as_held, load_recording, save_recording
from diffnea.recordings.signal.differentiate import smooth
from diffnea.recordings.signal.terms import terms

ROBOT = read_robot("dfki_double_pendulum")
DT = 0.01


def motion(count=600):
    """Positions in closed form, and the torques at the samples."""
    time = DT * np.arange(count)
    rates = np.array([[1.0, 1.7], [2.3, 3.1], [5.3, 6.1]])
    parts = [(a, rate) for a, rate in zip((0.7, 0.4, 0.2), rates, strict=True)]
    q, qd, qdd = (sum(a * w**k * np.sin(w * time[:, None] + k * np.pi / 2) for a, w in parts) for k in range(3))
    u = np.asarray(dn.inverse_dynamics(ROBOT, q, qd, qdd))
    return dn.Recording(time=time, q=q, u=u, joint_names=ROBOT.joint_names), qd, qdd


def test_what_acts_between_samples_is_the_mean_of_the_signal_there():
    time = DT * np.arange(200)
    u = np.sin(7 * time)[:, None]
    mean = (np.cos(7 * time) - np.cos(7 * (time + DT)))[:-1] / (7 * DT)
    held = as_held(dn.Recording(time=time, q=u, u=u)).u[:-1, 0]
    assert np.abs(held - mean).max() < 0.02 * np.abs(u[:-1, 0] - mean).max()


def test_equations_see_measured_inputs_as_they_were_read():
    """Means of two samples are a low-pass, which positions did not pass: it would make inertias too small."""
    time = DT * np.arange(600)
    u = np.sin(30 * time)[:, None]
    recording = as_held(dn.Recording(time=time, q=u, u=u))
    smoothed = smooth(recording)
    seen = terms(recording, smoothed).u[100:-100]
    kept = slice(smoothed.dropped + 100, len(time) - smoothed.dropped - 100)
    np.testing.assert_allclose(seen, u[kept], atol=1e-3)


def test_inputs_at_the_instants_of_given_accelerations_stay():
    recording, qd, qdd = motion()
    given = recording.replace(qd=qd, qdd=qdd)
    assert as_held(given) is given


def test_torques_are_explained_better_as_what_they_are(tmp_path):
    recording, _, _ = motion()
    save_recording(recording, tmp_path / "log.csv")
    path = str(tmp_path / "log.csv")
    left = []
    for measured in (False, True):
        data = read_recordings([path], ROBOT, None, measured)
        fit = dn.fit(ROBOT, data, learn=(), actuator="viscous", loss="torque", method="lm")
        left.append(max(fit.metrics.fit.torque_joints))
        assert any("inputs are measured" in str(note) for note in fit.notes) == measured
    assert left[1] < 0.1 * left[0] and left[1] < 1e-5


def test_the_column_map_says_it_too(tmp_path):
    recording, _, _ = motion(50)
    save_recording(recording, tmp_path / "log.csv")
    (tmp_path / "map.toml").write_text("measured = true\n")
    found = load_recording(tmp_path / "log.csv", ROBOT, tmp_path / "map.toml")
    np.testing.assert_allclose(found.u, as_held(recording).u)
    with pytest.raises(RecordingError, match="measured is 'yes'; use true or false"):
        load_recording(tmp_path / "log.csv", ROBOT, {"measured": "yes"})
