"""Small fits on disk, one of each kind that a page has to show."""

from dataclasses import replace

import jax
import numpy as np

import diffnea as dn

RATE = 100


def cartpole_recordings(count=3, seconds=5.0, friction=1.2, noise=1e-4):
    """A cartpole that is heavier than its file and has dry friction, driven by sines."""
    robot = dn.systems.cartpole().robot
    heavy = replace(robot, inertia=replace(robot.inertia, mass=robot.inertia.mass * 1.3))
    dry = np.array([friction, 1e-3])
    truth = dn.Model(heavy, dn.actuators.Stribeck.of(dry, dry, robot.damping, np.ones(2)))
    time = np.arange(round(seconds * RATE)) / RATE
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        u = np.column_stack([4 * np.sin(rng.uniform(3, 6) * time) + 3 * np.sin(rng.uniform(6, 9) * time), 0 * time])
        run = dn.rollout(truth, np.array([0.0, 0.5]), np.zeros(2), u, 1 / RATE)
        states = {"q": np.asarray(run.q), "qd": np.asarray(run.qd), "qdd": np.asarray(truth(run.q, run.qd, u))}
        noisy = {name: values + noise * rng.normal(size=values.shape) for name, values in states.items()}
        names = robot.joint_names
        found.append(dn.Recording(time=time, u=u, **noisy, joint_names=names, driven=(True, False), name=f"run {seed}"))
    return robot, found


def as_samples(recordings):
    """The same without time."""
    whole = {key: np.concatenate([getattr(each, key) for each in recordings]) for key in ("q", "qd", "qdd", "u")}
    return dn.Samples(**whole)


def network(recordings):
    """A plain network in place of the robot."""
    samples = as_samples(recordings)
    arrays = samples.q, samples.qd, samples.u, samples.qdd
    return dn.FeedForward.for_samples(*arrays, key=jax.random.key(0), wraps=(False, True), width=4, depth=1)
