"""Models: a robot with actuators is its forward dynamics under their torque, and keeps account of its energy."""

import logging
from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from jax.flatten_util import ravel_pytree
from robots import depth_first, in_pinocchio, random_robot, random_state, random_tree, relative

import diffnea as dn
from diffnea import actuators, batching, kernels, models, parameters
from diffnea.models import FeedForward, Model, acceleration

LAW = 1e-10
WITNESS = 1e-6

TREE = depth_first(random_tree(3, 3))
ROBOT = random_robot(TREE, 3)
Q, QD, U = (jnp.asarray(row) for row in random_state(3, 3))
STRIBECK = actuators.Stribeck.of(0.4, 0.3, ROBOT.damping, 2.0, num_joints=3)


def test_an_ideal_model_is_the_forward_dynamics_of_its_robot():
    model = Model(ROBOT)
    assert model.energy_class == "conserving" and model.num_joints == 3
    assert relative(model(Q, QD, U), dn.forward_dynamics(ROBOT, Q, QD, U)) < LAW


def test_a_model_is_the_forward_dynamics_under_its_actuators_torque():
    found = Model(ROBOT, STRIBECK)(Q, QD, U)
    assert relative(found, dn.forward_dynamics(ROBOT, Q, QD, STRIBECK(U, Q, QD))) < LAW


def test_pinocchio_agrees_on_a_robot_with_viscous_friction():
    model = in_pinocchio(ROBOT)
    torque = np.asarray(U) - np.asarray(ROBOT.damping) * np.asarray(QD)
    wanted = pinocchio.aba(model, model.createData(), np.asarray(Q), np.asarray(QD), torque)
    assert relative(Model(ROBOT, actuators.Viscous.of(ROBOT.damping))(Q, QD, U), wanted) < WITNESS


def test_any_batch_axes():
    q = jnp.stack([Q, Q + 0.1, Q - 0.2])[:, None]
    u = jnp.stack([U, 0 * U])
    model = Model(ROBOT, STRIBECK)
    found = model(q, QD, u)
    assert found.shape == (3, 2, 3) and model.energy(q, QD).shape == (3, 1)
    assert relative(found[2, 1], model(q[2, 0], QD, u[1])) < LAW


def test_precision_is_that_of_the_arrays():
    single = [jnp.asarray(x, jnp.float32) for x in (Q, QD, U)]
    found = Model(ROBOT, STRIBECK)(*single)
    assert found.dtype == jnp.float32
    assert relative(found, Model(ROBOT, STRIBECK)(Q, QD, U)) < 1e-4  # three links in single precision


def test_an_actuator_for_another_robot_is_refused():
    with pytest.raises(ValueError, match='the actuator is for 2 joints, robot "robot" has 3'):
        Model(ROBOT, actuators.Viscous.of(0.1, 2))


BALANCED = ["ideal", "viscous", "stribeck", "nn-friction", "motor+stribeck+offset", "gain+nn-friction+offset"]


@pytest.mark.parametrize("name", BALANCED)
def test_energy_changes_by_what_the_command_brings_less_what_friction_takes(name):
    actuator = actuators.for_robot(name, ROBOT, key=jax.random.key(1))
    rng = np.random.default_rng(4)
    actuator = jax.tree.map(lambda leaf: leaf + jnp.asarray(rng.normal(scale=0.3, size=leaf.shape)), actuator)

    def balance(model, q, qd, u):
        qdd = models.acceleration(model, q, qd, u)
        rate = jax.jvp(lambda q, qd: models.own_energy(model, q, qd), (q, qd), (qd, qdd))[1]
        lost = model.actuator.resistance(q, qd)
        brought = qd @ model.actuator.drive(u, q, qd)
        return rate, brought, jnp.sum(lost.dry * jnp.abs(qd) + lost.viscous * qd**2)

    given = [jnp.asarray(rng.normal(size=(20, 3))) * scale for scale in (2.0, 2.0, 3.0)]
    rate, brought, lost = jax.vmap(partial(kernels.compile(balance), Model(ROBOT, actuator)))(*given)
    assert relative(rate, brought - lost) < LAW
    assert bool(jnp.all(lost >= 0))


def test_a_models_energy_is_the_robots_and_what_the_actuator_stores():
    model = Model(ROBOT, actuators.Offset(jnp.arange(3.0), jnp.ones((3, 1)), jnp.ones((3, 1)), (2 * np.pi,) * 3))
    assert model.energy_class == "conserving"
    wanted = sum(dn.energy(ROBOT, Q, QD)) + jnp.sum(jnp.cos(Q) - jnp.sin(Q) - jnp.arange(3.0) * Q)
    assert relative(model.energy(Q, QD), wanted) < LAW


@pytest.mark.parametrize("name", ["stribeck", "nn-torque"])
def test_gradients_in_every_leaf_at_rest_meet_central_differences(name):
    model = Model(ROBOT, actuators.for_robot(name, ROBOT, key=jax.random.key(0), width=3, depth=1))
    rest = QD.at[1].set(0.0)
    vector, rebuild = ravel_pytree(model.actuator)

    def loss(vector, q, qd, u):
        return jnp.sum(models.acceleration(Model(ROBOT, rebuild(vector)), q, qd, u) ** 2)

    slope = jax.vmap(jax.grad(kernels.compile(loss)))(vector[None], Q[None], rest[None], U[None])[0]
    step = 1e-5 * jnp.eye(len(vector))
    value = jax.vmap(kernels.compile(loss), (0, None, None, None))
    wanted = (value(vector[None] + step, Q, rest, U) - value(vector[None] - step, Q, rest, U)) / 2e-5
    assert relative(slope, wanted) < 1e-5  # what central differences are worth here
    assert bool(jnp.all(jnp.isfinite(slope)))


COUPLED = Model(ROBOT, actuators.Coupling.of(0.2, 0.1, [[0, 1, 1], [1, -2, 0]], rotor=np.array([0.3, 0.05])))


def test_rotors_that_turn_with_several_joints_are_part_of_the_mass_matrix():
    slopes = jax.jacfwd(lambda qdd: models.inverse(COUPLED, Q, QD, qdd))(U)
    assert relative(models.mass(COUPLED, Q), slopes) < LAW
    assert relative(models.energies(COUPLED, Q, QD).kinetic, QD @ slopes @ QD / 2) < LAW
    tau = models.inverse(COUPLED, Q, QD, U)
    assert relative(models.constrained(COUPLED, Q, QD, tau, jnp.ones(3)), U) < LAW


def test_locked_joints_stay_and_the_others_feel_the_rotors():
    free, tau = jnp.array([1.0, 0.0, 1.0]), models.inverse(COUPLED, Q, QD, jnp.zeros(3)) + U
    found = models.constrained(COUPLED, Q, QD, tau, free)
    moving = np.array([0, 2])
    wanted = np.linalg.solve(np.asarray(models.mass(COUPLED, Q))[np.ix_(moving, moving)], np.asarray(U)[moving])
    assert found[1] == 0 and relative(found[moving], wanted) < LAW


def test_mujoco_agrees_on_a_rotor_that_turns_with_two_joints(tmp_path):
    """There a tendon has it, between joints of one branch."""
    import mujoco

    dn.save_robot(replace(ROBOT, friction=0 * ROBOT.friction, damping=0 * ROBOT.damping), tmp_path / "arm.xml")
    spec = mujoco.MjSpec.from_file(str(tmp_path / "arm.xml"))
    tendon = spec.add_tendon(name="motor", armature=0.3)
    for name in ROBOT.joint_names[:2]:
        tendon.wrap_joint(name, 1.0)
    machine = spec.compile()
    machine.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_LIMIT | mujoco.mjtDisableBit.mjDSBL_CONTACT)
    state = mujoco.MjData(machine)
    places = [machine.joint(name).dofadr[0] for name in ROBOT.joint_names]
    state.qpos[places], state.qvel[places], state.qfrc_applied[places] = map(np.asarray, (Q, QD, U))
    mujoco.mj_forward(machine, state)
    motor = actuators.Coupling.of(1e-9, 1e-9, [[1, 1, 0]], rotor=0.3)
    without = models.constrained(Model(ROBOT), Q, QD, U, jnp.ones(3))
    found = models.constrained(Model(ROBOT, motor), Q, QD, U, jnp.ones(3))
    assert relative(found, state.qacc[places]) < WITNESS < relative(without, state.qacc[places])


def test_models_run_as_kernels(caplog):
    names = ["ideal", "stribeck", "nn-torque", "motor+stribeck+offset+delay"]
    with caplog.at_level(logging.DEBUG, "diffnea.kernels"):
        for name in names:
            Model(ROBOT, actuators.for_robot(name, ROBOT, key=jax.random.key(0)))(Q, QD, U)
        _network()(Q, QD, U)
    assert not [record for record in caplog.records if "XLA" in record.getMessage()]


def test_changing_a_coefficient_compiles_nothing():
    def model(viscous):
        return Model(ROBOT, actuators.Viscous.of(viscous, 3))

    model(0.1)(Q, QD, U)
    run, leaves = batching._prepare(acceleration, model(0.1), Q.dtype)
    compiled = run._cache_size()
    one, other = model(0.2)(Q, QD, U), model(0.3)(Q, QD, U)
    assert batching._prepare(acceleration, model(0.2), Q.dtype)[0] is run and leaves
    assert run._cache_size() == compiled
    assert not bool(jnp.allclose(one, other))


def _samples(count=400):
    rng = np.random.default_rng(0)
    q, qd, u = (jnp.asarray(rng.normal(size=(count, 3))) * scale for scale in (2.0, 3.0, 5.0))
    return q, qd, u.at[:, 1].set(0.0), Model(ROBOT)(q, qd, u)


def _network(**sizes):
    return FeedForward.for_samples(*_samples(), jax.random.key(0), models.unlimited(ROBOT), **sizes)


def test_a_network_turns_with_joints_without_limits_and_only_with_those():
    network = _network()
    wraps = models.unlimited(ROBOT)
    assert wraps == tuple(kind == "continuous" for kind in ROBOT.tree.kinds) and 0 < sum(wraps) < 3
    free = replace(ROBOT.limits, lower=jnp.full(3, -jnp.inf), upper=jnp.full(3, jnp.inf))
    assert models.unlimited(replace(ROBOT, limits=free)) == tuple(kind != "prismatic" for kind in ROBOT.tree.kinds)
    turn = 2 * np.pi * np.array(wraps, float)
    assert relative(network(Q + turn, QD, U), network(Q, QD, U)) < LAW
    assert relative(network(Q + 2 * np.pi - turn, QD, U), network(Q, QD, U)) > 1e-6
    assert network.energy_class == "unbounded" and network.num_joints == 3


def test_a_new_network_predicts_the_mean_and_knows_the_spread():
    q, qd, u, qdd = _samples()
    network = _network()
    found = network(q, qd, u)
    assert found.shape == qdd.shape
    assert float(jnp.max(jnp.abs(found - jnp.mean(qdd, 0, keepdims=True)) / jnp.std(qdd, 0, keepdims=True))) < 0.1
    assert bool(jnp.all(network.input_scale > 0))  # one command never varies
    assert relative(network.output_scale, jnp.std(qdd, 0)) < LAW


def test_a_network_learns_and_its_statistics_do_not():
    q, qd, u, qdd = _samples()
    network = _network(width=8)

    def loss(network):
        return jnp.mean(((network(q, qd, u) - qdd) / network.output_scale[None]) ** 2)

    value = jax.jit(jax.value_and_grad(loss))
    first, slope = value(network)
    last = first
    for _ in range(60):
        network = jax.tree.map(lambda x, g, on: x - 0.1 * g if on else x, network, slope, network.learned())
        last, slope = value(network)
    assert float(last) < 0.8 * float(first)
    fixed = jax.grad(lambda network: jnp.sum(models.acceleration(network, Q, QD, U)))(network)
    assert all(
        not np.any(leaf) for leaf in (fixed.input_mean, fixed.input_scale, fixed.output_mean, fixed.output_scale)
    )


def test_networks_are_seeded():
    one, same = _network(), _network()
    other = FeedForward.for_samples(*_samples(), jax.random.key(1), models.unlimited(ROBOT))
    assert bool(eqx.tree_equal(one, same)) and not bool(eqx.tree_equal(one, other))
    with pytest.raises(ValueError, match="wraps has 1 entries; give 3, one a joint"):
        FeedForward.for_samples(*_samples(), jax.random.key(0), (True,))


def test_precision_can_be_switched_between_calls():
    """JAX keeps index arrays: those made in double precision must serve single precision too."""
    parents, kinds, names = (-1, 0, 0, 1), ("revolute", "prismatic", "revolute", "revolute"), ("a", "b", "c", "d")
    robot = random_robot(dn.Tree(parents, kinds, names, names), 2)
    model = Model(robot, actuators.Viscous.of(0.1, 4))
    q = np.full((3, 4), 0.3)
    double = model(q, q, q)
    with jax.enable_x64(False):
        single = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float32)), model)
        rows = np.asarray(q, np.float32)
        assert np.allclose(single(rows, rows, rows), double, rtol=1e-3)
        assert single.energy(rows, rows).dtype == np.float32
        virtual = parameters.encode(single.robot)
        masks = parameters.learnable(virtual, links="b")
        again = parameters.unpack(virtual, masks, parameters.pack(virtual, masks))
        assert again.robot().inertia.mass.dtype == np.float32


@pytest.mark.parametrize("name", ["ideal", "viscous", "constant+coulomb", "nn-torque"])
def test_the_inverse_gives_the_command_of_an_acceleration(name):
    model = dn.Model(dn.systems.furuta().robot, name)
    q, qd, qdd = np.random.default_rng(1).normal(size=(3, 4, 2))
    assert np.allclose(model(q, qd, model.inverse_dynamics(q, qd, qdd)), qdd, atol=1e-9)


def test_a_step_is_a_roll_out_s_and_its_slopes_are_those_of_differences():
    model = dn.Model(dn.systems.furuta().robot, "viscous")
    q, qd, u = [0.3, -1.0], [0.5, 2.0], [0.01, 0.0]
    after = np.concatenate(model.step(q, qd, u, 0.004))
    run = dn.rollout(model, q, qd, [u, u], 0.004)
    assert np.allclose(after, np.concatenate([run.q[1], run.qd[1]]), atol=1e-14)
    A, B = model.linearise(q, qd, u, dt=0.004)
    x, h = np.array(q + qd + u), 1e-6
    for k in range(6):
        d = h * np.eye(6)[k]
        up, down = (np.concatenate(model.step(*np.split(x + s * d, 3), 0.004)) for s in (1, -1))
        assert np.allclose(np.concatenate([A, B], 1)[:, k], (up - down) / (2 * h), atol=1e-6)
    A, B = model.linearise(q, qd, u)
    assert np.allclose(A[:2], [[0, 0, 1, 0], [0, 0, 0, 1]]) and np.allclose(B[:2], 0)
    many = model.linearise(np.tile(q, (3, 1)), qd, u)  # batch axes, as everywhere
    assert many.A.shape == (3, 4, 4) and many.B.shape == (3, 4, 2)
    assert np.allclose(many.A, A) and np.allclose(many.B, B)
