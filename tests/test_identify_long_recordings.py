"""Recordings that are longer than a fit takes: stretches of them, and a note that says which."""

import subprocess
import sys

import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.problem.measurements import long_recordings
from diffnea.identify.problem.measurements.tracks import split
from diffnea.recordings import save_recording

DT, PERIOD = 1e-3, 100_000
PENDULUM = """<robot name="pendulum"><link name="base"/><link name="bob"><inertial><origin xyz="0 0 -0.4"/>
<mass value="{mass}"/><inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.01"/></inertial></link>
<joint name="pivot" type="continuous"><parent link="base"/><child link="bob"/><axis xyz="0 1 0"/></joint></robot>
"""


def ramp(count, name="run"):
    time = np.arange(count) * DT
    q = np.column_stack([np.sin(time), np.arange(count)])  # the second joint counts samples
    return dn.Recording(time=time, q=q, u=q, qd=np.cos(q), qdd=q, joint_names=("a", "b"), name=name)


def test_few_samples_are_all_used():
    given = [ramp(100), ramp(50)]
    found, notes = long_recordings.shortened(given, 0)
    assert all(mine is yours for mine, yours in zip(found, given, strict=True)) and notes == []


def test_of_many_there_are_stretches_spread_evenly(monkeypatch):
    monkeypatch.setattr(long_recordings, "MOST_VALUES", 4000)
    given = [ramp(30_000, "long"), ramp(10_000, "short")]
    found, notes = long_recordings.shortened(given, 0)
    assert [len([each for each in found if each.name == name]) for name in ("long", "short")] == [24, 8]
    assert 0.95 * 4000 < 2 * sum(map(len, found)) <= 4000
    for item in given:
        mine = [each for each in found if each.name == item.name]
        assert all(np.diff(each.q[:, 1]).max() == 1 for each in mine)  # each is one motion
        assert mine[0].q[0, 1] == 0 and mine[-1].q[-1, 1] == len(item) - 1
        assert np.ptp(np.diff([each.q[0, 1] for each in mine])) <= 1
    assert str(*notes).startswith("1984 of 40000 samples are used, 5%: 32 stretches")


def test_samples_without_order_are_drawn(monkeypatch):
    monkeypatch.setattr(long_recordings, "MOST_VALUES", 400)
    q = np.arange(2000.0).reshape(1000, 2)
    (found,), notes = long_recordings.shortened([dn.Samples(q=q, qd=q, qdd=q, u=q)], 3)
    assert len(found) == 200 and len(np.unique(found.q[:, 0])) == 200 and np.ptp(found.q) > 1800
    assert str(*notes) == "200 of 1000 samples are used, drawn at random"


def test_what_is_kept_back_is_of_every_stretch(monkeypatch):
    monkeypatch.setattr(long_recordings, "MOST_VALUES", 4000)
    parts = split(ramp(40_000), None, ("a", "b"), 2, 0)
    assert len(parts.test) == len(parts.fitted) == 32 and parts.notes[0] == parts.sampled[0]
    assert parts.kept_back == "the last 25% of each of 32 stretches of run"
    assert sum(map(len, parts.test)) == pytest.approx(500, abs=32)


# Ten million samples -------------------------------------------------------------------------------------------------


def swinging(count):
    """A driven pendulum, 0.4 m and 0.5 kg, that has come to swing with the period of its input."""
    time = np.arange(PERIOD) * DT
    torque = sum(a * np.sin(2 * np.pi * f * time + p) for a, f, p in ((0.8, 0.31, 0), (0.5, 0.97, 1), (0.3, 2.11, 0)))
    position, angle, rate = np.zeros(PERIOD), 0.3, 0.0
    for k in [*range(PERIOD)] * 2:
        position[k] = angle
        for _ in range(4):
            rate += (torque[k] - 0.25 * rate - 0.5 * 9.81 * 0.4 * np.sin(angle)) / 0.1 * DT / 4
            angle += rate * DT / 4
    q = np.resize(position, count) + np.random.default_rng(0).normal(0, 1e-5, count)
    return dn.Recording(
        time=np.arange(count) * DT, q=q[:, None], u=np.resize(torque, count)[:, None], joint_names=("pivot",)
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "check"])
def test_ten_million_samples_need_less_than_four_gigabytes(tmp_path, command):
    robot, out = tmp_path / "pendulum.urdf", tmp_path / ("out" if command == "fit" else "page.html")
    robot.write_text(PENDULUM.format(mass=0.6))
    save_recording(swinging(10_000_000), tmp_path / "run.npz")
    arguments = [command, str(robot), str(tmp_path / "run.npz"), "--out", str(out)]
    program = (
        f"import resource, sys; from diffnea.cli import main; code = main({arguments!r}); "
        "print('memory', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "1000000 of 10000000 samples are used, 10%: 32 stretches" in done.stdout
    assert int(done.stdout.rsplit("memory ", 1)[1]) < 4 * 2**20  # KiB
    if command == "fit":
        found = {each.formula: each.value for each in dn.load_fit(out).identifiable}
        assert found["inertia felt by pivot"] == pytest.approx(0.1, rel=5e-3)
        assert found["viscous friction(pivot)"] == pytest.approx(0.25, rel=5e-3)
