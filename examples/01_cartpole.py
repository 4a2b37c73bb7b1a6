"""Load a cartpole, swing it for two seconds, and watch the energy: the first minute with diffnea."""

from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import diffnea as dn

jax.config.update("jax_enable_x64", True)

DT = 1 / 250
SECONDS = 2.0


def main() -> None:
    robot = dn.load_robot(Path(__file__).parent / "cartpole.urdf")
    q, qd = jnp.array([0.0, 2.5]), jnp.zeros(2)  # the pole 2.5 rad from hanging, everything at rest
    force = jnp.zeros(2)

    def rk4(state, _):
        def slope(q, qd):
            return qd, dn.forward_dynamics(robot, q, qd, force)

        q, qd = state
        k1 = slope(q, qd)
        k2 = slope(q + DT / 2 * k1[0], qd + DT / 2 * k1[1])
        k3 = slope(q + DT / 2 * k2[0], qd + DT / 2 * k2[1])
        k4 = slope(q + DT * k3[0], qd + DT * k3[1])
        q = q + DT / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        qd = qd + DT / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
        return (q, qd), (q, qd)

    _, (qs, qds) = jax.lax.scan(rk4, (q, qd), length=int(SECONDS / DT))
    energy = dn.energy(robot, qs, qds)
    table = Table(title=f"{robot.name}: free swing at 250 Hz")
    for column in ("time s", *(f"{name}" for name in robot.joint_names), "kinetic J", "potential J", "total J"):
        table.add_column(column, justify="right")
    for i in range(49, len(qs), 50):
        kinetic, potential = energy.kinetic[i], energy.potential[i]
        numbers = (qs[i, 0], qs[i, 1], kinetic, potential, kinetic + potential)
        table.add_row(f"{(i + 1) * DT:.1f}", *(f"{value:.6f}" for value in numbers))
    Console().print(table)


if __name__ == "__main__":
    main()
