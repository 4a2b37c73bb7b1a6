"""What the examples claim: the learned model swings up, and what is exported moves as the model does."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.exported import exported

pytestmark = pytest.mark.slow  # fits and a simulation; `test_package` runs the examples themselves
EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def swing():
    return example("04_swing_up")


@pytest.fixture(scope="module")
def fit(swing):
    """A cartpole learned from MuJoCo's recordings."""
    robot = dn.systems.cartpole().robot
    real = swing.machine(robot)
    recordings = [swing.record(real, seed, robot.joint_names) for seed in range(2)]
    return dn.fit(robot, recordings, learn=("inertia",), actuator="stribeck")


def test_the_learned_model_swings_up_and_balances(swing, fit):
    system = dn.systems.cartpole()
    law = swing.controller(fit.model, system.swing_up)
    q, _, _ = swing.run(swing.machine(system.robot), law, 8.0, [0.0, 0.05])
    assert np.all(np.abs(np.mod(q[-500:, 1], 2 * np.pi) - np.pi) < 0.05)
    assert np.all(np.abs(q[-500:, 0]) < 0.2)


def moved(path, u, q0, seconds=1.0, dt=1e-3):
    """What MuJoCo makes of a written file, as it is; by its Runge-Kutta."""
    machine = mujoco.MjModel.from_xml_path(str(path))
    machine.opt.timestep, machine.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(machine)
    data.qpos[:] = q0
    track = []
    for command in u:
        track.append(data.qpos.copy())
        data.qfrc_applied[:] = command
        mujoco.mj_step(machine, data)
    return np.array(track)


@pytest.mark.parametrize(("actuator", "tolerance"), [("viscous", 1e-9), ("dry", 1e-3), ("stribeck", 5e-3)])
def test_mujoco_moves_the_exported_file_as_the_model_moves(swing, fit, actuator, tolerance, tmp_path):
    """`identified.xml` as it is written, for one second under command; a Stribeck curve is a straight line in it."""
    model = fit.model
    if actuator == "viscous":
        robot = dn.systems.cartpole().robot
        recordings = [swing.record(swing.machine(robot), 0, robot.joint_names)]
        fit = dn.fit(robot, recordings, learn=("inertia",), actuator="viscous", method="lm")
        model = fit.model
    elif actuator == "dry":
        line = exported(fit.model, fit.held_out).robot
        model = dn.Model(fit.robot, dn.actuators.Stribeck.of(line.friction, line.friction, line.damping, np.ones(2)))
        fit = replace(fit, model=model, consistent=model)
    fit.save(tmp_path)
    said = json.loads((tmp_path / "fit.json").read_text())["not_in_robot_files"]
    assert len(said) <= (actuator == "stribeck")  # a line, up to a share of 1e-3, needs no words
    time = 1e-3 * np.arange(1001)
    u = np.column_stack([3 * np.sin(9 * time), 0 * time])  # within the rail's ends, which the model does not have
    for angle in (0.3, 2.0):
        run = dn.rollout(model, np.array([0.0, angle]), np.zeros(2), u, dt=1e-3)
        track = moved(tmp_path / "identified.xml", u, [0.0, angle])
        np.testing.assert_allclose(np.asarray(run.q), track, atol=tolerance)
        assert np.ptp(track, axis=0).min() > 0.05
