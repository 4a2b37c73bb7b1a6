"""A Furuta pendulum whose drawing is lost: learn where its joints sit together with its masses, about 30 s."""

from dataclasses import replace

import jax
import numpy as np

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

DT, SECONDS = 1 / 100, 5.0


def record(model: dn.Model, seed: int) -> dn.Recording:
    """The machine under a sum of sines on its arm, with clean velocities and accelerations."""
    rng, time = np.random.default_rng(seed), np.arange(0, SECONDS, DT)
    pace = rng.uniform(3, 9, 2)
    u = np.column_stack([0.02 * np.sin(pace[0] * time) + 0.01 * np.sin(pace[1] * time), np.zeros_like(time)])
    run = dn.rollout(model, np.array([0.0, 0.8]), np.zeros(2), u, DT)
    accelerations = np.asarray(model(run.q, run.qd, u))
    return dn.Recording(time=time, q=np.asarray(run.q), qd=np.asarray(run.qd), qdd=accelerations, u=u)


def tilted(rotations: jax.Array, angle: float = 0.5) -> jax.Array:
    """Every joint turned by an angle about its x axis."""
    c, s = np.cos(angle), np.sin(angle)
    return rotations @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def main() -> None:
    robot = dn.systems.furuta().robot
    truth = dn.Model(robot, dn.actuators.Viscous.of(robot.damping))
    recordings = [record(truth, seed) for seed in range(3)]

    # Two files to start from: both with wrong masses, and one with joints that point the wrong way.
    heavy = replace(robot, inertia=jax.tree.map(lambda number: 1.5 * number, robot.inertia))
    lost = replace(heavy, placement=replace(robot.placement, rotation=tilted(robot.placement.rotation)))

    curves = {}
    for what, start, learn in (
        ("the drawing is known", heavy, ("inertia",)),
        ("the drawing is wrong, and believed", lost, ("inertia",)),
        ("the drawing is wrong, and learned", lost, ("inertia", "kinematics")),
    ):
        fit = dn.fit(start, recordings, learn=learn, actuator="viscous")
        print(f"{what}: a prediction 1 s ahead is off by {fit.metrics['error'][2]:.2g} of the motion")
        ahead = fit.metrics.fit
        curves[what] = (np.array(ahead.horizons), np.array(ahead.error))
    print(picture("05_no_kinematics.svg", {"error, share of the motion": curves}, "seconds ahead", 720.0, log=True))


if __name__ == "__main__":
    main()
