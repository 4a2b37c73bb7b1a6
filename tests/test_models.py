"""Models: a robot with actuators is its forward dynamics under their torque, and keeps account of its energy."""

import jax.numpy as jnp
import numpy as np
import pinocchio
import pytest
from robots import depth_first, in_pinocchio, random_robot, random_state, random_tree, relative

import diffnea as dn
from diffnea import actuators
from diffnea.models import Model

LAW = 1e-10
WITNESS = 1e-6

TREE = depth_first(random_tree(3, 5))
ROBOT = random_robot(TREE, 3)
Q, QD, U = (jnp.asarray(row) for row in random_state(5, 3))
STRIBECK = actuators.Stribeck.of(0.4, 0.3, ROBOT.damping, 2.0, num_joints=5)


def test_an_ideal_model_is_the_forward_dynamics_of_its_robot():
    model = Model(ROBOT)
    assert model.energy_class == "conserving" and model.num_joints == 5
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
    assert found.shape == (3, 2, 5) and model.energy(q, QD).shape == (3, 1)
    assert relative(found[2, 1], model(q[2, 0], QD, u[1])) < LAW


def test_precision_is_that_of_the_arrays():
    single = [jnp.asarray(x, jnp.float32) for x in (Q, QD, U)]
    found = Model(ROBOT, STRIBECK)(*single)
    assert found.dtype == jnp.float32
    assert relative(found, Model(ROBOT, STRIBECK)(Q, QD, U)) < 1e-4  # five links in single precision


def test_an_actuator_for_another_robot_is_refused():
    with pytest.raises(ValueError, match='the actuator is for 2 joints, robot "robot" has 5'):
        Model(ROBOT, actuators.Viscous.of(0.1, 2))
