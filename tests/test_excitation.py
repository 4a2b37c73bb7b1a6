"""Planned motions: from rest to rest, within bandwidth and limits, by exact gradients, and worth what they promise."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_cli_check import ARM, swinging

import diffnea as dn
from diffnea.cli import main
from diffnea.excitation import design, expectation
from diffnea.excitation.design import _Search, bounds
from diffnea.excitation.information import information
from diffnea.excitation.series import basis
from diffnea.identify.problem.measurements.tracks import Track
from diffnea.identify.problem.measurements.weighting import scales
from diffnea.identify.problem.unknowns import unknowns

SECONDS, BANDWIDTH = 8.0, 0.8


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("excite") / "arm.urdf"
    file.write_text(ARM)
    return file


@pytest.fixture(scope="module")
def robot(path):
    return dn.load_robot(path)


@pytest.fixture(scope="module")
def planned(robot):
    return design(robot, seconds=SECONDS, bandwidth=BANDWIDTH, rate=100.0)


@pytest.fixture(scope="module")
def search(robot):
    """A small search problem, to look at its cost."""
    limits = bounds(robot, 1.0, None)
    free = unknowns(robot, ("inertia",), "stribeck", jax.random.key(0))
    told = information(free, 0.01 * limits.effort, limits.random(0))
    return _Search(told, limits, basis(np.linspace(0, 4, 40), 4.0, 4), "D")


def test_shapes_begin_and_end_at_rest_and_are_their_own_derivatives():
    time = np.linspace(0, SECONDS, 4001)
    shapes = basis(time, SECONDS, 5)
    for ends in (shapes.qd[[0, -1]], shapes.qdd[[0, -1]], shapes.q[0] - shapes.q[-1]):
        np.testing.assert_allclose(ends, 0, atol=1e-10)
    inner = slice(2, -2)
    np.testing.assert_allclose(np.gradient(shapes.q, time, axis=0)[inner], shapes.qd[inner], atol=1e-4)
    np.testing.assert_allclose(np.gradient(shapes.qd, time, axis=0)[inner], shapes.qdd[inner], atol=1e-3)
    assert np.abs(shapes.q).max() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("criterion", ["D", "E"])
def test_gradients_meet_finite_differences(search, criterion):
    search = _Search(search.told, search.limits, search.coarse, criterion)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1 + search.coarse.size, 2)) * 0.3
    direction = rng.normal(size=x.shape)
    cost = jax.jit(search.cost)
    slope = jnp.vdot(jax.grad(search.cost)(jnp.asarray(x), jnp.asarray(10.0)), direction)
    step = 1e-6
    ends = [cost(jnp.asarray(x + sign * step * direction), jnp.asarray(10.0)) for sign in (1, -1)]
    assert float(slope) == pytest.approx(float(ends[0] - ends[1]) / (2 * step), rel=1e-5)


def test_a_plan_keeps_the_limits_and_the_bandwidth(robot, planned):
    recording, limits = planned.recording, robot.limits
    assert np.all(recording.q >= np.asarray(limits.lower)) and np.all(recording.q <= np.asarray(limits.upper))
    assert np.all(np.abs(recording.qd) <= np.asarray(limits.velocity))
    torque = np.asarray(dn.inverse_dynamics(robot, recording.q, recording.qd, recording.qdd))
    torque = torque + np.asarray(robot.damping) * recording.qd
    np.testing.assert_allclose(recording.u, torque, atol=1e-9)
    assert np.all(np.abs(torque) <= np.asarray(limits.effort))
    np.testing.assert_allclose(recording.qd[[0, -1]], 0, atol=1e-10)
    np.testing.assert_allclose(recording.qdd[[0, -1]], 0, atol=1e-8)
    spectrum = np.abs(np.fft.rfft(recording.q[:-1] - recording.q[:-1].mean(0), axis=0))
    waves = round(SECONDS * BANDWIDTH)
    assert spectrum[waves + 1 :].max() < 1e-9 * spectrum.max() or spectrum[waves + 1 :].max() < 1e-9


def test_a_plan_beats_random_motions(planned):
    assert planned.score > max(planned.starts) + 1.0
    assert all(0.3 < max(shares) <= 1 for name, shares in planned.used.items() if name == "velocity")


def columns(robot, recording):
    """The regressor with viscous friction, one row a sample and joint."""
    Y = np.asarray(dn.regressor(robot, recording.q, recording.qd, recording.qdd))
    return np.concatenate([Y, recording.qd[:, :, None] * np.eye(2)], axis=2)


def test_expected_intervals_are_those_of_least_squares(robot, planned):
    """Of quantities that stand alone: the regressor's covariance, where rows count as the torque loss weights them."""
    share, recording = 0.02, planned.recording
    told = expectation(robot, recording, noise=share).after
    model = dn.Model(robot, dn.actuators.Viscous.of(robot.damping))
    track = Track("planned", recording.dt, recording.q, recording.qd, recording.qdd, recording.u, recording.q)
    weight = scales("torque", model, [track])
    X = (columns(robot, recording) * weight[None, :, None]).reshape(-1, 22)
    noise = np.tile(share * np.asarray(robot.limits.effort) * weight, len(recording))
    back = np.linalg.pinv(X.T @ X, rcond=1e-13, hermitian=True) @ X.T
    std = np.sqrt(np.sum((back * noise) ** 2, axis=1))
    found = {each.formula: each.std for each in told.combinations}
    frictions = {"viscous friction(shoulder)": 20, "viscous friction(elbow)": 21}
    for formula, column in {"m·c_z(lower)": 13, "J_yy(lower)": 16, **frictions}.items():
        # The noise is drawn once, and its size read off a few dozen slow waves of it.
        assert found[formula] == pytest.approx(std[column], rel=0.35)


def test_a_plan_tells_what_recordings_do_not(robot, planned):
    time, q, qd, qdd = swinging(seconds=8.0)
    still = np.array([1.0, 0.0])
    q, qd, qdd = q * still, qd * still, qdd * still
    u = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd)) + np.asarray(robot.damping) * qd
    u = u + 0.01 * np.random.default_rng(0).normal(size=u.shape)
    recording = dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=robot.joint_names)
    told = expectation(robot, planned.recording, [recording])
    assert told.before is not None and told.before.rank < told.after.rank == told.after.structural_rank == 8
    before = {each.formula for each in told.before.combinations}
    assert "viscous friction(shoulder)" in before and "viscous friction(elbow)" not in before


def test_the_command_writes_a_recording_and_says_what_it_brings(path, robot, tmp_path, capsys):
    out = tmp_path / "motion.csv"
    arguments = ["excite", str(path), "--seconds", "5", "--bandwidth", "0.8", "--rate", "50", "--out", str(out)]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "it would determine 8 of 8 combinations" in text and "of its effort" in text
    found = dn.load_recording(out, robot)
    assert len(found) == 251 and found.qdd is not None
    assert main([*arguments, "--recordings", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rank_before"] == 8 and all(each["before"] is not None for each in result["combinations"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["cartpole"], 'excite: joint "pole" has no motor (effort 0)'),
        (["{arm}", "--seconds", "1"], "excite: only 1 waves fit; give more seconds or more bandwidth"),
        (["{arm}", "--seconds", "-1"], "excite: seconds is -1; give a number above zero"),
        (["{arm}", "--acceleration", "-1"], "excite: acceleration is -1; give a number above zero"),
        (["{arm}", "--learn"], "excite: nothing to learn"),
        (["{arm}", "--out", "x.txt"], 'x.txt: ends in ".txt"; use .csv or .npz'),
        (["{arm}", "--out", "{arm}/x.csv"], "{arm}: cannot be written (not a directory); give a folder that can"),
        (["{weak}"], 'excite: no motion within the limits was found; joint "shoulder" needs 2.94 to hold'),
    ],
)
def test_wrong_input_is_one_line(arguments, line, path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # An arm that is held out to the side by a motor too weak for it.
    weak = ARM.replace('lower="-3" upper="3"', 'lower="1.5" upper="1.6416"').replace('effort="8"', 'effort="0.5"')
    (tmp_path / "weak.urdf").write_text(weak)
    names = {"arm": str(path), "weak": "weak.urdf"}
    extra = ["--actuator", "ideal"] if "--learn" in arguments else []
    assert main(["excite", *(each.format(**names) for each in arguments), *extra, "--json"]) == 1
    printed = capsys.readouterr()
    assert (
        printed.out == ""
        and printed.err.startswith(f"diffnea: {line.format(**names)}")
        and printed.err.count("\n") == 1
    )
