"""A payload on a robot with a free base: MuJoCo flies a box with two legs and a body on it, and that body is found."""

from dataclasses import replace

import numpy as np
import pytest
import test_floating_fit
from scipy.spatial.transform import Rotation
from test_floating_fit import MASS, flown, hopper, recording

import diffnea as dn
from diffnea import report
from diffnea.cli import main
from diffnea.identify.floating.motion_columns import Beside
from diffnea.identify.payloads.body import Solved
from diffnea.identify.payloads.floating import _Estimated, _known, _with_earlier

LOAD = """<body name="load" pos="0.08 0.02 0.1" euler="20 0 30">
<inertial pos="0 0 0" mass="0.9" diaginertia="0.004 0.003 0.005"/></body>"""
AT = np.array([0.08, 0.02, 0.1])


def loaded() -> str:
    return hopper().replace('<body name="l_thigh"', LOAD + '<body name="l_thigh"', 1)


@pytest.fixture(scope="module")
def robot(tmp_path_factory) -> dn.Robot:
    path = tmp_path_factory.mktemp("hopper") / "hopper.xml"
    path.write_text(hopper())
    return dn.load_robot(path)


@pytest.fixture(scope="module")
def carrying(robot):
    """Pose and torques of the same robot with a body on its trunk."""
    whole = loaded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_floating_fit, "hopper", lambda: whole)
        return recording(flown(8.0, seed=1), robot, "pose")


def test_a_payload_on_the_trunk_is_found(carrying, robot, tmp_path):
    fit = dn.fit(robot, carrying, learn="payload")
    found = fit.payload
    assert found is not None and fit.verdict == "accepted" and found.frame == "trunk"
    turn = Rotation.from_euler("XYZ", [20, 0, 30], degrees=True).as_matrix()
    about = turn @ np.diag([0.004, 0.003, 0.005]) @ turn.T
    about = about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    assert float(found.mass) == pytest.approx(0.9, rel=0.02)
    assert np.abs(found.com.value - AT).max() < 5e-3
    for each, true in ((found.mass, np.array(0.9)), (found.com, AT)):
        assert np.all((each.lower < true) & (true < each.upper))
    assert np.mean((found.inertia.lower < about) & (about < found.inertia.upper)) > 0.8
    assert float(found.mass.upper - found.mass.lower) < 0.1
    assert float(fit.robot.inertia.mass[0]) == pytest.approx(MASS + float(found.mass))
    fit.save(tmp_path)
    assert "The payload, in the frame of trunk" in report.fit(tmp_path).read_text()
    back = dn.load_fit(tmp_path).payload
    assert back is not None and back.to_dict() == found.to_dict()


def test_a_payload_is_on_one_link_and_learned_alone(carrying, robot):
    with pytest.raises(ValueError, match="a payload is on one link, not on trunk, l_shank"):
        dn.fit(robot, carrying, learn="payload", links=["trunk", "l_shank"])
    with pytest.raises(ValueError, match="a payload is learned alone"):
        dn.fit(robot, carrying, learn=("payload", "inertia"))
    elsewhere = dn.fit(robot, carrying[:2000], learn="payload", links=["l_shank"])
    assert elsewhere.payload is not None and elsewhere.payload.frame == "l_shank"
    assert float(elsewhere.payload.mass) < 0.5  # what the trunk carries is not on a shank


def test_what_an_earlier_fit_does_not_know_widens_the_intervals(carrying, robot, tmp_path):
    dn.fit(robot, recording(flown(8.0), robot, "pose"), actuator="viscous").save(tmp_path)
    earlier = dn.load_fit(tmp_path)
    found = dn.fit(earlier, carrying, learn="payload").payload
    assert found is not None and earlier.balance is not None
    for each, true in ((found.mass, np.array(0.9)), (found.com, AT)):
        assert np.all((each.lower < true) & (true < each.upper))
    spread = np.asarray(earlier.balance.covariance, float)
    slopes = np.concatenate([-np.eye(10), np.zeros((10, len(spread) - 10))], axis=1)  # what the trunk has is no payload
    own = 1e-9 * np.eye(10)
    alone = _Estimated(Solved(np.ones(10), own, 0.0), np.zeros(len(spread)), slopes)
    (whole,) = [each.std for each in earlier.identifiable if each.formula == "mass of all links"]
    white = spread[:50:10, :50:10].sum()  # of five links
    wider, known = 2 * _with_earlier(alone, earlier).covariance, own + max(1.0, whole**2 / white) * spread[:10, :10]
    np.testing.assert_allclose(wider, known * max(1.0, (own[0, 0] + whole**2) / known[0, 0]), rtol=1e-6)
    older = 2 * _with_earlier(alone, replace(earlier, balance=None)).covariance
    np.testing.assert_allclose(older[0, 0], own[0, 0] + whole**2, rtol=1e-6)
    assert _with_earlier(alone, None) is alone.payload


def test_check_says_that_a_fit_is_as_quick(carrying, tmp_path, capsys):
    (tmp_path / "hopper.xml").write_text(hopper())
    dn.save_recording(carrying[:500], tmp_path / "log.csv")
    assert main(["check", str(tmp_path / "hopper.xml"), str(tmp_path / "log.csv"), "--learn", "payload"]) == 1
    assert "diffnea fit … --learn payload" in capsys.readouterr().err


def test_where_a_sensor_is_stays_and_its_bias_does_not():
    before = {"accelerometer place x": [0.002, 1e-5], "accelerometer bias x": [0.1, 1e-3]}
    beside = Beside(("accelerometer bias x", "accelerometer place x", "radius of foot l"), (0.2, 0.005, 0.01))
    found = _known(beside, before)
    np.testing.assert_allclose(found, [[0.0, 0.2], [0.002, 0.05 * 0.005], [0.0, 0.01]])
    np.testing.assert_allclose(_known(beside, {})[:, 0], 0.0)
