"""From a robot file and two log files to a better robot file: what `diffnea fit` does, in Python, about 15 s."""

import tempfile
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

DT, SECONDS = 1 / 250, 6.0


def record(model, seed: int) -> dn.Recording:
    """The machine on the table: driven by two sines, its encoders a little noisy."""
    rng, time = np.random.default_rng(seed), np.arange(0, SECONDS, DT)
    pace = rng.uniform(2, 6, 2)
    u = np.column_stack([4 * np.sin(pace[0] * time) + 3 * np.sin(pace[1] * time), np.zeros_like(time)])
    run = dn.rollout(model, np.array([0.0, 0.5]), np.zeros(2), u, DT)
    q = np.asarray(run.q) + rng.normal(scale=[1e-5, 5e-4], size=run.q.shape)
    return dn.Recording(time=time, q=q, u=u, joint_names=model.robot.joint_names, driven=(True, False))


def main() -> None:
    robot = dn.systems.cartpole().robot  # your own: dn.load_robot("cartpole.urdf")
    heavier = replace(robot, damping=robot.damping * 1.5)
    for link, mass in zip(robot.link_names, robot.inertia.mass, strict=True):
        heavier = heavier.replace(link=link, mass=1.3 * mass)
    truth = dn.Model(heavier, dn.actuators.Viscous.of(heavier.damping))

    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / "one.csv", Path(folder) / "two.csv"]
        for seed, log in enumerate(logs):
            dn.save_recording(record(truth, seed), log)

        fit = dn.fit(
            robot,
            [dn.load_recording(log, robot) for log in logs],
            learn=("inertia",),
            actuator="viscous",
            loss="trajectory",  # roll-outs, so that noise in derivatives does not matter
        )
        print(fit)
        fit.save(Path(folder) / "out")
        back = dn.load_robot(Path(folder) / "out" / "identified.urdf")

    time = np.arange(0, SECONDS, DT)
    u = np.column_stack([5 * np.sin(3 * time), np.zeros_like(time)])
    models = {"fit": fit.model, "file": dn.Model(robot, dn.actuators.Viscous.of(robot.damping)), "truth": truth}
    runs = {name: dn.rollout(model, [0.0, 0.5], [0.0, 0.0], u, DT) for name, model in models.items()}
    print(
        picture("02_fit.svg", {"pole in rad": {name: (time, run.q[:, 1]) for name, run in runs.items()}}, "time in s")
    )

    # Single masses are not among what the data tell; the entries of the mass matrix are.
    upright = np.zeros(2)
    for name, each in (("file", robot), ("identified", back), ("truth", heavier)):
        print(f"mass matrix, {name}: {np.array2string(np.asarray(dn.mass_matrix(each, upright)).ravel(), precision=4)}")


if __name__ == "__main__":
    main()
