"""The public recordings: loaded as their READMEs say, and split as the scoring protocol does.

They are looked for in $DIFFNEA_DATA, else in shared/data beside the checkout; tests without data say so and skip.
"""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import diffnea as dn
from diffnea.cli.inputs import read_robot
from diffnea.recordings import Recording, RecordingError, differentiate, prepare, public, velocity_lag

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA = Path(os.environ.get("DIFFNEA_DATA") or SHARED / "data")
SIZES = {
    "quanser_cartpole": 8,
    "quanser_qube": 25,
    "quanser_qube_balance_decar": 6,
    "dfki_double_pendulum": 12,
    "dfki_simple_pendulum": 6,
    "servo_pendulum_bam": 11,
    "multiarm_pendulum": 3,
    "staubli_tx40": 1,
    "kuka_kr300": 2,
}


@pytest.fixture(autouse=True)
def data(monkeypatch):
    monkeypatch.setenv("DIFFNEA_DATA", str(DATA))


def load(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"no {name} in $DIFFNEA_DATA or shared/data beside the checkout")
    return public.load(name)


def flat(groups):
    return [recording for group in groups.values() for recording in group]


@pytest.fixture(scope="module")
def protocol():
    path = SHARED / "scoring" / "protocol.py"
    if not path.is_file() or not DATA.is_dir():
        pytest.skip("no scoring protocol beside the checkout")
    spec = importlib.util.spec_from_file_location("protocol", path)
    module = sys.modules["protocol"] = importlib.util.module_from_spec(spec)  # its dataclasses look there
    spec.loader.exec_module(module)
    module.DATA, module.TEST_DATA = str(DATA), ""
    return module


@pytest.mark.parametrize("name", SIZES)
def test_every_data_set_loads_whole(name):
    recordings = flat(load(name))
    assert len(recordings) == SIZES[name] and name in public.names()
    for recording in recordings:
        assert isinstance(recording, Recording) and len(recording) > 100
        assert recording.name and recording.joint_names


def test_names_that_are_unknown_and_data_that_are_absent(monkeypatch, tmp_path):
    with pytest.raises(RecordingError, match='no data set "moon"; use quanser_cartpole'):
        public.load("moon")
    monkeypatch.setenv("DIFFNEA_DATA", str(tmp_path))
    with pytest.raises(RecordingError, match="no such folder; run: diffnea data get kuka_kr300"):
        public.load("kuka_kr300")
    (tmp_path / "kuka_kr300").mkdir()
    with pytest.raises(RecordingError, match="holds no recordings"):
        public.load("kuka_kr300")
    (tmp_path / "kuka_kr300" / "A_data.mat").write_bytes(b"nonsense")
    with pytest.raises(RecordingError, match="cannot be read as the data set kuka_kr300"):
        public.load("kuka_kr300")
    monkeypatch.delenv("DIFFNEA_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert public.folder() == Path("/somewhere/diffnea/data")


@pytest.mark.parametrize("name", ["quanser_cartpole", "quanser_qube"])
def test_quanser_parts_are_those_of_the_protocol(protocol, name):
    load(name)
    for ours, theirs in zip(public.split(name), protocol.load(name), strict=True):
        assert [item.name for item in ours] == [item.name for item in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine.q, other.q)
            np.testing.assert_array_equal(mine.u[:, :1], other.u)
            assert mine.dt == pytest.approx(other.dt) and mine.driven == (True, False)


def test_double_pendulum_parts_are_those_of_the_protocol(protocol):
    load("dfki_double_pendulum")
    for ours, theirs in zip(public.split("dfki_double_pendulum"), protocol.load("dfki_double_pendulum"), strict=True):
        assert [item.name for item in ours] == [item.name for item in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            on_grid = np.interp(other.dt * np.arange(1, len(other.q) + 1), mine.time - mine.time[0], mine.q[:, 0])
            np.testing.assert_allclose(on_grid, other.q[:, 0], atol=1e-9)


def test_multiarm_halves_are_those_of_the_protocol(protocol):
    load("multiarm_pendulum")
    for (mine,), (other,) in zip(public.split("multiarm_pendulum"), protocol.load("multiarm_double"), strict=True):
        np.testing.assert_allclose(np.cumsum(mine.q, axis=1) + np.pi, other.q, atol=1e-12)  # absolute, π hanging
        assert not any(mine.driven)


def test_arms_are_split_by_file_and_by_half():
    load("kuka_kr300"), load("staubli_tx40")
    train, test = public.split("kuka_kr300")
    assert ([item.name for item in train], [item.name for item in test]) == (["A"], ["B"])
    (first,), (second,) = public.split("staubli_tx40")
    assert second.time[0] - first.time[-1] == pytest.approx(101 / 5000)


def test_the_kr300_is_where_its_file_has_it():
    """Within the file's limits; axis 3 holds the forearm's weight, but for friction, and axis 2 has its hydraulics."""
    robot = read_robot("kuka_kr300")
    lower, upper = np.asarray(robot.limits.lower), np.asarray(robot.limits.upper)
    for record in flat(load("kuka_kr300")):
        assert np.all((lower < record.q) & (record.q < upper))
        first, rest = record.q[:50].mean(0), np.zeros(6)
        held = np.asarray(dn.inverse_dynamics(robot, first, rest, rest)) - record.u[:50].mean(0)
        assert abs(held[2]) < 0.25 * abs(record.u[:50, 2].mean())
        assert abs(held[1]) < 4000


def test_gears_keep_power():
    """q̇·τ is the same at the motors and at the joints, coupling included."""
    (recording,) = flat(load("staubli_tx40"))
    from diffnea.recordings import load_recording

    axes = {f"j{k}": {"q": f"Joint_{k}"} for k in range(1, 7)}
    place, rate = DATA / "staubli_tx40", {"rate": 5000.0, "joints": axes}
    motor, torque = (load_recording(place / f"{n}_data.csv.gz", columns=rate).q for n in ("pos_read", "curr"))
    power = (np.gradient(motor, axis=0) * torque).sum(1)
    np.testing.assert_allclose((np.gradient(recording.q, axis=0) * recording.u).sum(1), power, atol=1e-10)


def test_quanser_velocities_are_found_to_be_filtered_at_50_radians_a_second():
    for name in ("quanser_cartpole", "quanser_qube"):
        for group in load(name).values():
            for lag in velocity_lag(group[0]):
                assert lag.lag == pytest.approx(0.020, abs=0.0025)
                assert lag.corner == pytest.approx(50, rel=0.1)
                assert lag.explained > 0.99


def test_encoders_of_the_real_machines_are_recognised():
    turn = 2 * np.pi
    for name, steps in {"quanser_cartpole": (22.7e-6, turn / 4096), "quanser_qube": (turn / 2048, turn / 2048)}.items():
        from diffnea.recordings import smooth

        for group in load(name).values():
            found = smooth(group[0])
            for joint, step in zip(found.joints, steps, strict=True):
                assert joint.step == pytest.approx(step, rel=5e-3)
                assert 5 < joint.bandwidth < 40


def test_differentiated_free_swing_obeys_the_pendulum_equation():
    """The README's check, R² 0.9999, here from the angles alone."""
    swing = differentiate(load("multiarm_pendulum")["single"][0])
    q, qd, qdd = swing.q[:, 0], swing.qd[:, 0], swing.qdd[:, 0]
    terms = np.column_stack([np.sin(q), np.cos(q), qd, np.sign(qd)])
    left = qdd - terms @ np.linalg.lstsq(terms, qdd, rcond=None)[0]
    assert 1 - np.var(left) / np.var(qdd) > 0.99998


@pytest.mark.parametrize(("name", "least"), [("quanser_cartpole", 0.994), ("quanser_qube", 0.988)])
def test_differentiated_angles_obey_the_equation_of_the_free_joint(name, least):
    """Nothing drives the pole, so its equation holds for any input; the READMEs reach R² 0.97 and 0.92 to 0.98."""
    for group in load(name).values():
        terms, left = [], []
        for recording in map(differentiate, group):
            (_, q), (v, w), (a, b) = recording.q.T, recording.qd.T, recording.qdd.T
            terms.append(np.column_stack([np.cos(q) * a, np.sin(q), w, np.sign(w), np.sin(2 * q) * v**2]))
            left.append(b)
        terms, left = np.concatenate(terms), np.concatenate(left)
        wrong = left - terms @ np.linalg.lstsq(terms, left, rcond=None)[0]
        assert 1 - np.var(wrong) / np.var(left) > least


def test_jittered_logs_are_prepared_with_counts():
    for recording in flat(load("dfki_double_pendulum"))[:2] + flat(load("servo_pendulum_bam"))[:2]:
        for piece in prepare(recording):
            assert any(note.startswith("time stamps") for note in piece.notes)
            assert np.isfinite(piece.qdd).all() and len(piece) > 16
