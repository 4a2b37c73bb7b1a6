"""Learn a cartpole in MuJoCo from noisy recordings, then swing it up with the learned model alone, about 30 s."""

# pyright: reportAttributeAccessIssue=false
# (MuJoCo's Python module has no type information)

import tempfile
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from scipy.linalg import solve_continuous_are

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

DT = 1 / 250
UPRIGHT = np.array([0.0, np.pi])


def machine(robot: dn.Robot) -> mujoco.MjModel:
    """The real machine, which here is a MuJoCo model: heavier than its data sheet, and with dry friction."""
    cart = robot.link_names[0]
    truth = replace(
        robot.replace(link=cart, mass=1.6 * robot.inertia.mass[0]),
        damping=robot.damping * jnp.array([0.6, 0.5]),
        friction=jnp.array([0.6, 1e-3]),
    )
    with tempfile.TemporaryDirectory() as folder:
        dn.save_robot(truth, Path(folder) / "machine.xml")
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "machine.xml"))
    model.opt.timestep = DT / 4
    model.jnt_limited[:] = 0  # the rail is long enough
    return model


def run(machine: mujoco.MjModel, law, seconds: float, q0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and commands of the machine under a law `(t, q, qd) -> u`, held for each sample."""
    data = mujoco.MjData(machine)
    data.qpos[:] = q0
    rows = []
    for k in range(round(seconds / DT)):
        u = np.asarray(law(k * DT, data.qpos.copy(), data.qvel.copy()), float)
        rows.append((data.qpos.copy(), data.qvel.copy(), u))
        data.qfrc_applied[:] = u
        mujoco.mj_step(machine, data, 4)
    q, qd, u = (np.array(column) for column in zip(*rows, strict=True))
    return q, qd, u


def record(machine: mujoco.MjModel, seed: int, names: tuple[str, ...]) -> dn.Recording:
    """Eight seconds under a sum of sines, read by noisy encoders."""
    rng = np.random.default_rng(seed)
    paces, phases = rng.uniform(1, 9, 4), rng.uniform(0, 6, 4)
    q, _, u = run(machine, lambda t, q, qd: [3 * np.sin(paces * t + phases).sum() - 5 * q[0], 0], 8.0, [0, 0.5 + seed])
    q = q + rng.normal(scale=[2e-5, 5e-4], size=q.shape)
    return dn.Recording(time=DT * np.arange(len(q)), q=q, u=u, joint_names=names, driven=(True, False))


def balance(model: dn.Model) -> np.ndarray:
    """Feedback gains around upright: LQR on the learned model's own slopes."""
    A, B = (np.asarray(each) for each in model.linearise(UPRIGHT, np.zeros(2), np.zeros(2)))
    B = B[:, :1]  # only the cart is driven
    P = solve_continuous_are(A, B, np.diag([20.0, 50.0, 1.0, 1.0]), np.eye(1) * 0.1)
    return (10 * B.T @ P)[0]


def controller(model: dn.Model, nominal: dn.systems.SwingUp):
    """Pump energy by the learned equations of motion, and hold the pole once it is up."""
    friction = model.actuator
    assert isinstance(friction, dn.actuators.Stribeck)
    robot = replace(model.robot, damping=friction.viscous)
    swing = replace(nominal, robot=robot, limit=jnp.asarray(20.0), pumping=jnp.asarray(1e9))
    pump, gains = jax.jit(lambda t, q, qd: swing(t, q, qd)), balance(model)
    dry = float(friction.kinetic[0])

    def law(t, q, qd):
        angle = (q[1] - np.pi + np.pi) % (2 * np.pi) - np.pi
        if abs(angle) < 0.35 and abs(qd[1]) < 4:
            force = -gains @ np.array([q[0], angle, *qd])
        else:
            force = float(pump(jnp.asarray(t), jnp.asarray(q), jnp.asarray(qd))[0])
        return [np.clip(force + dry * np.tanh(20 * qd[0]), -20, 20), 0.0]

    return law


def main() -> None:
    system = dn.systems.cartpole()
    robot, real = system.robot, machine(system.robot)
    recordings = [record(real, seed, robot.joint_names) for seed in range(3)]
    fit = dn.fit(robot, recordings, learn=("inertia",), actuator="stribeck")
    learned = fit.model
    assert isinstance(learned, dn.Model)
    print(f"{fit.verdict.status}: {fit.verdict.reasons[0]}")

    swings = {}
    for name, model in (("learned", learned), ("data sheet", dn.Model(robot, stated(robot)))):
        q, _, _ = run(real, controller(model, system.swing_up), 12.0, [0.0, 0.05])
        angle = np.abs((q[:, 1] - np.pi + np.pi) % (2 * np.pi) - np.pi)
        up = angle < 0.1
        swings[name] = (DT * np.arange(len(angle)), angle)
        held = len(up) - np.flatnonzero(~up)[-1] - 1
        print(f"{name}: balanced for the last {held * DT:.2f} s, cart within {np.abs(q[-250:, 0]).max():.3f} m")
    print(picture("04_swing_up.svg", {"pole from upright in rad": swings}, "time in s"))


def stated(robot: dn.Robot):
    """The data sheet's friction: viscous only."""
    nothing = np.full(2, 1e-9)
    return dn.actuators.Stribeck.of(nothing, nothing, robot.damping, np.ones(2))


if __name__ == "__main__":
    main()
