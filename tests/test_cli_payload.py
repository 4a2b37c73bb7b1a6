"""A fit that goes on from an earlier one, and what the last link carries, on the command line."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from browser import chromium, opened
from fit_folders import network
from test_cli_check import ARM, swinging

import diffnea as dn
from diffnea.cli import main
from diffnea.recordings import save_recording

MASS, CENTRE, OWN = 0.3, np.array([0.02, 0.0, -0.2]), np.diag([4e-4, 5e-4, 3e-4])
DAMPING, NOISE = np.array([0.13, 0.12]), 0.01
TORQUE = ["--loss", "torque", "--json"]


def loaded(robot):
    """With the payload on the last link."""
    about = OWN + MASS * (CENTRE @ CENTRE * np.eye(3) - np.outer(CENTRE, CENTRE))
    parameters = np.array(robot.inertia.parameters)
    parameters[-1] += np.concatenate([[MASS], MASS * CENTRE, about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])
    return replace(robot, inertia=dn.Inertia.from_parameters(jnp.asarray(parameters)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A robot file, a log without payload and one with it, and the fit of the first."""
    place = tmp_path_factory.mktemp("payload")
    (place / "arm.urdf").write_text(ARM)
    robot = dn.load_robot(place / "arm.urdf")
    for name, carries in (("empty", robot), ("full", loaded(robot))):
        time, q, qd, qdd = swinging(10.0)
        u = np.asarray(dn.inverse_dynamics(carries, q, qd, qdd)) + DAMPING * qd
        u = u + NOISE * np.random.default_rng(1).normal(size=u.shape)
        recording = dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=robot.joint_names)
        save_recording(recording, place / f"{name}.npz")
    arguments = ["fit", str(place / "arm.urdf"), str(place / "empty.npz"), "--actuator", "viscous"]
    assert main([*arguments, *TORQUE, "--out", str(place / "fit")]) == 0
    return place


def test_a_payload_is_found_from_an_earlier_fit(folder, capsys):
    """Mass and centre where the motion tells them, in words, in JSON, on disk and on the page."""
    arguments = ["fit", str(folder / "fit"), str(folder / "full.npz"), "--learn", "payload"]
    assert main([*arguments, "--out", str(folder / "load"), "--json"]) in (0, 3)
    result = json.loads(capsys.readouterr().out)
    found = dn.load_fit(folder / "load").payload
    assert result["payload"] == found.to_dict() and found.frame == "lower"
    for part, truth in ((found.mass, MASS), (found.com[[0, 2]], CENTRE[[0, 2]])):
        np.testing.assert_allclose(part.value, truth, atol=2e-3)
    assert found.mass.lower < MASS < found.mass.upper
    page = (folder / "load" / "report.html").read_text()
    assert "The payload, in the frame of lower" in page and page.count("<td>inertia ") == 6
    main([*arguments, "--out", str(folder / "load")])
    text = capsys.readouterr().out
    assert "payload, in the frame of lower" in text and "no physical parameter" not in text
    assert f"that of {folder / 'fit'} in brackets" in text


def test_the_page_of_a_payload_opens(folder):
    for browser in chromium():
        page = opened(browser, folder / "load" / "report.html")
        assert page.locator("#known tbody tr").count() == 10 and page.said == []
        page.close()


def test_check_tells_how_well_a_payload_would_be_known(folder, capsys):
    for start in ("fit", "arm.urdf"):
        arguments = ["check", str(folder / start), str(folder / "full.npz"), "--learn", "payload"]
        assert main([*arguments, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        found = result["payload"]["mass"]
        assert result["structural_rank"] == 4 and 0 < found["upper"] - found["lower"] < 0.1
    assert main(arguments) == 0
    assert "payload, in the frame of lower" in capsys.readouterr().out


def test_a_fit_goes_on_where_an_earlier_one_ended(folder, capsys):
    """The friction that was learned stays, unless it is asked for; a start that was not accepted is worth a word."""
    earlier = dn.load_fit(folder / "fit")
    for learn, stays in (("inertia", True), ("friction", False)):
        out = folder / learn
        arguments = ["fit", str(folder / "fit"), str(folder / "full.npz"), "--learn", learn, "--out", str(out)]
        main([*arguments, *TORQUE])
        result = json.loads(capsys.readouterr().out)
        found = dn.load_fit(out)
        assert result["learned"] == ["actuator" if learn == "friction" else learn]
        assert np.array_equal(found.model.actuator.viscous, earlier.model.actuator.viscous) == stays
        assert np.array_equal(found.robot.inertia.mass, earlier.robot.inertia.mass) != stays
    replace(earlier, verdict=type(earlier.verdict)("failed")).save(folder / "bad")
    main(["fit", str(folder / "bad"), str(folder / "empty.npz"), *TORQUE, "--out", str(folder / "on")])
    assert "a fit that was not accepted (failed)" in json.loads(capsys.readouterr().out)["suspicions"][0]


def test_folders_that_cannot_be_gone_on_from(folder, capsys):
    recording = dn.load_recording(folder / "empty.npz", dn.load_robot(folder / "arm.urdf"))
    dn.fit(network([recording]), recording, method="adam", steps=3).save(folder / "network")
    for arguments, line in (
        ([str(folder)], "No such file or directory; give a folder written by fit.save"),
        ([str(folder / "network")], "its model is a network without a robot"),
        (
            [str(folder / "fit"), "--lock", "elbow"],
            "is a fit, and its joints are as they were; leave --lock out",
        ),
        ([str(folder / "fit"), "--learn", "payload", "inertia"], "a payload is learned alone"),
    ):
        assert main(["fit", arguments[0], str(folder / "empty.npz"), *arguments[1:], "--json"]) == 1
        assert line in capsys.readouterr().err
