"""Springs of balls, springs along tendons and gravity compensation: beside MuJoCo, in laws, in files."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import relative

import diffnea as dn
from diffnea import manifold

AGREE, LAW = 1e-9, 1e-10

CRANE = """<mujoco model="crane">
  <compiler angle="radian"/>
  <worldbody>
    <body name="hull" pos="0 0 1">{free}<inertial pos="0.1 0 0" mass="3" diaginertia="0.03 0.04 0.05"/>
      <body name="arm" pos="0.2 0 0" gravcomp="{arm}"><joint name="shoulder" type="ball" stiffness="7"/>
        <inertial pos="0 0.1 0.2" mass="0.6" diaginertia="0.003 0.004 0.005"/>
        <body name="weight" pos="0 0 0.1" gravcomp="{weight}">
          <inertial pos="0.05 0.1 0" mass="0.4" diaginertia="0.001 0.001 0.001"/></body>
        <body name="b" pos="0 0 0.4" gravcomp="1.5"><joint name="b" axis="1 0 0"/>
          <inertial pos="0.2 0 0" mass="1" diaginertia="0.01 0.02 0.02"/>
          <body name="c" pos="0.3 0 0"><joint name="c" type="slide" axis="0 0.6 0.8" ref="0.1"/>
            <inertial pos="0 0 0" mass="0.8" diaginertia="0.01 0.02 0.02"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="cable" stiffness="30" springlength="{slack}"><joint joint="b" coef="0.7"/><joint joint="c" coef="-2"/>
    </fixed>
    <fixed name="idle"><joint joint="b" coef="1"/></fixed>
  </tendon>
</mujoco>
"""


def crane(folder, free="<freejoint/>", arm="0.5", weight="1", slack="0.1 0.2"):
    path = folder / "crane.xml"
    path.write_text(CRANE.format(free=free, arm=arm, weight=weight, slack=slack))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return crane(tmp_path_factory.mktemp("crane"))


@pytest.fixture(scope="module")
def robot(path):
    return dn.load_robot(path)


def sample(robot, seed, rows=2):
    rng, n = np.random.default_rng(seed), robot.num_velocities
    q = manifold.displace(robot, manifold.neutral(robot), jnp.asarray(rng.normal(size=n) * 0.7))
    return np.asarray(q), *rng.normal(size=(rows, n))


@pytest.mark.parametrize("seed", range(3))
def test_what_pulls_and_lifts_is_as_in_mujoco(path, robot, seed):
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    q, qd, tau = sample(robot, seed)
    data.qpos[:], data.qvel[:] = dn.to_mujoco(robot, q, qd)
    turn = dn.to_mujoco(robot, np.tile(q, (len(qd), 1)), np.eye(len(qd)))[1].T
    data.qfrc_applied[:] = turn @ tau
    mujoco.mj_forward(model, data)
    assert np.abs(data.qfrc_spring).max() > 0.1 and np.abs(data.qfrc_gravcomp).max() > 0.1
    wanted = turn.T @ data.qacc
    wanted[:3] -= np.cross(qd[3:6], qd[:3])
    assert relative(dn.forward_dynamics(robot, q, qd, tau), wanted) < AGREE
    still = data.qfrc_gravcomp + data.qfrc_spring
    data.qvel[:] = 0
    mujoco.mj_forward(model, data)
    assert relative(dn.gravity_torque(robot, q), turn.T @ (data.qfrc_bias - still)) < AGREE


def test_laws_hold_with_all_of_it(robot):
    q, qd, tau = sample(robot, 5)
    qdd = dn.forward_dynamics(robot, q, qd, tau)
    assert relative(dn.inverse_dynamics(robot, q, qd, qdd), tau) < LAW

    def total(t):
        return sum(dn.energy(robot, dn.integrate(robot, q, qd, t), qd + t * qdd))

    power = jax.jvp(total, (jnp.zeros(()),), (jnp.ones(()),))[1]
    assert abs(power - tau @ qd) < LAW * (1 + abs(tau @ qd))
    bare = replace(robot, springs=None, tendons=None, lift=replace(robot.lift, excess=0 * robot.lift.excess))
    assert np.abs(robot.lift.excess).max() > 1e-3
    Y = np.asarray(dn.regressor(robot, q, qd, qdd))
    assert relative(Y @ dn.inertial_parameters(robot), dn.inverse_dynamics(bare, q, qd, qdd)) < LAW
    run = dn.rollout(dn.Model(robot), q, qd, None, dt=1 / 500, steps=50)
    energy = np.asarray(dn.Model(robot).energy(run.q, run.qd))
    assert np.abs(energy - energy[0]).max() < 1e-9 * np.abs(energy).max()


def test_files_keep_it(tmp_path):
    path = crane(tmp_path, arm="0.5", weight="0.5")
    robot = dn.load_robot(path)
    dn.save_robot(robot, tmp_path / "same.xml")
    assert (tmp_path / "same.xml").read_bytes() == path.read_bytes()
    dn.save_robot(robot, tmp_path / "fresh.xml", fresh=True)
    back = dn.load_robot(tmp_path / "fresh.xml")
    for one, other in zip(jax.tree.leaves(robot), jax.tree.leaves(back), strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-12)
    (tmp_path / "tied.xml").write_text(TIED.format(more="").replace('name="b" pos', 'name="b" gravcomp="1" pos'))
    with pytest.raises(dn.RobotFileError, match="its lift.share cannot be written as URDF: it would be lost"):
        dn.save_robot(dn.load_robot(tmp_path / "tied.xml"), tmp_path / "lost.urdf")
    heavier = robot.replace(link="b", mass=2.0)
    dn.save_robot(heavier, tmp_path / "heavier.xml")
    assert relative(dn.load_robot(tmp_path / "heavier.xml").lift.share, robot.lift.share) < LAW
    pulled = replace(heavier, lift=None)  # as a fit leaves it
    dn.save_robot(pulled, tmp_path / "pulled.xml")
    assert (tmp_path / "pulled.xml").read_bytes() == (tmp_path / "heavier.xml").read_bytes()


def test_a_locked_joint_keeps_its_part_of_a_tendon(path, robot):
    held = dn.load_robot(path, base="fixed", lock={"shoulder": None, "c": 0.3})
    q = np.asarray(manifold.neutral(robot)).copy()
    q[-2:] = 0.8, 0.3
    springy = replace(robot, springs=None)
    assert relative(dn.gravity_torque(held, [0.8])[0], dn.gravity_torque(springy, q)[-2]) < LAW


TIED = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="a"><joint name="a" axis="0 1 0" ref="0.2"/><geom size="0.1" pos="0.3 0 0"/>
    <body name="b" pos="0.5 0 0"><joint name="b" axis="0 1 0"/><geom size="0.1" pos="0.3 0 0"/></body></body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="b" coef="-4"/></fixed>
    <fixed name="u"><joint joint="a" coef="1"/></fixed></tendon>
  <equality><tendon tendon1="t" {more} polycoef="0.6 0 0 0 0"/></equality></mujoco>"""


def test_a_constraint_of_a_tendon_along_two_joints_couples_them(tmp_path):
    path = tmp_path / "tied.xml"
    path.write_text(TIED.format(more=""))
    robot = dn.load_robot(path)
    assert robot.joint_names == ("a",)
    q = dn.to_mujoco(robot, np.array([0.7]))
    model = mujoco.MjModel.from_xml_path(str(path))
    assert abs(2 * q[0] - 4 * q[1] - model.tendon_length0[0] - 0.6) < LAW
    path.write_text(TIED.format(more='tendon2="u"'))
    with pytest.warns(UserWarning, match='equality constraints are left out, these move independently: tendon "t"'):
        assert dn.load_robot(path).joint_names == ("a", "b")


BAD = [
    ('<joint joint="b" coef="0.7"/>', '<joint joint="bb" coef="0.7"/>', "bb"),
    ('<joint joint="b" coef="0.7"/>', '<joint joint="shoulder" coef="0.7"/>', "shoulder|slide or hinge|scalar"),
    ('<joint joint="b" coef="0.7"/>', '<joint joint="b" coef="nan"/>', "use finite numbers"),
    ('<joint joint="b" coef="0.7"/>', '<joint joint="b" coef="much"/>', "coef"),
    ('<joint joint="b" coef="0.7"/>', '<joint coef="0.7"/>', "joint"),
    ('<joint joint="b" coef="0.7"/>', '<site site="b"/>', "site"),
    ('springlength="0.1 0.2"', 'springlength="0.2 0.1"', "springlength"),
    ('stiffness="30"', 'stiffness="-30"', "stiffness"),
    ('stiffness="30"', 'stiffness="hard"', "stiffness"),
    ('gravcomp="1.5"', 'gravcomp="all"', "gravcomp"),
    ('gravcomp="1.5"', 'gravcomp="nan"', "use finite numbers"),
    ('name="idle"', 'name="cable"', "repeated name"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[new for _, new, _ in BAD])
def test_malformed_tendons_and_lifts_are_refused_in_one_line(old, new, message, tmp_path):
    path = crane(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(path)
    assert "\n" not in str(caught.value)
