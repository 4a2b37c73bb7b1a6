"""Loops of links that are held together: beside MuJoCo's matrices on the manifold, in laws, roll-outs and files."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from robots import relative

import diffnea as dn
from diffnea import manifold
from diffnea.errors import DiffneaError
from diffnea.loops import gap

AGREE, LAW = 1e-8, 1e-9

# A planar four-bar, whose third row says nothing new; one motor.
BARS = """<mujoco model="bars">
  <compiler angle="radian"/>
  <worldbody>
    <body name="crank" pos="0 0 0.1"><joint name="crank" axis="0 1 0"/><geom size="0.03" pos="0.1 0 0.1" mass="0.5"/>
      <body name="rod" pos="0.2 0 0.3"><joint name="rod" axis="0 1 0"/>
        <geom size="0.03" pos="0.3 0 0" mass="0.8"/></body>
    </body>
    <body name="rocker" pos="0.7 0 0"><joint name="rocker" axis="0 1 0" stiffness="3"/>
      <geom size="0.04" pos="0 0 0.2" mass="1"/></body>
  </worldbody>
  <equality>{tie}</equality>
  <actuator><motor name="crank" joint="crank" gear="2"/></actuator>
</mujoco>
"""
CONNECT = '<connect body1="rod" body2="rocker" anchor="0.5 0 0.1"/>'

# A free base with a leg that a ball closes by a weld, and a coupled joint; sites say what is held.
WALKER = """<mujoco model="walker">
  <compiler angle="radian"/>
  <worldbody>
    <body name="hull" pos="0 0 1" quat="0.8 0 0.6 0"><freejoint/><geom type="box" size="0.2 0.1 0.1" mass="3"/>
      <body name="hip" pos="0.2 0 0"><joint name="hip" axis="0 1 0"/><geom size="0.05" pos="0 0.1 0.2" mass="0.6"/>
        <body name="knee" pos="0 0 0.4"><joint name="knee" axis="1 0 0"/><geom size="0.1" pos="0.2 0 0" mass="1"/>
          <body name="foot" pos="0.3 0 0"><joint name="foot" axis="0 0.6 0.8"/><geom type="box" size="0.1 0.2 0.1"/>
            <site name="foot" pos="0 0.1 0" euler="0.2 0.3 0.1"/></body>
        </body>
      </body>
      <body name="strut" pos="0.3 -0.2 0"><joint name="swivel" type="ball" pos="0.01 0 0"/>
        <geom size="0.05" pos="0 0 0.2" mass="0.4"/>
        <body name="slide" pos="0 0 0.3"><joint name="slide" type="slide" axis="0 0 1"/><geom size="0.06" mass="0.3"/>
          <body name="turn"><joint name="turn" axis="1 0 0"/><geom size="0.04" pos="0 0.05 0" mass="0.2"/>
            <body name="end"><joint name="end" axis="0 1 0"/><geom size="0.04" pos="0 0.05 0.1" mass="0.2"/>
              <site name="end" pos="0 0 0.1"/></body></body></body>
      </body>
      <body name="tail" pos="-0.2 0 0"><joint name="tail" axis="0 1 0"/>
        <geom size="0.05" pos="-0.2 0 0" mass="0.4"/></body>
    </body>
  </worldbody>
  <equality><weld site1="foot" site2="end"/><joint joint1="tail" joint2="hip" polycoef="0 0.5 0.2 0 0"/></equality>
</mujoco>
"""


def write(folder, text, name="robot.xml"):
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    return write(tmp_path_factory.mktemp("bars"), BARS.format(tie=CONNECT))


@pytest.fixture(scope="module")
def walker(tmp_path_factory):
    return write(tmp_path_factory.mktemp("walker"), WALKER)


def sample(robot, seed, size=0.3):
    """A state on the manifold, and torques."""
    rng, n = np.random.default_rng(seed), robot.num_velocities
    near = manifold.displace(robot, manifold.neutral(robot), jnp.asarray(rng.normal(size=n) * size))
    q, qd = dn.close_loops(robot, near, rng.normal(size=n))
    return np.asarray(q), np.asarray(qd), rng.normal(size=n)


def kkt(robot, path, q, qd, tau):
    """Accelerations by MuJoCo's mass matrix, forces and Jacobians, all coordinates, and the gap that is left."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = dn.to_mujoco(robot, q, qd)
    turn = dn.to_mujoco(robot, np.tile(q, (len(qd), 1)), np.eye(len(qd)))[1].T  # q̇ → MuJoCo's velocities
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    rows, rates = [], []
    for i in np.flatnonzero(np.isin(model.eq_type, [0, 1])):
        for row, rate in _constraint(model, data, i):
            rows.append(row)
            rates.append(rate)
    if robot.couplings is not None:  # tail − ½ hip − 0.2 hip² = 0
        hip, tail = (model.joint(name).dofadr[0] for name in ("hip", "tail"))
        at, speed = data.qpos[model.joint("hip").qposadr[0]], data.qvel[hip]
        row = np.eye(model.nv)[tail] - (0.5 + 0.4 * at) * np.eye(model.nv)[hip]
        rows, rates = [*rows, row], [*rates, -0.4 * speed**2]
    J, drift = np.array(rows), np.array(rates)
    force = np.linalg.pinv(turn.T) @ tau  # tau = turnᵀ force
    W = np.linalg.solve(M, J.T)
    free = np.linalg.solve(M, force - data.qfrc_bias + data.qfrc_passive)
    qacc = free + W @ np.linalg.lstsq(J @ W, -drift - J @ free, rcond=1e-10)[0]
    return dn.from_mujoco(robot, data.qpos, qacc)[1]  # of the joints that lead


def _constraint(model, data, i):
    """Rows of the Jacobian of a connect or weld, with `J̇ q̇`."""
    site = model.eq_objtype[i] == mujoco.mjtObj.mjOBJ_SITE
    ends = model.eq_obj1id[i], model.eq_obj2id[i]
    bodies = [model.site_bodyid[end] if site else end for end in ends]
    points = [
        data.site_xpos[end]
        if site
        else data.xpos[body] + data.xmat[body].reshape(3, 3) @ model.eq_data[i, 3 * k : 3 * k + 3]
        for k, (end, body) in enumerate(zip(ends, bodies, strict=True))
    ]
    assert np.abs(points[0] - points[1]).max() < 1e-7
    found = []
    for body, point in zip(bodies, points, strict=True):
        now, change = np.zeros((2, 3, model.nv)), np.zeros((2, 3, model.nv))
        mujoco.mj_jac(model, data, *now, point, body)
        mujoco.mj_jacDot(model, data, *change, point, body)
        found.append((now, change @ data.qvel))
    weld = model.eq_type[i] == mujoco.mjtEq.mjEQ_WELD
    for kind in range(2 if weld else 1):
        for axis in range(3):
            yield found[0][0][kind, axis] - found[1][0][kind, axis], found[0][1][kind, axis] - found[1][1][kind, axis]


@pytest.mark.parametrize("name", ["bars", "walker"])
@pytest.mark.parametrize("seed", range(2))
def test_forward_dynamics_are_mujoco_s_on_the_manifold(name, seed, request):
    path = request.getfixturevalue(name)
    robot = dn.load_robot(path)
    q, qd, tau = sample(robot, seed)
    assert np.abs(gap(robot, jnp.asarray(q))).max() < 1e-12
    qacc = kkt(robot, path, q, qd, tau)
    qdd = np.asarray(dn.forward_dynamics(robot, q, qd, tau))
    if robot.base == "floating":
        qacc[:3] -= np.cross(qd[3:6], qd[:3])
    assert relative(qdd, qacc) < AGREE


def test_laws_on_the_manifold(bars):
    robot = dn.load_robot(bars)
    q, qd, tau = sample(robot, 3)
    qdd = np.asarray(dn.forward_dynamics(robot, q, qd, tau))
    assert relative(dn.forward_dynamics(robot, q, qd, dn.inverse_dynamics(robot, q, qd, qdd)), qdd) < LAW
    driven = np.array([1.3, 0.0, 0.0])  # the crank alone has a motor
    qdd = dn.forward_dynamics(robot, q, qd, driven)
    assert relative(dn.inverse_dynamics(robot, q, qd, qdd), driven) < LAW
    weights = replace(robot, springs=None)
    Y = np.asarray(dn.regressor(robot, q, qd, qdd))
    assert relative(Y @ dn.inertial_parameters(robot), dn.inverse_dynamics(weights, q, qd, qdd)) < LAW

    def total(t):
        return sum(dn.energy(robot, dn.integrate(robot, q, qd, t), qd + t * qdd))

    power = jax.jvp(total, (jnp.zeros(()),), (jnp.ones(()),))[1]
    assert abs(power - driven @ qd) < LAW * (1 + abs(driven @ qd))


@pytest.mark.parametrize(("name", "link"), [("bars", "rod"), pytest.param("walker", "knee", marks=pytest.mark.slow)])
def test_forward_dynamics_differentiate_in_everything(name, link, request):
    robot = dn.load_robot(request.getfixturevalue(name))
    q, qd, tau = sample(robot, 4)
    n, size = robot.num_velocities, 1e-6

    def accelerate(step, qd, tau):
        return dn.forward_dynamics(robot, dn.integrate(robot, q, step, 1.0), qd, tau)

    point = np.zeros(n), qd, tau
    direction = [np.random.default_rng(k).normal(size=n) for k in range(3)]
    found = jax.jvp(accelerate, tuple(map(jnp.asarray, point)), tuple(map(jnp.asarray, direction)))[1]
    ahead, behind = (accelerate(*(x + s * d for x, d in zip(point, direction, strict=True))) for s in (size, -size))
    assert relative(found, (ahead - behind) / (2 * size)) < 1e-6

    def one(mass):
        heavier = robot.replace(link=link, mass=mass)
        return jnp.sum(jnp.sin(dn.forward_dynamics(heavier, q, qd, tau)))

    slope = jax.grad(one)(1.0)
    assert abs(slope - (one(1 + size) - one(1 - size)) / (2 * size)) < 1e-6 * max(1.0, abs(slope))


def test_roll_outs_stay_closed_and_keep_energy(bars):
    robot = dn.load_robot(bars)
    q, qd, _ = sample(robot, 5)
    model = dn.Model(robot)
    run = dn.rollout(model, q, qd, None, dt=1 / 200, steps=400)
    assert run.diverged_at is None
    gaps = np.asarray(jax.vmap(lambda q: gap(robot, q))(run.q))
    energy = np.asarray(model.energy(run.q, run.qd))
    assert np.abs(gaps).max() < 1e-9 and np.abs(energy - energy[0]).max() < 1e-9 * np.abs(energy).max()
    rubbing = dn.Model(robot, "viscous")
    run = dn.rollout(rubbing, q, qd, None, dt=1 / 200, steps=400)
    assert np.abs(np.asarray(jax.vmap(lambda q: gap(robot, q))(run.q))).max() < 1e-9
    with pytest.raises(ValueError, match="q0 leaves a loop open by 0.[0-9]+ m or rad; close it by close_loops"):
        dn.rollout(model, q + 0.1, qd, None, dt=0.01, steps=2)


@pytest.mark.parametrize("name", ["bars", "walker"])
def test_files_keep_loops(name, request, tmp_path):
    path = request.getfixturevalue(name)
    robot = dn.load_robot(path)
    dn.save_robot(robot, tmp_path / "same.xml")
    assert (tmp_path / "same.xml").read_bytes() == path.read_bytes()
    dn.save_robot(robot, tmp_path / "fresh.xml", fresh=True)
    back = dn.load_robot(tmp_path / "fresh.xml")
    assert (back.loops.kinds, back.loops.first) == (robot.loops.kinds, robot.loops.first)
    for one, other in zip(jax.tree.leaves(robot.loops), jax.tree.leaves(back.loops), strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-9)
    with pytest.raises(dn.RobotFileError, match="cannot be written as URDF|which URDF has not"):
        dn.save_robot(robot, tmp_path / "lost.urdf")


def test_loops_can_be_left_open_and_locked(bars):
    with pytest.warns(UserWarning, match='loops are left open: connect of "rod" and "rocker"'):
        loose = dn.load_robot(bars, couplings=False)
    assert loose.loops is None and loose.num_joints == 3
    held = dn.load_robot(bars, lock=["crank", "rod"])
    assert held.loops is not None and held.joint_names == ("rocker",)
    assert np.abs(dn.forward_dynamics(held, [0.0], [0.0], [1.0])).max() < 1e-6
    with pytest.raises(DiffneaError, match='"rod" and "rocker" of robot "bars" close a loop; trees can be used here'):
        dn.fit(dn.load_robot(bars), [])
    with pytest.raises(DiffneaError, match="close a loop"):
        dn.Model(dn.load_robot(bars), "servo")


BAD = [
    ('body2="rocker"', 'body2="rod"', "itself|same body|rod"),
    ('body2="rocker"', 'body2="nobody"', "nobody"),
    ('body2="rocker"', 'body2="rocker" active="perhaps"', "invalid keyword"),
    ('anchor="0.5 0 0.1"', 'anchor="0.5 nan 0.1"', "use finite numbers"),
    ('anchor="0.5 0 0.1"', 'anchor="0.5 0"', "anchor"),
    ('anchor="0.5 0 0.1"', "", "anchor|connect"),
    ('body1="rod" ', "", "body1|body"),
    (CONNECT, '<connect site1="one" site2="two"/>', "one"),
    (CONNECT, '<weld body1="rod" body2="rod"/>', "itself|same body|rod"),
    (CONNECT, '<weld body1="crank" relpose="9 0 0 1 0 0 0"/>', 'weld of "crank" and "world" cannot close'),
    (CONNECT, '<weld body1="rod" body2="rocker" relpose="3 3 0 1 0 0 0"/>', 'weld of "rod" and "rocker" cannot close'),
    (CONNECT, '<weld body1="rod" body2="rocker" relpose="0 0 0.1 0 0 0 x"/>', "relpose"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[new for _, new, _ in BAD])
def test_loops_that_make_no_sense_are_refused_in_one_line(old, new, message, tmp_path):
    tie = CONNECT.replace(old, new)
    assert tie != CONNECT
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(write(tmp_path, BARS.format(tie=tie)))
    assert "\n" not in str(caught.value)
