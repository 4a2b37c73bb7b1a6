"""Noise of positions is told from motion."""

import numpy as np
import pytest
from robots import random_robot, random_tree

import diffnea as dn
from diffnea.identify.judge.quick_motion import beyond_the_model
from diffnea.identify.judge.score import NOTHING, Score
from diffnea.identify.notes import note
from diffnea.identify.options import JudgeOptions, Options
from diffnea.identify.problem.measurements.preparation_notes import about_data
from diffnea.identify.problem.measurements.tracks import Split, split
from diffnea.recordings.signal.smoothing import derivatives, noise_beside_jumps, noise_level

RATE, COUNT, NOISE = 250, 4000, 4e-6


SAID = (("elbow", 40.0), ("wrist", 12.0), ("elbow", 15.0))


def positions(seed, plateau):
    """Motion below 2 Hz, above that accelerations that are random and as large as `plateau` says, and noise."""
    rng = np.random.default_rng(seed)
    f = np.fft.rfftfreq(COUNT, 1 / RATE)[1:]
    size = plateau(f) + 10 / (1 + (f / 1.2) ** 6)
    lines = size * (rng.standard_normal((2, len(f))).T @ [1, 1j]) / (2 * np.pi * f) ** 2
    q = np.fft.irfft(np.concatenate([[0], lines]), COUNT)
    return q / q.std() + NOISE * rng.standard_normal(COUNT)


def rigid(f):
    return np.where(np.abs(f - 4.0) < 0.6, 0.8, 1.0)


def bending(f):
    """Of a motor whose link swings by itself at 4 Hz: it stands still there, and turns more easily above."""
    return 4 * np.abs(f**2 - 4.0**2) / (f**2 + 4.0**2)


def vibrating(q):
    track = dn.Recording(time=np.arange(COUNT) / RATE, q=q[:, None], u=0 * q[:, None], joint_names=("elbow",))
    return [note for note in split(track, None, ("elbow",), 1, 0).notes if note.code == "vibration"]


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_accelerations_that_are_white_over_decades_are_not_taken_for_noise(seed):
    """As friction that jumps makes them: by chance they are lowest at some place or another, far below the noise."""
    q = positions(seed, rigid)
    found = derivatives(q, 1 / RATE)
    assert found.noise < 6 * NOISE and found.bandwidth > 20  # 50 to 120 times too much was found before, and 5 Hz
    assert NOISE / 2 < found.white < 2 * NOISE
    assert vibrating(q) == []


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_joint_that_bends_is_named_where_its_motion_passes_for_noise(seed):
    q = positions(seed, bending)
    (said,) = vibrating(q)
    low, high, times = (float(str(said.values[key])) for key in ("low", "high", "times"))
    assert said.subject == "elbow" and times > 10 and low < 20 < high


def test_a_joint_that_bends_in_several_recordings_is_named_once_where_it_is_most():
    several = [note("vibration", name, low=7.5, high=57.0, times=times) for name, times in SAID]
    parts = Split((), (), (), (), (note("data", "A", said="resampled"), *several), "the last")
    assert [(each.subject, each.values["times"]) for each in parts.limits] == [("wrist", 12.0), ("elbow", 40.0)]
    assert [each.code for each in about_data(random_robot(random_tree(0, 1), 0), parts)] == ["data", "kept-back"]


@pytest.mark.parametrize(("error", "said"), [(5e-4, ()), (5e-3, ("elbow",))])
def test_motion_that_the_model_predicts_is_no_bending(error, said):
    """A joint that sticks and slips under its servo: 2 mrad that smoothing takes away, and the model has them."""
    quick = note("vibration", "elbow", low=2.1, high=7.9, times=15.0, size=2e-3)
    found = Score(None, (), (0.1, 0.5), (0.1, 0.1), ((1e-3, 1.1 * error), (1e-3, error)), None, 0, 8)
    robot = random_robot(random_tree(0, 2), 0)
    about = (quick,), dn.Model(robot, dn.actuators.for_robot("ideal", robot)), ()
    assert tuple(each.subject for each in beyond_the_model(*about, found, ("waist", "elbow"), JudgeOptions())) == said
    assert beyond_the_model(*about, NOTHING, ("waist", "elbow"), JudgeOptions()) == (quick,)


@pytest.mark.parametrize(("driven", "said"), [(1.0, ()), (0.0, ("joint0",))])
def test_motion_that_the_torques_explain_is_no_bending(driven, said):
    """The same motion, once with all torques that it takes, and once with those of its slow part alone."""
    q = positions(0, bending)[:, None]
    robot = random_robot(random_tree(0, 1), 0)
    slow, whole = (derivatives(q[:, 0], 1 / RATE, hertz) for hertz in (3.0, 80.0))
    u = [
        np.asarray(dn.inverse_dynamics(robot, *(getattr(each, key)[:, None] for key in ("q", "qd", "qdd"))))
        for each in (slow, whole)
    ]
    log = dn.Recording(
        time=np.arange(COUNT) / RATE, q=q, u=u[0] + driven * (u[1] - u[0]), joint_names=robot.joint_names
    )
    parts = split(log, None, robot.joint_names, 1, 0)
    assert [each.subject for each in parts.limits] == list(robot.joint_names)
    model = dn.Model(robot, dn.actuators.for_robot("ideal", robot))
    left = beyond_the_model(parts.limits, model, parts.fitted, NOTHING, robot.joint_names, JudgeOptions())
    assert len(left) == len(said)


def test_the_verdict_begins_with_what_a_joint_that_bends_is_not_good_for():
    q = positions(0, bending)[:, None]
    slow, other = (derivatives(each, 1 / RATE, 3.0).qdd for each in (q[:, 0], positions(3, bending)))
    quick = derivatives(positions(3, bending), 1 / RATE, 80.0).qdd - other  # of another motion
    acceleration = (slow + quick)[:, None]
    robot = random_robot(random_tree(0, 1), 0)
    log = dn.Recording(time=np.arange(COUNT) / RATE, q=q, u=acceleration, joint_names=robot.joint_names)
    fit = dn.fit(robot, log, actuator="ideal", loss="torque", method="lm")
    assert "vibration" in fit.verdict.codes and "vibration" not in [each.code for each in fit.notes]
    about = fit.verdict.codes.index("vibration")
    assert {*fit.verdict.codes[:about]} <= {"unexplained", "structure", "another-robot"}  # reasons for a refusal
    assert "faster than" in fit.verdict.reasons[about]
    strict = dn.fit(
        robot, log, actuator="ideal", loss="torque", method="lm", options=Options(judge=JudgeOptions(unexplained=0.0))
    )
    assert "unexplained" not in fit.verdict.codes and strict.verdict.codes[0] == "unexplained"


def test_noise_of_an_encoder_is_no_vibration():
    slow = np.sin(3 * np.arange(COUNT) / RATE)
    noise = np.random.default_rng(0).standard_normal(COUNT)
    for step in (1e-5, 1e-3):
        assert vibrating(slow + step * noise) == [] and vibrating(step * np.round(slow / step)) == []
    assert vibrating(slow) == []


def test_impacts_are_no_noise_of_an_accelerometer():
    """A landing foot shakes a trunk for some milliseconds of each stride; its spectrum is as white as noise."""
    rng, count = np.random.default_rng(1), 10_000
    slow = 9.81 + 3 * np.sin(2 * np.pi * 3.6 * np.arange(count) / 500)
    shocks = np.zeros(count)
    for start in range(50, count - 20, 139):
        shocks[start : start + 12] += 20 * rng.normal(size=12) * np.exp(-np.arange(12) / 3)
    read = slow + shocks + 0.02 * rng.normal(size=count)
    assert noise_beside_jumps(read) == pytest.approx(0.02, rel=0.3)
    assert noise_level(read) > 0.5  # what holds for positions takes them for noise
    assert noise_beside_jumps(slow) < 1e-6
