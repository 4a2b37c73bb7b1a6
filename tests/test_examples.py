"""What the examples claim: the learned model swings up, and what is exported moves as the model does."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.io.robot_export import exported

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


def rubbing(robot, seed):
    """A recording of a cartpole whose friction falls with speed."""
    static, kinetic, viscous, shape = np.array([[0.9, 0.008], [0.4, 0.003], [0.3, 0.002], [30.0, 4.0]])
    friction = dn.actuators.Stribeck.of(static, kinetic, viscous, shape)
    rng, time = np.random.default_rng(seed), 2e-3 * np.arange(3000)
    waves = rng.uniform(0.5, 2, 5) * np.sin(time[:, None] * rng.uniform(1, 12, 5) + rng.uniform(0, 6, 5))
    u = np.column_stack([waves.sum(1), 0 * time])
    run = dn.rollout(dn.Model(robot, friction), np.array([0.0, 1.5]), np.zeros(2), u, dt=2e-3)
    q = np.asarray(run.q) + rng.normal(scale=[1e-5, 1e-4], size=run.q.shape)
    return dn.Recording(time=time, q=q, u=u, joint_names=robot.joint_names, driven=(True, False))


def moved(path, u, q0, steps, integrator, dt=1e-3):
    """What MuJoCo makes of a written file, as it is."""
    machine = mujoco.MjModel.from_xml_path(str(path))
    machine.opt.timestep, machine.opt.integrator = dt / steps, integrator
    data = mujoco.MjData(machine)
    data.qpos[:] = q0
    track = []
    for command in u:
        track.append(data.qpos.copy())
        data.qfrc_applied[:] = command
        for _ in range(steps):
            mujoco.mj_step(machine, data)
    return np.array(track)


@pytest.mark.parametrize(("actuator", "tolerance"), [("viscous", 1e-9), ("dry", 1e-3), ("stribeck", 1e-3)])
def test_mujoco_moves_the_exported_file_as_the_model_moves(swing, fit, actuator, tolerance, tmp_path):
    """`identified.xml` as it is written, for one second under command; Stribeck's curve is not for Runge-Kutta."""
    robot = dn.systems.cartpole().robot
    if actuator == "viscous":
        recordings = [swing.record(swing.machine(robot), 0, robot.joint_names)]
        fit = dn.fit(robot, recordings, learn=("inertia",), actuator="viscous", method="lm")
    elif actuator == "stribeck":
        fit = dn.fit(robot, [rubbing(robot, seed) for seed in range(2)], learn=("inertia",), actuator="stribeck")
    elif actuator == "dry":
        line = exported(fit.model, fit.held_out).robot
        model = dn.Model(fit.robot, dn.actuators.Stribeck.of(line.friction, line.friction, line.damping, np.ones(2)))
        fit = replace(fit, model=model, consistent=model)
    model = fit.model
    fit.save(tmp_path)
    said = json.loads((tmp_path / "fit.json").read_text())["not_in_robot_files"]
    bent = actuator == "stribeck"
    assert len(said) == bent and all("in the URDF: it has the nearest straight line" in each for each in said)
    assert ("<dcmotor" in (tmp_path / "identified.xml").read_text()) == bent
    how = (10, mujoco.mjtIntegrator.mjINT_IMPLICITFAST) if bent else (1, mujoco.mjtIntegrator.mjINT_RK4)
    time = 1e-3 * np.arange(1001)
    u = np.column_stack([3 * np.sin(9 * time), 0 * time])  # within the rail's ends, which the model does not have
    for angle in (0.3, 2.0):
        run = dn.rollout(model, np.array([0.0, angle]), np.zeros(2), u, dt=1e-3)
        track = moved(tmp_path / "identified.xml", u, [0.0, angle], *how)
        np.testing.assert_allclose(np.asarray(run.q), track, atol=tolerance)
        assert np.ptp(track, axis=0).min() > 0.05
