"""A stranger's script: each public name once, as their documentation shows them; run and type-checked by a test."""

from pathlib import Path

import jax
import numpy as np

import diffnea as dn


def main(folder: Path) -> None:
    system = dn.systems.cartpole()
    robot: dn.Robot = system.robot
    tree: dn.Tree = robot.tree
    limits: dn.Limits = robot.limits
    placement: dn.Transform = robot.placement
    print(dn.__version__, tree.kinds, limits.effort, placement.translation, dn.backends())

    path = folder / "cartpole.urdf"
    dn.save_robot(robot, path)
    again = dn.load_robot(path)
    heavier = again.replace(link=again.link_names[-1], mass=0.2)
    body = dn.Inertia.from_com(0.2, [0.0, 0.0, 0.1], np.eye(3) * 1e-3)
    print(heavier.inertia.com, body.com)
    dynamics(robot)
    identification(robot, motion(robot), folder)
    refusals(folder)


def dynamics(robot: dn.Robot) -> None:
    q, qd, u = [0.1, 2.5], [0.0, 0.0], [1.0, 0.0]
    qdd = dn.forward_dynamics(robot, q, qd, u)
    print(dn.inverse_dynamics(robot, q, qd, qdd), dn.mass_matrix(robot, q), dn.bias_torque(robot, q, [0.5, 0.1]))
    print(dn.gravity_torque(robot, q), dn.coriolis_matrix(robot, q, [0.5, 0.1]))
    energy: dn.Energy = dn.energy(robot, q, [0.5, 0.1])
    print(energy.kinetic, energy.potential)
    print(dn.regressor(robot, q, qd, qdd) @ dn.inertial_parameters(robot))
    link = robot.link_names[-1]
    print(dn.forward_kinematics(robot, q), dn.forward_kinematics(robot, q, link), dn.jacobian(robot, q, link))
    print(dn.parameters.physical_values(robot).shape, dn.difference(robot, q, dn.integrate(robot, q, [0.5, 0.1], 0.1)))
    print(dn.close_loops(robot, q))
    print(dn.from_mujoco(robot, dn.to_mujoco(robot, q)), dn.from_pinocchio(robot, dn.to_pinocchio(robot, q)))


def motion(robot: dn.Robot) -> dn.Rollout:
    q, qd, u = [0.1, 2.5], [0.0, 0.0], [1.0, 0.0]
    qdd = dn.forward_dynamics(robot, q, qd, u)
    model = dn.Model(robot, dn.actuators.make("viscous", robot.num_joints))
    rubbing = dn.actuators.combine(
        dn.actuators.Stribeck.of([0.2, 0.1], 0.1, [0.1, 0.01]), dn.actuators.Delay.of(0.5, 2)
    )
    print(dn.actuators.for_robot("motor+viscous", robot), dn.Model(robot, rubbing).energy_class)
    print(model(q, qd, u), model.inverse_dynamics(q, qd, qdd), model.step(q, qd, u, 0.004), model.energy_class)
    A, B = model.linearise(q, qd, u)
    run: dn.Rollout = dn.rollout(model, q, qd, None, dt=1 / 250, steps=500)
    print(A.shape, B.shape, run.q.shape, run.diverged_at)
    return run


def identification(robot: dn.Robot, run: dn.Rollout, folder: Path) -> None:
    recording = dn.Recording(time=run.time, q=run.q, u=run.u, joint_names=robot.joint_names)
    base = dn.BaseMotion(gyroscope=[[0.0, 0.0, 0.3]] * 3, accelerometer=[[0.0, 0.0, 9.8]] * 3)
    foot = dn.Foot("calf", (0.0, 0.0, -0.2), radius=0.02)
    print(base.gyroscope, foot)
    dn.save_recording(recording, folder / "swing.csv")
    one, many = dn.load_recording(folder / "swing.csv", robot), dn.load_recordings(folder / "swing.csv", robot)
    samples = dn.Samples(q=run.q, qd=run.qd, qdd=dn.Model(robot, "viscous")(run.q, run.qd, run.u), u=run.u)
    print(dn.recordings.diagnose(one), len(many))
    network = dn.FeedForward.for_samples(run.q, run.qd, run.u, samples.qdd, key=jax.random.key(0))
    print(network([0.1, 2.5], [0.0, 0.0], [1.0, 0.0]))

    fit: dn.Fit = dn.fit(robot, samples, learn=("inertia",), actuator="viscous", loss="acceleration")
    print(fit.verdict, fit.status, fit.metrics, fit.table, len(fit.notes), fit.options, fit.payload)
    print(fit.table.to_dataframe())
    fit.save(folder / "out")
    print(dn.load_fit(folder / "out").robot.num_joints)

    env = dn.make_env(fit, effort=(10.0, 0.0))
    print(env.reset(seed=0))


def refusals(folder: Path) -> None:
    for load, error in (
        (dn.load_robot, dn.RobotFileError),
        (dn.load_recording, dn.RecordingError),
        (dn.load_fit, dn.FitFileError),
    ):
        assert issubclass(error, dn.DiffneaError)
        try:
            load(folder / "nothing.csv")
        except (error, OSError) as told:
            print(told)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
