"""Load a cartpole, swing it for two seconds, and watch the energy: the first minute with diffnea, about 3 s."""

from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

DT = 1 / 250
SECONDS = 2.0


def main() -> None:
    robot = dn.load_robot(Path(__file__).parent / "cartpole.urdf")
    steps = int(SECONDS / DT) + 1
    run = dn.rollout(dn.Model(robot), [0.0, 2.5], [0.0, 0.0], None, DT, steps=steps)  # 2.5 rad from hanging, at rest
    qs, qds = run.q[1:], run.qd[1:]
    energy = dn.energy(robot, qs, qds)
    table = Table(title=f"{robot.name}: free swing at 250 Hz")
    for column in ("time s", *(f"{name}" for name in robot.joint_names), "kinetic J", "potential J", "total J"):
        table.add_column(column, justify="right")
    for i in range(49, len(qs), 50):
        kinetic, potential = energy.kinetic[i], energy.potential[i]
        numbers = (qs[i, 0], qs[i, 1], kinetic, potential, kinetic + potential)
        table.add_row(f"{(i + 1) * DT:.1f}", *(f"{value:.6f}" for value in numbers))
    Console().print(table)
    time, total = DT * np.arange(1, len(qs) + 1), energy.kinetic + energy.potential
    parts = {"kinetic": energy.kinetic, "potential": energy.potential, "total": total}
    motion = {name: (time, np.asarray(qs[:, k])) for k, name in enumerate(robot.joint_names)}
    curves = {name: (time, np.asarray(part)) for name, part in parts.items()}
    print(picture("01_cartpole.svg", {"position in m, rad": motion, "energy in J": curves}, "time in s"))


if __name__ == "__main__":
    main()
