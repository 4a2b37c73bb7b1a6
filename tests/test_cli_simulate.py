"""`diffnea simulate`: it writes what `rollout` computes, from a robot or a fit, freely or driven."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.cli import main
from diffnea.cli.commands.simulate import read_model, stated_friction


def simulate(*arguments, capsys):
    assert main(["simulate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_robot_falls_as_its_file_says(tmp_path, capsys):
    out = tmp_path / "fall.csv"
    result = simulate("cartpole", "--q", "0", "2.5", "--seconds", "2", "--out", str(out), capsys=capsys)
    assert (result["samples"], result["diverged_at"], result["error"]) == (501, None, None)
    robot = dn.systems.cartpole().robot
    found = dn.load_recording(out, robot)
    model = dn.Model(robot, dn.actuators.Viscous.of(robot.damping))
    run = dn.rollout(model, np.array([0, 2.5]), np.zeros(2), np.zeros((501, 2)), dt=1 / 250)
    np.testing.assert_allclose(found.q, run.q, atol=1e-12)
    energy = np.asarray(dn.energy(robot, found.q, np.asarray(found.qd)).kinetic)
    assert energy[0] == 0 and energy.max() > 0.05


def test_a_fit_follows_the_commands_it_was_fitted_to(tmp_path, capsys):
    """Driven by a recording, the file's own robot repeats it, and says so."""
    robot, rate = dn.systems.cartpole().robot, 250
    time = np.arange(3 * rate) / rate
    u = np.column_stack([3 * np.sin(4 * time), 0 * time])
    model = dn.Model(robot, dn.actuators.Viscous.of(robot.damping))
    run = dn.rollout(model, np.array([0.0, 0.1]), np.zeros(2), u, dt=1 / rate)
    recording = dn.Recording(time=time, q=np.asarray(run.q), u=u, qd=np.asarray(run.qd), joint_names=robot.joint_names)
    dn.recordings.save_recording(recording, tmp_path / "run.npz")
    fit = dn.fit(robot, recording, learn=(), actuator="viscous", method="lm", loss="acceleration", steps=3)
    fit.save(tmp_path / "fit")
    out = str(tmp_path / "again.npz")
    for what, error in (("cartpole", 1e-9), (str(tmp_path / "fit"), 1e-2)):  # the fit saw smoothed accelerations
        result = simulate(what, "--input", str(tmp_path / "run.npz"), "--out", out, capsys=capsys)
        assert result["samples"] == len(time) and max(result["error"]) < error
    assert main(["simulate", "cartpole", "--input", str(tmp_path / "run.npz"), "--seconds", "1", "--out", out]) == 0
    assert "off the input's own motion (RMS)" in capsys.readouterr().out


def test_friction_is_that_of_the_file():
    robot = read_model("dfki_double_pendulum").robot
    actuator = stated_friction(robot)
    still, speed = jnp.zeros(2), jnp.array([2.0, -3.0])
    torque = np.asarray(actuator(still, still, speed))
    np.testing.assert_allclose(torque, -np.asarray(robot.friction) * np.sign(speed) - robot.damping * speed, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["absent.urdf"], "absent.urdf: no such file or directory"),
        (["cartpole", "--out", "x.txt"], 'x.txt: ends in ".txt"; use .csv or .npz'),
        (["cartpole", "--out", "no/x.csv"], "no: no such folder; make it, or give another"),
        (["cartpole", "--out", "/dev/null/x.csv"], "/dev/null: cannot be written (not a directory)"),
        (["cartpole", "--q", "1"], "simulate: --q has 1 numbers; give one for each of cart, pole"),
        (["cartpole", "--seconds", "-1"], "simulate: -1 s in steps of 0.004 s; give both above zero"),
        (["cartpole", "--input", "absent.csv"], "absent.csv: there is no such file"),
        (["."], "fit.json: no such file or directory; give a folder written by fit.save"),
    ],
)
def test_wrong_input_is_one_line(arguments, line, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.lower().startswith(f"diffnea: {line}".lower())
    assert printed.err.count("\n") == 1


ROVER = """<mujoco model="rover"><worldbody><body name="hull" pos="0 0 2"><freejoint/><geom size="0.2" mass="3"/>
  <body name="arm" pos="0.2 0 0"><joint name="arm" axis="0 1 0" damping="0.1"/>
    <geom size="0.05" pos="0 0.1 0.2" mass="1"/>
    <body name="tip" pos="0 0 0.4"><joint name="tip" axis="1 0 0"/><geom size="0.05" pos="0.2 0 0" mass="1"/></body>
  </body></body></worldbody>{more}</mujoco>"""
TIE = '<equality><joint joint1="tip" joint2="arm" polycoef="0 -1 0 0 0"/></equality>'
LOOP = '<equality><connect body1="tip" anchor="0 0 0"/></equality>'


def test_a_free_robot_falls_and_its_pose_is_recorded(tmp_path, capsys):
    path, out = tmp_path / "rover.xml", str(tmp_path / "fall.csv")
    path.write_text(ROVER.format(more=TIE))
    result = simulate(str(path), "--seconds", "0.5", "--q", "0.3", "--out", out, capsys=capsys)
    assert result["joints"] == ["arm"] and result["diverged_at"] is None
    robot = dn.load_robot(path)
    fallen = dn.load_recording(out, robot)
    model = dn.Model(robot, stated_friction(robot))
    start = np.array([0, 0, 2, 1, 0, 0, 0, 0.3])
    run = dn.rollout(model, start, np.zeros(7), None, dt=1 / 250, steps=126)
    np.testing.assert_allclose(fallen.base.position, run.q[:, :3], atol=1e-9)
    np.testing.assert_allclose(np.abs(fallen.base.quaternion @ run.q[-1, 3:7])[-1], 1.0, atol=1e-9)
    np.testing.assert_allclose(fallen.q, run.q[:, 7:], atol=1e-9)
    again = simulate(str(path), "--input", out, "--out", str(tmp_path / "again.csv"), capsys=capsys)
    assert max(again["error"]) < 1e-3
    whole = ["--q", *map(str, start), "--seconds", "0.1", "--out", out]
    assert simulate(str(path), *whole, capsys=capsys)["samples"] == 26
    still = simulate(str(path), "--base", "fixed", "--loose", "--seconds", "0.1", "--out", out, capsys=capsys)
    assert still["joints"] == ["arm", "tip"] and "base.x" not in (tmp_path / "fall.csv").read_text()
    assert main(["simulate", str(path), "--q", "1", "2", "--out", out]) == 1
    assert "--q has 2 numbers; give one for each of arm, or all 8 of q" in capsys.readouterr().err


def test_a_robot_with_a_loop_stays_closed(tmp_path, capsys):
    path, out = tmp_path / "rover.xml", str(tmp_path / "swing.csv")
    path.write_text(ROVER.format(more=LOOP).replace("<freejoint/>", '<joint name="hull" axis="0 1 0"/>'))
    simulate(str(path), "--seconds", "0.5", "--qd", "1", "0", "0", "--out", out, capsys=capsys)
    robot = dn.load_robot(path)
    poses = np.asarray(dn.forward_kinematics(robot, dn.load_recording(out, robot).q, "tip"))
    assert np.abs(poses[:, :3, 3] - poses[0, :3, 3]).max() < 1e-8
