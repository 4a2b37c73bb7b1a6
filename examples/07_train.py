"""Train a policy in a learned model, then let it balance the machine itself: Gymnasium, a cartpole, about 30 s.

The policy is linear and trained by the cross-entropy method: 128 cartpoles side by side, each with weights of its own.
Any other trainer takes the same environment.
"""

from dataclasses import replace

import jax
import numpy as np

import diffnea as dn
from diffnea.report import picture

jax.config.update("jax_enable_x64", True)

DT, SECONDS, ROBOTS, BEST, ROUNDS = 0.02, 4.0, 128, 16, 30
UPRIGHT = np.array([0.0, np.pi])


def machine() -> dn.Model:
    """What stands on the table: heavier than its file says, and with twice the friction."""
    robot = dn.systems.cartpole().robot
    cart = robot.link_names[0]
    heavy = replace(robot.replace(link=cart, mass=2.0 * robot.inertia.mass[0]), damping=2 * robot.damping)
    return dn.Model(heavy, dn.actuators.Viscous.of(heavy.damping))


def record(model: dn.Model, seed: int) -> dn.Recording:
    """Six seconds under two sines, with the velocities and accelerations of the simulation."""
    rng, time = np.random.default_rng(seed), np.arange(0, 6.0, 1 / 100)
    pace = rng.uniform(2, 6, 2)
    u = np.column_stack([4 * np.sin(pace[0] * time) + 3 * np.sin(pace[1] * time), np.zeros_like(time)])
    run = dn.rollout(model, [0.0, 0.5], [0.0, 0.0], u, 1 / 100)
    qdd = np.asarray(model(run.q, run.qd, u))
    return dn.Recording(time=time, q=np.asarray(run.q), qd=np.asarray(run.qd), qdd=qdd, u=u, driven=(True, False))


def environment(model: dn.Model, count: int):
    """Upright with a push: the angle within 0.1 rad, the cart in the middle."""
    return dn.make_env(
        model,
        dt=DT,
        seconds=SECONDS + 1,  # longer than what is played
        goal=UPRIGHT,
        effort=[15.0, 0.0],
        start=[UPRIGHT, [0.0, 0.0]],
        spread=0.1,
        num_envs=count,
    )


def play(env, weights: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of rewards of each robot under its own weights, and the angles of all over time, from upright."""
    seen, _ = env.reset(seed=seed)
    total, angles = np.zeros(len(weights)), []
    for _ in range(round(SECONDS / DT)):
        seen, rewards, *_ = env.step(np.clip(np.sum(weights * seen, axis=1), -1, 1)[:, None])
        total += rewards
        angles.append(np.arctan2(-seen[:, 1], -seen[:, 0]))  # cosine and sine come first
    return total, np.array(angles)


def train(model: dn.Model) -> tuple[np.ndarray, list[float]]:
    """Weights by the cross-entropy method, and the mean reward of each round."""
    rng, env = np.random.default_rng(0), environment(model, ROBOTS)
    mean, spread, history = np.zeros(5), np.full(5, 5.0), []
    for k in range(ROUNDS):
        weights = mean + spread * rng.normal(size=(ROBOTS, 5))
        total, _ = play(env, weights, seed=k)
        best = weights[np.argsort(total)[-BEST:]]
        mean, spread = best.mean(0), best.std(0) + 0.02
        history.append(float(np.mean(np.sort(total)[-BEST:])))
    return mean, history


def main() -> None:
    real = machine()
    file = dn.systems.cartpole().robot
    fit = dn.fit(file, [record(real, seed) for seed in range(2)], learn=("inertia",), actuator="viscous")
    print(f"fit: {fit.verdict.status}")
    assert isinstance(fit.model, dn.Model)

    curves, swings = {}, {}
    table = environment(real, 16)  # the machine, sixteen times
    for name, model in (
        ("learned model", fit.model),
        ("robot file", dn.Model(file, dn.actuators.Viscous.of(file.damping))),
    ):
        weights, history = train(model)
        total, angles = play(table, np.tile(weights, (16, 1)), seed=99)
        upright = np.mean(np.all(np.abs(angles) < 0.3, axis=0))
        print(
            f"trained in the {name}: {upright:.0%} of the starts stay upright on the machine, reward {total.mean():.1f}"
        )
        curves[name] = (np.arange(1, ROUNDS + 1), np.array(history))
        swings[name] = (DT * np.arange(1, len(angles) + 1), np.degrees(np.abs(angles).max(1)))
    print(picture("07_train.svg", {"reward of the best": curves}, "round"))
    print(picture("07_on_the_machine.svg", {"largest angle in °": swings}, "time in s"))


if __name__ == "__main__":
    main()
