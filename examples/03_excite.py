"""Plan a motion that tells the most, and see by how much it beats one made by hand, about 10 s."""

from pathlib import Path

import jax
import numpy as np

import diffnea as dn
from diffnea.excitation import design, expectation
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)


def by_hand(robot: dn.Robot, seconds: float, rate: float) -> dn.Recording:
    """What one would try first: each joint to and fro, half a radian."""
    time = np.arange(0, seconds, 1 / rate)
    pace = 2 * np.pi * np.array([0.3, 0.4])
    q, qd = 0.5 * np.sin(pace * time[:, None]), 0.5 * pace * np.cos(pace * time[:, None])
    qdd = -(pace**2) * q
    u = np.asarray(dn.inverse_dynamics(robot, q, qd, qdd))
    return dn.Recording(time=time, q=q, qd=qd, qdd=qdd, u=u, joint_names=robot.joint_names)


def main() -> None:
    robot = dn.load_robot(Path(dn.systems.__file__).parent / "dfki_double_pendulum.urdf")
    planned = design(robot, seconds=8.0, bandwidth=1.0, rate=100.0)
    first = by_hand(robot, 8.0, 100.0)

    stds = [
        {each.formula: each.std for each in expectation(robot, motion).after.combinations}
        for motion in (first, planned.recording)
    ]
    print(f"{'combination':34}{'by hand':>12}{'planned':>12}")
    for formula, std in stds[1].items():
        before = f"{stds[0][formula]:.2g}" if formula in stds[0] else "unknown"
        print(f"{formula:34}{before:>12}{std:>12.2g}")
    motions = {"by hand": first, "planned": planned.recording}
    panels = {
        f"{joint} in rad": {name: (motion.time, motion.q[:, k]) for name, motion in motions.items()}
        for k, joint in enumerate(robot.joint_names)
    }
    print(picture("03_excite.svg", panels, "time in s"))


if __name__ == "__main__":
    main()
