"""Free swings with noisy encoders: noise is no reason to learn more than the data show."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffnea as dn
from diffnea.actuators import for_robot
from diffnea.cli.inputs import read_robot
from diffnea.identify.options import Options
from diffnea.identify.problem.measurements.tracks import split
from diffnea.identify.solve.regression.choice import choose


@pytest.mark.parametrize("noise", [1e-4, 5e-4, 1e-3, 3e-3])
def test_noise_that_a_regression_leaves_asks_for_no_parts(noise):
    with jax.enable_x64(True), np.errstate(all="ignore"):
        robot = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), read_robot("cartpole"))
        model = dn.Model(robot, for_robot("viscous", robot))
        run = dn.rollout(model, jnp.array([0.1, 2.5]), jnp.zeros(2), None, dt=0.005, steps=1600)
        q = np.asarray(run.q) + noise * np.random.default_rng(0).standard_normal(run.q.shape)
        guess = replace(robot, inertia=replace(robot.inertia, mass=robot.inertia.mass * jnp.array([1.4, 0.7])))
        data = [dn.Recording(time=0.005 * np.arange(len(q)), q=q, u=0 * q, joint_names=robot.joint_names)]
        parts = split(data, data[:1], robot.joint_names, robot.num_joints, 0)
        found = choose(guess, parts, "auto", "auto", None, "auto", Options())
    assert (found.actuator, found.learn) == ("viscous", ("inertia", "actuator")), list(map(str, found.notes))
