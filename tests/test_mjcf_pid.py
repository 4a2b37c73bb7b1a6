"""Integral terms and rate limits of goals in MJCF: MuJoCo's plugin `mujoco.pid`, read, written, and moving as we do."""

import warnings

import mujoco
import numpy as np
import pytest

import diffnea as dn
from diffnea import actuators, formats
from diffnea.actuators import Coulomb, Integral, Limit, Profile, Servo, combine
from diffnea.formats import save_robot
from diffnea.identify.io.robot_export import exported

ARM = """<mujoco model="arm"><option timestep="0.0005" integrator="implicitfast"/>{extension}<worldbody>
  <body name="a" pos="0 0 1"><joint name="a" axis="0 1 0" armature="0.02"/>
    <inertial pos="0.15 0 0" mass="0.5" diaginertia="1e-3 4e-3 4e-3"/>
    <body name="b" pos="0.3 0 0"><joint name="b" axis="0 1 0" armature="0.02"/>
      <inertial pos="0.1 0 0.02" mass="0.3" diaginertia="5e-4 1e-3 1e-3"/></body></body></worldbody>
  <actuator>{actuators}</actuator></mujoco>"""
EXTENSION = '<extension><plugin plugin="mujoco.pid"/></extension>'
MOTORS = '<motor joint="a"/><motor joint="b"/>'
PID = """<plugin name="one" joint="a" plugin="mujoco.pid" actdim="2" gear="2" forcerange="-4 4">
    <config key="kp" value="15"/><config key="ki" value="5"/><config key="kd" value="0.5"/>
    <config key="imax" value="{imax}"/><config key="slewmax" value="3"/></plugin>
  <plugin name="two" joint="b" plugin="mujoco.pid" actdim="1"><config key="kp" value="12"/><config key="kd" value="1"/>
    <config key="slewmax" value="2"/></plugin>"""


def load(tmp_path, inner: str, extension: str = "") -> dn.Robot:
    path = tmp_path / "arm.xml"
    path.write_text(ARM.format(actuators=inner, extension=extension))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dn.load_robot(path)


def test_gains_of_the_plugin_are_read(tmp_path):
    """Through the gear: gains by its square, goals and their speed divided by it."""
    robot = load(tmp_path, PID.format(imax=4), EXTENSION)
    found = formats.servos(robot)
    one, two = found["a"], found["b"]
    assert (one.stiffness, one.damping, one.integral) == (60.0, 2.0, 20.0)
    assert (one.limit, one.goal_speed, one.scale) == (8.0, 1.5, 0.5)
    assert (two.stiffness, two.integral, two.goal_speed, two.limit) == (12.0, 0.0, 2.0, np.inf)
    made = actuators.for_robot("servo", robot)
    assert np.allclose(made.integral, [20.0, 0.0], atol=1e-5) and made.energy_class == "unbounded"
    assert np.allclose(made.profile.speed, [1.5, 2.0]) and made.profile.acceleration is None


def test_an_integral_that_ends_elsewhere_is_left_out_and_no_motor(tmp_path):
    (tmp_path / "arm.xml").write_text(ARM.format(actuators=PID.format(imax=1), extension=EXTENSION))
    with pytest.warns(UserWarning, match='left out: actuator "one"'):
        robot = dn.load_robot(tmp_path / "arm.xml")
    assert list(formats.servos(robot)) == ["b"]


@pytest.fixture(scope="module")
def parts():
    gains = Servo.of(np.array([60.0, 30.0]), np.array([4.0, 2.0]), steps=16)
    rubbing = Coulomb.of(np.array([0.1, 0.05]))
    return (
        gains,
        Integral.of(np.array([40.0, 20.0])),
        Limit.of(np.array([8.0, 5.0])),
        Profile.of(2.0, num_joints=2),
        rubbing,
    )


@pytest.mark.parametrize("fresh", [False, True])
def test_what_is_written_is_read_back_and_moves_as_our_roll_out_does(tmp_path, parts, fresh):
    robot = load(tmp_path, MOTORS)
    model = dn.Model(robot, combine(*parts))
    whole = exported(model)
    assert not any("profile" in each or "integral" in each for each in whole.lacking)
    path = tmp_path / "out.xml"
    save_robot(whole.curved, path, servos=whole.servos, curves=whole.curves, fresh=fresh)
    again = formats.servos(dn.load_robot(path))
    assert again["a"].integral == pytest.approx(40.0) and again["b"].goal_speed == pytest.approx(2.0)
    dt, rows = 0.02, 150
    goals = np.where(np.arange(rows)[:, None] < 10, 0.0, np.array([0.8, -0.5]))
    run = dn.rollout(model, np.zeros(2), np.zeros(2), goals, dt)
    theirs = mujoco.MjModel.from_xml_path(str(path))
    theirs.opt.timestep = 0.0005
    data, seen = mujoco.MjData(theirs), []
    # Its integrals begin at 0: the arm is held where ours rests until they carry it.
    weight = np.asarray(dn.gravity_torque(robot, np.zeros(2)))
    data.act[[1, 3]] = weight / np.array([40.0, 20.0])
    for goal in goals:
        seen.append(data.qpos.copy())
        data.ctrl[:] = goal
        for _ in range(40):
            mujoco.mj_step(theirs, data)
    apart = np.sqrt(np.mean((np.array(seen) - np.asarray(run.q)) ** 2))
    moved = np.sqrt(np.mean(np.asarray(run.q) ** 2))
    assert apart < 0.02 * moved and moved > 0.3


def test_a_trapezoid_is_said_to_be_lacking(tmp_path, parts):
    robot = load(tmp_path, MOTORS)
    model = dn.Model(robot, combine(parts[0], Profile.of(2.0, 30.0, num_joints=2)))
    whole = exported(model)
    assert any("2 rad/s and 30 rad/s² at most" in each for each in whole.lacking)
    assert whole.servos is not None and np.isinf(whole.servos["a"].goal_speed)
