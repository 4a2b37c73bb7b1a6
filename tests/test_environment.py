"""Environments of Gymnasium: its own checker, episodes that end, many robots beside one, and what is refused."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import diffnea as dn

EFFORT = (10.0, 0.0)
DT = 0.02


@pytest.fixture(scope="module")
def model():
    return dn.Model(dn.systems.cartpole().robot, "viscous")


@pytest.fixture(scope="module")
def env(model):
    return dn.make_env(model, dt=DT, seconds=0.2, effort=EFFORT)


def test_gymnasium_s_checker_finds_nothing(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The space has no bounds, and an environment that was made by hand has no spec.
        warnings.filterwarnings("ignore", message=".*(infinity|spec).*")
        check_env(env)


def test_an_episode_follows_the_roll_out_and_is_truncated(env, model):
    env.reset(seed=3)
    q0, qd0 = env.state
    actions = np.random.default_rng(0).uniform(-1, 1, 10)
    ends = [env.step([action])[2:4] for action in actions]
    u = np.stack([10 * actions, np.zeros(10)], 1)
    run = dn.rollout(model, q0, qd0, np.concatenate([u, u[-1:]]), DT)
    assert np.allclose(env.state[0], run.q[-1], atol=1e-6) and np.allclose(env.state[1], run.qd[-1], atol=1e-5)
    assert ends == [(False, False)] * 9 + [(False, True)]


def test_a_late_command_arrives_late(model):
    late = dn.Model(model.robot, dn.actuators.combine(model.actuator, dn.actuators.Delay.of(2.0, 2)))
    env = dn.make_env(late, dt=DT, effort=EFFORT, spread=0.0)
    env.reset(seed=0)
    speeds = [abs(env.step([1.0])[0][-2]) for _ in range(4)]
    assert speeds[1] < 0.02 * speeds[2] < speeds[3]


def test_many_robots_are_each_as_one_and_begin_again(model):
    many = dn.make_env(model, dt=DT, seconds=0.06, effort=EFFORT, num_envs=3)
    first, _ = many.reset(seed=1)
    assert first.shape == (3, 5) and len({tuple(row) for row in first}) == 3
    rows = [many.step(np.full((3, 1), 0.5)) for _ in range(4)]
    assert [bool(row[3].all()) for row in rows] == [False, False, True, False]
    assert np.all(rows[3][1] == 0) and np.all(np.abs(rows[3][0][:, -2:]) < 0.051)  # a fresh start


def test_a_reward_of_one_s_own_sees_state_and_command(model):
    env = dn.make_env(model, dt=DT, effort=EFFORT, reward=lambda q, qd, u: jnp.sum(u) + 0 * q[0])
    env.reset(seed=0)
    assert env.step([0.25])[1] == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"effort": (0.0, 0.0)}, "effort is"),
        ({"effort": EFFORT, "dt": 0.0}, "0 < dt"),
        ({"effort": EFFORT, "goal": [1.0]}, "goal has shape"),
        ({"effort": EFFORT, "start": [0.0, 1.0]}, "two rows"),
        ({"effort": EFFORT, "num_envs": 0}, "num_envs is 0"),
    ],
)
def test_what_makes_no_environment_is_refused_in_one_line(model, arguments, said):
    with pytest.raises(ValueError, match=said) as caught:
        dn.make_env(model, **arguments)
    assert "\n" not in str(caught.value)


def test_only_models_can_be_environments():
    with pytest.raises(TypeError, match="give a fit, a Model or a Robot"):
        dn.make_env("cartpole")
