"""Laws on random trees with free, ball and coupled joints, beyond those of one robot each."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from robots import random_robot, relative

import diffnea as dn
from diffnea import manifold
from diffnea.ties import Couplings, Springs

KINDS = ("revolute", "continuous", "prismatic", "ball")


def random_tree(seed, gravity=True):
    """A free base with six joints of all kinds, two of which follow a third, one by a curve; springs."""
    rng = np.random.default_rng(seed)
    kinds = ["free", "revolute", *rng.choice(KINDS, 3).tolist(), "prismatic", "continuous"]
    parents = (-1, 0, *(int(rng.integers(0, i)) for i in range(2, 7)))
    names = tuple("abcdefg")
    robot = random_robot(dn.Tree(parents, tuple(kinds), names, tuple("ABCDEFG")), seed, scale=2.0)
    couplings = Couplings((5, 6), (1, 1), jnp.asarray(rng.normal(size=(2, 3)) * [0.1, 0.7, 0.2]))
    stiffness = np.where(np.arange(7) > 0, rng.exponential(size=7) * 5, 0.0)
    springs = Springs(jnp.asarray(stiffness), jnp.asarray(rng.normal(size=7)))
    pull = robot.gravity if gravity else jnp.zeros(3)
    return replace(robot, couplings=couplings, springs=springs, gravity=pull, armature=0 * robot.armature)


def state(robot, seed, rows=1):
    rng, n = np.random.default_rng(seed), robot.num_velocities
    q = manifold.displace(robot, manifold.neutral(robot), jnp.asarray(rng.normal(size=n)))
    return np.asarray(q), *rng.normal(size=(rows, n))


def momentum(robot, q, qd):
    """Linear and angular momentum about the world's origin."""
    p = np.asarray(dn.mass_matrix(robot, q) @ qd)[:6]
    R = np.asarray(manifold.rotation_of(jnp.asarray(q[3:7])))
    return np.concatenate([R @ p[:3], R @ p[3:] + np.cross(q[:3], R @ p[:3])])


@pytest.fixture(scope="module")
def robot():
    return random_tree(0)


def test_accelerations_and_torques_undo_each_other(robot):
    q, qd, tau = state(robot, 1, rows=2)
    qdd = dn.forward_dynamics(robot, q, qd, tau)
    assert relative(dn.inverse_dynamics(robot, q, qd, qdd), tau) < 1e-10
    bare = replace(robot, springs=None)
    found = dn.regressor(robot, q, qd, qdd) @ dn.inertial_parameters(robot)
    assert relative(found, dn.inverse_dynamics(bare, q, qd, qdd)) < 1e-10


def test_momentum_is_kept_by_what_pulls_inside(robot):
    """Springs and couplings act between links: the rate of momentum in free flight is zero, exactly."""
    loose = replace(robot, gravity=jnp.zeros(3))
    q, qd = state(loose, 2)
    tau = np.zeros(loose.num_velocities)
    tau[6:] = np.random.default_rng(3).normal(size=len(tau) - 6)
    qdd = np.asarray(dn.forward_dynamics(loose, q, qd, tau))

    def along(t):
        place = manifold.displace(loose, jnp.asarray(q), t * qd)
        p = (dn.mass_matrix(loose, place) @ (qd + t * qdd))[:6]
        R = manifold.rotation_of(place[3:7])
        return jnp.concatenate([R @ p[:3], R @ p[3:] + jnp.cross(place[:3], R @ p[:3])])

    rate = jax.jvp(along, (jnp.zeros(()),), (jnp.ones(()),))[1]
    assert np.abs(rate).max() < 1e-10 * (1 + np.abs(momentum(loose, q, qd)).max() + np.abs(tau).max())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_roll_outs_of_a_random_tree_keep_energy_and_momentum(seed):
    robot = random_tree(seed)
    starts = [state(robot, 100 * seed + k) for k in range(100)]
    q0, qd0 = (np.array(values) for values in zip(*starts, strict=True))
    model = dn.Model(robot)
    run = dn.rollout(model, q0, 2 * qd0, None, dt=1 / 250, steps=200)
    energy = np.asarray(model.energy(run.q, run.qd))
    assert run.diverged_at is None and np.abs(energy - energy[:, :1]).max() < 1e-8 * np.abs(energy).max()
    rubbing = dn.Model(robot, dn.actuators.make("stribeck", robot.num_joints, key=jax.random.key(seed)))
    run = dn.rollout(rubbing, q0, 2 * qd0, None, dt=1 / 250, steps=200)
    energy = np.asarray(rubbing.energy(run.q, run.qd))
    assert np.diff(energy, axis=1).max() < 1e-9 * np.abs(energy).max()
    loose = replace(robot, gravity=jnp.zeros(3))
    run = dn.rollout(dn.Model(loose), q0[0], qd0[0], None, dt=2e-4, steps=200, integrator="rk4")
    first, last = (momentum(loose, run.q[k], run.qd[k]) for k in (0, -1))
    assert np.abs(first - last).max() < 1e-10 * np.abs(first).max()
