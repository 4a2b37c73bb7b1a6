"""`diffnea fit`: from files to files, with words a person understands, and one line for each wrong input."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import diffnea as dn
from diffnea import identify
from diffnea.cli import main
from diffnea.cli.commands.check import Check
from diffnea.cli.commands.excite import Excite
from diffnea.cli.commands.fit import Fit
from diffnea.cli.inputs import read_robot, robot_names
from diffnea.cli.words.results import fit_in_words, known, notes, unknown
from diffnea.recordings import save_recording

TRUE_MASS, TRUE_DAMPING = 0.7, 0.004


def pendulum(mass=0.5, damping=0.001):
    """A driven arm on a horizontal axis; what its motion tells are J about the axis, m·c and friction."""
    return f"""<robot name="pendulum">
  <!-- the user's own words -->
  <link name="base"/>
  <link name="arm"><inertial><origin xyz="0 0 -0.2"/><mass value="{mass}"/>
    <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.0005"/></inertial></link>
  <joint name="hinge" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit velocity="20" effort="3"/><dynamics damping="{damping}"/></joint>
</robot>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The user's robot file, and two runs of the true robot as CSV and NPZ."""
    place = tmp_path_factory.mktemp("pendulum")
    (place / "pendulum.urdf").write_text(pendulum())
    (place / "true.urdf").write_text(pendulum(TRUE_MASS, TRUE_DAMPING))
    truth = dn.load_robot(place / "true.urdf")
    model = dn.Model(truth, dn.actuators.Viscous.of(truth.damping))
    time = np.arange(1500) / 250
    for name, pace in (("one.csv", 1.3), ("two.npz", 2.1)):
        u = (1.5 * np.sin(pace * time) + np.sin(2.7 * pace * time))[:, None]
        run = dn.rollout(model, np.array([0.3]), np.zeros(1), u, dt=1 / 250)
        q = np.asarray(run.q) + 1e-4 * np.random.default_rng(0).normal(size=run.q.shape)
        save_recording(dn.Recording(time=time, q=q, u=u, joint_names=("hinge",)), place / name)
    return place


@pytest.fixture(scope="module")
def fitted(folder):
    """The command run once: what it returned, and its folder."""
    out = folder / "out"
    recordings = (str(folder / "one.csv"), str(folder / "two.npz"))
    command = Fit(str(folder / "pendulum.urdf"), recordings, actuator="viscous", out=str(out))
    return command, command.run(), out


def test_a_fit_finds_the_truth_and_writes_the_users_file(fitted):
    _, result, out = fitted
    assert result["verdict"] == "accepted"
    assert {"fit.json", "weights.npz", "identified.urdf", "identified.xml", "report.html"} <= set(result["files"])
    found = dn.load_robot(out / "identified.urdf")
    assert "the user's own words" in (out / "identified.urdf").read_text()
    assert float(found.inertia.parameters[0, 3]) == pytest.approx(-0.2 * TRUE_MASS, rel=0.01)
    assert float(found.damping[0]) == pytest.approx(TRUE_DAMPING, rel=0.1)
    again = dn.load_fit(out)
    assert again.verdict == "accepted" and json.loads(json.dumps(result))["verdict"] == "accepted"


def test_nothing_that_was_written_is_read_back(folder, fitted, monkeypatch):
    """From the fit straight to its files, its page and its words."""
    _, result, out = fitted
    again = folder / "straight"
    monkeypatch.setattr(identify, "fit", lambda *_, **__: dn.load_fit(out))
    command = Fit(str(folder / "pendulum.urdf"), (str(folder / "one.csv"),), out=str(again))
    with monkeypatch.context() as patch:
        for name in ("open", "read_text", "read_bytes"):
            patch.setattr(Path, name, _elsewhere_than(again, getattr(Path, name)))
        found = command.run()
    assert found["files"] == result["files"] and found["lacking"] == result["lacking"] == []
    assert (again / "report.html").read_text() == (out / "report.html").read_text().replace('"out"', '"straight"')


def _elsewhere_than(folder, method):
    def checked(path, *arguments, **settings):
        assert path.parent != folder or path.suffix in (".urdf", ".xml"), f"{path} is read back"
        return method(path, *arguments, **settings)

    return checked


def test_the_summary_says_what_a_person_needs(fitted):
    command, result, out = fitted
    text = command.summary(result)
    assert "verdict: accepted" in text and str(out) in text and "identified.urdf" in text
    assert "predicting ahead, on data not fitted" in text and "°" in text
    assert "mass of the arm: it turns about a fixed axis" in text
    assert max(map(len, text.splitlines())) < 200


def test_a_fit_that_is_not_accepted_leaves_no_identified_robot(folder, fitted, capsys):
    """Nothing to learn from: exit code 3 and rejected files; what an earlier fit left there is gone, and vice versa."""
    out = folder / "rejected"
    robots = {name: out / f"{name}.urdf" for name in ("identified", "rejected")}
    dn.load_fit(fitted[2]).save(out)
    assert robots["identified"].exists() and (out / "identified.xml").exists()
    time = np.arange(300) / 250
    still = dn.Recording(time=time, q=np.zeros((300, 1)), u=np.zeros((300, 1)), joint_names=("hinge",))
    save_recording(still, folder / "still.csv")
    arguments = ["fit", str(folder / "pendulum.urdf"), str(folder / "still.csv"), "--actuator", "viscous"]
    assert main([*arguments, "--out", str(out), "--json"]) == 3
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] == "failed" and "rejected.urdf" in result["files"]
    text, page = fit_in_words(result), (out / "report.html").read_text()
    assert "nothing was learned from 1 recording" in text and "predicting ahead" not in text
    assert "Nothing was learned from 1 recording" in page and 'class="tile"' not in page
    assert not list(out.glob("identified.*")) and dn.load_robot(robots["rejected"]).joint_names == ("hinge",)
    assert set(json.loads((out / "fit.json").read_text())["robot_files"]) == {"rejected.urdf", "rejected.xml"}
    assert "<code>rejected.urdf</code>" in (out / "report.html").read_text()
    assert main(["report", str(out)]) == 0
    assert main(["simulate", str(out), "--seconds", "0.1", "--out", str(folder / "x.csv")]) == 0
    dn.load_fit(fitted[2]).save(out)
    assert robots["identified"].exists() and not list(out.glob("rejected.*"))


def test_notes_on_single_recordings_are_counted_by_their_code():
    said = ["held: a recording's name begins this", "held: smoothed to 3 Hz", "kept back: a quarter"]
    lines = notes(said, ["locked", "data", "kept-back"])
    assert lines == [f"  {said[0]}", f"  {said[2]}", "  1 note on how the recordings were prepared; see fit.json"]


def test_what_a_person_reads_comes_first_and_sums_are_counted():
    """Base parameters and long lists are folded, unless all is asked for."""
    made = [dict(formula=f"J{k} + m{k}", value=1.0, lower=0.5, upper=2.0, unit="kg", kind="inertia") for k in range(30)]
    mixed = [each | {"base": k % 3 > 0} for k, each in enumerate(made)]
    lines = known(mixed)
    assert len(lines) == 12 and lines[1].startswith("  J0") and lines[2].startswith("  J3")
    assert lines[-1] == "  and 20 base parameters: --all shows them"
    assert len(known(mixed, whole=True)) == 31 and known(mixed, whole=True)[11].startswith("  J1 ")
    assert known([each | {"base": False} for each in made])[-1] == "  and 10 more: --all shows them"
    assert len(known([each | {"base": True} for each in made])) == 22
    assert known([]) == ["no physical parameter is identifiable from these data"]
    sentences = [f"mass {k}" for k in range(12)]
    assert unknown(sentences)[-1] == "  and 9 more: --all shows them" and len(unknown(sentences)) == 5
    assert len(unknown(sentences, whole=True)) == 13 and unknown([]) == []


def test_the_words_are_those_of_the_field(fitted):
    result = json.loads(json.dumps(fitted[1]))
    result["metrics"]["fit"]["diverged"] = 3
    text = fit_in_words(result | {"lacking": ["the input delay of 2 samples"]})
    assert f"3 of {result['metrics']['fit']['windows']} predictions diverged" in text
    assert "not representable in URDF/MJCF:\n  the input delay of 2 samples" in text


def test_what_is_not_said_is_chosen_and_told(folder, capsys):
    """The same defaults of all commands; the chosen friction explains the data."""
    for command in (Fit, Check, Excite):
        usual = {field.name: field.default for field in fields(command)}
        assert (usual["learn"], usual["actuator"], usual.get("loss", "auto")) == (("auto",), "auto", "auto")
    data = [str(folder / name) for name in ("pendulum.urdf", "one.csv", "two.npz")]
    assert main(["fit", *data, "--out", str(folder / "auto"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "viscous" in result["actuator"] and "chosen" in result["note_codes"]
    assert main(["check", *data]) == 0
    assert "actuator chosen by evidence: viscous" in capsys.readouterr().out


def test_friction_alone_leaves_the_inertia(folder):
    out = folder / "friction"
    result = Fit(str(folder / "pendulum.urdf"), (str(folder / "one.csv"),), learn=("friction",), out=str(out)).run()
    assert (result["learned"], result["actuator"]) == (["actuator"], "stribeck")
    (written,) = out.glob("*.urdf")  # the wrong mass stays wrong, so that it may be rejected
    before, after = dn.load_robot(folder / "pendulum.urdf"), dn.load_robot(written)
    np.testing.assert_array_equal(before.inertia.parameters, after.inertia.parameters)
    assert "hinge viscous friction" in {row["name"] for row in result["table"]}


def test_columns_and_test_recordings_are_mapped(folder, capsys):
    time, q, u = np.loadtxt(folder / "one.csv", delimiter=",", skiprows=1).T
    table = np.column_stack([1e3 * time, np.degrees(q), -u])
    np.savetxt(folder / "log.csv", table, delimiter=",", header="ms,angle,current", comments="")
    (folder / "map.toml").write_text(
        'time = { column = "ms", unit = "ms" }\n[joints.hinge]\nq = { column = "angle", unit = "deg" }\n'
        'u = { column = "current", sign = -1 }\n'
    )
    arguments = ["fit", str(folder / "pendulum.urdf"), str(folder / "log.csv"), "--columns", str(folder / "map.toml")]
    arguments += ["--test", str(folder / "log.csv"), "--actuator", "viscous", "--out", str(folder / "mapped"), "--json"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["verdict"] == "accepted" and "1 recordings given as test" in " ".join(result["notes"])


def test_robots_come_by_name_too():
    assert {"cartpole", "furuta", "staubli_tx40"} <= set(robot_names())
    assert read_robot("furuta").joint_names == ("arm", "pendulum")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["absent.urdf", "{one}"], "absent.urdf: no such file or directory"),
        (["absent", "{one}"], "absent: no such file; give a URDF or MJCF file, or one of cartpole, dfki"),
        (["{robot}"], "no recording; give at least one"),
        (["{robot}", "absent.csv"], "absent.csv: there is no such file; give the path of a recording"),
        (["{robot}", "{one}", "--learn", "colour"], 'fit: learn has "colour"; use any of inertia, kinematics'),
        (["{robot}", "{one}", "--actuator", "steam"], 'actuator "steam": unknown part "steam"; use ideal'),
        (["cartpole", "{one}"], 'one.csv: no column "q.cart"; found time, q.hinge'),
        (["{robot}", "quanser_qube:spare"], 'quanser_qube:spare: there is no part "spare"; use train, test, all'),
    ],
)
def test_wrong_input_is_one_line(arguments, line, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"robot": "pendulum.urdf", "one": "one.csv"}
    assert main(["fit", *(argument.format(**names) for argument in arguments), "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"diffnea: {line}") and printed.err.count("\n") == 1


@pytest.mark.parametrize("place", ["one.csv/out", "one.csv", "/proc/nowhere/out"])
def test_a_place_that_cannot_be_written_is_refused_before_the_fit(place, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(identify, "fit", lambda *_, **__: pytest.fail("the fit began"))
    assert main(["fit", "pendulum.urdf", "one.csv", "--out", place, "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert printed.err.startswith(f"diffnea: {place}: cannot be written (")


def test_wrong_usage(capsys):
    assert main(["fit"]) == 2
    assert main(["fit", "cartpole", "x.csv", "--method", "magic"]) == 2
    assert main(["fit", "--help"]) == 0
    assert "--columns" in capsys.readouterr().out
