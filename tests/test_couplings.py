"""Joints that follow others and joints with springs: in reduced coordinates, beside MuJoCo and Pinocchio."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio
import pytest
from robots import random_robot, relative

import diffnea as dn
from diffnea import manifold
from diffnea.coupled import whole
from diffnea.ties import Couplings, Springs

LAW = 1e-10
AGREE = 1e-9

GRIPPER = """<robot name="gripper">
  <link name="base"/>
  {links}
  <joint name="wrist" type="continuous"><parent link="base"/><child link="palm"/><axis xyz="0 0.6 0.8"/></joint>
  <joint name="left" type="prismatic"><parent link="palm"/><child link="l"/><origin xyz="0.1 0.2 0" rpy="0.3 0 0"/>
    <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="right" type="revolute"><parent link="palm"/><child link="r"/><origin xyz="0.1 -0.2 0" rpy="0 0.4 0"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>{mimic}</joint>
</robot>
"""
MIMIC = '<mimic joint="left" multiplier="-1.5" offset="0.2"/>'
LINK = (
    '<link name="{}"><inertial><origin xyz="0.1 0.05 0.3"/><mass value="{}"/>'
    '<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.025"/></inertial></link>'
)


def gripper(folder, mimic=MIMIC):
    path = folder / "gripper.urdf"
    links = "\n  ".join(LINK.format(name, mass) for name, mass in (("palm", 2.0), ("l", 0.5), ("r", 0.7)))
    path.write_text(GRIPPER.format(links=links, mimic=mimic))
    return path


def test_a_mimic_joint_moves_with_its_leader(tmp_path):
    path = gripper(tmp_path)
    robot = dn.load_robot(path)
    assert robot.joint_names == ("wrist", "left") and (robot.num_positions, robot.num_links) == (2, 3)
    loose = pinocchio.buildModelFromUrdf(str(path))
    data = loose.createData()
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 2))
    G = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.5]])
    full = np.array([np.cos(q[0]), np.sin(q[0]), q[1], -1.5 * q[1] + 0.2])
    M = np.triu(pinocchio.crba(loose, data, full))
    M = G.T @ (M + np.triu(M, 1).T) @ G
    tau = G.T @ pinocchio.rnea(loose, data, full, G @ qd, G @ qdd)
    assert relative(dn.mass_matrix(robot, q), M) < AGREE
    assert relative(dn.inverse_dynamics(robot, q, qd, qdd), tau) < AGREE
    assert relative(dn.forward_dynamics(robot, q, qd, tau), qdd) < AGREE
    Y = np.asarray(dn.regressor(robot, q, qd, qdd))
    assert Y.shape == (2, 30) and relative(Y @ dn.inertial_parameters(robot), tau) < AGREE
    pinocchio.forwardKinematics(loose, data, full)
    assert relative(dn.forward_kinematics(robot, q, "r"), data.oMi[loose.getJointId("right")].homogeneous) < AGREE
    assert relative(dn.jacobian(robot, q, "r")[:, 1] * 1e-6, _moved(robot, q, 1e-6)) < 1e-5


def _moved(robot, q, size):
    """How link r moves with the second coordinate: its origin, and its axes as a small turn."""
    before, after = (np.asarray(dn.forward_kinematics(robot, q + [0, d], "r")) for d in (-size / 2, size / 2))
    turn = (after[:3, :3] - before[:3, :3]) @ before[:3, :3].T
    return np.array([*(after - before)[:3, 3], turn[2, 1], turn[0, 2], turn[1, 0]])


def test_couplings_can_be_left_aside_and_locked(tmp_path):
    path = gripper(tmp_path)
    with pytest.warns(UserWarning, match='joints that follow others are treated as independent: "right"'):
        loose = dn.load_robot(path, couplings=False)
    assert loose.num_joints == 3
    held = dn.load_robot(path, lock={"left": 0.4})
    assert held.joint_names == ("wrist",) and held.couplings is None
    both = dn.load_robot(path, lock={"left": 0.4, "right": -0.4})
    assert relative(held.inertia.parameters, both.inertia.parameters) < LAW
    dn.save_robot(held, tmp_path / "same.urdf")
    assert (tmp_path / "same.urdf").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("form", ["urdf", "xml"])
def test_couplings_and_springs_survive_files(tmp_path, form):
    robot = dn.load_robot(gripper(tmp_path))
    springs = Springs(jnp.asarray([0.0, 30.0, 2.0]), jnp.asarray([0.0, 0.1, -0.3]))
    robot = replace(robot, springs=springs)
    dn.save_robot(robot, tmp_path / f"out.{form}", fresh=form == "urdf")
    back = dn.load_robot(tmp_path / f"out.{form}")
    assert back.couplings is not None and back.springs is not None and back.joint_names == robot.joint_names
    assert relative(back.couplings.coefficients[:, :2], robot.couplings.coefficients) < LAW
    assert relative(back.springs.stiffness, springs.stiffness) < LAW
    assert relative(back.springs.rest, springs.rest) < LAW
    dn.save_robot(back, tmp_path / f"again.{form}")
    assert (tmp_path / f"again.{form}").read_bytes() == (tmp_path / f"out.{form}").read_bytes()


FINGERS = """<mujoco model="fingers">
  <compiler angle="{angle}"/>
  <worldbody>
    <body name="hull" pos="0 0 1"><freejoint/><geom size="0.2" mass="3"/>
      <body name="a" pos="0.2 0 0"><joint name="a" axis="0 1 0" stiffness="4" springref="{rest}" ref="{ref}"/>
        <geom size="0.05" pos="0 0.1 0.2" mass="0.6"/>
        <body name="b" pos="0 0 0.4"><joint name="b" axis="1 0 0" ref="{ref}"/><geom size="0.1" pos="0.2 0 0" mass="1"/>
          <body name="c" pos="0.3 0 0"><joint name="c" type="slide" axis="0 0.6 0.8" stiffness="9"/>
            <geom type="box" size="0.1 0.2 0.1" mass="0.8"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <joint joint1="b" joint2="a" polycoef="0.1 0.8 -0.3 0.2 0.05"/>
    <joint joint1="c" joint2="a" polycoef="0.05 -0.4 0 0 0"/>
  </equality>
</mujoco>
"""


@pytest.fixture(scope="module")
def fingers(tmp_path_factory):
    path = tmp_path_factory.mktemp("fingers") / "fingers.xml"
    path.write_text(FINGERS.format(angle="radian", rest=0.3, ref=0.2))
    return path


def test_polynomial_couplings_and_springs_move_as_mujoco_s_projected(fingers):
    robot = dn.load_robot(fingers)
    assert robot.joint_names == ("a",) and robot.num_velocities == 7
    rng = np.random.default_rng(1)
    q = np.asarray(manifold.displace(robot, manifold.neutral(robot), jnp.asarray(rng.normal(size=7) * 0.6)))
    qd, tau = rng.normal(size=(2, 7))
    model = mujoco.MjModel.from_xml_path(str(fingers))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EQUALITY
    data = mujoco.MjData(model)
    full = whole(robot, jnp.asarray(q))
    data.qpos[:], data.qvel[:] = dn.to_mujoco(robot, q, qd)
    assert np.allclose(data.qpos, full.q)
    x = q[7] - 0.2
    assert abs(data.qpos[8] - (0.2 + 0.1 + 0.8 * x - 0.3 * x**2 + 0.2 * x**3 + 0.05 * x**4)) < LAW
    mujoco.mj_forward(model, data)
    turn = np.eye(9)
    turn[:3, :3] = np.asarray(manifold.rotation_of(jnp.asarray(q[3:7])))
    J = turn @ np.asarray(full.G)  # ẏ → MuJoCo's velocities
    M = np.zeros((9, 9))
    mujoco.mj_fullM(model, data, M)
    assert relative(dn.mass_matrix(robot, q), J.T @ M @ J) < 1e-8
    drift = np.array(full.accelerations(jnp.asarray(qd), jnp.zeros(7)))
    drift[:3] += np.cross(qd[3:6], qd[:3])
    forces = data.qfrc_bias - data.qfrc_passive + M @ (turn @ drift)
    wanted = np.linalg.solve(J.T @ M @ J, tau - J.T @ forces)
    assert relative(dn.forward_dynamics(robot, q, qd, tau), wanted) < 1e-8
    back = dn.from_mujoco(robot, data.qpos, data.qvel)
    assert relative(back[0], q) < LAW and relative(back[1], qd) < LAW


def test_degrees_are_those_of_the_file(fingers, tmp_path):
    path = tmp_path / "degrees.xml"
    path.write_text(FINGERS.format(angle="degree", rest=np.degrees(0.3), ref=np.degrees(0.2)))
    one, other = dn.load_robot(fingers), dn.load_robot(path)
    assert relative(one.springs.rest, other.springs.rest) < LAW
    rest = jnp.where(other.springs.stiffness > 0, other.springs.rest + 0.1, 0.0)
    changed = replace(other, springs=Springs(2 * other.springs.stiffness, rest))
    dn.save_robot(changed, tmp_path / "out.xml")
    back = dn.load_robot(tmp_path / "out.xml")
    assert relative(back.springs.stiffness, changed.springs.stiffness) < LAW
    assert relative(back.springs.rest, changed.springs.rest) < LAW


@pytest.fixture(scope="module")
def random():
    """A tree with a ball, two followers of one leader, one by a curve, and springs."""
    kinds = ("revolute", "ball", "prismatic", "revolute", "continuous")
    robot = random_robot(dn.Tree((-1, 0, 1, 0, 3), kinds, tuple("abcde"), tuple("ABCDE")), 4)
    couplings = Couplings((2, 4), (0, 0), jnp.asarray([[0.1, -0.7, 0.3], [0.0, 2.0, 0.0]]))
    springs = Springs(jnp.asarray([3.0, 0.0, 20.0, 0.0, 1.0]), jnp.asarray([0.1, 0.0, -0.2, 0.0, 0.5]))
    return replace(robot, couplings=couplings, springs=springs)


def test_laws_hold_in_reduced_coordinates(random):
    n = random.num_velocities
    assert (n, random.joint_names) == (5, ("a", "d"))
    rng = np.random.default_rng(2)
    q = np.asarray(manifold.displace(random, manifold.neutral(random), jnp.asarray(rng.normal(size=n))))
    qd, tau = rng.normal(size=(2, n))
    qdd = dn.forward_dynamics(random, q, qd, tau)
    assert relative(dn.inverse_dynamics(random, q, qd, qdd), tau) < LAW
    M, C = dn.mass_matrix(random, q), dn.coriolis_matrix(random, q, qd)
    assert relative(C @ qd, dn.bias_torque(random, q, qd) - dn.gravity_torque(random, q)) < LAW
    assert relative(dn.energy(random, q, qd).kinetic, qd @ M @ qd / 2) < LAW

    def total(t):
        return sum(dn.energy(random, dn.integrate(random, q, qd, t), qd + t * qdd))

    power = jax.jvp(total, (jnp.zeros(()),), (jnp.ones(()),))[1]
    assert abs(power - tau @ qd) < LAW * (1 + abs(tau @ qd))

    def accelerate(step):
        return dn.forward_dynamics(random, dn.integrate(random, q, step, 1.0), qd, tau)

    found, size = jax.jacfwd(accelerate)(jnp.zeros(n)), 1e-6
    central = np.array([(accelerate(size * e) - accelerate(-size * e)) / (2 * size) for e in np.eye(n)]).T
    assert relative(found, central) < 1e-6
    run = dn.rollout(dn.Model(random), q, qd, None, dt=1 / 500, steps=100)
    energy = np.asarray(dn.Model(random).energy(run.q, run.qd))
    assert np.abs(energy - energy[0]).max() < 1e-9 * np.abs(energy).max()


BAD_MIMICS = [
    ('<mimic joint="lft"/>', r'"right" is coupled to "lft": no joint "lft" \(did you mean "left"'),
    ('<mimic multiplier="2"/>', "its <mimic> names no joint"),
    ('<mimic joint=""/>', "its <mimic> names no joint"),
    ('<mimic joint="right"/>', '"right" mimics "right", which mimics another'),
    ('<mimic joint="left" multiplier="two"/>', '<mimic multiplier="two">; a number must stand there'),
    ('<mimic joint="left" multiplier="1 2"/>', "a number must stand there"),
    ('<mimic joint="left" offset="nan"/>', '<mimic offset="nan">'),
    ('<mimic joint="left" offset="1e999"/>', "is too large"),
]


@pytest.mark.parametrize(("mimic", "message"), BAD_MIMICS, ids=[mimic[:45] for mimic, _ in BAD_MIMICS])
def test_malformed_mimics_are_refused_in_one_line(mimic, message, tmp_path):
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(gripper(tmp_path, mimic))
    assert "\n" not in str(caught.value)


def test_a_mimic_of_a_mimic_is_refused(tmp_path):
    path = gripper(tmp_path)
    led = 'velocity="1"/><mimic joint="wrist"/></joint>'
    path.write_text(path.read_text().replace('velocity="1"/></joint>', led, 1))
    with pytest.raises(dn.RobotFileError, match='joint "right" mimics "left", which mimics another; let it mimic a'):
        dn.load_robot(path)


BAD_EQUALITIES = [
    ('joint1="c" joint2="a"', 'joint1="c" joint2="nobody"', "nobody"),
    ('joint1="c" joint2="a"', 'joint1="c" joint2="c"', "c"),
    ('joint1="c" joint2="a"', 'joint1="b" joint2="c"', 'joint "b" follows two others'),
    ('joint1="c" joint2="a"', 'joint1="a" joint2="b"', "circle|by a curve"),
    ('joint1="c" joint2="a"', 'joint1="c" joint2="b"', 'joint "c" follows "b", which follows another by a curve'),
    ('polycoef="0.05 -0.4 0 0 0"', 'polycoef="0.05 nan 0 0 0"', "use finite numbers"),
    ('stiffness="9"', 'stiffness="nine"', "stiffness"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_EQUALITIES, ids=[new for _, new, _ in BAD_EQUALITIES])
def test_malformed_equalities_are_refused_in_one_line(old, new, message, tmp_path):
    path = tmp_path / "fingers.xml"
    path.write_text(FINGERS.format(angle="radian", rest=0, ref=0).replace(old, new))
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(path)
    assert "\n" not in str(caught.value)
