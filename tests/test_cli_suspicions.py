"""Suspicions: wrong units are said before anything is concluded from them."""

import numpy as np
import pytest

import diffnea as dn
from diffnea.cli import inputs
from diffnea.cli.inputs import read_recordings, read_robot
from diffnea.cli.words.suspicions import suspicions, timing
from diffnea.recordings import as_held

ROBOT = read_robot("staubli_tx40")  # with limits at every joint


def recording(scale=1.0, dt=0.01, count=50, offset=0.0):
    q = offset * (np.arange(6) == 2) + scale * np.sin(np.linspace(0, 5, count))[:, None] * np.full(6, 0.5)
    return dn.Recording(time=dt * np.arange(count), q=q, u=np.ones_like(q), joint_names=ROBOT.joint_names)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (recording(), None),
        (recording(scale=180 / np.pi), "are they degrees"),
        (recording(scale=1e4), "look at zero, sign and unit"),
        (recording(dt=10.0), "milliseconds"),
        (recording(offset=-2.5), "look at zero, sign and unit"),
    ],
)
def test_units_that_cannot_be_are_said_once(given, words):
    said = suspicions([given, given], ROBOT)
    assert len(said) == len(set(said)) and bool(said) == (words is not None)
    assert words is None or all(words in sentence for sentence in said)


def test_a_recording_of_one_sample_is_refused(tmp_path):
    names = [f"{key}.{joint}" for key in "qu" for joint in ROBOT.joint_names]
    (tmp_path / "one.csv").write_text(",".join(["time", *names]) + "\n" + ",".join(["0"] * 13) + "\n")
    with pytest.raises(ValueError, match="one.csv: has 1 sample; give at least 16"):
        read_recordings([str(tmp_path / "one.csv")], ROBOT)


def test_so_it_is_after_a_file_of_several_recordings(monkeypatch):
    files = {"many.mcap": [recording(count=50), recording(count=40)], "one.csv": [recording(count=2)]}
    monkeypatch.setattr(inputs, "load_recordings", lambda name, *_: files[name])
    assert len(read_recordings(["many.mcap"], ROBOT)) == 2
    with pytest.raises(ValueError, match="one.csv: has 2 samples; give at least 16"):
        read_recordings(["many.mcap", "one.csv"], ROBOT)


def test_torques_are_asked_about_unless_it_is_known_what_they_are():
    given = recording()
    assert "pass --measured" in timing([as_held(given), given])[0]
    assert not timing([as_held(given)]) and not timing([given.replace(qd=given.q, qdd=given.q)])
    assert not timing([as_held(given)[5:].replace(notes=())])  # by what it is, not by what it says
