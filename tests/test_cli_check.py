"""`diffnea check` and the forecast behind it: it names what is wrong, and foretells what a fit will find."""

import json
import re
import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
import pytest
from browser import chromium, opened

import diffnea as dn
from diffnea.cli import main
from diffnea.cli.commands.check import Check
from diffnea.cli.words.check_verdict import verdict
from diffnea.excitation import chosen, forecast, foretold
from diffnea.recordings import save_recording

ARM = """<robot name="two">
  <link name="base"/>
  <link name="upper"><inertial><origin xyz="0 0 -0.15"/><mass value="1"/>
    <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.001"/></inertial></link>
  <link name="lower"><inertial><origin xyz="0 0 -0.1"/><mass value="0.5"/>
    <inertia ixx="0.003" ixy="0" ixz="0" iyy="0.003" iyz="0" izz="0.0003"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" velocity="10" effort="8"/><dynamics damping="0.1"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0 0 -0.3"/>
    <axis xyz="0 1 0"/><limit lower="-3" upper="3" velocity="10" effort="4"/><dynamics damping="0.1"/></joint>
</robot>
"""
RATE = 250


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


def swinging(seconds=20.0, noise=0.0, seed=0):
    """A motion of both joints that is exact in q, qd and qdd, and the torques that it takes."""
    time = np.arange(round(seconds * RATE)) / RATE
    sizes, paces, phases = np.array([[0.8, 0.5], [0.6, 0.4]]), np.array([[1.7, 4.1], [2.9, 5.3]]), np.array([0.3, 1.1])
    angle = paces[:, :, None] * time + phases[:, None, None]
    q = np.einsum("jk,jkt->tj", sizes, np.sin(angle))
    qd = np.einsum("jk,jkt->tj", sizes * paces, np.cos(angle))
    qdd = np.einsum("jk,jkt->tj", -sizes * paces**2, np.sin(angle))
    noisy = q + noise * np.random.default_rng(seed).normal(size=q.shape)
    return time, noisy, qd, qdd


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("arm")
    (place / "arm.urdf").write_text(ARM)
    robot = dn.load_robot(place / "arm.urdf")
    time, q, qd, qdd = swinging(noise=1e-4)
    tau = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd)) + np.asarray(robot.damping) * qd
    names = ("shoulder", "elbow")
    late = np.array([np.interp(time - 0.02, time, column) for column in qd.T]).T
    clipped = np.clip(tau, *(0.5 * np.abs(tau).max(0) * [[-1.0], [1.0]]))
    save_recording(dn.Recording(time=time, q=q, u=tau, joint_names=names), place / "good.csv")
    save_recording(dn.Recording(time=time, q=q, u=clipped, qd=late, joint_names=names), place / "bad.csv")
    still = q * [1.0, 0.0]
    save_recording(dn.Recording(time=time, q=still, u=tau, joint_names=names), place / "still.csv")
    return place


def test_good_data_are_called_good_and_tell_all_there_is(folder):
    command = Check(str(folder / "arm.urdf"), (str(folder / "good.csv"),))
    result = command.run()
    assert result["recordings"][0]["problems"] == []
    # J and m·c of each link about its axis, the lower's mass in the upper's sums, friction of both.
    assert result["rank"] == result["structural_rank"] == 8
    text = command.summary(result)
    assert text.startswith("good enough for: ") and "within 10%" in text.splitlines()[0]
    assert result["verdict"]["not_for"] == [] and result["verdict"]["do"][-1].startswith("diffnea fit ")
    assert command.outcome(result) == f"good enough for: {', '.join(result['verdict']['good_for'])}"
    assert "these data determine 8 combinations" in text and "viscous friction(elbow)" in text
    assert json.loads(json.dumps(result)) == result


def test_what_is_wrong_is_named(folder, capsys):
    names = [str(folder / name) for name in ("arm.urdf", "bad.csv", "still.csv")]
    assert main(["check", *names, "--learn", "inertia", "--actuator", "viscous", "--loss", "torque"]) == 0
    text = capsys.readouterr().out
    assert "shoulder: input rests at" in text
    assert "shoulder: recorded velocity is 20 ms late" in text
    assert "elbow: it never moves" in text


def test_after_a_unit_error_nothing_else_is_worked_out(folder):
    robot = dn.load_robot(folder / "arm.urdf")
    given = dn.load_recording(folder / "good.csv", robot)
    save_recording(given.replace(q=np.degrees(given.q)), folder / "degrees.csv")
    command = Check(str(folder / "arm.urdf"), (str(folder / "degrees.csv"),), out=str(folder / "degrees.html"))
    result = command.run()
    assert result["stopped"] and result["combinations"] == [] and result["verdict"]["good_for"] == []
    assert "are they degrees?" in result["verdict"]["do"][0]
    text = command.summary(result)
    assert text.startswith("not for: any fit: a unit looks wrong") and "determine" not in text
    assert "are they degrees?" in (folder / "degrees.html").read_text()


def test_a_joint_that_stands_still_hides_its_friction(folder):
    command = Check(str(folder / "arm.urdf"), (str(folder / "still.csv"),), ("inertia",), "viscous", "torque")
    result = command.run()
    assert "what belongs to elbow, since it never moves" in result["verdict"]["not_for"]
    result["hints"] = []
    assert verdict(result, [])["do"][0] == "move elbow too"
    assert result["rank"] < result["structural_rank"]
    assert any("viscous friction" in sentence and "elbow" in sentence for sentence in result["unknown"])


def test_the_forecast_is_what_the_fit_finds(folder):
    """Intervals foretold at a start 10 % off agree with those of the fit within a factor of three."""
    robot = dn.load_robot(folder / "arm.urdf")
    start = replace(robot, inertia=replace(robot.inertia, mass=1.1 * robot.inertia.mass))
    recording = dn.load_recording(folder / "good.csv", robot)
    for loss in ("acceleration", "torque"):
        task = {"learn": ("inertia",), "actuator": "viscous", "loss": loss}
        told = {each.formula: each for each in forecast(start, recording, **task).combinations}
        found = {each.formula: each for each in dn.fit(start, recording, **task).identifiable}
        # What is zero by structure, as gravity about an upright axis, has an interval of rounding errors.
        common = [name for name in found if name in told and told[name].std > 1e-9]
        assert len(common) >= 5
        ratios = np.array([told[name].std / found[name].std for name in common])
        assert np.all((ratios > 1 / 3) & (ratios < 3)), dict(zip(common, ratios, strict=True))


def test_a_mistake_in_the_log_is_named_before_any_fit(folder):
    robot = dn.load_robot(folder / "arm.urdf")
    given = dn.load_recording(folder / "good.csv", robot)
    save_recording(given.replace(u=given.u * [1.0, -1.0]), folder / "sign.csv")
    names = [str(folder / name) for name in ("arm.urdf", "sign.csv", "good.csv")]
    wrong = Check(names[0], (names[1],), ("inertia",), "viscous", "torque")
    result = wrong.run()
    assert result["hint_codes"] == ["hint-input-sign"] and "elbow" in result["hints"][0]
    assert wrong.summary(result).count(result["hints"][0]) == 1 and result["verdict"]["do"] == result["hints"]
    assert Check(names[0], (names[2],), ("inertia",), "viscous", "torque").run()["hint_codes"] == []


ROTORS = np.array([0.02, 0.01])


def test_rotors_that_evidence_finds_are_no_mistake(folder):
    """A fit learns them by itself: data are good for it, friction is told as it is, and the command has all options."""
    robot = dn.load_robot(folder / "arm.urdf")
    time, q, qd, qdd = swinging(noise=1e-4)
    friction = 0.1 * qd + np.array([0.3, 0.2]) * np.sign(qd)
    tau = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd)) + ROTORS * qdd + friction
    tau += 0.01 * np.random.default_rng(1).normal(size=tau.shape)
    log = dn.Recording(time=time, q=q, u=tau, joint_names=robot.joint_names)
    save_recording(log, folder / "rotors.csv")
    names = (str(folder / "arm.urdf"), str(folder / "rotors.csv"))
    command = Check(names[0], (names[1],), measured=True)
    result = command.run()
    assert "armature raises" in " ".join(result["notes"]) and result["hints"] == []
    assert result["verdict"]["not_for"] == []
    assert result["verdict"]["do"] == [f"diffnea fit {names[0]} {names[1]} --measured"]
    rubs = {each["formula"]: each for each in result["combinations"] if each["kind"] == "actuator"}
    for k, joint in enumerate(robot.joint_names):
        found = rubs[f"Coulomb friction({joint})"]
        assert found["value"] == pytest.approx([0.3, 0.2][k], rel=0.1)
        assert found["upper"] - found["value"] < 0.1 * found["value"]
    assert Check(names[0], (names[1],), ("inertia",), "viscous+coulomb").run()["hint_codes"] == ["hint-armature"]


def test_of_a_free_fall_only_ratios_are_known_and_none_is_of_a_number_to_itself(folder):
    robot = dn.load_robot(folder / "arm.urdf")
    model = dn.Model(robot, dn.actuators.Viscous.of([0.1, 0.1]))
    run = dn.rollout(model, [1.0, 0.5], [0.0, 0.0], None, dt=1 / RATE, steps=4 * RATE)
    q = np.asarray(run.q) + 1e-5 * np.random.default_rng(2).normal(size=run.q.shape)
    save_recording(dn.Recording(time=run.time, q=q, joint_names=robot.joint_names), folder / "fall.csv")
    result = Check(str(folder / "arm.urdf"), (str(folder / "fall.csv"),)).run()
    assert result["only_ratios"]
    assert result["verdict"]["good_for"] and all(
        each.startswith("ratios of ") for each in result["verdict"]["good_for"]
    )
    assert "only their ratios" in result["verdict"]["not_for"][-1]
    for each in result["combinations"]:
        assert each["std"] > 1e-12 * abs(each["value"]), each


def test_data_of_a_robot_at_rest_tell_nothing(folder):
    robot = dn.load_robot(folder / "arm.urdf")
    time, rng = np.arange(500) / RATE, np.random.default_rng(0)
    rest = np.array([0.3, -0.5]) + 1e-5 * rng.normal(size=(500, 2))
    torque = np.asarray(dn.inverse_dynamics(robot, np.array([0.3, -0.5]), np.zeros(2), np.zeros(2)))
    log = dn.Recording(time=time, q=rest, u=np.tile(torque, (500, 1)), joint_names=robot.joint_names)
    told = forecast(robot, log, learn=("inertia",), actuator="viscous", loss="torque")
    assert told.combinations == () and told.rank == 0 and [each.code for each in told.unknown] == ["nothing-moves"]


def test_an_unknown_delay_and_gain_leave_the_forecast_narrow(folder):
    """Inputs in another unit and 2.5 samples late: the short fit gets there, and what it leaves is noise."""
    robot = dn.load_robot(folder / "arm.urdf")
    given = dn.load_recording(folder / "good.csv", robot)
    ahead = np.array([np.interp(given.time + 2.5 / RATE, given.time, u) for u in given.u.T]).T
    told = forecast(robot, given.replace(u=2 * ahead), learn=("inertia",), actuator="gain+viscous+delay", loss="torque")
    felt = [each for each in told.combinations if each.formula.startswith("inertia felt")]
    assert felt and all((each.upper - each.lower) < 0.02 * each.value for each in felt)
    delay = [each for each in told.combinations if each.formula.startswith("input delay")]
    assert delay and all(each.upper - each.lower < 0.2 for each in delay)


def test_what_is_left_to_evidence_is_what_a_fit_chooses(folder):
    """Friction of the data, torques where every joint is driven; without data there is no evidence."""
    robot = dn.load_robot(folder / "arm.urdf")
    recording = dn.load_recording(folder / "good.csv", robot)
    choice, told = foretold(robot, recording, None, "auto")
    assert (choice.actuator, choice.loss) == ("viscous", "torque") and "chosen-part" in {e.code for e in choice.notes}
    assert told.structural_rank >= 8 and chosen(robot, recording).actuator == choice.actuator
    assert (chosen(robot, None).actuator, chosen(robot, [], actuator="ideal").actuator) == ("viscous", "ideal")
    assert forecast(robot, recording, learn=("inertia",), loss="trajectory").structural_rank == 8


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["arm.urdf"], "no recording; give at least one"),
        (["arm.urdf", "arm.urdf"], 'arm.urdf: ends in ".urdf"; use .csv'),
        (["arm.urdf", "good.csv", "--columns", "absent.toml"], "absent.toml: no such file or directory"),
        (["arm.urdf", "good.csv", "--actuator", "viscous+stribeck"], 'actuator "viscous+stribeck"'),
        (["arm.urdf", "good.csv", "--learn", "luck"], 'check: learn has "luck"'),
        (["cartpole", "quanser_tower"], "quanser_tower: there is no such file"),
        (["arm.urdf", "good.csv", "--out", "good.csv/check.html"], "good.csv: cannot be written (not a directory)"),
        (["arm.urdf", "good.csv", "--out", "."], ".: is a folder; give the name of a file"),
    ],
)
def test_wrong_input_is_one_line(arguments, line, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["check", *arguments, "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"diffnea: {line}") and printed.err.count("\n") == 1


def test_pictures_show_what_is_wrong(folder, tmp_path, capsys):
    """The page draws each recording: motion and command with its limit, coverage, noise, and the late velocity."""
    out = tmp_path / "check.html"
    arguments = [str(folder / "arm.urdf"), str(folder / "good.csv"), str(folder / "bad.csv"), "--out", str(out)]
    assert main(["check", *arguments]) == 0
    assert f"pictures: {out}" in capsys.readouterr().out
    page = out.read_text()
    assert "actuator chosen by evidence" in page
    drawings = [xml.fromstring(found) for found in re.findall(r"<svg xmlns.*?</svg>(?=</figure>)", page, re.DOTALL)]
    assert len(drawings) == 2 * (2 + 2 + 2) + 2  # only the bad one has recorded velocities
    assert all("nan" not in xml.tostring(drawing, "unicode") for drawing in drawings)
    marked = [
        drawing.get("aria-label") for drawing in drawings if "rests at its limit" in xml.tostring(drawing, "unicode")
    ]
    assert marked == ["Motion and input of shoulder", "Motion and input of elbow"]
    assert page.count("rests at") >= 2 and "comes late" in page
    outside = re.findall(r'(?:src|href|action)="([^"#]+)"|url\(([^)]+)\)|@import', page)
    assert outside == [("data:,", "")]


def test_the_page_opens_in_a_browser(folder, tmp_path, browser):
    out = tmp_path / "check.html"
    Check(str(folder / "arm.urdf"), (str(folder / "bad.csv"),), out=str(out)).run()
    page = opened(browser, out, color_scheme="dark", viewport={"width": 390, "height": 800})
    heights = page.eval_on_selector_all("figure svg.chart", "all => all.map(one => one.getBoundingClientRect().height)")
    assert len(heights) == 8 and min(heights) > 50
    assert page.said == [] and page.evaluate("document.documentElement.scrollWidth") <= 390
    assert [url for url in page.asked if not url.startswith("data:")] == [out.as_uri()]
    page.close()
