"""Progress: a fit tells its watcher the stages in order, and errors that fall; nobody else hears of it."""

import numpy as np
import pytest
from fit_folders import cartpole_recordings

import diffnea as dn
from diffnea.cli import inputs
from diffnea.identify.progress import stage, tell, watched


def test_a_watcher_hears_its_own_stages_only():
    heard = []
    tell(1, 2, 0.5)  # nobody listens
    with watched(lambda *told: heard.append(told)):
        with stage("one"):
            tell(1, 2, 0.5)
        with pytest.raises(RuntimeError), stage("two"):
            raise RuntimeError
        tell(3, 4, 0.25)
    tell(5, 6, 0.1)
    assert [told[:3] for told in heard] == [("one", 0, 0), ("one", 1, 2), ("two", 0, 0), ("", 3, 4)]


def test_a_fit_tells_how_far_it_is():
    robot, recordings = cartpole_recordings(2, 2.0)
    heard = []
    options = {"actuator": "viscous", "method": "lm", "loss": "acceleration"}
    dn.fit(robot, recordings, **options, progress=lambda *told: heard.append(told))
    assert list(dict.fromkeys(name for name, *_ in heard)) == [
        "preparing data",
        "searching",
        "trying other friction",
        "judging",
    ]
    steps = [told for told in heard if told[0] == "searching" and told[2] == 200]
    errors = [told[3] for told in steps]
    assert len(errors) > 2 and all(np.isfinite(errors))
    for before, after in zip(steps[:-1], steps[1:], strict=True):  # a search that begins anew has another loss
        assert after[1] == 1 or after[3] <= before[3]
    assert [told[1] for told in steps][:3] == [1, 2, 3]


@pytest.mark.slow
def test_the_trajectory_loss_tells_too():
    robot, recordings = cartpole_recordings(2, 2.0)
    heard = []
    options = {"actuator": "viscous", "method": "lm", "loss": "trajectory"}
    dn.fit(robot, recordings, **options, progress=lambda *told: heard.append(told))
    steps = [told for told in heard if told[0] == "following trajectories" and told[2] > 0]
    assert len(steps) > 3 and all(np.isfinite(told[3]) for told in steps)


def test_plain_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(inputs, "_SECONDS_BETWEEN_LINES", 1e9)
    with inputs.watching("learning", quiet=False) as watch:
        for step in range(50):
            watch("searching", step, 200, 1 / (step + 1))
        watch("judging", 0, 0, float("nan"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["diffnea: learning …", "diffnea: searching, step 0 of at most 200, error 1", "diffnea: judging"]
    with inputs.watching("learning", quiet=True) as watch:
        assert watch is None
    assert capsys.readouterr().err == ""


def test_a_bar_with_the_error_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with inputs.watching("learning", quiet=False) as watch:
        watch("searching", 20, 200, 0.0123)
    shown = capsys.readouterr().err
    assert "learning: searching" in shown and "error 0.0123" in shown and "━" in shown
