"""Friction that changes with speed, as MJCF has it: written, read, and moving in MuJoCo as in our own roll-outs."""

import warnings
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from test_mjcf import HAND, MACHINE, put
from test_mjcf_writing import changed_lines

import diffnea as dn
from diffnea.actuators import Stribeck
from diffnea.formats import Curve, RobotFileError, mjcf
from diffnea.identify.io.robot_export import exported

CURVES = {"x": Curve(0.75, 0.125, 4e6), "elbow": Curve(0.25, 0.5, 1e5)}
# What MuJoCo's own steps of 0.1 ms miss by, and the 1e-3 that the export is held to.
STEP, SAME = 1e-4, 1e-3


@pytest.fixture
def file(tmp_path):
    put(tmp_path, HAND, "parts/hand.xml")
    return put(tmp_path, MACHINE, "machine.xml")


@pytest.fixture
def machine(file):
    robot = dn.load_robot(file)
    return replace(robot, friction=robot.friction.at[0].set(0.5).at[3].set(0.375))


def curves_of(path):
    found = mjcf.read(path.read_bytes(), str(path))
    return {joint.name: joint.curve for joint in found.joints if joint.curve}


def test_a_curve_goes_behind_the_actuators_and_steady_friction_into_the_joint(machine, file):
    dn.save_robot(machine, file, curves=CURVES)
    added = changed_lines(MACHINE, file.read_text())
    assert [line for line in added if "dcmotor" in line] == [
        '<dcmotor name="x_friction" joint="x" gear="1" damping="0" armature="0" resistance="1" motorconst="1e-08" '
        'input="none" lugre="4000000 0 0 0.25 0.125"/>',
        '<dcmotor name="elbow_friction" joint="elbow" gear="1" damping="0" armature="0" resistance="1" '
        'motorconst="1e-08" input="none" lugre="100000 0 0.125 0 0.5"/>',
    ]
    assert any(line.startswith('<joint name="x"') and 'frictionloss="0.5"' in line for line in added)
    assert any(line.startswith('<joint name="elbow"') and 'frictionloss="0.25"' in line for line in added)
    before, after = (
        mujoco.MjModel.from_xml_string(text, {"parts/hand.xml": HAND.encode()}) for text in (MACHINE, file.read_text())
    )
    assert after.nu == before.nu  # nothing more to command


def test_what_is_read_back_is_the_same_and_is_written_as_it_was(machine, file):
    dn.save_robot(machine, file, curves=CURVES)
    text = file.read_bytes()
    back = dn.load_robot(file)
    np.testing.assert_array_equal(back.friction, machine.friction)
    np.testing.assert_array_equal(back.gear, machine.gear)
    assert curves_of(file) == CURVES
    dn.save_robot(back, file)
    assert file.read_bytes() == text
    dn.save_robot(back, file, fresh=True)
    assert curves_of(file) == CURVES


def test_other_curves_take_their_place_and_none_take_them_away(machine, file):
    dn.save_robot(machine, file, curves=CURVES)
    text = file.read_text()
    others = {"x": Curve(1.0, 0.25, 4e6)}
    dn.save_robot(dn.load_robot(file), file, curves=others)
    assert curves_of(file) == others and file.read_text().count("<dcmotor") == 1
    dn.save_robot(dn.load_robot(file), file, curves={})
    assert curves_of(file) == {} and "<dcmotor" not in file.read_text()
    np.testing.assert_array_equal(dn.load_robot(file).friction, machine.friction)
    assert set(text.splitlines()) >= {line for line in file.read_text().splitlines() if "elbow" not in line}


def test_a_file_without_actuators_or_names_gets_them(tmp_path):
    text = MACHINE_OF_ONE.replace("<actuator/>", "")
    path = put(tmp_path, text, "one.xml")
    dn.save_robot(dn.load_robot(path), path, curves={"arm_joint": Curve(0.5, 0.1, 1e4)})
    assert list(curves_of(path)) == ["arm_joint"]
    assert dn.load_robot(path).gear[0] == 1


MACHINE_OF_ONE = """<mujoco>
  <worldbody>
    <body name="arm"><joint/><geom size="0.1" pos="0 0 -0.5"/></body>
  </worldbody>
  <actuator/>
</mujoco>
"""


def test_what_is_not_taken_is_said(tmp_path):
    path = put(tmp_path, MACHINE_OF_ONE.replace("<mujoco>", '<mujoco><option integrator="RK4"/>'), "one.xml")
    robot, curves = dn.load_robot(path), {"arm_joint": Curve(0.5, 0.1, 1e4)}
    with pytest.raises(RobotFileError, match="one.xml: its integrator is RK4"):
        dn.save_robot(robot, path, curves=curves)
    with pytest.raises(RobotFileError, match="URDF has no place"):
        dn.save_robot(robot, tmp_path / "one.urdf", curves=curves)
    with pytest.raises(RobotFileError, match='the friction of joint "wrist" cannot be written'):
        dn.save_robot(robot, tmp_path / "new.xml", fresh=True, curves={"wrist": Curve(0.5, 0.1, 1e4)})


@pytest.mark.parametrize(
    "motor",
    [
        'motorconst="0.05" resistance="1" lugre="100 0 1 2 0.1"',  # takes a voltage
        'motorconst="0.05" resistance="1" lugre="100 0 1 2 0.1" input="none"',  # brakes
        'motorconst="1e-8" resistance="1" lugre="100 1 1 2 0.1" input="none"',  # bristles with damping
        'motorconst="1e-8" resistance="1" cogging="1 3 0" lugre="100 0 1 2 0.1" input="none"',
        'motorconst="1e-8" resistance="1" lugre="100 0 1 2 0.1" input="none" gear="3"',
    ],
)
def test_other_motors_are_left_out_as_ever(motor, tmp_path):
    text = MACHINE_OF_ONE.replace("<joint/>", '<joint name="j"/>').replace(
        "<actuator/>", f'<actuator><dcmotor name="m" joint="j" {motor}/></actuator>'
    )
    path = put(tmp_path, text, "one.xml")
    with pytest.warns(UserWarning, match='left out: actuator "m"'):
        robot = dn.load_robot(path)
    assert robot.friction[0] == 0 and curves_of(path) == {}


# As it moves -----------------------------------------------------------------------------------------------------


def moved(path, u, q0, dt, integrator="implicitfast", step=STEP):
    """What MuJoCo makes of a file under commands held for dt, without the joints' stops."""
    machine = mujoco.MjModel.from_xml_path(str(path))
    machine.opt.timestep, machine.jnt_limited[:] = step, 0
    machine.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{integrator.upper()}")
    data, track = mujoco.MjData(machine), []
    data.qpos[:] = q0
    for command in u:
        track.append(data.qpos.copy())
        data.qfrc_applied[:] = command
        for _ in range(round(dt / step)):
            mujoco.mj_step(machine, data)
    return np.array(track)


CASES = {
    "falling": ([0.6, 0.01], [0.3, 0.005], [0.1, 0.5]),
    "rising": ([0.3, 0.005], [0.6, 0.01], [0.1, 0.5]),
    "steep": ([3.0, 0.03], [1.5, 0.02], [0.05, 0.2]),
}


@pytest.fixture(scope="module", params=CASES)
def rubbing(request, tmp_path_factory):
    """A cartpole with Stribeck friction, and the file it is exported to."""
    static, kinetic, speed = map(np.array, CASES[request.param])
    friction = Stribeck.of(static, kinetic, np.array([0.2, 0.004]), speed**-2.0)
    model = dn.Model(dn.systems.cartpole().robot, friction)
    whole = exported(model)
    path = tmp_path_factory.mktemp(request.param) / "machine.xml"
    dn.save_robot(whole.curved, path, fresh=True, curves=whole.curves)
    return model, path, static[0], max(static[0], kinetic[0])


TIME = 2e-3 * np.arange(501)


def compared(model, path, force, angle, **how):
    u = np.column_stack([force, 0 * TIME])
    run = dn.rollout(model, np.array([0.0, angle]), np.zeros(2), u, dt=2e-3)
    track = moved(path, u, [0.0, angle], 2e-3, **how)
    return np.asarray(run.q), track


@pytest.mark.parametrize("angle", [0.3, 2.0])
def test_swinging_it_moves_as_the_model(rubbing, angle):
    model, path, _, highest = rubbing
    ours, theirs = compared(model, path, (4 + 1.2 * highest) * np.sin(9 * TIME), angle)
    np.testing.assert_allclose(ours, theirs, atol=SAME)
    assert np.ptp(ours, axis=0).min() > 0.1


@pytest.mark.parametrize("step", [1e-4, 1e-3, 2e-3])
def test_below_static_friction_it_stays(rubbing, step):
    model, path, static, _ = rubbing
    ours, theirs = compared(model, path, 0.9 * static + 0 * TIME, 0.0, step=step)
    assert np.all(ours == 0)
    np.testing.assert_allclose(theirs, 0, atol=SAME)


def test_above_it_creeps_through_the_bend_as_the_model(rubbing):
    model, path, static, _ = rubbing
    ours, theirs = compared(model, path, 1.05 * static * np.minimum(1, 2 * TIME), 0.0)
    np.testing.assert_allclose(ours, theirs, atol=SAME)
    assert 1e-3 < np.abs(ours[:, 0]).max() < 1


@pytest.mark.parametrize("integrator", ["euler", "implicitfast"])
@pytest.mark.parametrize("step", [1e-3, 2e-3])
def test_at_common_steps_it_misses_hardly_more_than_mujoco_misses_anyway(rubbing, integrator, step, tmp_path):
    model, path, _, highest = rubbing
    force = (4 + 1.2 * highest) * np.sin(9 * TIME)
    flat = Stribeck.of(model.actuator.kinetic, model.actuator.kinetic, model.actuator.viscous)
    straight = tmp_path / "line.xml"
    dn.save_robot(exported(dn.Model(model.robot, flat)).robot, straight, fresh=True)
    missed = []
    for each, file in ((model, path), (dn.Model(model.robot, flat), straight)):
        ours, theirs = compared(each, file, force, 2.0, integrator=integrator, step=step)
        missed.append(np.abs(ours - theirs).max())
    assert missed[0] < 2 * missed[1]


def test_reading_it_back_warns_of_nothing(rubbing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dn.load_robot(rubbing[1])
