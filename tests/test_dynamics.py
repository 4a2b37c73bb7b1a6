"""Laws of rigid-body dynamics on random trees, and Pinocchio as the witness."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from jax.test_util import check_grads
from robots import depth_first, in_pinocchio, random_robot, random_state, random_tree, relative
from scipy.spatial.transform import Rotation

import diffnea as dn
from diffnea import batching, dynamics, kernels, spatial
from diffnea.dynamics.forward_dynamics import is_deep
from diffnea.robot import astype

LAW = 1e-10
# Single precision carries 1.2e-7; twelve links in a row amplify it by the mass matrix' condition, up to 1e4 here.
SINGLE = 2e-3

# Each shape of tree is a compilation: a fixed handful here, any shape at all in the slow test.
SHAPES = [random_tree(seed, count) for seed, count in enumerate((2, 3, 4, 6, 8, 12))]
BRANCHED = dn.Tree((-1, 0, 0), ("prismatic", "revolute", "revolute"), ("a", "b", "c"), ("A", "B", "C"))


@jax.jit
def _evaluate(robot, q, qd, tau, qdd):
    """Everything the laws speak of, in one compilation."""
    solved = dynamics.forward(robot, q, qd, tau)
    forced = dynamics.rnea(robot, q, qd, qdd)

    def total(q, qd):
        return sum(dynamics.energies(robot, q, qd))

    power = jax.jvp(total, (q, qd), (qd, solved))[1]
    mass_rate = jax.jvp(partial(dynamics.crba, robot), (q,), (qd,))[1]
    return {
        "qdd": solved,
        "tau": forced,
        "tau back": dynamics.rnea(robot, q, qd, solved),
        "qdd back": dynamics.forward(robot, q, qd, forced),
        "articulated": dynamics.aba(robot, q, qd, tau),
        "M": dynamics.crba(robot, q),
        "dtau/dqdd": jax.jacfwd(lambda a: dynamics.rnea(robot, q, qd, a))(qdd),
        "kinetic": dynamics.energies(robot, q, qd).kinetic,
        "dE/dt": power,
        "Y pi": dynamics.rnea_jacobian(robot, q, qd, qdd) @ dn.inertial_parameters(robot),
        "C": dynamics.christoffel(robot, q, qd),
        "dM/dt": mass_rate,
        "g": dynamics.holding(robot, q),
    }


def _assert_laws(robot, q, qd, third):
    """`third` serves as torque and as acceleration."""
    found = {key: np.asarray(value) for key, value in _evaluate(robot, q, qd, third, third).items()}
    assert relative(found["tau back"], third) < LAW
    assert relative(found["qdd back"], third) < LAW
    assert relative(found["articulated"], found["qdd"]) < LAW
    mass = found["M"]
    assert relative(found["dtau/dqdd"], mass) < LAW
    assert np.array_equal(mass, mass.T)
    assert np.linalg.eigvalsh(mass)[0] > 0
    assert relative(found["kinetic"], qd @ mass @ qd / 2) < LAW
    work = third * qd
    assert abs(found["dE/dt"] - work.sum()) < LAW * (np.abs(work).sum() + found["kinetic"])
    rotors = np.asarray(robot.armature) * third
    assert relative(found["Y pi"] + rotors, found["tau"]) < LAW
    assert relative(mass @ third + found["C"] @ qd + found["g"], found["tau"]) < LAW
    skew = found["dM/dt"] - 2 * found["C"]
    assert np.abs(skew + skew.T).max() <= LAW * np.abs(found["dM/dt"]).max()


@given(st.sampled_from(SHAPES[1::2]), st.integers(0, 2**32 - 1), st.floats(0.1, 10.0))
@settings(max_examples=60)
def test_laws_hold_on_random_trees(tree, seed, scale):
    robot = random_robot(tree, seed, scale=scale)
    _assert_laws(robot, *random_state(robot.num_joints, seed))


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_laws_hold_on_any_shape_of_tree(seed):
    robot = random_robot(random_tree(seed), seed)
    _assert_laws(robot, *random_state(robot.num_joints, seed))
    jax.clear_caches()  # each shape is a compilation, and Linux bounds how much memory they may map


@given(st.sampled_from(SHAPES[1::2]), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_a_rotation_of_the_base_with_gravity_changes_nothing(tree, seed):
    robot = random_robot(tree, seed)
    turn = Rotation.random(rng=np.random.default_rng(seed)).as_matrix()
    on_base = np.array([parent < 0 for parent in tree.parents])
    placement = dn.Transform(
        jnp.where(on_base[:, None, None], turn @ robot.placement.rotation, robot.placement.rotation),
        jnp.where(on_base[:, None], robot.placement.translation @ turn.T, robot.placement.translation),
    )
    turned = replace(robot, placement=placement, gravity=turn @ robot.gravity)
    state = random_state(robot.num_joints, seed)
    before, after = _evaluate(robot, *state, state[2]), _evaluate(turned, *state, state[2])
    for quantity in ("qdd", "tau", "M", "kinetic", "C", "g"):
        assert relative(after[quantity], before[quantity]) < LAW, quantity


def assert_matches_pinocchio(module, robot, seed=0, bound=1e-9):
    """ABA, RNEA, CRBA, regressor, energy, Coriolis, gravity and poses of `module` against Pinocchio."""
    model = in_pinocchio(robot)
    data = model.createData()
    q, qd, third = random_state(robot.num_joints, seed)
    upper = np.triu(pinocchio.crba(model, data, q))
    tau = pinocchio.rnea(model, data, q, qd, third)
    parameters = np.asarray(module.inertial_parameters(robot))
    assert relative(module.forward_dynamics(robot, q, qd, third), pinocchio.aba(model, data, q, qd, third)) < bound
    assert relative(module.inverse_dynamics(robot, q, qd, third), tau) < bound
    assert relative(module.mass_matrix(robot, q), upper + np.triu(upper, 1).T) < bound
    links_only = tau - model.armature * third
    assert relative(np.asarray(module.regressor(robot, q, qd, third)) @ parameters, links_only) < bound
    assert relative(parameters, np.concatenate([i.toDynamicParameters() for i in list(model.inertias)[1:]])) < bound
    assert relative(module.coriolis_matrix(robot, q, qd), pinocchio.computeCoriolisMatrix(model, data, q, qd)) < bound
    assert relative(module.gravity_torque(robot, q), pinocchio.computeGeneralizedGravity(model, data, q)) < bound
    energy = module.energy(robot, q, qd)
    rotors = np.sum(model.armature * qd**2) / 2
    model.armature = np.zeros(robot.num_joints)  # Pinocchio 4.1 counts only one joint's rotor in the energy
    assert relative(energy.kinetic - rotors, pinocchio.computeKineticEnergy(model, data, q, qd)) < bound
    assert relative(energy.potential, pinocchio.computePotentialEnergy(model, data, q)) < bound
    pinocchio.forwardKinematics(model, data, q)
    poses = np.array([pose.homogeneous for pose in list(data.oMi)[1:]])
    assert relative(module.forward_kinematics(robot, q), poses) < bound


@pytest.mark.parametrize("tree", SHAPES[1::2], ids=lambda tree: f"{len(tree.parents)} links")
def test_pinocchio_agrees(tree):
    assert_matches_pinocchio(dn, random_robot(depth_first(tree), 1))


# Locked joints ---------------------------------------------------------------------------------------------------


@kernels.compile
def _locked(robot, q, qd, tau, free):
    qdd = dynamics.constrained(robot, q, qd, tau, free)
    return qdd, dynamics.rnea(robot, q, qd, qdd), dynamics.solve_mass(robot, q, tau, free), dynamics.crba(robot, q)


NAMES = tuple(f"{i}" for i in range(15))
DEEP = dn.Tree(tuple(range(-1, 14)), ("revolute", "prismatic", "continuous") * 5, NAMES, NAMES)


def test_a_deep_chain_uses_the_articulated_body_algorithm():
    assert is_deep(DEEP)
    assert not any(is_deep(tree) for tree in SHAPES)


@given(st.sampled_from([SHAPES[2], SHAPES[4], DEEP]), st.integers(0, 2**32 - 1))
@settings(max_examples=15)
@pytest.mark.slow
def test_locked_joints_stand_still_and_the_others_meet_their_torques(tree, seed):
    robot = random_robot(tree, seed)
    q, qd, tau = random_state(robot.num_joints, seed)
    free = np.random.default_rng(seed).integers(0, 2, robot.num_joints).astype(float)
    qdd, forced, solved, mass = map(np.asarray, _locked(robot, q, qd, tau, free))
    assert np.all(qdd[free == 0] == 0)
    assert np.all(solved[free == 0] == 0)
    assert np.abs((forced - tau)[free == 1]).max(initial=0.0) < LAW * np.abs(np.concatenate([tau, forced])).max()
    wanted = np.linalg.pinv(mass * np.outer(free, free), hermitian=True) @ tau
    assert relative(solved, wanted) < LAW or not free.any()


@pytest.mark.parametrize("deep", [False, True], ids=["factored", "articulated"])
def test_derivatives_with_a_locked_joint_meet_differences(deep, monkeypatch):
    robot, free = random_robot(BRANCHED, 5), jnp.array([1.0, 0.0, 1.0])
    monkeypatch.setattr("diffnea.dynamics.forward_dynamics.is_deep", lambda parents: deep)
    jax.clear_caches()  # what was traced before chose the other way

    @kernels.compile
    def held(inertia, q, qd, tau):
        return dynamics.constrained(replace(robot, inertia=inertia), q, qd, tau, free)

    state = map(jnp.asarray, random_state(3, 6))
    check_grads(held, (robot.inertia, *state), order=1, modes=("fwd", "rev"), eps=1e-6, atol=1e-6, rtol=1e-6)


# Derivatives -----------------------------------------------------------------------------------------------------

LEAVES = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(random_robot(BRANCHED, 0))]

# Kept for the robot's file; the equations of motion do not use them.
STATED = (".damping", ".friction", ".gear", ".limits.lower", ".limits.upper", ".limits.velocity", ".limits.effort")


def _turned(rotation, by):
    """Rotations turned by small vectors: what is learned of a rotation keeps it one."""
    turn = jax.vmap(lambda skew: jnp.eye(3) + skew + skew @ skew / 2)
    return rotation @ turn(jax.vmap(spatial.skew)(by))


def _moved(robot, moves):
    """The robot with each leaf moved a little; rotations stay rotations, and axes unit vectors."""
    found = []
    for name, leaf, move in zip(LEAVES, jax.tree.leaves(robot), moves, strict=True):
        if name == ".placement.rotation":
            found.append(_turned(leaf, move))
        else:
            found.append(leaf + move)
        if name == ".axis":
            found[-1] = jax.vmap(lambda axis: axis / jnp.linalg.norm(axis))(found[-1])
    return jax.tree.unflatten(jax.tree.structure(robot), found)


@pytest.fixture(scope="module")
def slopes():
    """Of everything that depends on a robot, by each of its leaves: forward, backward and by central differences."""
    robot = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 1.0), random_robot(BRANCHED, 3))
    still = [jnp.zeros((3, 3) if name == ".placement.rotation" else leaf.shape)
             for name, leaf in zip(LEAVES, jax.tree.leaves(robot), strict=True)]  # fmt: skip
    zero, shaped = ravel_pytree(still)
    q, qd, third = map(jnp.asarray, random_state(3, 4))

    @jax.jit
    def everything(moves):
        moved = _moved(robot, shaped(moves))
        energy = dynamics.energies(moved, q, qd)
        qdd, tau = dynamics.forward(moved, q, qd, third), dynamics.rnea(moved, q, qd, third)
        total = energy.kinetic + energy.potential
        return ravel_pytree((qdd, tau, dynamics.crba(moved, q), total, dynamics.file_poses(moved, q)))[0]

    step = 1e-6 * np.eye(len(zero))
    numeric = np.array([(everything(row) - everything(-row)) / 2e-6 for row in step])
    ways = [jax.jit(way(everything))(zero).T for way in (jax.jacfwd, jax.jacrev)]
    apart = np.cumsum([leaf.size for leaf in still])[:-1]
    return {name: rows for name, *rows in zip(LEAVES, *(np.split(way, apart) for way in (*ways, numeric)), strict=True)}


@pytest.mark.parametrize("leaf", LEAVES)
def test_derivatives_in_every_number_of_the_robot_meet_differences(slopes, leaf):
    forward, backward, numeric = slopes[leaf]
    assert np.any(numeric) == (leaf not in STATED)
    np.testing.assert_allclose(forward, numeric, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(backward, numeric, rtol=1e-6, atol=1e-6)


@kernels.compile
def _both_ways(q, qd, third, robot=random_robot(BRANCHED, 5)):  # noqa: B008
    return dynamics.forward(robot, q, qd, third), dynamics.rnea(robot, q, qd, third)


@pytest.mark.parametrize("where", ["anywhere", "at rest", "at zero"])
def test_derivatives_in_state_and_input_meet_differences(where):
    q, qd, third = map(jnp.asarray, random_state(3, 6))
    q, qd = (jnp.zeros(3) if where == "at zero" else q), (qd if where == "anywhere" else jnp.zeros(3))
    check_grads(_both_ways, (q, qd, third), order=1, modes=("fwd", "rev"), eps=1e-5, atol=1e-5, rtol=1e-5)


def _weighed(x):
    """A number that depends on all accelerations and torques, of the state and the input in one."""
    return sum(jnp.sum(jnp.cos(value)) for value in _both_ways(*jnp.split(x, 3)))


_slope, _curvature = jax.jit(jax.grad(_weighed)), jax.jit(jax.hessian(_weighed))


@pytest.mark.parametrize("where", ["anywhere", "at rest", "at zero"])
def test_second_derivatives_in_state_and_input_meet_differences(where):
    q, qd, third = random_state(3, 6)
    x = np.concatenate([0 * q if where == "at zero" else q, qd if where == "anywhere" else 0 * qd, third])
    steps = 1e-5 * np.eye(9)
    numeric = np.array([(_slope(x + step) - _slope(x - step)) / 2e-5 for step in steps])
    assert relative(_curvature(x), numeric) < 1e-6


def test_second_derivatives_in_the_robot_exist():
    robot = random_robot(BRANCHED, 7)
    zero = jnp.zeros(3)

    def cost(inertia, placement):
        return jnp.sum(dynamics.forward(replace(robot, inertia=inertia, placement=placement), zero, zero, zero) ** 2)

    hessian = jax.jit(jax.hessian(cost, argnums=(0, 1)))(robot.inertia, robot.placement)
    leaves = jax.tree.leaves(hessian)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
    assert any(np.any(leaf != 0) for leaf in leaves)


# The public functions --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def robot():
    return random_robot(SHAPES[1], 11)


def test_batch_axes_broadcast_and_give_what_single_samples_give(robot):
    n = robot.num_joints
    rng = np.random.default_rng(0)
    q, qd, tau = rng.normal(size=(4, 1, n)), rng.normal(size=(5, n)), rng.normal(size=n)
    qdd = dn.forward_dynamics(robot, q, qd, tau)
    assert qdd.shape == (4, 5, n)
    assert relative(qdd[2, 3], dn.forward_dynamics(robot, q[2, 0], qd[3], tau)) < LAW
    assert dn.mass_matrix(robot, q).shape == (4, 1, n, n)
    assert dn.energy(robot, q, qd).kinetic.shape == (4, 5)
    assert dn.forward_kinematics(robot, q).shape == (4, 1, n, 4, 4)
    assert dn.regressor(robot, q, qd, tau).shape == (4, 5, n, 10 * n)
    assert dn.bias_torque(robot, np.zeros((0, n)), np.zeros(n)).shape == (0, n)


def test_jit_vmap_and_grad_pass_through_the_public_functions(robot):
    q, qd, tau = map(jnp.asarray, random_state(robot.num_joints, 1))

    def cost(robot, q):
        return jnp.sum(dn.forward_dynamics(robot, q, qd, tau))

    slope, batch = jax.jit(jax.grad(cost))(robot, q), jax.vmap(cost, (None, 0))(robot, jnp.stack([q, 2 * q]))
    step = 1e-6
    heavier, lighter = (replace(robot, armature=robot.armature.at[0].add(d)) for d in (step, -step))
    numeric = (cost(heavier, q) - cost(lighter, q)) / (2 * step)
    assert relative(slope.armature[0], numeric) < 1e-6
    assert relative(batch, [cost(robot, q), cost(robot, 2 * q)]) < LAW


def test_single_precision_stays_single_and_close(robot):
    state = random_state(robot.num_joints, 2)
    double = dn.forward_dynamics(robot, *state)
    single = dn.forward_dynamics(robot, *state.astype(np.float32))
    assert (single.dtype, double.dtype) == (jnp.float32, jnp.float64)
    assert dn.forward_dynamics(astype(robot, jnp.float32), *state).dtype == jnp.float64


@jax.jit
def _there_and_back(robot, q, qd, third):
    forced = dynamics.rnea(robot, q, qd, third)
    return dynamics.rnea(robot, q, qd, dynamics.forward(robot, q, qd, third)), dynamics.forward(robot, q, qd, forced)


@given(st.sampled_from(SHAPES[3::2]), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_single_precision_keeps_the_laws_within_its_bound(tree, seed):
    robot = astype(random_robot(tree, seed), jnp.float32)
    state = random_state(robot.num_joints, seed).astype(np.float32)
    tau, qdd = _there_and_back(robot, *state)
    assert tau.dtype == qdd.dtype == jnp.float32
    assert relative(tau, state[2]) < SINGLE
    assert relative(qdd, state[2]) < SINGLE


def test_whole_numbers_are_taken_as_floats(robot):
    ones = jnp.ones(robot.num_joints, int)
    whole = dn.gravity_torque(robot, ones)
    assert relative(whole, dn.gravity_torque(robot, ones.astype(float))) < LAW


def test_wrong_shapes_are_named(robot):
    n = robot.num_joints
    with pytest.raises(ValueError, match=rf"qd has shape \({n + 1},\); its last axis must be {n}"):
        batching.batched(dynamics.bias, robot, q=np.zeros(n), qd=np.zeros(n + 1))
    with pytest.raises(ValueError, match=r"batch axes do not match: q \(2, 3\), qd \(4, 3\)"):
        batching.batched(dynamics.bias, robot, q=np.zeros((2, n)), qd=np.zeros((4, n)))


def test_changing_numbers_compiles_nothing(robot):
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compilations.append(event) if "backend_compile" in event else None
    )
    state = random_state(robot.num_joints, 3)
    other = random_robot(robot.tree, 12)
    renamed = replace(other, name="other", tree=replace(other.tree, joint_names=("x", "y", "z")))
    compilations.clear()
    dn.coriolis_matrix(robot, state[0], state[1])
    before = len(compilations)
    assert before > 0, "the listener hears compilations"
    found = dn.coriolis_matrix(renamed, state[0], state[1])
    assert len(compilations) == before
    assert relative(found, dn.coriolis_matrix(robot, state[0], state[1])) > 1e-3


def test_a_robot_without_joints_has_empty_dynamics():
    robot = random_robot(dn.Tree((), (), (), ()), 0)
    nothing = np.zeros((2, 0))
    assert dn.forward_dynamics(robot, nothing, nothing, nothing).shape == (2, 0)
    assert dn.mass_matrix(robot, nothing).shape == (2, 0, 0)
    assert dn.energy(robot, nothing, nothing).kinetic.tolist() == [0.0, 0.0]


def test_a_massless_branch_leaves_the_others_alone():
    tree = dn.Tree((-1, -1, 1), ("revolute",) * 3, ("a", "b", "c"), ("A", "B", "C"))
    robot = random_robot(tree, 0)
    empty = jax.tree.map(lambda x: x.at[2].set(jnp.zeros_like(x[2])), (robot.inertia, robot.armature))
    massless = replace(robot, inertia=empty[0], armature=empty[1])
    state = random_state(3, 0)
    qdd = np.asarray(dn.forward_dynamics(massless, *state))
    assert not np.isfinite(qdd[2])
    assert relative(qdd[0], dn.forward_dynamics(robot, *state)[0]) < LAW


def test_a_robot_used_often_gives_the_same_until_it_is_another(monkeypatch):
    """After many calls a robot's numbers are part of the code: as long as it is this robot, and kernels are on."""
    robot = random_robot(random_tree(3, 3), 3)
    q, qd, tau = np.random.default_rng(3).normal(size=(3, 5, 3))
    q, qd, tau = map(jnp.asarray, (q, qd, tau))
    found = [dn.forward_dynamics(robot, q, qd, tau) for _ in range(batching.OFTEN + 3)]
    np.testing.assert_allclose(found[-1], found[0], rtol=1e-14)
    heavier = replace(robot, armature=robot.armature + 1.0)
    assert not np.allclose(dn.forward_dynamics(heavier, q, qd, tau), found[0])
    gradient = jax.grad(lambda tau: jnp.sum(dn.forward_dynamics(robot, q, qd, tau)))(tau)
    inverse = np.linalg.inv(np.asarray(dn.mass_matrix(robot, q)))
    np.testing.assert_allclose(gradient, inverse.sum(1), rtol=1e-9)
    monkeypatch.setenv("DIFFNEA_KERNELS", "off")
    assert kernels.switched_off()
    np.testing.assert_allclose(dn.forward_dynamics(robot, q, qd, tau), found[0], rtol=1e-9)
