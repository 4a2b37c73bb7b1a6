"""Free bases and balls: beside Pinocchio and MuJoCo, and the laws that hold whatever the robot."""

import warnings
from dataclasses import replace
from importlib.metadata import files
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pinocchio
import pytest
from robots import random_robot, relative

import diffnea as dn
from diffnea import dynamics, manifold
from diffnea.errors import DiffneaError

LAW = 1e-10
AGREE = 1e-9
# A free base with two branches, one with a ball in the middle.
TREE = dn.Tree(
    (-1, 0, 1, 2, 0), ("free", "revolute", "ball", "prismatic", "continuous"), tuple("abcde"), tuple("ABCDE")
)
N, NQ = 6 + 1 + 3 + 1 + 1, 7 + 1 + 4 + 1 + 1


@pytest.fixture(scope="module")
def robot():
    return random_robot(TREE, 3)


def sample(robot, seed, rows=2):
    """A configuration anywhere, and rows of velocities."""
    rng = np.random.default_rng(seed)
    n = robot.num_velocities
    q = manifold.displace(robot, manifold.neutral(robot), jnp.asarray(rng.normal(size=n) * 1.5))
    return np.asarray(q), *rng.normal(size=(rows, n))


class Witness:
    """The robot in Pinocchio, whose quaternions have w last."""

    def __init__(self, robot):
        self.robot, self.model, identifiers = robot, pinocchio.Model(), []
        several = {"free": pinocchio.JointModelFreeFlyer, "ball": pinocchio.JointModelSpherical}
        for i, parent in enumerate(robot.tree.parents):
            kind, axis = robot.tree.kinds[i], np.asarray(robot.axis[i])
            slides = pinocchio.JointModelPrismaticUnaligned if kind == "prismatic" else None
            joint = several[kind]() if kind in several else (slides or pinocchio.JointModelRevoluteUnaligned)(axis)
            place = pinocchio.SE3(np.asarray(robot.placement.rotation[i]), np.asarray(robot.placement.translation[i]))
            place = pinocchio.SE3.Identity() if kind == "free" else place
            above = identifiers[parent] if parent >= 0 else 0
            identifiers.append(self.model.addJoint(above, joint, place, robot.tree.joint_names[i]))
            body = pinocchio.Inertia.FromDynamicParameters(np.asarray(robot.inertia.parameters[i]))
            self.model.appendBodyToJoint(identifiers[-1], body, pinocchio.SE3.Identity())
        self.model.gravity.linear = np.asarray(robot.gravity)
        self.model.armature = np.asarray(robot.armature)[robot.tree.layout.links]
        self.data = self.model.createData()

    def q(self, q):
        return dn.to_pinocchio(self.robot, q)


def test_lengths_names_and_what_is_said_of_wrong_ones(robot):
    assert (robot.base, robot.num_velocities, robot.num_positions, robot.num_joints) == ("floating", N, NQ, 3)
    assert robot.joint_names == ("b", "d", "e") and robot.num_links == 5
    with pytest.raises(ValueError, match=rf"q has shape \({N},\); its last axis must be {NQ}, x y z and w x y z of a"):
        dn.mass_matrix(robot, np.zeros(N))
    with pytest.raises(ValueError, match=rf"qd has shape \({NQ},\); its last axis must be {N}, linear and angular"):
        dn.bias_torque(robot, np.zeros(NQ), np.zeros(NQ))
    with pytest.raises(ValueError, match='joint "b" is free but hangs on a link'):
        dn.Tree((-1, 0), ("revolute", "free"), ("a", "b"), ("A", "B"))


def test_every_algorithm_agrees_with_pinocchio(robot):
    q, qd, tau, qdd = sample(robot, 0, rows=3)
    witness = Witness(robot)
    model, data, pq = witness.model, witness.data, witness.q(q)
    upper = np.triu(pinocchio.crba(model, data, pq))
    pairs = {
        "aba": (dn.forward_dynamics(robot, q, qd, tau), pinocchio.aba(model, data, pq, qd, tau)),
        "rnea": (dn.inverse_dynamics(robot, q, qd, qdd), pinocchio.rnea(model, data, pq, qd, qdd)),
        "crba": (dn.mass_matrix(robot, q), upper + np.triu(upper, 1).T),
        "regressor": (
            dn.regressor(robot, q, qd, qdd),
            pinocchio.computeJointTorqueRegressor(model, data, pq, qd, qdd),
        ),
        "integrate": (
            dn.integrate(robot, q, qd, 0.9),
            dn.from_pinocchio(robot, pinocchio.integrate(model, pq, 0.9 * qd)),
        ),
    }
    pinocchio.forwardKinematics(model, data, pq, qd)
    pairs["kinematics"] = dn.forward_kinematics(robot, q), np.array([pose.homogeneous for pose in data.oMi[1:]])
    energy = pinocchio.computePotentialEnergy(model, data)
    pairs["potential"] = dn.energy(robot, q, qd).potential, energy
    errors = {name: relative(found, wanted) for name, (found, wanted) in pairs.items()}
    assert all(error < AGREE for error in errors.values()), errors


def test_the_articulated_body_algorithm_gives_the_same(robot):
    q, qd, tau = sample(robot, 1)
    assert relative(dynamics.aba(robot, *map(jnp.asarray, (q, qd, tau))), dn.forward_dynamics(robot, q, qd, tau)) < LAW


def test_batches_are_samples_side_by_side(robot):
    rows = [sample(robot, seed) for seed in range(3)]
    q, qd, tau = (np.array(values) for values in zip(*rows, strict=True))
    found = dn.forward_dynamics(robot, q, qd, tau)
    assert relative(found[1], dn.forward_dynamics(robot, q[1], qd[1], tau[1])) < LAW
    assert dn.inverse_dynamics(robot, q[0], qd, tau).shape == (3, N)


def test_laws_of_energy_and_coriolis(robot):
    q, qd, tau = sample(robot, 2)
    M, C = dn.mass_matrix(robot, q), dn.coriolis_matrix(robot, q, qd)
    assert relative(C @ qd, dn.bias_torque(robot, q, qd) - dn.gravity_torque(robot, q)) < LAW
    assert relative(dn.energy(robot, q, qd).kinetic, qd @ M @ qd / 2) < LAW

    def along(t):
        return dn.mass_matrix(robot, dn.integrate(robot, q, qd, t))

    rate = jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))[1]
    skew = rate - 2 * C
    assert np.abs(skew + skew.T).max() < LAW * np.abs(skew).max()
    qdd = dn.forward_dynamics(robot, q, qd, tau)

    def total(t):
        return sum(dn.energy(robot, dn.integrate(robot, q, qd, t), qd + t * qdd))

    power = jax.jvp(total, (jnp.zeros(()),), (jnp.ones(()),))[1]
    assert abs(power - tau @ qd) < LAW * (1 + abs(tau @ qd))


def test_forward_dynamics_differentiate_along_the_manifold(robot):
    q, qd, tau = sample(robot, 4)

    def accelerate(step):
        return dn.forward_dynamics(robot, dn.integrate(robot, q, step, 1.0), qd, tau)

    found = np.asarray(jax.jacfwd(accelerate)(jnp.zeros(N)))
    size = 1e-6
    central = np.array([(accelerate(size * e) - accelerate(-size * e)) / (2 * size) for e in np.eye(N)]).T
    assert relative(found, central) < 1e-6
    back = jax.jacrev(lambda q: dn.forward_dynamics(robot, q, qd, tau))(jnp.asarray(q))
    for part in manifold.parts(robot):
        if part.kind != "single":  # the length of a quaternion means nothing, nor does its sign
            quaternion = slice(part.q.stop - 4, part.q.stop)
            assert np.abs(back[:, quaternion] @ q[quaternion]).max() < LAW * np.abs(back).max()
            q = q.copy()
            q[quaternion] *= -3.0
    assert relative(accelerate(np.zeros(N)), dn.forward_dynamics(robot, q, qd, tau)) < LAW


def test_difference_undoes_integrate_at_any_angle(robot):
    q = sample(robot, 5)[0]
    direction = np.random.default_rng(5).normal(size=N)
    for size in (0.0, 1e-9, 1e-3, 0.3, 0.51, 1.2):
        step = size * direction
        assert np.abs(dn.difference(robot, q, dn.integrate(robot, q, step, 1.0)) - step).max() < LAW * max(size, 1e-3)
    there = np.asarray(dn.integrate(robot, q, direction, 0.5))
    norms = [np.linalg.norm(there[part.q][-4:]) for part in manifold.parts(robot) if part.kind != "single"]
    assert np.allclose(norms, 1.0, rtol=0, atol=1e-15)
    slope = jax.jacfwd(lambda step: dn.difference(robot, q, dn.integrate(robot, q, step, 1.0)))
    assert np.abs(slope(jnp.zeros(N)) - np.eye(N)).max() < LAW


@pytest.fixture(scope="module")
def flyer():
    """A free base with a ball and a hinge, floating in space."""
    tree = dn.Tree((-1, 0, 1), ("free", "ball", "revolute"), tuple("abc"), tuple("ABC"))
    made = random_robot(tree, 8, scale=2.0)
    return replace(made, gravity=jnp.zeros(3), armature=jnp.zeros(3))


def momentum(robot, q, qd):
    """Linear and angular momentum about the world's origin."""
    p = np.asarray(dn.mass_matrix(robot, q) @ qd)[:6]
    R = np.asarray(manifold.rotation_of(jnp.asarray(q[3:7])))
    return np.concatenate([R @ p[:3], R @ p[3:] + np.cross(q[:3], R @ p[:3])])


def test_free_flight_keeps_momentum_and_energy(flyer):
    q, qd = sample(flyer, 6, rows=1)
    run = dn.rollout(dn.Model(flyer), q, qd, None, dt=5e-4, steps=401, integrator="rk4")
    first, last = (momentum(flyer, run.q[k], run.qd[k]) for k in (0, -1))
    assert np.abs(first - last).max() < 1e-10 * np.abs(first).max()
    coarse = dn.rollout(dn.Model(flyer), q, qd, None, dt=5e-3, steps=41, integrator="rk4")
    errors = [np.abs(np.asarray(r.q[-1]) - other.q[-1]).max() for r, other in ((coarse, run),)]
    half = dn.rollout(dn.Model(flyer), q, qd, None, dt=2.5e-3, steps=81, integrator="rk4")
    assert errors[0] / np.abs(np.asarray(half.q[-1]) - run.q[-1]).max() > 12  # fourth order, on the manifold too


def test_roll_outs_keep_the_energy_guarantee(flyer):
    heavy = replace(flyer, gravity=jnp.asarray([0.0, 1.0, -9.81]))
    starts = [sample(heavy, seed, rows=1) for seed in range(20)]
    q0, qd0 = (np.array(values) for values in zip(*starts, strict=True))
    still = dn.Model(heavy)
    run = dn.rollout(still, q0, 3 * qd0, None, dt=1 / 250, steps=100)
    energy = np.asarray(still.energy(run.q, run.qd))
    assert run.diverged_at is None and np.abs(energy - energy[:, :1]).max() < 1e-9 * np.abs(energy).max()
    rubbing = dn.Model(heavy, dn.actuators.make("stribeck", 1, key=jax.random.key(0)))
    run = dn.rollout(rubbing, q0, 3 * qd0, None, dt=1 / 250, steps=100)
    energy = np.asarray(rubbing.energy(run.q, run.qd))
    assert np.diff(energy, axis=1).max() < 1e-9 * np.abs(energy).max()
    with pytest.raises(ValueError, match="q0 has the quaternion 0 0 0 0 from entry 3 on"):
        dn.rollout(still, np.zeros(12), np.zeros(10), None, dt=0.01, steps=2)


# Files ---------------------------------------------------------------------------------------------------------------

CRAFT = """<mujoco model="craft">
  <compiler angle="radian"/>
  <worldbody>
    <body name="hull" pos="1 2 3" quat="0.6 0 0.8 0">
      {joint}
      <inertial pos="0.1 0 0.05" mass="3" diaginertia="0.03 0.04 0.05"/>
      <body name="arm" pos="0.2 0 0" euler="0.3 0 0.2">
        <joint name="shoulder" type="ball" pos="0.01 0.02 0"/>
        <geom size="0.05" pos="0 0 0.2" mass="0.7"/>
        <body name="hand" pos="0 0 0.4"><joint name="wrist" axis="0 1 0"/><geom type="box" size="0.1 0.2 0.1"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def craft(folder, joint="<freejoint/>"):
    path = folder / "craft.xml"
    path.write_text(CRAFT.format(joint=joint))
    return path


def against_mujoco(robot, path, seed=0):
    """Errors of the mass matrix, the bias and the accelerations, in MuJoCo's coordinates."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.dof_damping[:] = model.dof_frictionloss[:] = model.tendon_damping[:] = 0
    off = mujoco.mjtDisableBit
    model.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_ACTUATION
    if robot.loops is None:  # what ties tendons is left out, as air and water are, and loading says so
        model.opt.disableflags |= off.mjDSBL_EQUALITY
    model.opt.density = model.opt.viscosity = 0
    data = mujoco.MjData(model)
    q, qd, tau = sample(robot, seed)
    data.qpos[:], data.qvel[:] = dn.to_mujoco(robot, q, qd)
    turn = dn.to_mujoco(robot, np.tile(q, (len(qd), 1)), np.eye(len(qd)))[1].T  # q̇ → MuJoCo's velocities
    data.qfrc_applied[:] = turn @ tau
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    qdd = np.asarray(dn.forward_dynamics(robot, q, qd, tau))
    back = dn.from_mujoco(robot, data.qpos, data.qvel)
    return {
        "mass": relative(turn @ dn.mass_matrix(robot, q) @ turn.T, M),
        "acceleration": relative(turn @ qdd + spun(robot, q, qd), data.qacc),
        "there and back": max(relative(back[0], q), relative(back[1], qd)),
    }


def spun(robot, q, qd):
    """What MuJoCo's linear accelerations have beyond ours: `R (ω × v)` of free links."""
    found = np.zeros(len(qd))
    for part in manifold.parts(robot):
        if part.kind == "free":
            v, w = qd[part.v][:3], qd[part.v][3:]
            found[part.v.start : part.v.start + 3] = np.asarray(
                manifold.rotation_of(jnp.asarray(q[part.q][3:]))
            ) @ np.cross(w, v)
    return found


def test_a_file_with_a_free_joint_and_a_ball_moves_as_in_mujoco(tmp_path):
    path = craft(tmp_path)
    robot = dn.load_robot(path)
    assert (robot.base, robot.joint_names) == ("floating", ("wrist",))
    assert np.allclose(manifold.neutral(robot)[:7], [1, 2, 3, 0.6, 0, 0.8, 0])
    errors = against_mujoco(robot, path)
    assert all(error < 1e-8 for error in errors.values()), errors


def test_free_joints_and_balls_are_held_where_the_file_has_them(tmp_path):
    path = craft(tmp_path)
    stand = dn.load_robot(path, base="fixed", lock=["shoulder"])
    assert (stand.base, stand.num_positions, stand.joint_names) == ("fixed", 1, ("wrist",))
    free = dn.load_robot(path)
    q = np.asarray(manifold.neutral(free)).copy()
    q[-1] = 0.7
    assert relative(dn.forward_kinematics(stand, [0.7])[0], dn.forward_kinematics(free, q)[-1]) < LAW
    assert relative(dn.mass_matrix(stand, [0.7])[0, 0], dn.mass_matrix(free, q)[-1, -1]) < LAW
    same = dn.load_robot(path, lock={"hull_joint": None, "shoulder": None})
    assert same.tree == stand.tree
    dn.save_robot(replace(stand, damping=stand.damping + 1), tmp_path / "out.xml")
    assert dn.load_robot(tmp_path / "out.xml").base == "floating"
    with pytest.raises(dn.RobotFileError, match='joint "shoulder" is ball: it is held where the file has it'):
        dn.load_robot(path, lock={"shoulder": 0.3})


@pytest.mark.parametrize("fresh", [False, True])
def test_mjcf_keeps_free_joints_and_balls(tmp_path, fresh):
    path = craft(tmp_path, '<joint name="root" type="free" armature="0.1"/>' if fresh else "<freejoint/>")
    robot = dn.load_robot(path)
    dn.save_robot(robot, tmp_path / "same.xml")
    assert (tmp_path / "same.xml").read_bytes() == path.read_bytes()
    changed = replace(robot, inertia=robot.inertia + robot.inertia, frame_offset=robot.frame_offset)
    dn.save_robot(changed, tmp_path / "out.xml", fresh=fresh)
    back = dn.load_robot(tmp_path / "out.xml")
    assert back.tree == robot.tree
    assert relative(back.inertia.parameters, 2 * robot.inertia.parameters) < AGREE
    assert relative(back.placement.translation, robot.placement.translation) < AGREE


ROVER = """<robot name="rover">
  <link name="hull"><inertial><origin xyz="0.1 0 0"/><mass value="4"/>
    <inertia ixx="0.2" ixy="0" ixz="0" iyy="0.3" iyz="0" izz="0.25"/></inertial></link>
  <link name="wheel"><inertial><mass value="1"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
  </inertial></link>
  <joint name="axle" type="continuous"><parent link="hull"/><child link="wheel"/><origin xyz="0 0.3 0"/>
    <axis xyz="0 1 0"/></joint>
</robot>
"""


def test_a_urdf_is_set_free_by_base(tmp_path):
    path = tmp_path / "rover.urdf"
    path.write_text(ROVER)
    robot = dn.load_robot(path, base="floating")
    assert (robot.base, robot.link_names, robot.num_positions) == ("floating", ("hull", "wheel"), 8)
    assert dn.load_robot(path).base == "fixed"
    model = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    q, qd, tau = sample(robot, 0)
    wanted = pinocchio.aba(model, model.createData(), dn.to_pinocchio(robot, q, model=model), qd, tau)
    assert relative(dn.forward_dynamics(robot, q, qd, tau), wanted) < AGREE
    dn.save_robot(robot, tmp_path / "same.urdf")
    assert (tmp_path / "same.urdf").read_bytes() == path.read_bytes()
    dn.save_robot(robot, tmp_path / "rover.xml")
    assert dn.load_robot(tmp_path / "rover.xml").base == "floating"
    dn.save_robot(replace(robot, inertia=robot.inertia + robot.inertia), tmp_path / "fresh.urdf", fresh=True)
    back = dn.load_robot(tmp_path / "fresh.urdf")
    assert back.base == "floating" and relative(back.inertia.mass, [8.0, 2.0]) < LAW
    with pytest.raises(dn.RobotFileError, match='base is "loose"; use "fixed" or "floating"'):
        dn.load_robot(path, base="loose")


def test_what_cannot_be_done_yet_is_refused_in_one_line(flyer, tmp_path):
    for attempt in (lambda: dn.make_env(flyer), lambda: dn.Model(flyer, "servo")):
        with pytest.raises(DiffneaError, match='joint "a" of robot "robot" is free; revolute') as caught:
            attempt()
        assert "\n" not in str(caught.value)
    with pytest.raises(dn.RobotFileError, match='joint "b" is a ball, which URDF has not'):
        dn.save_robot(flyer, tmp_path / "x.urdf", allow_unphysical=True)


BAD = [
    ('quat="0.6 0 0.8 0"', 'quat="0 0 0 0"', "quat"),
    ("<freejoint/>", "<freejoint/><freejoint/>", "more than 6 dofs"),
    ("<freejoint/>", '<freejoint type="slide"/>', "unrecognized attribute"),
    ("<freejoint/>", '<freejoint/><joint name="more"/>', "more than 6 dofs"),
    ('type="ball"', 'type="free"', "free joint can only be used on top level"),
    ('type="ball"', 'type="ball" ref="1 2"', "ref"),
    ('type="ball"', 'type="balls"', "invalid keyword"),
    ('pos="0.01 0.02 0"', 'pos="0.01 nan 0"', "use finite numbers"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=[new for _, new, _ in BAD])
def test_malformed_free_joints_and_balls_are_refused_in_one_line(old, new, message, tmp_path):
    path = craft(tmp_path)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(dn.RobotFileError, match=message) as caught:
        dn.load_robot(path)
    assert "\n" not in str(caught.value)


LARGE = ("go2.urdf", "talos_reduced.urdf", "g1_29dof_rev_1_0.urdf")
FLYING = [
    pytest.param(file, marks=[pytest.mark.slow] if file.name in LARGE else [], id=file.name)
    for file in files("example-robot-data") or ()
    if file.name in (*LARGE, "iris.urdf")
]


@pytest.mark.parametrize("file", FLYING)
def test_floating_urdfs_agree_with_pinocchio(file):
    path = Path(str(file.locate()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = dn.load_robot(path, base="floating")
    model = pinocchio.buildModelFromUrdf(str(path), pinocchio.JointModelFreeFlyer())
    data = model.createData()
    q, qd, third = sample(robot, 0)
    pq, pv, third_there = dn.to_pinocchio(robot, q, qd, model=model) + dn.to_pinocchio(robot, q, third, model=model)[1:]

    def mine(v):
        return dn.from_pinocchio(robot, pq, v, model=model)[1]

    Y = np.asarray(dn.regressor(robot, q, qd, third))
    errors = {
        "aba": relative(
            dn.forward_dynamics(robot, q, qd, third), mine(pinocchio.aba(model, data, pq, pv, third_there))
        ),
        "rnea": relative(
            dn.inverse_dynamics(robot, q, qd, third), mine(pinocchio.rnea(model, data, pq, pv, third_there))
        ),
        "regressor": relative(
            Y @ dn.inertial_parameters(robot), mine(pinocchio.rnea(model, data, pq, pv, third_there))
        ),
    }
    assert all(error < AGREE for error in errors.values()), errors
