"""Model predictive control with a learned model: swing a cartpole up by sampling, about 15 s.

At each step 512 futures of 1.2 s are rolled out under noisy commands, and the commands are averaged by how well their
futures went (MPPI). What is a model to the planner is a call: `dn.Model` under `vmap`, `scan` and `jit`.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

DT, AHEAD, HELD, FUTURES, SECONDS = 0.02, 60, 4, 512, 5.0
MOST, NOISE, SHARPNESS = 20.0, 8.0, 0.5
UPRIGHT = np.pi


def machine() -> dn.Model:
    """What stands on the table: a heavier pole than in its file, and more friction."""
    robot = dn.systems.cartpole().robot
    pole = robot.link_names[1]
    heavy = replace(robot.replace(link=pole, mass=1.5 * robot.inertia.mass[1]), damping=3 * robot.damping)
    return dn.Model(heavy, dn.actuators.Viscous.of(heavy.damping))


def record(model: dn.Model) -> dn.Recording:
    """Ten seconds under two sines."""
    time = np.arange(0, 10.0, 1 / 100)
    u = np.column_stack([4 * np.sin(3.1 * time) + 3 * np.sin(5.3 * time), np.zeros_like(time)])
    run = dn.rollout(model, [0.0, 0.5], [0.0, 0.0], u, 1 / 100)
    qdd = np.asarray(model(run.q, run.qd, u))
    return dn.Recording(time=time, q=np.asarray(run.q), qd=np.asarray(run.qd), qdd=qdd, u=u, driven=(True, False))


def cost(q, qd, force):
    """Away from upright, away from the middle of the rail, and speed."""
    return 10 * (1 + jnp.cos(q[1])) + 2 * q[0] ** 2 + 0.05 * jnp.sum(qd**2) + 1e-3 * force**2


@jax.jit
def plan(model: dn.Model, q, qd, forces, key):
    """Better forces from here on: the mean of noisy ones, weighed by what they lead to."""
    wide = NOISE * (0.1 + 0.45 * (1 + jnp.cos(q[1])))  # close to the goal a little is enough
    noise = wide * jnp.repeat(jax.random.normal(key, (FUTURES, AHEAD // HELD)), HELD, axis=1)
    tried = jnp.clip(forces + noise, -MOST, MOST)

    def advance(state, force):
        q, qd = state
        q, qd = model.step(q, qd, jnp.stack([force, jnp.zeros_like(force)]), DT)
        return (q, qd), cost(q, qd, force)

    def future(forces):
        (q, qd), costs = jax.lax.scan(advance, (q0, qd0), forces)
        return jnp.sum(costs) + 5 * cost(q, qd, 0.0)

    q0, qd0 = q, qd
    totals = jax.vmap(future)(tried)
    weights = jax.nn.softmax(-SHARPNESS * (totals - totals.min()))
    return weights @ tried


def control(model: dn.Model, real: dn.Model) -> tuple[np.ndarray, np.ndarray]:
    """The machine under plans that are made with the model: cart and pole over time."""
    step = jax.jit(partial(type(real).step, dt=DT))
    key, q, qd, forces = jax.random.key(0), jnp.array([0.0, 0.02]), jnp.zeros(2), jnp.zeros(AHEAD)
    states = []
    for k in range(round(SECONDS / DT)):
        forces = plan(model, q, qd, forces, jax.random.fold_in(key, k))
        q, qd = step(real, q, qd, jnp.array([forces[0], 0.0]))
        forces = jnp.append(forces[1:], 0.0)
        states.append(np.asarray(q))
    return tuple(np.array(states).T)


def main() -> None:
    real, file = machine(), dn.systems.cartpole().robot
    fit = dn.fit(file, record(real), learn=("inertia",), actuator="viscous")
    print(f"fit: {fit.verdict.status}")
    assert isinstance(fit.model, dn.Model)
    time, poles, carts = DT * np.arange(1, round(SECONDS / DT) + 1), {}, {}
    for name, model in (
        ("learned model", fit.model),
        ("robot file", dn.Model(file, dn.actuators.Viscous.of(file.damping))),
    ):
        cart, pole = control(model, real)
        away = np.abs((pole - UPRIGHT + np.pi) % (2 * np.pi) - np.pi)
        print(f"{name}: within {away[-50:].max():.3f} rad of upright in the last second")
        poles[name], carts[name] = (time, away), (time, cart)
    print(picture("08_mpc.svg", {"pole from upright in rad": poles, "cart in m": carts}, "time in s"))


if __name__ == "__main__":
    main()
