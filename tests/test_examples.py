"""What the examples claim: the learned model swings up, and what is exported moves as the model does."""

import importlib.util
from pathlib import Path

import mujoco
import numpy as np
import pytest

import diffnea as dn
from diffnea.identify.files import exported

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


def test_mujoco_moves_the_exported_file_as_the_model_moves(fit, tmp_path):
    """One second to a thousandth; dry friction is left out, which MuJoCo softens."""
    robot, still = fit.robot, np.full(2, 1e-9)
    viscous = fit.model.actuator.viscous
    export = exported(dn.Model(robot, dn.actuators.Viscous.of(viscous)))
    dn.save_robot(export, tmp_path / "learned.xml")
    machine = mujoco.MjModel.from_xml_path(str(tmp_path / "learned.xml"))
    machine.opt.timestep, machine.opt.integrator = 1e-3, mujoco.mjtIntegrator.mjINT_RK4
    machine.dof_frictionloss[:] = 0
    data = mujoco.MjData(machine)
    data.qpos[:] = [0.0, 2.0]
    track = []
    for _ in range(1001):
        track.append(data.qpos.copy())
        mujoco.mj_step(machine, data)
    model = dn.Model(robot, dn.actuators.Stribeck.of(still, still, viscous, np.ones(2)))
    run = dn.rollout(model, np.array([0.0, 2.0]), np.zeros(2), np.zeros((1001, 2)), dt=1e-3)
    np.testing.assert_allclose(np.asarray(run.q), np.array(track), atol=1e-3)
